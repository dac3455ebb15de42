/*
 * Plays a lock's text (text.h): the slots of its strategy. This file is the same for all
 * texts, right or wrong: nothing of a failure is made here.
 */
#include "lock/textbook/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/textbook/textbook.h"
#include "lock/redis/node.h"

/* Values of a text's words in one call. */
struct values {
    const char *name;
    const char *owner;
    unsigned lease_ms;
    unsigned holds;
    const char *way;
};

/* The owner's text of a session is the client's digits, "-", the session's number. */
static const char *owner_of(const struct dlock_text *text, const char *owner)
{
    const char *dash = strrchr(owner, '-');

    /* A constant owner is that of the oldest locks: the value says only that the key is
     * there, and anybody can give it back. */
    if (text->settings[DLOCK_TEXT_OWNER] == DLOCK_TEXT_CONSTANT)
        return "locked";
    return text->settings[DLOCK_TEXT_OWNER] == DLOCK_TEXT_NUMBER && dash != NULL
               ? dash + 1
               : owner;
}

/* Commands ----------------------------------------------------------------------- */

static void fill_arg(const char *arg, const struct values *values,
                     bool is_script, struct dlock_command *command)
{
    if (strcmp(arg, "$name") == 0)
        /* A cluster routes a script by its keys, which therefore have to be told apart; of
         * other commands the place says it. */
        (is_script ? dlock_command_key : dlock_command_arg)(command,
                                                            values->name);
    else if (strncmp(arg, "$name:", 6) == 0)
        (is_script ? dlock_command_derived_key
                   : dlock_command_derived)(command, arg + 5, "");
    else if (strcmp(arg, "$lease") == 0)
        dlock_command_number(command, values->lease_ms);
    else if (strcmp(arg, "$holds") == 0)
        dlock_command_number(command, values->holds);
    else if (strcmp(arg, "$owner") == 0)
        dlock_command_arg(command, values->owner);
    else if (strcmp(arg, "$way") == 0)
        dlock_command_arg(command, values->way);
    else
        dlock_command_arg(command, arg);
}

static void fill(const struct dlock_text_command *from,
                 const struct values *values, struct dlock_command *command)
{
    bool is_script = from->script.parts[0] != NULL;

    dlock_command_init(command, from->step, values->name,
                       is_script ? &from->script : NULL);
    for (size_t i = 0; i < from->args_n; i++)
        fill_arg(from->args[i], values, is_script, command);
}

/* Replies ------------------------------------------------------------------------ */

static bool is_reply(const char *word, const struct dlock_reply *reply,
                     const struct values *values)
{
    char number[DLOCK_DIGITS_MAX + 2];

    if (word == NULL)
        return true;
    if (reply->kind == DLOCK_REPLY_NIL)
        return strcmp(word, "nil") == 0;
    /* A number as a string, such as of GET, is compared as text. */
    if (reply->kind == DLOCK_REPLY_STRING)
        return strcmp(reply->string,
                      strcmp(word, "$owner") == 0 ? values->owner : word) == 0;
    /* Numbers are compared by their text, as the reader keeps the words of a text as they
     * are. */
    (void)snprintf(number, sizeof(number), "%" PRId64, reply->integers[0]);
    return reply->integers_n > 0 && strcmp(number, word) == 0;
}

/* NULL: the text does not say what the reply means. */
static const struct dlock_text_answer *
answer_of(const struct dlock_text_command *command,
          const struct dlock_reply *reply, const struct values *values)
{
    for (size_t i = 0; i < command->answers_n; i++)
        if (is_reply(command->answers[i].reply, reply, values))
            return &command->answers[i];
    return NULL;
}

static bool has_effect(const struct dlock_text_command *command,
                       const struct dlock_reply *reply)
{
    bool is_no =
        reply->kind == DLOCK_REPLY_NIL ||
        (reply->kind == DLOCK_REPLY_INTEGER && reply->integers[0] == 0);

    return !command->verb->reads && !(command->verb->no_is_none && is_no);
}

/* A look has no effect; and a command that fails behind another one does not undo what
 * that did: "no" becomes "don't know". */
static enum dlock_status status_of(enum dlock_status status, bool reads,
                                   bool changed)
{
    /* An earlier command has had its effect: no refusal of this one makes that undone. */
    if (changed)
        return status == DLOCK_UNREACHABLE ? DLOCK_UNKNOWN : status;
    return reads && status == DLOCK_UNKNOWN ? DLOCK_UNREACHABLE : status;
}

/* Parts -------------------------------------------------------------------------- */

