/*
 * redisson, and with the same slots fenced and fair: the complete locks on one Redis server.
 * fenced and fair have a head of their own, above their tables.
 *
 * redisson guarantees: one holder at a time while its lease runs (X); a dead holder is got rid
 * of (C); only the owner releases, renews and extends (P); the lease of a living holder is
 * renewed (L); the same session may come in again (N); waiters are woken (W); a command that is
 * sent twice counts once.
 *
 * Does not guarantee: an order among waiters (F); anything if the one server loses its data
 * (M). Without tokens, which it gives if the terms ask for them, it cannot stop a stale
 * holder's write (S): to show that is what it is here for, next to fenced. And a release wakes
 * a waiter of every client, as its original does: all but one come in vain.
 *
 * The lock is a hash, owner -> holds, and every operation a Lua script, because each has to
 * look before it writes; node.c has what is sent, and what comes back.
 */
#include <stdio.h>
#include <string.h>

#include "lock/redis/node.h"
#include "lock/redis/scripts.h"
#include "lock/redis/wakeup.h"

enum { TOLD_AT_ONCE = 6 }; /* owners that fit into one reply */

/* Sends what FILL puts together; DLOCK_OK: *REPLY is there. */
static enum dlock_status ask(const struct dlock_attempt *attempt,
                             dlock_node_fill *fill, struct dlock_reply *reply)
{
    struct dlock_command command;

    fill(attempt, &command);
    return dlock_call(attempt->session->wire, &command, attempt->limit_ms,
                      reply);
}

static enum dlock_status acquire(const struct dlock_attempt *attempt)
{
    struct dlock_reply reply;
    enum dlock_status status = ask(attempt, dlock_node_fill_acquire, &reply);

    if (status != DLOCK_OK)
        return status;
    /* The answer is that of a copy, so the first one may still arrive, and lock for nobody:
     * dlock_wait_end() is to send a withdraw. */
    attempt->session->may_come_late |= reply.of_copy;
    return dlock_node_read_acquire(&reply, attempt->grant, attempt->busy_ms);
}

/* The server may carry out an acquire without an answer yet, and lock for somebody who has
 * given up. So a release goes after it; it is of use in either order. */
static void withdraw(const struct dlock_attempt *attempt)
{
    struct dlock_session *session = attempt->session;
    struct dlock_attempt end = *attempt;
    struct dlock_command command;

    /* The server is told which acquire is taken back: if that one began the lock anew, no
     * older hold comes back with the release. */
    end.undoes = attempt->number;
    end.number = dlock_number(session->client);
    dlock_node_fill_release(&end, &command);
    /* The step has a name of its own, so that schedules can tell it from the holder's
     * release. */
    command.step = "eval-withdraw";
    command.must_go = true; /* behind the acquire, which the node may have */
    dlock_call_abandon(session->wire, &command,
                       session->client->wire.connect_timeout_ms);
}

static enum dlock_status release(const struct dlock_attempt *attempt)
{
    struct dlock_reply reply;
    enum dlock_status status = ask(attempt, dlock_node_fill_release, &reply);

    return status != DLOCK_OK ? status : dlock_node_read_done(&reply);
}

static enum dlock_status extend(const struct dlock_attempt *attempt)
{
    struct dlock_reply reply;
    enum dlock_status status = ask(attempt, dlock_node_fill_extend, &reply);

    /* renew.lua's 0, "it has expired", is no count of holds, which dlock_node_read_done()
     * would take it for. */
    if (status == DLOCK_OK && reply.integers[0] == 0)
        return DLOCK_LOST;
    return status != DLOCK_OK ? status : dlock_node_read_done(&reply);
}

/* Waiters ------------------------------------------------------------------ */

/* If there is no answer, the heartbeat ends the matter: there is nothing to tell the
 * caller, and nothing to wait for longer than once, or than the acquire may take. */
