/*
 * Looking at locks, and the operator's way to end one: none of this needs to
 * hold anything.
 */
#include "lock/core/error.h"
#include "lock/core/session.h"

/* NAME is fit for a call, which the strategy CAN, and the session is entered. */
static enum dlock_status begin(struct dlock_session *session, const char *name,
                               bool can, struct dlock_attempt *attempt)
{
    enum dlock_status status = dlock_check_name(name);

    if (!can)
        status = dlock_error_set(DLOCK_MISUSE, "strategy %s cannot",
                                 session->client->strategy->info.name);
    *attempt = (struct dlock_attempt){.session = session, .name = name};
    if (status != DLOCK_OK)
        return status;
    attempt->limit_ms = dlock_session_limit(session, 1, 0);
    return dlock_session_enter(session);
}

enum dlock_status dlock_inspect(struct dlock_session *session, const char *name,
                                struct dlock_holder *holder,
                                struct dlock_error *error)
{
    struct dlock_holder found = {.holds = 1, .remaining_ms = UINT64_MAX};
    const struct dlock_strategy *strategy;
    struct dlock_attempt attempt;
    enum dlock_status status;

    if (session == NULL || holder == NULL)
        return dlock_error_report(error, dlock_check_null(), "inspect");
    strategy = session->client->strategy;
    status = begin(session, name, strategy->inspect != NULL, &attempt);
    if (status == DLOCK_OK) {
        status = strategy->inspect(&attempt, &found);
        dlock_session_leave(session);
    }
    if (status == DLOCK_OK)
        *holder = found.held ? found : (struct dlock_holder){.held = false};
    return dlock_error_report(error, status, "inspect");
}

enum dlock_status dlock_inspect_waiters(struct dlock_session *session,
                                        const char *name,
                                        struct dlock_waiting waiters[],
                                        size_t n_max, size_t *n,
                                        struct dlock_error *error)
{
    const struct dlock_strategy *strategy;
    struct dlock_attempt attempt;
    enum dlock_status status;
    size_t found = 0;

    if (session == NULL || n == NULL || (waiters == NULL && n_max > 0))
        return dlock_error_report(error, dlock_check_null(), "waiters");
    strategy = session->client->strategy;
    status = begin(session, name, strategy->waiters != NULL, &attempt);
    if (status == DLOCK_OK) {
        status = strategy->waiters(&attempt, waiters, n_max, &found);
        dlock_session_leave(session);
    }
    if (status == DLOCK_OK)
        *n = found;
    return dlock_error_report(error, status, "waiters");
}

enum dlock_status dlock_force_release(struct dlock_session *session,
                                      const char *name,
                                      struct dlock_error *error)
{
    const struct dlock_strategy *strategy;
    struct dlock_attempt attempt;
    enum dlock_status status;

    if (session == NULL)
        return dlock_error_report(error, dlock_check_null(), "force");
    strategy = session->client->strategy;
    status = begin(session, name, strategy->force != NULL, &attempt);
    if (status == DLOCK_OK) {
        status = strategy->force(&attempt);
        dlock_session_leave(session);
    }
    if (status == DLOCK_LOST)
        dlock_error_say("nobody holds it");
    return dlock_error_report(error, status, "force");
}
