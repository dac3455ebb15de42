/*
 * redisson: the complete lock on one Redis server.
 *
 * Guarantees: one holder at a time while its lease runs (X); a dead holder is
 * got rid of (C); only the owner releases, renews and extends (P); the lease of
 * a living holder is renewed (L); the same session may come in again (N);
 * waiters are woken (W); a command that is sent twice counts once.
 *
 * Does not guarantee: an order among waiters (F); anything if the one server
 * loses its data (M). Without tokens, which it gives if the terms ask for them,
 * it cannot stop a stale holder's write (S): no lock can, and to show that is
 * what it is here for, next to fenced. And a release wakes a waiter of every
 * client, as its original does: all but one come in vain.
 *
 * The lock is a hash, owner -> holds, and every operation a Lua script
 * (acquire.lua, release.lua, renew.lua), because each has to look before it
 * writes. Each slot fills one command, sends it, and reads the reply; what
 * is sent, and what comes back, is in node.c. fenced and fair have the same slots,
 * and scripts of their own.
 */
#include "lock/redis/lock_redisson.h"

#include <stdio.h>
#include <string.h>

enum { TOLD_AT_ONCE = 3 }; /* owners that fit into one reply */

/* Sends what FILL puts together; DLOCK_OK: *REPLY is there. */
static enum dlock_status ask(struct dlock_session *session,
                             const struct dlock_attempt *attempt,
                             dlock_node_fill *fill, struct dlock_reply *reply,
                             struct dlock_error *error)
{
    struct dlock_command command;

    fill(session, attempt, &command);
    return dlock_call(session->wire, &command, attempt->limit_ms, reply, error);
}

enum dlock_status dlock_redisson_acquire(struct dlock_session *session,
                                         const struct dlock_attempt *attempt,
                                         struct dlock_grant *grant,
                                         uint64_t *busy_ms,
                                         struct dlock_error *error)
{
    struct dlock_reply reply;
    enum dlock_status status =
        ask(session, attempt, dlock_node_fill_acquire, &reply, error);

    if (status != DLOCK_OK)
        return status;
    session->may_come_late |= reply.of_copy;
    return dlock_node_read_acquire(&reply, grant, busy_ms, error);
}

/*
 * After an acquire without an answer. The server may carry it out yet, say when
 * it wakes up again, and lock for somebody who has given up. So a release goes
 * after it, whose reply nobody waits for; it is of use in either order.
 */
void dlock_redisson_withdraw(struct dlock_session *session,
                             const struct dlock_attempt *attempt)
{
    struct dlock_attempt end = *attempt;
    struct dlock_command command;

    end.undoes = attempt->number;
    end.number = dlock_number(session->client);
    dlock_node_fill_release(session, &end, &command);
    command.step = "eval-withdraw";
    dlock_call_abandon(session->wire, &command,
                       session->client->wire.connect_timeout_ms);
}

enum dlock_status dlock_redisson_release(struct dlock_session *session,
                                         const struct dlock_attempt *attempt,
                                         struct dlock_error *error)
{
    struct dlock_reply reply;
    enum dlock_status status =
        ask(session, attempt, dlock_node_fill_release, &reply, error);

    return status != DLOCK_OK ? status : dlock_node_read_done(&reply, error);
}

enum dlock_status dlock_redisson_extend(struct dlock_session *session,
                                        const struct dlock_attempt *attempt,
                                        struct dlock_error *error)
{
    struct dlock_reply reply;
    enum dlock_status status =
        ask(session, attempt, dlock_node_fill_extend, &reply, error);

    if (status == DLOCK_OK && reply.integers[0] == 0)
        return DLOCK_LOST;
    return status != DLOCK_OK ? status : dlock_node_read_done(&reply, error);
}

enum dlock_status dlock_redisson_inspect(struct dlock_session *session,
                                         const struct dlock_attempt *attempt,
                                         struct dlock_holder *holder,
                                         struct dlock_error *error)
{
    struct dlock_reply reply;
    enum dlock_status status =
        ask(session, attempt, dlock_node_fill_inspect, &reply, error);

    if (status == DLOCK_OK)
        dlock_node_read_inspect(&reply, holder);
    return status;
}

