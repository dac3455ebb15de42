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

/* Numbers the attempt, and tells it what the session has of this name. */
static void fill_attempt(struct dlock_session *session, const char *name,
                         const struct dlock_terms *terms,
                         struct dlock_attempt *attempt)
{
    attempt->name = name;
    attempt->number = ++session->attempts_n;
    attempt->holds = dlock_book_holds(&session->book, name);
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
    if (dlock_book_need(&session->book, name))
        status = take(session, &attempt, terms, &made, &detail);
    else
        status = dlock_error_set(&detail, DLOCK_UNREACHABLE, "out of memory");
    dlock_book_set(&session->book, name,
                   status == DLOCK_OK ? made.holds : attempt.holds);
    if (status == DLOCK_BUSY) {
        detail.text[0] = '\0';
        status = terms->wait_ms > 0 ? DLOCK_TIMEOUT : DLOCK_BUSY;
    }
    if (status != DLOCK_OK)
        return dlock_error_report(error, status, "acquire", &detail);
    (void)snprintf(made.name, sizeof(made.name), "%s", name);
    (void)snprintf(made.owner, sizeof(made.owner), "%s", session->owner);
    /* A new grant: a release in doubt was of an older one. */
    if (strcmp(session->doubt.name, name) == 0)
        session->doubt.number = 0;
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

/* Whether this very release was called before and got no answer. */
static bool is_repeated(const struct dlock_session *session,
                        const struct dlock_grant *grant)
{
    const struct dlock_doubt *doubt = &session->doubt;

    return doubt->number != 0 && doubt->holds == grant->holds &&
           strcmp(doubt->name, grant->name) == 0;
}

/*
 * A repeated release keeps its number and its count, so that it is not told
 * that the lock was lost because the first one had worked. Only the last one
 * in doubt is known; an older one may be told so.
 */
static void fill_release(struct dlock_session *session,
                         const struct dlock_grant *grant,
                         struct dlock_attempt *attempt)
{
    unsigned holds = dlock_book_holds(&session->book, grant->name);
    bool repeated = is_repeated(session, grant);

    attempt->name = grant->name;
    attempt->number = repeated ? session->doubt.number : ++session->attempts_n;
    attempt->holds = repeated || holds == 0 ? holds : holds - 1;
    /* Two timeouts: room for one more try if the first gets no reply. */
    attempt->limit_ms = limit(session, 2, 0);
    dlock_book_set(&session->book, grant->name, attempt->holds);
}

static void note_doubt(struct dlock_session *session,
                       const struct dlock_grant *grant, uint64_t number,
                       enum dlock_status status)
{
    struct dlock_doubt *doubt = &session->doubt;

    if (status == DLOCK_UNKNOWN || status == DLOCK_UNREACHABLE) {
        doubt->number = number;
        doubt->holds = grant->holds;
        (void)snprintf(doubt->name, sizeof(doubt->name), "%s", grant->name);
    } else if (is_repeated(session, grant)) {
        doubt->number = 0;
    }
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
    fill_release(session, grant, &attempt);
    status = session->client->strategy->release(session, &attempt, &detail);
    note_doubt(session, grant, attempt.number, status);
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
