/*
 * Asking several servers at once, without threads: for each server in turn the
 * hook and the sending, then one poll over all of them until everybody has
 * answered, enough have, or time is up.
 *
 * A server that has not answered by then loses its connection: what it says
 * later must not be taken for the answer to the next question.
 *
 * Why the rest gets some more time after the decision: a server that is merely
 * a little slower than its neighbours would else be cut off each time, and
 * connected to anew, and never be one of those that count.
 */
#include "lock/ask.h"

#include <assert.h>
#include <poll.h>
#include <string.h>

#include "lock/clock.h"
#include "lock/error.h"

enum {
    SERVERS_MAX = 16,
    GRACE_MS = 10,    /* at least so long after the decision, or */
    GRACE_FACTOR = 2, /* so many times as long as that took */
};

/* How far one question has come. */
struct asking {
    struct dlock_asked *asked;
    size_t n;
    const struct dlock_question *question;
    struct dlock_error *error;
    uint64_t began_ms; /* real time */
    uint64_t until_ms;
    bool decided;
};

/* Sending ------------------------------------------------------------------ */

/* Gives all answers that are not there yet this STATUS. */
static void settle(struct dlock_asked *one, const struct asking *asking,
                   enum dlock_status status)
{
    for (size_t i = 0; i < asking->question->n; i++)
        if (one->answers[i].begun && one->answers[i].status == DLOCK_OK)
            one->answers[i].status = status;
    dlock_dial_end(one->dial);
    one->dial = NULL;
    one->waiting = false;
}

/*
 * Commands go one behind the other, without waiting for replies. They are short:
 * a connection that stands takes them at once.
 */
static void send_all(struct dlock_asked *one, const struct asking *asking)
{
    bool any = false;

    for (size_t i = 0; i < asking->question->n; i++) {
        struct dlock_answer *answer = &one->answers[i];

        if (!answer->begun)
            continue;
        answer->status =
            dlock_wire_send(one->wire, &asking->question->exchanges[i].command,
                            DLOCK_BY_SHA, asking->until_ms, asking->error);
        answer->sent = answer->status == DLOCK_OK;
        any = any || answer->sent;
    }
    one->waiting = any;
    /* It broke in the middle: there will be no reply to the first ones. */
    if (dlock_wire_fd(one->wire) < 0)
        settle(one, asking, DLOCK_UNKNOWN);
}

/* Looks up, connects and logs in, as far as that goes; sends then. */
static void connect_on(struct dlock_asked *one, const struct asking *asking)
{
    int fd;
    enum dlock_status status = dlock_dial_go_on(one->dial, &fd, asking->error);

    if (status == DLOCK_BUSY)
        return;
    if (status != DLOCK_OK) {
        settle(one, asking, DLOCK_UNREACHABLE);
        return;
    }
    dlock_dial_end(one->dial);
    one->dial = NULL;
    dlock_wire_take(one->wire, fd);
    send_all(one, asking);
}

/* Not asked: nothing was sent. */
static void leave_out(struct dlock_asked *one, const struct asking *asking)
{
    for (size_t i = 0; i < asking->question->n; i++)
        one->answers[i] = (struct dlock_answer){.status = DLOCK_UNREACHABLE};
}

/* The hook for every command, then the connection, then all of them. */
static void begin(struct dlock_asked *one, const struct asking *asking)
{
    leave_out(one, asking);
    if (one->wire == NULL || (one->late && !asking->question->insists) ||
        asking->until_ms == asking->began_ms)
        return;
    for (size_t i = 0; i < asking->question->n; i++) {
        struct dlock_answer *answer = &one->answers[i];

        answer->status = dlock_call_begin(
            one->wire, &asking->question->exchanges[i].command, asking->error);
        answer->begun = answer->status == DLOCK_OK;
    }
    if (dlock_wire_begin(one->wire, asking->until_ms, &one->dial,
                         asking->error) != DLOCK_OK)
        settle(one, asking, DLOCK_UNREACHABLE);
    else if (one->dial != NULL)
        connect_on(one, asking);
    else
        send_all(one, asking);
}

/* Reading ------------------------------------------------------------------ */

