/*
 * Looking at locks, and the operator's way to end one: none of this needs to
 * hold anything.
 */
#include "lock/core/error.h"
#include "lock/core/session.h"

static enum dlock_status cannot(const struct dlock_session *session,
                                const char *call, struct dlock_error *error)
{
    return dlock_error_set(error, DLOCK_MISUSE, "%s: strategy %s cannot", call,
                           session->client->strategy->info.name);
}

/* The name is fit for CALL, and the session is entered. */
static enum dlock_status begin(struct dlock_session *session, const char *call,
                               const char *name, struct dlock_attempt *attempt,
                               struct dlock_error *error)
{
    struct dlock_error detail = {""};
    enum dlock_status status = dlock_check_name(name, &detail);

    if (status != DLOCK_OK)
        return dlock_error_report(error, status, call, &detail);
    *attempt = (struct dlock_attempt){.session = session, .name = name};
    attempt->limit_ms = dlock_session_limit(session, 1, 0);
    return dlock_session_enter(session, call, error);
}

enum dlock_status dlock_inspect(struct dlock_session *session, const char *name,
                                struct dlock_holder *holder,
                                struct dlock_error *error)
{
    struct dlock_error detail = {""};
    struct dlock_holder found = {.holds = 1, .remaining_ms = UINT64_MAX};
    struct dlock_attempt attempt;
    const struct dlock_strategy *strategy;
    enum dlock_status status;

    if (session == NULL || holder == NULL)
        return dlock_error_set(error, DLOCK_MISUSE,
                               "inspect: an argument is NULL");
    strategy = session->client->strategy;
    if (strategy->inspect == NULL)
        return cannot(session, "inspect", error);
    status = begin(session, "inspect", name, &attempt, error);
    if (status != DLOCK_OK)
        return status;
    status = strategy->inspect(&attempt, &found, &detail);
    dlock_session_leave(session);
    if (status == DLOCK_OK)
        *holder = found.held ? found : (struct dlock_holder){.held = false};
    return dlock_error_report(error, status, "inspect", &detail);
}

enum dlock_status dlock_inspect_waiters(struct dlock_session *session,
                                        const char *name,
                                        struct dlock_waiting waiters[],
                                        size_t n_max, size_t *n,
                                        struct dlock_error *error)
{
    struct dlock_error detail = {""};
    struct dlock_attempt attempt;
    const struct dlock_strategy *strategy;
    enum dlock_status status;
    size_t found = 0;

    if (session == NULL || n == NULL || (waiters == NULL && n_max > 0))
        return dlock_error_set(error, DLOCK_MISUSE,
                               "waiters: an argument is NULL");
    strategy = session->client->strategy;
    if (strategy->waiters == NULL)
        return cannot(session, "waiters", error);
    status = begin(session, "waiters", name, &attempt, error);
    if (status != DLOCK_OK)
        return status;
    status = strategy->waiters(&attempt, waiters, n_max, &found, &detail);
    dlock_session_leave(session);
    if (status == DLOCK_OK)
        *n = found;
    return dlock_error_report(error, status, "waiters", &detail);
}

enum dlock_status dlock_force_release(struct dlock_session *session,
                                      const char *name,
                                      struct dlock_error *error)
{
    struct dlock_error detail = {""};
    struct dlock_attempt attempt;
    const struct dlock_strategy *strategy;
    enum dlock_status status;

    if (session == NULL)
        return dlock_error_set(error, DLOCK_MISUSE, "force: no session");
    strategy = session->client->strategy;
    if (strategy->force == NULL)
        return cannot(session, "force", error);
    status = begin(session, "force", name, &attempt, error);
    if (status != DLOCK_OK)
        return status;
    status = strategy->force(&attempt, &detail);
    dlock_session_leave(session);
    if (status == DLOCK_LOST)
        return dlock_error_set(error, status, "force: nobody holds it");
    return dlock_error_report(error, status, "force", &detail);
}
