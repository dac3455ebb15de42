/*
 * Asking several servers at once: for each server in turn the hook and the sending,
 * then one poll over all of them, and over the connections under way, until everybody
 * has answered, enough have, or time is up.
 *
 * A server that has not answered by then loses its connection, because its late
 * reply must not answer the next question.
 *
 * Why the rest gets some more time after the decision: a server that is merely
 * a little slower than its neighbours would else be cut off each time, and
 * connected to anew, and never be one of those that count.
 */
#include "lock/quorum/quorum.h"

#include <assert.h>
#include <poll.h>

#include "lock/core/clock.h"

enum {
    GRACE_MS = 10,    /* at least so long after the decision, */
    GRACE_PART = 100, /* and this part of a command's time limit, */
    GRACE_FACTOR = 2, /* and so many times as long as that took */
};

/* How far one question has come. */
struct asking {
    struct dlock_asked *asked;
    size_t n;
    const struct dlock_question *question;
    uint64_t began_ms; /* real time */
    uint64_t until_ms;
    uint64_t grace_ms; /* at least */
    bool decided;
};

/* Sending ------------------------------------------------------------------ */

/* Gives all answers that are not there yet, and still may come, this STATUS. */
static void settle(struct dlock_asked *one, const struct asking *asking,
                   enum dlock_status status)
{
    for (size_t i = 0; i < asking->question->n; i++) {
        struct dlock_answer *answer = &one->answers[i];

        if (answer->begun && answer->status == DLOCK_OK &&
            (answer->due || !answer->sent))
            answer->status = status;
        answer->due = false;
    }
    one->connecting = one->waiting = false;
}

static const struct dlock_command *command_of(const struct asking *asking,
                                              size_t i)
{
    return &asking->question->exchanges[i].command;
}

/* One command, and whether its reply is to be waited for from now on. */
static void send_one(struct dlock_asked *one, const struct asking *asking,
                     size_t i, enum dlock_script_by by)
{
    struct dlock_answer *answer = &one->answers[i];

    answer->status =
        dlock_wire_send(one->wire, command_of(asking, i), by, asking->until_ms);
    answer->due = answer->status == DLOCK_OK;
    one->waiting = one->waiting || answer->due;
}

/* Commands go one behind the other, without waiting for replies. They are short: a
 * connection that stands takes them at once. */
static void send_all(struct dlock_asked *one, const struct asking *asking)
{
    for (size_t i = 0; i < asking->question->n; i++) {
        if (!one->answers[i].begun)
            continue;
        send_one(one, asking, i, DLOCK_BY_SHA);
        one->answers[i].sent = one->answers[i].due;
    }
    /* It broke in the middle: there will be no reply to the first ones. */
    if (one->wire->link.fd < 0)
        settle(one, asking, DLOCK_UNKNOWN);
}

/* Scripts that the server did not know are sent once more, each text only once. */
static void send_unknown(struct dlock_asked *one, const struct asking *asking)
{
    const struct dlock_script *told = NULL;

    for (size_t i = 0; i < asking->question->n; i++) {
        const struct dlock_command *command = command_of(asking, i);
        struct dlock_answer *answer = &one->answers[i];

        if (!answer->sent || answer->again || answer->status != DLOCK_OK ||
            !dlock_call_forgotten(&answer->reply))
            continue;
        answer->again = true;
        send_one(one, asking, i,
                 command->script == told ? DLOCK_BY_SHA : DLOCK_BY_TEXT);
        told = command->script;
    }
    if (one->wire->link.fd < 0)
        settle(one, asking, DLOCK_UNKNOWN);
}

/* STATUS of a connection. Sends as soon as it stands. */
static void connected(struct dlock_asked *one, const struct asking *asking,
                      enum dlock_status status)
{
    one->connecting = status == DLOCK_BUSY;
    if (status == DLOCK_OK)
        send_all(one, asking);
    else if (status != DLOCK_BUSY)
        settle(one, asking, DLOCK_UNREACHABLE);
}

static void connect_on(struct dlock_asked *one, const struct asking *asking)
{
    connected(one, asking, dlock_wire_go_on(one->wire));
}

/* The hook for every command, then the connection, then all of them. */
static void begin(struct dlock_asked *one, const struct asking *asking)
{
    uint64_t until_ms;

    one->connecting = one->waiting = one->agreed = one->refused = false;
    for (size_t i = 0; i < asking->question->n; i++)
        one->answers[i] = (struct dlock_answer){.status = DLOCK_UNREACHABLE};
    if (one->wire == NULL || asking->until_ms == asking->began_ms)
        return;
    for (size_t i = 0; i < asking->question->n; i++) {
        struct dlock_answer *answer = &one->answers[i];

        answer->status = dlock_call_begin(one->wire, command_of(asking, i));
        answer->begun = answer->status == DLOCK_OK;
    }
    /* A hook that paused has taken nothing from the time to connect. */
    until_ms = dlock_clock_real_now() + asking->until_ms - asking->began_ms;
    connected(one, asking, dlock_wire_begin(one->wire, until_ms));
}