/*
 * All replies of one server, of which the first is there. If one of the others
 * is slow, those of other servers lie in their sockets meanwhile: they are read
 * afterwards, also when time is up by then.
 */
static void read_all(struct dlock_asked *one, const struct asking *asking)
{
    bool agreed = true;
    bool whole = true;

    one->waiting = false;
    for (size_t i = 0; i < asking->question->n; i++) {
        struct dlock_answer *answer = &one->answers[i];

        if (answer->sent)
            answer->status = dlock_wire_read(one->wire, asking->until_ms,
                                             &answer->reply, asking->error);
        /* Half an answer decides nothing. */
        whole = whole && answer->sent && answer->status == DLOCK_OK;
        agreed = agreed && whole && asking->question->agrees != NULL &&
                 asking->question->agrees(&answer->reply);
    }
    one->agreed = agreed;
    one->refused = whole && !agreed;
}

/* ONE can be gone on with: its connection does, or something has come. */
static void advance(struct dlock_asked *one, const struct asking *asking)
{
    if (one->dial != NULL)
        connect_on(one, asking);
    else
        read_all(one, asking);
}

/* Once it is clear what comes of it, the others are not waited for long. */
static void look_for_decision(struct asking *asking)
{
    uint64_t now = dlock_clock_real_now();
    uint64_t grace_ms = GRACE_FACTOR * (now - asking->began_ms);
    size_t needed = asking->question->needed;
    size_t agreed = 0;
    size_t refused = 0;

    if (needed == 0 || asking->decided)
        return;
    for (size_t i = 0; i < asking->n; i++) {
        agreed += asking->asked[i].agreed;
        refused += asking->asked[i].refused;
    }
    asking->decided = agreed >= needed || refused + needed > asking->n;
    if (!asking->decided)
        return;
    grace_ms = grace_ms < GRACE_MS ? GRACE_MS : grace_ms;
    if (now + grace_ms < asking->until_ms)
        asking->until_ms = now + grace_ms;
}

/*
 * Waits for the next thing to happen. False: nobody is left, or no time. What
 * has come is taken even at the last moment.
 */
static bool step(struct asking *asking)
{
    struct pollfd pollers[SERVERS_MAX];
    uint64_t now = dlock_clock_real_now();
    uint64_t left = asking->until_ms > now ? asking->until_ms - now : 0;
    size_t open = 0;
    int ready;

    for (size_t i = 0; i < asking->n; i++) {
        const struct dlock_asked *one = &asking->asked[i];

        pollers[i] = (struct pollfd){.fd = -1};
        if (one->dial == NULL && !one->waiting)
            continue;
        pollers[i].fd = one->dial != NULL ? dlock_dial_fd(one->dial)
                                          : dlock_wire_fd(one->wire);
        pollers[i].events = POLLIN;
        open++;
    }
    if (open == 0)
        return false;
    ready = poll(pollers, asking->n, left > 60000 ? 60000 : (int)left);
    for (size_t i = 0; i < asking->n; i++)
        if (ready > 0 && pollers[i].revents != 0)
            advance(&asking->asked[i], asking);
    look_for_decision(asking);
    return ready > 0 || left > 0;
}

/* The end -------------------------------------------------------------------- */

/* A server that had forgotten the script gets its text, by itself. */
static void conclude(struct dlock_asked *one, const struct asking *asking)
{
    for (size_t i = 0; i < asking->question->n; i++) {
        const struct dlock_command *command =
            &asking->question->exchanges[i].command;
        struct dlock_answer *answer = &one->answers[i];
        bool forgotten =
            answer->status == DLOCK_OK && dlock_call_forgotten(&answer->reply);

        if (answer->begun)
            answer->status =
                dlock_call_conclude(one->wire, command, answer->status,
                                    &answer->reply, asking->error);
        if (forgotten)
            answer->status =
                dlock_call(one->wire, command, asking->question->limit_ms,
                           &answer->reply, asking->error);
    }
}

/* Time is up for ONE, if it has not answered. */
static void cut_off(struct dlock_asked *one, const struct asking *asking)
{
    one->late = one->late || one->dial != NULL || one->waiting;
    if (one->dial == NULL && !one->waiting)
        return;
    settle(one, asking, one->waiting ? DLOCK_UNKNOWN : DLOCK_UNREACHABLE);
    dlock_wire_drop(one->wire);
}