static void give_up(const struct dlock_attempt *attempt)
{
    struct dlock_session *session = attempt->session;
    const struct dlock_node_kind *kind = dlock_node_kind_of(session);
    uint64_t limit_ms = dlock_session_limit(session, 1, 0);
    struct dlock_command command;
    struct dlock_reply reply;

    dlock_command_init(&command, "eval-leave", attempt->name, kind->leave);
    command.repeatable = true;
    dlock_node_add_keys(session, false, &command);
    dlock_command_arg(&command, session->owner);
    dlock_command_number(&command, dlock_number(session->client));
    dlock_command_number(&command, dlock_node_done_life_ms(session));
    dlock_command_derived(&command, kind->channel, "");
    /* The acquire has promised its end to the caller, and a good-bye must not move it. If a
     * process was stopped until then, it is sent all the same: the next ones wait behind. */
    if (limit_ms > attempt->limit_ms)
        limit_ms = attempt->limit_ms;
    if (dlock_clock_until(session->client->clock, limit_ms) > 0)
        (void)dlock_call(session->wire, &command, limit_ms, &reply);
    else
        dlock_call_abandon(session->wire, &command,
                           session->client->wire.connect_timeout_ms);
}

/* Takes "OWNER OWNER" apart into WAITERS from number I on. */
static size_t take_owners(const char *text, struct dlock_waiting waiters[],
                          size_t i, size_t n_max)
{
    while (*text != '\0' && i < n_max) {
        size_t len = strcspn(text, " ");

        (void)snprintf(waiters[i++].owner, sizeof(waiters[0].owner), "%.*s",
                       (int)len, text);
        text += len + strspn(text + len, " ");
    }
    return i;
}

/* A long queue takes several looks, and may move on between them. */
static enum dlock_status waiters(const struct dlock_attempt *attempt,
                                 struct dlock_waiting found[], size_t n_max,
                                 size_t *n)
{
    struct dlock_session *session = attempt->session;
    size_t told = 0, from, next = 0;

    do {
        struct dlock_command command;
        struct dlock_reply reply;
        enum dlock_status status;

        from = next;
        dlock_command_init(&command, "eval-waiters", attempt->name,
                           dlock_node_kind_of(session)->list);
        command.repeatable = true;
        dlock_node_add_keys(session, false, &command);
        dlock_command_number(&command, from);
        dlock_command_number(&command, TOLD_AT_ONCE);
        status = dlock_call(session->wire, &command, attempt->limit_ms, &reply);
        if (status != DLOCK_OK)
            return status;
        if (from == 0)
            *n = (size_t)reply.integers[0];
        /* NEXT stops rising at the end of the queue, which may come before *N: the waiters may
         * have gone since they were counted. */
        next = (size_t)reply.integers[1];
        told = take_owners(reply.string, found, told, n_max);
    } while (next > from && told < n_max && told < *n);
    /* Some have left meanwhile. */
    if (told < n_max && told < *n)
        *n = told;
    return DLOCK_OK;
}

/* Waiters of redisson are subscribed: one connection a client, which stays subscribed for
 * a moment after its last waiter. The server counts them, but knows no names. */
static enum dlock_status count_waiters(const struct dlock_attempt *attempt,
                                       struct dlock_waiting waiters[],
                                       size_t n_max, size_t *n)
{
    struct dlock_session *session = attempt->session;
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status;

    dlock_command_init(&command, "pubsub-numsub", attempt->name, NULL);
    command.repeatable = true;
    dlock_command_arg(&command, "PUBSUB");
    dlock_command_arg(&command, "NUMSUB");
    dlock_command_derived(&command, dlock_node_kind_of(session)->channel, "");
    status = dlock_call(session->wire, &command, attempt->limit_ms, &reply);
    if (status != DLOCK_OK)
        return status;
    *n = reply.integers_n > 0 ? (size_t)reply.integers[0] : 0;
    for (size_t i = 0; i < n_max && i < *n; i++)
        waiters[i].owner[0] = '\0';
    return DLOCK_OK;
}

/* The locks ------------------------------------------------------------------ */

/* Slots that all three have. */
#define SLOTS                                                                  \
    .wires = &dlock_wires, .knows_copies = true, .open = dlock_wakeup_open,    \
    .close = dlock_wakeup_close, .acquire = acquire, .withdraw = withdraw,     \
    .release = release, .extend = extend, .inspect = dlock_node_inspect,       \
    .renew = dlock_node_renew, .forced = dlock_node_forced,                    \
    .force = dlock_node_force, DLOCK_WAKEUP_FUNCTIONS