/* Reading ------------------------------------------------------------------ */

/* Half an answer decides nothing. */
static void weigh(struct dlock_asked *one, const struct asking *asking)
{
    bool agreed = asking->question->agrees != NULL;
    bool whole = true;

    for (size_t i = 0; i < asking->question->n; i++) {
        const struct dlock_answer *answer = &one->answers[i];

        whole = whole && answer->sent && answer->status == DLOCK_OK;
        agreed = agreed && whole && asking->question->agrees(&answer->reply);
    }
    one->agreed = agreed;
    one->refused = whole && !agreed;
}

/* All replies of one server; the first is there. If one of the others is slow,
 * those of other servers lie in their sockets meanwhile: they are read afterwards,
 * also when time is up by then. */
static void read_all(struct dlock_asked *one, const struct asking *asking)
{
    one->waiting = false;
    for (size_t i = 0; i < asking->question->n; i++) {
        struct dlock_answer *answer = &one->answers[i];

        if (answer->due)
            answer->status =
                dlock_wire_read(one->wire, asking->until_ms, &answer->reply);
        answer->due = false;
    }
    send_unknown(one, asking);
    if (!one->waiting)
        weigh(one, asking);
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
    if (grace_ms < asking->grace_ms)
        grace_ms = asking->grace_ms;
    if (now + grace_ms < asking->until_ms)
        asking->until_ms = now + grace_ms;
}

/* Waits for the next thing to happen. False: nobody is left, or no time. A reply
 * that has come is taken even at the last moment. */
static bool step(struct asking *asking)
{
    struct pollfd pollers[DLOCK_NODES_MAX];
    uint64_t left = dlock_clock_real_left(asking->until_ms);
    size_t open = 0;
    int ready;

    for (size_t i = 0; i < asking->n; i++) {
        const struct dlock_asked *one = &asking->asked[i];

        pollers[i] = (struct pollfd){.fd = -1};
        if (!one->connecting && !one->waiting)
            continue;
        pollers[i].fd = one->connecting ? dlock_dial_fd(one->wire->dial)
                                        : one->wire->link.fd;
        pollers[i].events = POLLIN;
        open++;
    }
    if (open == 0)
        return false;
    ready = poll(pollers, asking->n, left > 60000 ? 60000 : (int)left);
    for (size_t i = 0; i < asking->n; i++)
        if (ready > 0 && pollers[i].revents != 0)
            (asking->asked[i].connecting ? connect_on
                                         : read_all)(&asking->asked[i], asking);
    look_for_decision(asking);
    return ready > 0 || left > 0;
}

/* The end -------------------------------------------------------------------- */

/*
 * Time is up for ONE, if it has not answered. Once it goes on it may say that it
 * does not know the script, and nobody would hear that.
 */
static void cut_off(struct dlock_asked *one, const struct asking *asking)
{
    if (one->connecting)
        settle(one, asking, DLOCK_UNREACHABLE);
    if (!one->waiting)
        return;
    for (size_t i = 0; asking->question->insists && i < asking->question->n;
         i++)
        if (one->answers[i].due && !one->answers[i].again)
            (void)dlock_wire_send(one->wire, command_of(asking, i),
                                  DLOCK_BY_TEXT, asking->until_ms);
    settle(one, asking, DLOCK_UNKNOWN);
    dlock_wire_drop(one->wire);
}

/*
 * As for one command, the time that is left is read before the hook is called,
 * and counts from its return.
 */
void dlock_ask(struct dlock_asked asked[], size_t n,
               const struct dlock_question *question)
{
    struct asking asking = {
        .asked = asked, .n = n, .question = question, .grace_ms = GRACE_MS};
    const struct dlock_wire_config *config;
    uint64_t left_ms = 0;

    assert(n <= DLOCK_NODES_MAX);
    for (size_t i = 0; i < n; i++) {
        if (asked[i].wire == NULL)
            continue;
        config = asked[i].wire->config;
        left_ms = dlock_clock_until(config->clock, question->limit_ms);
        if (asking.grace_ms < config->command_timeout_ms / GRACE_PART)
            asking.grace_ms = config->command_timeout_ms / GRACE_PART;
    }
    if (left_ms > question->timeout_ms)
        left_ms = question->timeout_ms;
    asking.began_ms = dlock_clock_real_now();
    asking.until_ms = asking.began_ms + left_ms;
    for (size_t i = 0; i < n; i++)
        begin(&asked[i], &asking);
    asking.began_ms = dlock_clock_real_now();
    asking.until_ms = asking.began_ms + left_ms;
    look_for_decision(&asking);
    while (step(&asking))
        continue;
    for (size_t i = 0; i < n; i++) {
        cut_off(&asked[i], &asking);
        for (size_t k = 0; k < question->n; k++) {
            struct dlock_answer *answer = &asked[i].answers[k];

            if (answer->begun)
                answer->status =
                    dlock_call_conclude(asked[i].wire, command_of(&asking, k),
                                        answer->status, &answer->reply);
        }
    }
}