size_t dlock_text_next(const struct dlock_text_commands *part, size_t i,
                       const struct dlock_text_answer *answer)
{
    for (i++; i < part->n && answer->to != NULL; i++)
        /* The search goes down only: so a text cannot loop. */
        if (strcasecmp(answer->to, part->commands[i].step) == 0)
            break;
    return i;
}

/* ANSWER ends a part; a second number in REPLY says how often, or how long. */
static enum dlock_status outcome_of(const struct dlock_text_answer *answer,
                                    const struct dlock_reply *reply,
                                    const struct dlock_attempt *attempt)
{
    bool has_more = reply->kind == DLOCK_REPLY_LIST && reply->integers_n > 1;

    /* The second number has the meaning that the outcome gives it. */
    if (answer->outcome == DLOCK_TEXT_TAKEN && has_more)
        attempt->grant->holds = (unsigned)reply->integers[1];
    if (answer->outcome == DLOCK_TEXT_BUSY && has_more &&
        reply->integers[1] >= 0)
        *attempt->busy_ms = (uint64_t)reply->integers[1];
    return answer->outcome == DLOCK_TEXT_BUSY   ? DLOCK_BUSY
           : answer->outcome == DLOCK_TEXT_LOST ? DLOCK_LOST
                                                : DLOCK_OK;
}

enum dlock_status dlock_text_run(const struct dlock_text *text,
                                 enum dlock_text_part which,
                                 const struct dlock_attempt *attempt)
{
    const struct dlock_text_commands *part = &text->parts[which];
    /* A lease that other holds count on must not be shortened for one of them:
     * "lengthen". */
    struct values values = {attempt->name,
                            owner_of(text, attempt->session->owner),
                            attempt->lease_ms, attempt->holds,
                            attempt->holds <= 1 ? "set" : "lengthen"};
    const struct dlock_text_answer *answer;
    bool changed = false;

    for (size_t i = 0; i < part->n; i = dlock_text_next(part, i, answer)) {
        const struct dlock_text_command *from = &part->commands[i];
        struct dlock_command command;
        struct dlock_reply reply;
        struct dlock_error error;
        enum dlock_status status;

        fill(from, &values, &command);
        status = dlock_call(attempt->session->wire, &command, attempt->limit_ms,
                            &reply);
        if (status != DLOCK_OK)
            return status_of(status, from->verb->reads, changed);
        /* The command is not sent again if its reply is lost: to SETNX its own success
         * looks like somebody else's, see text.h. */
        answer = answer_of(from, &reply, &values);
        if (answer == NULL) {
            status = dlock_textbook_unnamed(text->strategy.info.name,
                                            from->line, reply.text, &error);
            return dlock_error_set(status, "%s", error.text);
        }
        if (answer->outcome != DLOCK_TEXT_GOES_ON)
            return outcome_of(answer, &reply, attempt);
        changed = changed || has_effect(from, &reply);
    }
    return dlock_error_set(DLOCK_MISUSE, "%s has no commands for that",
                           text->strategy.info.name);
}

/* The strategy's slots ------------------------------------------------------------- */

/* The table row says which text this session's client goes by. */
static const struct dlock_text *text_of(const struct dlock *client)
{
    return client->strategy->variant;
}

static bool is_guarded(const struct dlock_text *text)
{
    return text->settings[DLOCK_TEXT_RENEWED] == DLOCK_TEXT_GUARD;
}

/* An inner section: the session thinks that it has the lock, and counts alone. */
static bool is_inner(const struct dlock_attempt *attempt)
{
    const struct dlock_text *text = text_of(attempt->session->client);

    return text->settings[DLOCK_TEXT_COUNTED] == DLOCK_TEXT_SESSION &&
           attempt->holds > 0;
}

static enum dlock_status acquire(const struct dlock_attempt *attempt)
{
    const struct dlock_text *text = text_of(attempt->session->client);
    bool inner = is_inner(attempt);
    enum dlock_status status = DLOCK_OK;

    if (inner)
        attempt->grant->holds = attempt->holds + 1;
    else
        status = dlock_text_run(text, DLOCK_TEXT_TAKE, attempt);
    if (status == DLOCK_OK && is_guarded(text) && attempt->renewed && !inner &&
        !dlock_guard_start(attempt->session->client, attempt->name)) {
        /* The lock is taken, and nobody would renew it: better none. */
        (void)dlock_text_run(text, DLOCK_TEXT_RELEASE, attempt);
        status = dlock_error_set(DLOCK_UNREACHABLE,
                                 "no memory or no thread to guard with");
    }
    return status;
}

static enum dlock_status release(const struct dlock_attempt *attempt)
{
    const struct dlock_text *text = text_of(attempt->session->client);