/*
 * As for one command, the time that is left is read before the hook is called,
 * and counts from its return.
 */
static void ask(struct asking *asking, uint64_t left_ms)
{
    asking->began_ms = dlock_clock_real_now();
    asking->until_ms = asking->began_ms + left_ms;
    for (size_t i = 0; i < asking->n; i++) {
        begin(&asking->asked[i], asking);
        if (asking->asked[i].late)
            cut_off(&asking->asked[i], asking);
    }
    asking->began_ms = dlock_clock_real_now();
    asking->until_ms = asking->began_ms + left_ms;
    look_for_decision(asking);
    while (step(asking))
        continue;
    for (size_t i = 0; i < asking->n; i++) {
        cut_off(&asking->asked[i], asking);
        conclude(&asking->asked[i], asking);
    }
}

/* What one round may take. */
static uint64_t time_left(const struct asking *asking)
{
    const struct dlock_question *question = asking->question;
    uint64_t left_ms = 0;

    for (size_t i = 0; i < asking->n; i++)
        if (asking->asked[i].wire != NULL)
            left_ms = dlock_clock_until(
                dlock_wire_config(asking->asked[i].wire)->clock,
                question->limit_ms);
    return left_ms < question->timeout_ms ? left_ms : question->timeout_ms;
}

/* Scripts --------------------------------------------------------------------- */

static bool is_sha(const struct dlock_reply *reply)
{
    return reply->kind == DLOCK_REPLY_STRING;
}

/* One round more, the first time that a script is used on these wires. */
static void load_script(struct asking *asking, uint64_t left_ms)
{
    const struct dlock_command *command =
        &asking->question->exchanges[0].command;
    struct dlock_answer answers[SERVERS_MAX];
    struct dlock_asked asked[SERVERS_MAX];
    struct dlock_exchange load;
    struct dlock_question question = *asking->question;
    struct asking loading = {asked, asking->n, &question, asking->error,
                             0,     0,         false};
    bool any = false;

    for (size_t i = 0; i < asking->n; i++) {
        struct dlock_wire *wire = asking->asked[i].wire;

        asked[i] = (struct dlock_asked){.answers = &answers[i]};
        if (wire == NULL)
            continue;
        /* Who has it already counts for the decision. */
        asked[i].agreed =
            command->script == NULL || dlock_wire_knows(wire, command->script);
        if (asked[i].agreed)
            continue;
        asked[i].wire = wire;
        any = true;
    }
    if (!any)
        return;
    dlock_command_init(&load.command, "script-load", command->name, NULL);
    dlock_command_arg(&load.command, "SCRIPT");
    dlock_command_arg(&load.command, "LOAD");
    dlock_command_arg(&load.command, command->script->text);
    question.exchanges = &load;
    question.n = 1;
    question.agrees = is_sha;
    ask(&loading, left_ms);
    for (size_t i = 0; i < asking->n; i++) {
        if (asked[i].wire != NULL && answers[i].status == DLOCK_OK)
            dlock_wire_learn(asked[i].wire, command->script,
                             answers[i].reply.string);
        /* Who refused, or whose answer was lost, gets the text; who gave none,
           nothing more. */
        else if (asked[i].wire != NULL)
            asking->asked[i].late =
                asked[i].late || (answers[i].status == DLOCK_UNREACHABLE &&
                                  answers[i].reply.kind != DLOCK_REPLY_ERROR);
    }
}

void dlock_ask(struct dlock_asked asked[], size_t n,
               const struct dlock_question *question, struct dlock_error *error)
{
    struct asking asking = {asked, n, question, error, 0, 0, false};

    uint64_t left_ms = time_left(&asking);

    assert(n <= SERVERS_MAX);
    for (size_t i = 0; i < n; i++) {
        asked[i].dial = NULL;
        asked[i].waiting = asked[i].late = false;
        asked[i].agreed = asked[i].refused = false;
    }
    if (left_ms > 0)
        load_script(&asking, left_ms);
    ask(&asking, left_ms);
}