/* Waiters ------------------------------------------------------------------ */

/* All waiters of a client listen on one channel, or each on its own. */
void *dlock_redisson_watch(struct dlock_session *session, const char *name)
{
    const struct dlock_node_kind *kind = dlock_node_kind_of(session);

    return dlock_wakeup_join(session->client->wakeup, name, kind->channel,
                             kind->leave != NULL ? session->owner : "");
}

static void fill_leave(const struct dlock_session *session,
                       const struct dlock_attempt *attempt,
                       struct dlock_command *command)
{
    const struct dlock_node_kind *kind = dlock_node_kind_of(session);

    dlock_command_init(command, "eval-leave", attempt->name, kind->leave);
    command->repeatable = true;
    dlock_node_add_keys(session, false, command);
    dlock_command_arg(command, session->owner);
    dlock_command_number(command, attempt->number);
    dlock_command_number(command, dlock_node_done_life_ms(session));
    dlock_command_derived(command, kind->channel, "");
}

/*
 * If there is no answer, the heartbeat ends the matter: there is nothing to tell
 * the caller, and nothing to wait for longer than once.
 */
void dlock_redisson_give_up(struct dlock_session *session,
                            const struct dlock_attempt *attempt)
{
    struct dlock_attempt end = {.name = attempt->name,
                                .number = dlock_number(session->client),
                                .limit_ms = dlock_session_limit(session, 1, 0)};
    struct dlock_reply reply;

    (void)ask(session, &end, fill_leave, &reply, NULL);
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
enum dlock_status dlock_redisson_waiters(struct dlock_session *session,
                                         const struct dlock_attempt *attempt,
                                         struct dlock_waiting found[],
                                         size_t n_max, size_t *n,
                                         struct dlock_error *error)
{
    size_t told = 0, before;

    do {
        struct dlock_command command;
        struct dlock_reply reply;
        enum dlock_status status;

        before = told;
        dlock_command_init(&command, "eval-waiters", attempt->name,
                           dlock_node_kind_of(session)->list);
        command.repeatable = true;
        dlock_node_add_keys(session, false, &command);
        dlock_command_number(&command, told);
        dlock_command_number(&command, TOLD_AT_ONCE);
        status = dlock_call(session->wire, &command, attempt->limit_ms, &reply,
                            error);
        if (status != DLOCK_OK)
            return status;
        *n = (size_t)reply.integers[0];
        told = take_owners(reply.string, found, told, n_max);
    } while (told != before && told < n_max && told < *n);
    return DLOCK_OK;
}

static void fill_subscribers(const struct dlock_session *session,
                             const struct dlock_attempt *attempt,
                             struct dlock_command *command)
{
    dlock_command_init(command, "pubsub-numsub", attempt->name, NULL);
    command->repeatable = true;
    dlock_command_arg(command, "PUBSUB");
    dlock_command_arg(command, "NUMSUB");
    dlock_command_derived(command, dlock_node_kind_of(session)->channel, "");
}

/*
 * Waiters of redisson are subscribed: one connection a client, which stays subscribed
 * for a moment after its last waiter. The server counts them, but knows no names.
 */
static enum dlock_status count_waiters(struct dlock_session *session,
                                       const struct dlock_attempt *attempt,
                                       struct dlock_waiting waiters[],
                                       size_t n_max, size_t *n,
                                       struct dlock_error *error)
{
    struct dlock_reply reply;
    enum dlock_status status =
        ask(session, attempt, fill_subscribers, &reply, error);

    if (status != DLOCK_OK)
        return status;
    *n = reply.integers_n > 0 ? (size_t)reply.integers[0] : 0;
    for (size_t i = 0; i < n_max && i < *n; i++)
        waiters[i].owner[0] = '\0';
    return DLOCK_OK;
}

const struct dlock_strategy dlock_strategy_redisson = {
    .info = {.name = "redisson",
             .claim = "One holder while its lease runs, renewed while it "
                      "lives; re-entrant; waiters are woken.",
             .capabilities = DLOCK_REDISSON_CAPABILITIES},
    .variant = &dlock_node_plain,
    DLOCK_REDISSON_FUNCTIONS,
    .waiters = count_waiters,
};