const struct dlock_strategy dlock_strategy_redisson = {
    .info = {.name = "redisson",
             .claim = "One holder while its lease runs, renewed while it "
                      "lives; re-entrant; waiters are woken.",
             .capabilities = DLOCK_NODE_CAPABILITIES},
    .variant = &dlock_node_plain,
    SLOTS,
    .waiters = count_waiters,
};

/*
 * fenced: redisson with a token in each grant, and without its herd. The default.
 *
 * Guarantees what redisson does (X C A P R L N W), and that a late holder does not write (S):
 * the token only rises, so the guarded resource can refuse it.
 *
 * And one release wakes one waiter. The server has a list of them (waiters.lua) and wakes the
 * one that tried longest ago; if that one is gone, the next. So a cycle costs three commands
 * whatever the number of waiters: the try that finds it taken, the one that takes it, the
 * release.
 *
 * Does not guarantee: an order among waiters (F), since a newcomer at the right moment
 * overtakes. Nor anything if the one server loses its data (M).
 */
static const struct dlock_node_kind fenced = {
    .acquire = &dlock_script_fenced_acquire,
    .release = &dlock_script_fenced_release,
    .force = &dlock_script_fenced_force,
    .renew = &dlock_script_fenced_renew,
    .leave = &dlock_script_fenced_leave,
    .list = &dlock_script_fenced_list,
    .channel = DLOCK_NODE_TURN_CHANNEL,
    .keys = {":dlock-waiters"},
};

const struct dlock_strategy dlock_strategy_fenced = {
    .info = {.name = "fenced",
             .claim = "As redisson, and every grant has a rising token by "
                      "which the resource can refuse a late holder.",
             .capabilities = DLOCK_NODE_CAPABILITIES | DLOCK_CAP_FENCED},
    .variant = &fenced,
    SLOTS,
    .give_up = give_up,
    .waiters = waiters,
};

/*
 * fair: first come, first served.
 *
 * Guarantees what redisson does (X C A P R L N W), and an order (F): the waiter
 * that asked first, and still waits, is next, whatever client it belongs to. Only
 * that one is woken by a release. A try without waiting does not overtake.
 *
 * How: on the server, a queue beside the lock (fair_queue.lua). Each waiter has a heartbeat of
 * two seconds there, refreshed by its own tries, of which there are three per heartbeat while
 * it sleeps. A waiter that dies, or is stopped for longer, loses its place; one that gives up
 * takes itself out. Nobody's deadline is ever moved by anybody else, and all are read from the
 * server's clock. The fair lock of a widely used library did neither, and its deadlines drifted
 * hours ahead.
 *
 * When nobody was heard of for half a heartbeat, the dead cannot be told from those whom a
 * stopped server did not hear: all keep their places for a heartbeat more. The same if the
 * server's clock is found to have been set back.
 *
 * Does not guarantee: an order after ten seconds of that, or if the server's clock is set
 * forward by as much; anything if the one server loses its data (M); without tokens, that a
 * late holder does not write (S).
 *
 * The failure it is here to show is that fairness costs: a lock may not go to a waiter that is
 * awake, but waits until the one whose turn it is has been woken.
 */
static const struct dlock_node_kind fair = {
    .acquire = &dlock_script_fair_acquire,
    .release = &dlock_script_fair_release,
    .force = &dlock_script_fair_force,
    .renew = &dlock_script_fair_renew,
    .leave = &dlock_script_fair_leave,
    .list = &dlock_script_fair_list,
    .channel = DLOCK_NODE_TURN_CHANNEL,
    .keys = {":dlock-queue", ":dlock-beats"},
};

const struct dlock_strategy dlock_strategy_fair = {
    .info = {.name = "fair",
             .claim = "As redisson, and the lock goes to whoever has waited "
                      "for it longest.",
             .capabilities = DLOCK_NODE_CAPABILITIES},
    .variant = &fair,
    SLOTS,
    .give_up = give_up,
    .waiters = waiters,
};