    if (is_guarded(text))
        /* The guard stops before the release, as renewal does everywhere. */
        dlock_guard_stop(attempt->session->client);
    if (is_inner(attempt))
        return DLOCK_OK; /* the outer one gives back */
    return dlock_text_run(text, DLOCK_TEXT_RELEASE, attempt);
}

static enum dlock_status extend(const struct dlock_attempt *attempt)
{
    return dlock_text_run(text_of(attempt->session->client), DLOCK_TEXT_RENEW,
                          attempt);
}

/* VERB of the lock's key, a question. */
static enum dlock_status ask(const struct dlock_attempt *attempt,
                             const char *step, const char *verb,
                             struct dlock_reply *reply)
{
    struct dlock_command command;

    dlock_command_init(&command, step, attempt->name, NULL);
    dlock_command_arg(&command, verb);
    dlock_command_arg(&command, attempt->name);
    return dlock_call(attempt->session->wire, &command, attempt->limit_ms,
                      reply);
}

/* A plain key has no script to ask for owner and lease at once. Between the two questions
 * the lock may change hands: this is a look, not a decision. */
static enum dlock_status inspect(const struct dlock_attempt *attempt,
                                 struct dlock_holder *holder)
{
    struct dlock_reply reply;
    enum dlock_status status;

    if (text_of(attempt->session->client)->settings[DLOCK_TEXT_COUNTED] ==
        DLOCK_TEXT_SERVER)
        return dlock_node_inspect(attempt, holder);
    status = ask(attempt, "get", "GET", &reply);
    /* A key that is not there is a free lock: *HOLDER says so already. */
    if (status != DLOCK_OK || reply.kind == DLOCK_REPLY_NIL)
        return status;
    (void)snprintf(holder->owner, sizeof(holder->owner), "%.*s",
                   DLOCK_OWNER_BYTES_MAX, reply.string);
    status = ask(attempt, "pttl", "PTTL", &reply);
    if (status != DLOCK_OK)
        return status;
    /* -1 = no lease, -2 = it went between our two questions. */
    holder->held = reply.integers[0] != -2;
    if (reply.integers[0] >= 0)
        holder->remaining_ms = (uint64_t)reply.integers[0];
    return DLOCK_OK;
}

void dlock_text_renew(struct dlock *client, struct dlock_renew renews[],
                      size_t n, unsigned lease_ms, uint64_t limit_ms)
{
    const struct dlock_text *text = text_of(client);
    const struct dlock_text_command *from =
        &text->parts[DLOCK_TEXT_RENEW].commands[0];
    struct dlock_command *commands = malloc(n * sizeof(*commands));
    /* The renewals go in one pipeline, as those of the watchdog's own locks: so renew is
     * one command, see check_whole(). */
    struct dlock_exchange exchanges[DLOCK_PASS_MAX];
    struct values values = {.lease_ms = lease_ms, .way = "renew"};

    for (size_t i = 0; i < n; i++) {
        /* A renewal for which there is no memory counts as not sent, and is tried again. */
        renews[i].status = DLOCK_UNREACHABLE;
        values.name = renews[i].name;
        values.owner = owner_of(text, renews[i].owner);
        if (commands == NULL)
            continue;
        fill(from, &values, &commands[i]);
        exchanges[i].command = &commands[i];
    }
    if (commands == NULL)
        return;
    dlock_call_batch(client->renewal_wire, exchanges, n, limit_ms);
    for (size_t i = 0; i < n; i++) {
        const struct dlock_text_answer *answer;

        /* VALUES was another renewal's by the end of the loop above: "$owner" in a reply is
         * this one's. */
        values.owner = owner_of(text, renews[i].owner);
        renews[i].status = exchanges[i].status;
        if (exchanges[i].status != DLOCK_OK)
            continue;
        answer = answer_of(from, &exchanges[i].reply, &values);
        if (answer == NULL)
            renews[i].status =
                dlock_textbook_unnamed(text->strategy.info.name, from->line,
                                       exchanges[i].reply.text, NULL);
        else if (answer->outcome == DLOCK_TEXT_DONE)
            renews[i].answer = 1;
        else
            /* The number -1 is renew.lua's for "somebody else's"; any other no counts as
             * "expired". */
            renews[i].answer = exchanges[i].reply.integers[0] == -1 ? -1 : 0;
    }
    free(commands);
}

const struct dlock_strategy dlock_text_slots = {
    .acquire = acquire,
    .extend = extend,
    .release = release,
    .inspect = inspect,
    .wires = &dlock_wires,
};
