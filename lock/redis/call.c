/*
 * Calls: the step hook, deadlines, scripts by their hash, and the re-sending of commands that
 * may be sent twice.
 *
 * Scripts go by EVALSHA. A server that does not know the script says NOSCRIPT, which means that
 * nothing was done, and gets the text by EVAL within the same step.
 *
 * After a lost reply the command may have been carried out. Strategies whose scripts recognise
 * a repetition mark their commands repeatable, and get an answer where others only get "don't
 * know".
 */
#include "lock/redis/call.h"

#include <string.h>

#include "lock/redis/cluster.h"

/* The third sending is the last one: a server that has swallowed three is not helped by
 * more, and the wait's own tries come after that, with pauses. */
enum { SENDS_MAX = 3 }; /* of one repeatable command */

/* If something has failed before, that is why, and is not written over. */
static enum dlock_status no_time(void)
{
    if (dlock_error_text()[0] == '\0')
        dlock_error_say("no time left");
    return DLOCK_UNREACHABLE;
}

/* The seam: every command of the library comes by here twice, BEFORE and AFTER. */
static struct dlock_step step_of(const struct dlock_wire *wire,
                                 const struct dlock_command *command)
{
    return (struct dlock_step){.name = command->step,
                               .owner = wire->owner,
                               .key = command->name,
                               .node = wire->config->node};
}

/* In the connect timeout or what is left of the limit. */
static enum dlock_status connect_wire(struct dlock_wire *wire,
                                      uint64_t real_limit_ms)
{
    unsigned timeout = wire->config->connect_timeout_ms;

    return dlock_wire_ready(wire,
                            dlock_clock_real_until(timeout, real_limit_ms));
}

/* The end of one command's time: its own timeout, or the caller's limit. */
static uint64_t command_until(const struct dlock_wire *wire, uint64_t limit_ms)
{
    return dlock_clock_real_until(wire->config->command_timeout_ms, limit_ms);
}

/* Whether the node that has a key must be found first. */
static bool is_clustered(const struct dlock_wire *wire)
{
    return wire->config->address.cluster;
}

bool dlock_call_is_error(const struct dlock_reply *reply, const char *code)
{
    return reply->kind == DLOCK_REPLY_ERROR &&
           strncmp(reply->string, code, strlen(code)) == 0;
}

/* Before version 7, the code of an error that ended a script stands in its middle. */
bool dlock_call_is_elsewhere(const struct dlock_reply *reply)
{
    static const char *const codes[] = {"-READONLY ", "-LOADING ",
                                        "-NOREPLICAS ", "-MASTERDOWN "};

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        /* The minus sign is part of the code only where a script's error quotes it: at the
         * beginning of a reply the protocol has taken it away. */
        if (dlock_call_is_error(reply, codes[i] + 1) ||
            (reply->kind == DLOCK_REPLY_ERROR &&
             strstr(reply->string, codes[i]) != NULL))
            return true;
    return false;
}

/* How the server signs an error that ended a script; the signature may be cut. */
static const char *signature_of(const struct dlock_reply *reply)
{
    const char *since_7 = strstr(reply->string, " script: ");

    return since_7 != NULL ? since_7 : strstr(reply->string, "user_script");
}

/* Writes of a script before its error stay. The errors listed end it before the first
 * write: ask.lua sees to the rights, and the lock's own key is looked at first. A text's
 * script, which has no name at the server, may write before it meets a wrong type. */
static bool may_have_written(const struct dlock_command *command,
                             const struct dlock_reply *reply)
{
    static const char *const before[] = {
        "NORIGHT ",    "OOM ",     "READONLY ",
        "NOREPLICAS ", "MISCONF ", "no token is left",
    };

    if (command->script == NULL || signature_of(reply) == NULL ||
        (command->script->sha != NULL &&
         strstr(reply->string, "WRONGTYPE ") != NULL))
        return false;
    for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++)
        if (strstr(reply->string, before[i]) != NULL)
            return false;
    return true;
}

