/*
 * Leases: setting one anew, and what is left of it. The watchdog does so by
 * itself (watchdog.c); here the holder does.
 */
#include "lock/core/clock.h"
#include "lock/core/error.h"
#include "lock/core/session.h"
#include "lock/core/watchdog.h"

/* UNCERTAIN: the lease may also have its old end, so the earlier one counts. */
static void set_deadline(const struct dlock_session *session,
                         struct dlock_grant *grant, uint64_t deadline_ms,
                         bool uncertain)
{
    if (session->client->watchdog != NULL)
        dlock_watchdog_reset(session->client->watchdog, session->owner,
                             grant->attempt, deadline_ms, uncertain);
    if (!uncertain || deadline_ms < grant->deadline_ms)
        grant->deadline_ms = deadline_ms;
}

/* The end of the lease, by the answer or by the lack of one. */
static enum dlock_status settle(const struct dlock_session *session,
                                struct dlock_grant *grant, uint64_t deadline_ms,
                                enum dlock_status status)
{
    const struct dlock *client = session->client;
    bool renewable =
        (client->strategy->info.capabilities & DLOCK_CAP_RENEW) != 0;

    if (status == DLOCK_OK || status == DLOCK_UNKNOWN)
        set_deadline(session, grant, deadline_ms, status == DLOCK_UNKNOWN);
    if (status == DLOCK_LOST) /* of it nothing remains */
        set_deadline(session, grant, dlock_clock_now(client->clock), true);
    /* As of an acquire: textbook locks do not ask. */
    if (status == DLOCK_OK && renewable &&
        dlock_clock_until(client->clock, deadline_ms) == 0)
        return dlock_error_set(DLOCK_LOST,
                               "the answer took longer than the lease");
    return status;
}

static enum dlock_status extend(struct dlock_session *session,
                                struct dlock_grant *grant, unsigned lease_ms)
{
    const struct dlock_strategy *strategy = session->client->strategy;
    struct dlock_attempt attempt = {
        .session = session,
        .name = grant->name,
        .holds = dlock_held_count(&session->held, grant->name),
        .lease_ms = lease_ms,
        .limit_ms = dlock_session_limit(session, 2, 0)};
    uint64_t deadline_ms = dlock_clock_now(session->client->clock) +
                           dlock_valid_ms(strategy, lease_ms);

    if (dlock_session_superseded(session, grant))
        return DLOCK_LOST;
    return settle(session, grant, deadline_ms,
                  dlock_wait_retry(&attempt, strategy->extend));
}

enum dlock_status dlock_extend(struct dlock_session *session,
                               struct dlock_grant *grant, unsigned lease_ms,
                               struct dlock_error *error)
{
    const struct dlock_strategy_info *info;
    enum dlock_status status = dlock_check_grant(session, grant);

    if (status != DLOCK_OK)
        return dlock_error_report(error, status, "extend");
    info = &session->client->strategy->info;
    status = dlock_check_lease(lease_ms);
    if (status == DLOCK_OK && (info->capabilities & DLOCK_CAP_LEASE) == 0)
        status = dlock_error_set(DLOCK_MISUSE, "strategy %s has no leases",
                                 info->name);
    if (status == DLOCK_OK)
        status = dlock_session_enter(session);
    if (status == DLOCK_OK) {
        status = extend(session, grant, lease_ms);
        dlock_session_leave(session);
    }
    return dlock_error_report(error, status, "extend");
}

/* The watchdog knows better than the grant, which is a value of its time. */
uint64_t dlock_remaining_ms(const struct dlock_session *session,
                            const struct dlock_grant *grant)
{
    const struct dlock *client;
    uint64_t deadline_ms;

    if (dlock_check_grant(session, grant) != DLOCK_OK ||
        !dlock_is_ours(session->client)) {
        (void)dlock_error_take();
        return 0;
    }
    client = session->client;
    if (dlock_session_superseded(session, grant))
        return 0;
    deadline_ms = grant->deadline_ms;
    if (client->strategy->remaining != NULL)
        return client->strategy->remaining(session, grant);
    if (client->watchdog != NULL)
        dlock_watchdog_deadline(client->watchdog, grant->owner, grant->attempt,
                                &deadline_ms);
    return dlock_clock_until(client->clock, deadline_ms);
}
