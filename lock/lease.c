/*
 * Leases: setting one anew, and what is left of it. The watchdog does so by
 * itself (renewal.c); here the holder does.
 */
#include "lock/check.h"
#include "lock/clock.h"
#include "lock/error.h"
#include "lock/session.h"

static bool has_leases(const struct dlock_session *session)
{
    const struct dlock_strategy *strategy = session->client->strategy;

    return (strategy->info.capabilities & DLOCK_CAP_LEASE) != 0;
}

enum dlock_status dlock_extend(struct dlock_session *session,
                               struct dlock_grant *grant, unsigned lease_ms,
                               struct dlock_error *error)
{
    struct dlock_error detail = {""};
    struct dlock_attempt attempt = {.lease_ms = lease_ms};
    enum dlock_status status;
    uint64_t deadline_ms;

    if (session == NULL || grant == NULL)
        return dlock_error_set(error, DLOCK_MISUSE,
                               "extend: an argument is NULL");
    status = dlock_check_name(grant->name, &detail);
    if (status == DLOCK_OK)
        status = dlock_check_lease(lease_ms, &detail);
    if (status == DLOCK_OK && !has_leases(session))
        status =
            dlock_error_set(&detail, DLOCK_MISUSE, "strategy %s has no leases",
                            session->client->strategy->info.name);
    if (status == DLOCK_OK)
        status = dlock_session_enter(session, "extend", &detail);
    if (status != DLOCK_OK)
        return dlock_error_report(error, status, "extend", &detail);
    attempt.name = grant->name;
    attempt.holds = dlock_book_holds(&session->book, grant->name);
    attempt.limit_ms = dlock_session_limit(session, 2, 0);
    deadline_ms = dlock_clock_now(session->client->clock) +
                  dlock_valid_ms(session->client->strategy, lease_ms);
    if (dlock_session_outlived(session, grant))
        status = DLOCK_LOST;
    else
        status = session->client->strategy->extend(session, &attempt, &detail);
    dlock_session_leave(session);
    if (status != DLOCK_OK)
        return dlock_error_report(error, status, "extend", &detail);
    grant->deadline_ms = deadline_ms;
    if (session->client->watchdog != NULL)
        dlock_watchdog_reset(session->client->watchdog, session->owner,
                             grant->attempt, deadline_ms);
    return DLOCK_OK;
}

/* The watchdog knows better than the grant, which is a value of its time. */
uint64_t dlock_remaining_ms(const struct dlock_session *session,
                            const struct dlock_grant *grant)
{
    const struct dlock *client = session->client;
    uint64_t deadline_ms = grant->deadline_ms;

    if (client->strategy->remaining != NULL)
        return client->strategy->remaining(session, grant);
    if (client->watchdog != NULL)
        (void)dlock_watchdog_deadline(client->watchdog, grant->owner,
                                      grant->attempt, &deadline_ms);
    return dlock_clock_until(client->clock, deadline_ms);
}
