/*
 * What a session does: acquire, extend, release, inspect, and the order of
 * things around a strategy's own work:
 *
 *     acquire   register renewal - try and wait (wait.c) - confirm renewal
 *     release   cancel renewal - release
 *
 * Renewal ends before the release is sent, not after its reply: if the reply
 * never comes, a renewal still running would hold the lock for ever. Ending it
 * costs nothing, since two thirds of the lease are left at that point.
 *
 * Attempts are numbered here, outside of all re-sending, so that the scripts
 * can tell a copy from a second attempt.
 */
#include <stdio.h>
#include <string.h>

#include "lock/check.h"
#include "lock/clock.h"
#include "lock/error.h"
#include "lock/strategy.h"
#include "lock/wait.h"

/* Whether the strategy has this capability. */
static bool can(const struct dlock_session *session,
                enum dlock_capability capability)
{
    return (session->client->strategy->info.capabilities &
            (unsigned)capability) != 0;
}

static const char null_text[] = "an argument is NULL";

/* Lease time by which a command has to be answered, from now. */
static uint64_t limit(const struct dlock_session *session, unsigned timeouts_n,
                      unsigned wait_ms)
{
    const struct dlock *client = session->client;

    return dlock_clock_now(client->clock) + wait_ms +
           (uint64_t)timeouts_n * client->wire.command_timeout_ms;
}

/* Doubts: attempts without an answer ------------------------------------- */

/* Whether DOUBT is about this very name and hold. */
static bool doubts(const struct dlock_doubt *doubt, const char *name,
                   unsigned holds)
{
    return doubt->number != 0 && doubt->holds == holds &&
           strcmp(doubt->name, name) == 0;
}

/*
 * Books how an attempt ended. Only the doubt about the last name is kept: an
 * older one is left to the end of its lease.
 */
static void note_doubt(struct dlock_doubt *doubt, const char *name,
                       unsigned holds, uint64_t number,
                       enum dlock_status status)
{
    bool known = doubts(doubt, name, holds);

    if (status == DLOCK_UNKNOWN && !known) {
        doubt->number = number;
        doubt->holds = holds;
        (void)snprintf(doubt->name, sizeof(doubt->name), "%s", name);
    } else if (known && (status == DLOCK_OK || status == DLOCK_LOST)) {
        doubt->number = 0;
    }
}

/* Acquire ------------------------------------------------------------------ */

/* Waits for the lock, with the renewal around it if the terms ask for it. */
static enum dlock_status take(struct dlock_session *session,
                              const struct dlock_attempt *attempt,
                              const struct dlock_terms *terms,
                              struct dlock_grant *grant,
                              struct dlock_error *error)
{
    struct dlock_watchdog *watchdog = session->client->watchdog;
    struct dlock_renewal *renewal = NULL;
    uint64_t now = dlock_clock_now(session->client->clock);
    uint64_t granted_at_ms = 0;
    enum dlock_status status;

    if (terms->lease_ms == 0 && can(session, DLOCK_CAP_RENEW)) {
        renewal =
            dlock_watchdog_register(watchdog, attempt->name, session->owner);
        if (renewal == NULL)
            return dlock_error_set(error, DLOCK_UNREACHABLE,
                                   "no memory or no thread to renew with");
    }
    status = dlock_wait_acquire(session, attempt, now + terms->wait_ms, grant,
                                &granted_at_ms, error);
    if (renewal != NULL && status == DLOCK_OK)
        dlock_watchdog_confirm(watchdog, renewal, grant->holds, granted_at_ms,
                               terms->max_hold_ms);
    else
        dlock_watchdog_discard(watchdog, renewal);
    return status;
}

/* Numbers the attempt, and tells it what is in doubt about this name. */
static void fill_attempt(struct dlock_session *session, const char *name,
                         const struct dlock_terms *terms,
                         struct dlock_attempt *attempt)
{
    const struct dlock_doubt *doubt = &session->acquire_doubt;

    attempt->name = name;
    attempt->number = ++session->attempts_n;
    attempt->doubt = doubts(doubt, name, 0) ? doubt->number : 0;
    attempt->lease_ms = terms->lease_ms != 0
                            ? terms->lease_ms
                            : session->client->watchdog_lease_ms;
    attempt->fence_floor = terms->fence_floor;
    attempt->limit_ms = limit(session, 1, terms->wait_ms);
}

enum dlock_status dlock_acquire(struct dlock_session *session, const char *name,
                                const struct dlock_terms *terms,
                                struct dlock_grant *grant,
                                struct dlock_error *error)
{
    struct dlock_error detail = {""};
    struct dlock_attempt attempt;
    struct dlock_grant made = {.holds = 0};
    enum dlock_status status;

    if (session == NULL || terms == NULL || grant == NULL)
        return dlock_error_set(error, DLOCK_MISUSE, "acquire: %s", null_text);
    status = dlock_check_name(name, &detail);
    if (status == DLOCK_OK)
        status = dlock_check_terms(terms, &detail);
    if (status != DLOCK_OK)
        return dlock_error_report(error, status, "acquire", &detail);
    fill_attempt(session, name, terms, &attempt);
    status = take(session, &attempt, terms, &made, &detail);
    note_doubt(&session->acquire_doubt, name, 0, attempt.number, status);
    if (status == DLOCK_BUSY) {
        detail.text[0] = '\0';
        status = terms->wait_ms > 0 ? DLOCK_TIMEOUT : DLOCK_BUSY;
    }
    if (status != DLOCK_OK)
        return dlock_error_report(error, status, "acquire", &detail);
    (void)snprintf(made.name, sizeof(made.name), "%s", name);
    (void)snprintf(made.owner, sizeof(made.owner), "%s", session->owner);
    /* A new grant: a release in doubt was of an older one. */
    if (strcmp(session->release_doubt.name, name) == 0)
        session->release_doubt.number = 0;
    *grant = made;
    return DLOCK_OK;
}

