/*
 * Asking several servers at once: for each server in turn the hook and the sending, then
 * one poll over all of them, and over the connections under way, until everybody has
 * answered, enough have, or time is up. A server that has not answered by then loses its
 * connection, because its late reply must not answer the next question.
 *
 * The rest gets some more time after the decision, because a server that is a little slower
 * than its neighbours would be cut off each time, and never be one of those that count.
 */
#include "lock/quorum/quorum.h"

#include <poll.h>

enum {
    GRACE_MS = 10,    /* at least so long after the decision, */
    GRACE_PART = 100, /* and this part of a command's time limit, */
    GRACE_FACTOR = 2, /* and so many times as long as that took */
};

/* How far one question has come. */
struct asking {
    const struct dlock *client;
    struct dlock_asked *asked;
    size_t n;
    const struct dlock_question *question;
    uint64_t
        left_ms; /* that it may take; it counts from the last hook's return: */
    uint64_t began_ms; /* real time */
    uint64_t until_ms;
    bool decided;
};

/* STATUS is the outcome of connecting. Once the connection stands, the commands go one
 * behind the other: they are short, so the socket takes them at once. A connection that
 * broke on the way will bring no reply to the first ones. */
static void connected(struct dlock_asked *one, const struct asking *asking,
                      enum dlock_status status)
{
    one->connecting = status == DLOCK_BUSY;
    if (status != DLOCK_OK)
        return;
    dlock_batch_send(one->wire, one->answers, asking->question->n,
                     asking->until_ms);
    for (size_t i = 0; i < asking->question->n; i++)
        /* A send that failed has dropped the wire: there is nothing to poll then, and those
         * before it stay in doubt. */
        one->waiting |= one->answers[i].stage == DLOCK_EXCHANGE_SENT &&
                        one->wire->link.fd >= 0;
}

/* The hook for every command, then the connection, then all of them. A hook that paused
 * has taken nothing from the time to connect. */
static void begin(struct dlock_asked *one, struct asking *asking)
{
    one->connecting = one->waiting = false;
    /* A command counts as not sent until it is: also one for a server that is left out. */
    for (size_t i = 0; i < asking->question->n; i++)
        one->answers[i] =
            (struct dlock_exchange){.command = &asking->question->commands[i],
                                    .status = DLOCK_UNREACHABLE};
    if (one->wire == NULL || asking->left_ms == 0)
        return;
    dlock_batch_begin(one->wire, one->answers, asking->question->n);
    asking->until_ms = dlock_clock_real_now() + asking->left_ms;
    connected(one, asking, dlock_wire_begin(one->wire, asking->until_ms));
}

/* Whether ONE has answered all, which half an answer does not do; and has AGREED to it. */
static bool has_answered(const struct dlock_asked *one,
                         const struct dlock_question *question, bool *agreed)
{
    *agreed = true;
    for (size_t i = 0; i < question->n; i++) {
        const struct dlock_exchange *answer = &one->answers[i];

        if (answer->stage != DLOCK_EXCHANGE_OVER || answer->status != DLOCK_OK)
            return false;
        *agreed = *agreed && question->agrees(&answer->reply);
    }
    return true;
}

/* Once it is clear what comes of it, the others are not waited for long. */
static void look_for_decision(struct asking *asking)
{
    unsigned timeout_ms = asking->client->wire.command_timeout_ms;
    size_t needed = asking->question->needed;
    uint64_t now = dlock_clock_real_now();
    uint64_t grace_ms = GRACE_FACTOR * (now - asking->began_ms);
    size_t agreed_n = 0;
    size_t refused_n = 0;

    /* The decision is made once: a later answer must not lengthen the grace. */
    if (needed == 0 || asking->decided)
        return;
    for (size_t i = 0; i < asking->n; i++) {
        bool agreed;

        /* Silence is neither a yes nor a no: the server may still answer either. */
        if (!has_answered(&asking->asked[i], asking->question, &agreed))
            continue;
        agreed_n += agreed;
        refused_n += !agreed;
    }
    /* The second half: even if all the others agreed, they would be too few. */
    asking->decided = agreed_n >= needed || refused_n + needed > asking->n;
    if (!asking->decided)
        return;
    if (grace_ms < GRACE_MS)
        grace_ms = GRACE_MS;
    if (grace_ms < timeout_ms / GRACE_PART)
        grace_ms = timeout_ms / GRACE_PART;
    /* The grace only shortens the time: nobody is waited for longer than the question may
     * take. */
    if (now + grace_ms < asking->until_ms)
        asking->until_ms = now + grace_ms;
}

/* Waits for the next thing to happen. False: nobody is left, or no time. All replies of one
 * server are read when the first is there: if one of them is slow, those of other servers
 * lie in their sockets meanwhile, and are read afterwards, also when time is up. */
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
        pollers[i].fd =
            /* A dial has an eventfd, which its thread writes to when it has an outcome. */
            one->connecting ? one->wire->dial->fd : one->wire->link.fd;
        pollers[i].events = POLLIN;
        open++;
    }
    if (open == 0)
        return false;
    /* poll() is asked once more when no time is left, so that answers that lie in the
     * sockets count. */
    ready = poll(pollers, asking->n, left > 60000 ? 60000 : (int)left);
    for (size_t i = 0; i < asking->n; i++) {
        struct dlock_asked *one = &asking->asked[i];

        /* A negative result is an interruption: its REVENTS say nothing, and the loop comes
         * again. */
        if (ready <= 0 || pollers[i].revents == 0)
            continue;
        if (one->connecting) {
            connected(one, asking, dlock_wire_go_on(one->wire));
            continue;
        }
        dlock_batch_read(one->wire, one->answers, asking->question->n,
                         asking->until_ms);
        one->waiting = false;
    }
    look_for_decision(asking);
    return ready > 0 || left > 0;
}

/* The end -------------------------------------------------------------------- */

/* As for one command, the time that is left is read before the hook is called, and counts
 * from its return. */
void dlock_ask(const struct dlock *client, struct dlock_asked asked[], size_t n,
               const struct dlock_question *question)
{
    unsigned timeout_ms = question->timeout_ms != 0
                              ? question->timeout_ms
                              : client->wire.command_timeout_ms;
    struct asking asking = {
        .client = client, .asked = asked, .n = n, .question = question};

    asking.left_ms = dlock_clock_until(client->clock, question->limit_ms);
    if (asking.left_ms > timeout_ms)
        asking.left_ms = timeout_ms;
    for (size_t i = 0; i < n; i++)
        begin(&asked[i], &asking);
    asking.began_ms = dlock_clock_real_now();
    /* The time for answers begins behind the last hook: all servers have the same end of
     * it. */
    asking.until_ms = asking.began_ms + asking.left_ms;
    look_for_decision(&asking);
    while (step(&asking))
        continue;
    for (size_t i = 0; i < n; i++) {
        const struct dlock_exchange *answers = asked[i].answers;

        /* A server that is silent may go on later, and say that it does not know the
         * script, which nobody would hear: so the text follows. */
        for (size_t k = 0; question->insists && k < question->n; k++)
            if (answers[k].stage == DLOCK_EXCHANGE_SENT)
                (void)dlock_wire_send(asked[i].wire, answers[k].command,
                                      DLOCK_BY_TEXT, asking.until_ms);
        if (asked[i].waiting)
            /* The late reply would be read as that to the next question. A dial under way
             * stays, and may serve the next one. */
            dlock_wire_drop(asked[i].wire);
        dlock_batch_conclude(asked[i].wire, asked[i].answers, question->n);
    }
}