/* An error is the server's refusal, so nothing is held for it, unless it ended a script.
 * Some come from a server that is not, not yet, or no longer the one to talk to: it is
 * looked for anew the next time. */
static enum dlock_status judge(struct dlock_wire *wire,
                               const struct dlock_command *command,
                               const struct dlock_reply *reply)
{
    /* Scripts of the library answer with numbers: else it was no Redis that did. */
    if (command->script != NULL && command->script->sha != NULL &&
        (reply->kind == DLOCK_REPLY_NIL || reply->kind == DLOCK_REPLY_STRING))
        return dlock_error_set(DLOCK_UNKNOWN, "no sense in the reply: %s",
                               reply->text);
    if (reply->kind != DLOCK_REPLY_ERROR)
        return DLOCK_OK;
    /* A server that is demoted or still loads its data keeps its connections open, so
     * that the wire would go on with it: the drop makes the next command look for the
     * primary. */
    if (dlock_call_is_elsewhere(reply))
        dlock_wire_drop(wire);
    if (!is_clustered(wire) && (dlock_call_is_error(reply, "MOVED") ||
                                dlock_call_is_error(reply, "CLUSTERDOWN")))
        return dlock_error_set(DLOCK_UNREACHABLE,
                               "redis is of a cluster: use cluster://");
    /* Redis up to version 4 lets no script write that has asked for the time, because
     * replicas ran the script again. */
    if (strstr(reply->string, "after non deterministic commands") != NULL)
        return dlock_error_set(
            DLOCK_UNREACHABLE,
            "redis is too old: version 5 or newer is needed");
    /* Redis' answer to more than ten words of a client without a login. */
    if (dlock_call_is_error(reply, "ERR Protocol error: unauthenticated"))
        return dlock_error_set(DLOCK_UNREACHABLE,
                               "redis refused: NOAUTH a login is needed");
    if (dlock_call_is_error(reply, "NORIGHT ")) {
        /* ask.lua's error names the right behind its code. */
        const char *right = strchr(reply->string, ' ') + 1;
        const char *end = signature_of(reply);

        return dlock_error_set(
            DLOCK_UNREACHABLE,
            "redis refused: the user has no right to %.*s, see dlock(3)",
            (int)(end == NULL ? strlen(right) : (size_t)(end - right)), right);
    }
    /* may_have_written() comes last, because the errors above have ended the script before
     * its first write. */
    if (may_have_written(command, reply))
        return dlock_error_set(DLOCK_UNKNOWN, "redis broke a script off: %s",
                               reply->string);
    return dlock_error_set(DLOCK_UNREACHABLE, "redis refused: %s",
                           reply->string);
}

/* The second half of a step; and the meaning of a reply that is an error. */
static enum dlock_status conclude(struct dlock_wire *wire,
                                  const struct dlock_command *command,
                                  enum dlock_status status,
                                  const struct dlock_reply *reply)
{
    struct dlock_step step = step_of(wire, command);

    if (status != DLOCK_OK)
        return dlock_step_after(wire->config, &step, status);
    step.reply = reply->text;
    step.is_error = reply->kind == DLOCK_REPLY_ERROR;
    /* The hook comes before the judgement: a reply that it throws away must not be acted
     * on, not even by its error. */
    status = dlock_step_after(wire->config, &step, status);
    if (status == DLOCK_OK)
        return judge(wire, command, reply);
    /* The reply was read, and the connection is well; but a lost reply costs the
     * connection, and a test must meet the same. */
    dlock_wire_drop(wire);
    return status;
}

static enum dlock_status begin(const struct dlock_wire *wire,
                               const struct dlock_command *command)
{
    struct dlock_step step = step_of(wire, command);
    const char *words[DLOCK_WORDS_MAX];
    char keys_n[DLOCK_DIGITS_MAX + 1];

    /* The words are put together for the hook only; without one, a command costs none of
     * this. */
    if (wire->config->on_step == NULL)
        return DLOCK_OK;
    step.words = words;
    step.words_n = dlock_encode_words(command, DLOCK_BY_TEXT, keys_n, words,
                                      &step.parts_n);
    return dlock_step_before(wire->config, &step);
}