/* Extend, release, inspect ------------------------------------------------- */

enum dlock_status dlock_extend(struct dlock_session *session,
                               struct dlock_grant *grant, unsigned lease_ms,
                               struct dlock_error *error)
{
    struct dlock_error detail = {""};
    struct dlock_attempt attempt = {.lease_ms = lease_ms};
    enum dlock_status status;
    uint64_t deadline_ms;

    if (session == NULL || grant == NULL)
        return dlock_error_set(error, DLOCK_MISUSE, "extend: %s", null_text);
    status = dlock_check_name(grant->name, &detail);
    if (status == DLOCK_OK)
        status = dlock_check_lease(lease_ms, &detail);
    if (status == DLOCK_OK && !can(session, DLOCK_CAP_LEASE))
        status =
            dlock_error_set(&detail, DLOCK_MISUSE, "strategy %s has no leases",
                            session->client->strategy->info.name);
    if (status != DLOCK_OK)
        return dlock_error_report(error, status, "extend", &detail);
    attempt.name = grant->name;
    attempt.limit_ms = limit(session, 2, 0);
    deadline_ms = dlock_clock_now(session->client->clock) + lease_ms;
    status = session->client->strategy->extend(session, &attempt, &detail);
    if (status != DLOCK_OK)
        return dlock_error_report(error, status, "extend", &detail);
    grant->deadline_ms = deadline_ms;
    if (session->client->watchdog != NULL)
        dlock_watchdog_reset(session->client->watchdog,
                             &(struct dlock_hold){.name = grant->name,
                                                  .owner = session->owner,
                                                  .holds = grant->holds},
                             deadline_ms);
    return DLOCK_OK;
}

/*
 * The number of a release: a new one, unless the last release of this very hold
 * got no answer. Then this is the same release once more, and must not be told
 * that the lock was lost because the first one had worked.
 */
static uint64_t release_number(struct dlock_session *session,
                               const struct dlock_grant *grant)
{
    const struct dlock_doubt *doubt = &session->release_doubt;

    if (doubts(doubt, grant->name, grant->holds))
        return doubt->number;
    return ++session->attempts_n;
}

enum dlock_status dlock_release(struct dlock_session *session,
                                const struct dlock_grant *grant,
                                struct dlock_error *error)
{
    struct dlock_error detail = {""};
    struct dlock_attempt attempt = {.number = 0};
    enum dlock_status status;

    if (session == NULL || grant == NULL)
        return dlock_error_set(error, DLOCK_MISUSE, "release: %s", null_text);
    status = dlock_check_name(grant->name, &detail);
    if (status != DLOCK_OK)
        return dlock_error_report(error, status, "release", &detail);
    if (session->client->watchdog != NULL)
        dlock_watchdog_cancel(session->client->watchdog,
                              &(struct dlock_hold){.name = grant->name,
                                                   .owner = session->owner,
                                                   .holds = grant->holds});
    attempt.name = grant->name;
    attempt.number = release_number(session, grant);
    /* Two timeouts: room for one more try if the first gets no reply. */
    attempt.limit_ms = limit(session, 2, 0);
    status = session->client->strategy->release(session, &attempt, &detail);
    note_doubt(&session->release_doubt, grant->name, grant->holds,
               attempt.number, status);
    return dlock_error_report(error, status, "release", &detail);
}

enum dlock_status dlock_inspect(struct dlock_session *session, const char *name,
                                struct dlock_holder *holder,
                                struct dlock_error *error)
{
    struct dlock_error detail = {""};
    struct dlock_holder found = {.held = false};
    struct dlock_attempt attempt = {.name = name};
    const struct dlock_strategy *strategy;
    enum dlock_status status;

    if (session == NULL || holder == NULL)
        return dlock_error_set(error, DLOCK_MISUSE, "inspect: %s", null_text);
    strategy = session->client->strategy;
    if (strategy->inspect == NULL)
        return dlock_error_set(error, DLOCK_MISUSE,
                               "inspect: strategy %s cannot tell",
                               strategy->info.name);
    status = dlock_check_name(name, &detail);
    if (status != DLOCK_OK)
        return dlock_error_report(error, status, "inspect", &detail);
    attempt.limit_ms = limit(session, 1, 0);
    status = strategy->inspect(session, &attempt, &found, &detail);
    if (status == DLOCK_OK)
        *holder = found;
    return dlock_error_report(error, status, "inspect", &detail);
}

/* The watchdog knows better than the grant, which is a value of its time. */
uint64_t dlock_remaining_ms(const struct dlock_session *session,
                            const struct dlock_grant *grant)
{
    const struct dlock *client = session->client;
    struct dlock_hold hold = {
        .name = grant->name, .owner = grant->owner, .holds = grant->holds};
    uint64_t deadline_ms = grant->deadline_ms;

    if (client->watchdog != NULL)
        (void)dlock_watchdog_deadline(client->watchdog, &hold, &deadline_ms);
    return dlock_clock_until(client->clock, deadline_ms);
}
