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
 * writes. node.c knows what is sent and what comes back; here is who is asked,
 * and what to do if there is no answer.
 */
#include "lock/redis/lock_redisson.h"

#include "lock/core/error.h"

/* One subscriber for all sessions of the client; see wakeup.h. */
enum dlock_status dlock_redisson_open(struct dlock *client,
                                      struct dlock_error *error)
{
    client->wakeup = dlock_wakeup_open(&client->wire);
    if (client->wakeup == NULL)
        return dlock_error_set(error, DLOCK_UNREACHABLE,
                               "no memory or no descriptor for wake-ups");
    return DLOCK_OK;
}

void dlock_redisson_close(struct dlock *client)
{
    dlock_wakeup_close(client->wakeup);
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
    dlock_node_fill_release(session, "eval-withdraw", &end, &command);
    dlock_call_abandon(session->wire, &command,
                       session->client->wire.connect_timeout_ms);
}

enum dlock_status dlock_redisson_acquire(struct dlock_session *session,
                                         const struct dlock_attempt *attempt,
                                         struct dlock_grant *grant,
                                         uint64_t *busy_ms,
                                         struct dlock_error *error)
{
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status;

    dlock_node_fill_acquire(session, attempt, &command);
    status =
        dlock_call(session->wire, &command, attempt->limit_ms, &reply, error);
    if (status != DLOCK_OK)
        return status;
    session->may_come_late |= reply.of_copy;
    return dlock_node_read_acquire(&reply, grant, busy_ms, error);
}

enum dlock_status dlock_redisson_release(struct dlock_session *session,
                                         const struct dlock_attempt *attempt,
                                         struct dlock_error *error)
{
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status;

    dlock_node_fill_release(session, "eval-release", attempt, &command);
    status =
        dlock_call(session->wire, &command, attempt->limit_ms, &reply, error);
    return dlock_node_read_done(status, &reply, error);
}

enum dlock_status dlock_redisson_extend(struct dlock_session *session,
                                        const struct dlock_attempt *attempt,
                                        struct dlock_error *error)
{
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status;

    dlock_node_fill_extend(session, attempt, &command);
    status =
        dlock_call(session->wire, &command, attempt->limit_ms, &reply, error);
    if (status == DLOCK_OK && reply.integers[0] == 0)
        return DLOCK_LOST;
    return dlock_node_read_done(status, &reply, error);
}

enum dlock_status dlock_redisson_inspect(struct dlock_session *session,
                                         const struct dlock_attempt *attempt,
                                         struct dlock_holder *holder,
                                         struct dlock_error *error)
{
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status;

    dlock_node_fill_inspect(attempt, &command);
    status =
        dlock_call(session->wire, &command, attempt->limit_ms, &reply, error);
    if (status == DLOCK_OK)
        dlock_node_read_inspect(&reply, holder);
    return status;
}

/*
 * Waiters are subscribed: one connection a client, which stays subscribed for a
 * moment after its last waiter. The server counts them, but knows no names.
 */
enum dlock_status dlock_redisson_waiters(struct dlock_session *session,
                                         const struct dlock_attempt *attempt,
                                         struct dlock_waiting waiters[],
                                         size_t n_max, size_t *n,
                                         struct dlock_error *error)
{
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status;

    dlock_command_init(&command, "pubsub-numsub", attempt->name, NULL);
    command.repeatable = true;
    dlock_command_arg(&command, "PUBSUB");
    dlock_command_arg(&command, "NUMSUB");
    dlock_command_derived(&command, dlock_node_plain.channel, "");
    status =
        dlock_call(session->wire, &command, attempt->limit_ms, &reply, error);
    if (status != DLOCK_OK)
        return status;
    *n = reply.integers_n > 0 ? (size_t)reply.integers[0] : 0;
    for (size_t i = 0; i < n_max && i < *n; i++)
        waiters[i].owner[0] = '\0';
    return DLOCK_OK;
}

void *dlock_redisson_watch(struct dlock_session *session, const char *name)
{
    char channel[DLOCK_KEY_BYTES_MAX + 1];

    dlock_key_derive(channel, name, dlock_node_plain.channel, "");
    return dlock_wakeup_join(session->client->wakeup, name, channel);
}

uint64_t dlock_redisson_arm(struct dlock_session *session, void *watched,
                            uint64_t until_ms,
                            const struct dlock_wake_call *call)
{
    return dlock_wakeup_arm(session->client->wakeup, watched, until_ms, call);
}

void dlock_redisson_disarm(struct dlock_session *session, void *watched)
{
    dlock_wakeup_disarm(session->client->wakeup, watched);
}

void dlock_redisson_unwatch(struct dlock_session *session, void *watched,
                            bool unused)
{
    dlock_wakeup_leave(session->client->wakeup, watched, unused);
}

void dlock_redisson_wake_all(struct dlock *client)
{
    dlock_wakeup_all(client->wakeup);
}

const struct dlock_strategy dlock_strategy_redisson = {
    .info = {.name = "redisson",
             .claim = "One holder while its lease runs, renewed while it "
                      "lives; re-entrant; waiters are woken.",
             .capabilities = DLOCK_REDISSON_CAPABILITIES},
    .variant = &dlock_node_plain,
    DLOCK_REDISSON_FUNCTIONS,
    .watch = dlock_redisson_watch,
    .waiters = dlock_redisson_waiters,
};