void dlock_batch_begin(const struct dlock_wire *wire,
                       struct dlock_exchange exchanges[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct dlock_exchange *each = &exchanges[i];

        /* The callers' arrays are not cleared: a reply that never comes must not look like
         * an error of the last one. */
        each->reply.kind = DLOCK_REPLY_NIL;
        each->status = begin(wire, each->command);
        each->stage = each->status == DLOCK_OK ? DLOCK_EXCHANGE_BEGUN
                                               : DLOCK_EXCHANGE_NONE;
    }
}

void dlock_batch_send(struct dlock_wire *wire,
                      struct dlock_exchange exchanges[], size_t n,
                      uint64_t until_ms)
{
    for (size_t i = 0; i < n; i++) {
        struct dlock_exchange *each = &exchanges[i];

        if (each->stage != DLOCK_EXCHANGE_BEGUN)
            continue;
        each->status =
            /* A send that fails drops the wire: those behind it fail as well, and those
             * before it get no reply. */
            dlock_wire_send(wire, each->command, DLOCK_BY_SHA, until_ms);
        each->stage = each->status == DLOCK_OK ? DLOCK_EXCHANGE_SENT
                                               : DLOCK_EXCHANGE_OVER;
    }
}

void dlock_batch_read(struct dlock_wire *wire,
                      struct dlock_exchange exchanges[], size_t n,
                      uint64_t until_ms)
{
    for (size_t i = 0; i < n; i++)
        if (exchanges[i].stage == DLOCK_EXCHANGE_SENT)
            exchanges[i].status =
                dlock_wire_read(wire, until_ms, &exchanges[i].reply);
    /* NOSCRIPT is looked for after all replies are in: a command sent in between would have
     * its reply behind theirs. */
    for (size_t i = 0; i < n; i++) {
        struct dlock_exchange *each = &exchanges[i];

        if (each->stage != DLOCK_EXCHANGE_SENT)
            continue;
        /* The second answer is the last one, whatever it is: the text was sent with it. */
        each->stage = DLOCK_EXCHANGE_OVER;
        if (each->status != DLOCK_OK ||
            !dlock_call_is_error(&each->reply, "NOSCRIPT"))
            continue;
        each->status =
            dlock_wire_send(wire, each->command, DLOCK_BY_TEXT, until_ms);
        if (each->status == DLOCK_OK)
            each->status = dlock_wire_read(wire, until_ms, &each->reply);
    }
}

/* Connects if need be, in the connect timeout or what is left of the limit. */
void dlock_batch_exchange(struct dlock_wire *wire,
                          struct dlock_exchange exchanges[], size_t n,
                          uint64_t real_limit_ms)
{
    uint64_t until_ms;

    /* A failure shows in the sends, which find no socket, and has left its text. */
    (void)connect_wire(wire, real_limit_ms);
    /* The command's own time begins only now, so a slow connect does not take from it; the
     * caller's limit bounds both. */
    until_ms = command_until(wire, real_limit_ms);
    dlock_batch_send(wire, exchanges, n, until_ms);
    dlock_batch_read(wire, exchanges, n, until_ms);
}

void dlock_batch_conclude(struct dlock_wire *wire,
                          struct dlock_exchange exchanges[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct dlock_exchange *each = &exchanges[i];

        if (each->stage == DLOCK_EXCHANGE_NONE)
            continue;
        if (each->stage != DLOCK_EXCHANGE_OVER)
            /* A server of a quorum that was given up has not read its answer: sent is in
             * doubt, and only begun is not. */
            each->status = each->stage == DLOCK_EXCHANGE_SENT
                               ? DLOCK_UNKNOWN
                               : DLOCK_UNREACHABLE;
        each->stage = DLOCK_EXCHANGE_OVER;
        each->status =
            conclude(wire, each->command, each->status, &each->reply);
    }
}

/* The time that is left is read before the hook is called and counts from its return: a
 * hook that pauses here stands for a process that was stopped, and after a stop the
 * commands do go out. */
void dlock_call_batch(struct dlock_wire *wire,
                      struct dlock_exchange exchanges[], size_t n,
                      uint64_t limit_ms)
{
    uint64_t left_ms = dlock_clock_until(wire->config->clock, limit_ms);

    for (size_t i = 0; i < n && left_ms == 0; i++)
        exchanges[i].status = no_time();
    /* The hook is not called if no time is left: it is promised an end for each beginning,
     * and nothing is sent. */
    if (left_ms == 0)
        return;
    dlock_batch_begin(wire, exchanges, n);
    (is_clustered(wire) ? dlock_cluster_exchange : dlock_batch_exchange)(
        wire, exchanges, n, dlock_clock_after(dlock_clock_real_now(), left_ms));
    dlock_batch_conclude(wire, exchanges, n);
}

/* One command ---------------------------------------------------------------- */

static enum dlock_status send_once(struct dlock_wire *wire,
                                   const struct dlock_command *command,
                                   uint64_t limit_ms, struct dlock_reply *reply)
{
    struct dlock_exchange one = {.command = command};

    dlock_call_batch(wire, &one, 1, limit_ms);
    *reply = one.reply;
    return one.status;
}

/* The copies are the same bytes with the same attempt number, on a fresh connection each:
 * a connection that lost a reply may yet deliver it. */
enum dlock_status dlock_call(struct dlock_wire *wire,
                             const struct dlock_command *command,
                             uint64_t limit_ms, struct dlock_reply *reply)
{
    enum dlock_status status = send_once(wire, command, limit_ms, reply);
    /* A command is sent again only if it may have been carried out: otherwise it was not
     * sent, or there is an answer. */
    bool copies = command->repeatable && status == DLOCK_UNKNOWN;

    /* An acquire whose wait has ended is not sent again: its caller wants to hear, and a
     * withdraw follows. */
    for (int sends = 1;
         copies && sends < SENDS_MAX && status == DLOCK_UNKNOWN &&
         !dlock_command_unwanted(command);
         sends++)
        status = send_once(wire, command, limit_ms, reply);
    /* The caller has to know: the answer is of a copy, and the first one may still arrive
     * and lock. */
    reply->of_copy = copies;
    /* A copy that was refused, or had no time left, says nothing about the first one. */
    return copies && status != DLOCK_OK ? DLOCK_UNKNOWN : status;
}

/* The time counts from the hook's return, as for one that is waited for. */
enum dlock_status dlock_call_post(struct dlock_wire *wire,
                                  const struct dlock_command *command,
                                  uint64_t within_ms)
{
    enum dlock_status status = begin(wire, command);
    uint64_t until_ms = dlock_clock_after(dlock_clock_real_now(), within_ms);
    struct dlock_step step = step_of(wire, command);

    if (status != DLOCK_OK)
        return status;
    /* A subscriber's connection always has something to read: no _ready. */
    if (wire->link.fd < 0)
        status = connect_wire(wire, until_ms);
    if (status == DLOCK_OK)
        status = dlock_wire_send(wire, command, DLOCK_BY_TEXT,
                                 command_until(wire, until_ms));
    return status == DLOCK_OK ? DLOCK_OK
                              : dlock_step_after(wire->config, &step, status);
}

void dlock_call_abandon(struct dlock_wire *wire,
                        const struct dlock_command *command, uint64_t within_ms)
{
    const struct dlock_clock *clock = wire->config->clock;
    struct dlock_step step = step_of(wire, command);
    struct dlock_reply reply;

    /* A cluster tells by its reply where the command has to go, so that it is awaited. */
    if (is_clustered(wire)) {
        (void)send_once(wire, command, dlock_clock_now(clock) + within_ms,
                        &reply);
        return;
    }
    if (dlock_call_post(wire, command, within_ms) != DLOCK_OK)
        return;
    step.reply = "(not awaited)";
    /* The hook hears of an end, as for each step that began, though nobody waits for
     * one. */
    (void)dlock_step_after(wire->config, &step, DLOCK_OK);
    dlock_wire_drop(wire); /* the reply would answer the next command */
}
