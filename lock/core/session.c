/*
 * The calls of a session, and the order of things around a strategy's own work:
 *
 *     acquire   reserve the grant - try and wait (wait.c) - add it, renewed from now on
 *     release   end its renewal - release
 *
 * Renewal ends before the release is sent, because without a reply a renewal that runs
 * would hold the lock for ever; and two thirds of the lease are left at that point.
 */
#include <pthread.h>
#include <stdio.h>

#include "lock/core/held.h"
#include "lock/core/session.h"

/* Whether the strategy has this capability. */
static bool can(const struct dlock_session *session,
                enum dlock_capability capability)
{
    return (session->client->strategy->info.capabilities &
            (unsigned)capability) != 0;
}

/* One thing at a time ------------------------------------------------------ */

enum dlock_status dlock_session_enter(struct dlock_session *session)
{
    int idle = DLOCK_SESSION_IDLE;
    /* `before` goes into the session only after the exchange below, because until then the
     * session may be another thread's. */
    int before = PTHREAD_CANCEL_ENABLE;

    if (!dlock_is_ours(session->client))
        return dlock_error_set(DLOCK_MISUSE, "the session is the parent's");
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    /* The exchange is atomic: of two threads with the same session one gets IDLE, and the
     * other one is refused before it touches the wire or the holds. */
    if (atomic_compare_exchange_strong(&session->state, &idle,
                                       DLOCK_SESSION_CALLING)) {
        session->cancel_state = before;
        return DLOCK_OK;
    }
    (void)pthread_setcancelstate(before, NULL);
    return dlock_error_set(DLOCK_MISUSE, "the session is in another call");
}

void dlock_session_leave(struct dlock_session *session)
{
    /* `before` is read ahead of the store, because after it another thread may enter and
     * write its own. */
    int before = session->cancel_state;

    atomic_store(&session->state, DLOCK_SESSION_IDLE);
    if (before != DLOCK_CANCEL_STATE_KEPT)
        (void)pthread_setcancelstate(before, NULL);
}

/* Release ------------------------------------------------------------------ */

/* A release that was called before, and got no answer, says which one it repeats, so that
 * it is not told that the lock was lost because the first one had worked, and does not
 * give back a second hold. */
enum dlock_status dlock_session_give(struct dlock_session *session,
                                     const struct dlock_grant *grant)
{
    struct dlock_attempt attempt = {.session = session,
                                    .name = grant->name,
                                    .number = dlock_number(session->client)};
    enum dlock_status status;
    bool cut_off = false;

    /* DLOCK_LOST without a command: the session holds the name by a newer grant, which a
     * release for the old one would free. */
    if (!dlock_held_give(session, grant, &attempt, &cut_off))
        return DLOCK_LOST;
    /* Two timeouts: room for one more try if the first gets no reply. Not if the lease is
     * over, and the holder was told that nobody answers. */
    attempt.limit_ms = dlock_session_limit(session, cut_off ? 1 : 2, 0);
    status = dlock_wait_retry(&attempt, session->client->strategy->release);
    /* The hold stays in the list after DLOCK_UNKNOWN, so that the caller's next release of
     * this grant repeats this attempt. */
    dlock_held_given(session, grant->attempt, status);
    return status;
}

enum dlock_status dlock_release(struct dlock_session *session,
                                const struct dlock_grant *grant,
                                struct dlock_error *error)
{
    enum dlock_status status = dlock_check_grant(session, grant);

    if (status == DLOCK_OK)
        status = dlock_session_enter(session);
    if (status == DLOCK_OK) {
        status = dlock_session_give(session, grant);
        dlock_session_leave(session);
    }
    return dlock_error_report(error, status, "release");
}

/* Acquire ------------------------------------------------------------------ */

/* The call has its answer from here on. A cancel that came after the lock was won would
 * leave it held by somebody who does not want it: so it goes back first. */
static enum dlock_status conclude(struct dlock_session *session,
                                  enum dlock_status status,
                                  const struct dlock_grant *grant)
{
    int calling = DLOCK_SESSION_CALLING;

    /* ANSWERED wins over a later dlock_cancel(): a caller that is told DLOCK_OK does
     * hold the lock. If the exchange fails, the cancel came first, and the state is
     * CANCELLED. */
    if (atomic_compare_exchange_strong(&session->state, &calling,
                                       DLOCK_SESSION_ANSWERED))
        return status;
    if (status == DLOCK_OK) {
        status = dlock_session_give(session, grant);
        /* DLOCK_LOST will do as well: in either case the lock is not this session's now. */
        status = status == DLOCK_OK || status == DLOCK_LOST ? DLOCK_TIMEOUT
                                                            : DLOCK_UNKNOWN;
    }
    if (status == DLOCK_TIMEOUT)
        dlock_error_say("cancelled");
    return status;
}

/* Memory is taken here, because nothing is held yet if there is none. */
bool dlock_session_begin(struct dlock_wait *wait, struct dlock_session *session,
                         const char *name, const struct dlock_terms *terms)
{
    const struct dlock *client = session->client;
    /* `now` is read once, so that the deadline of the wait and its first look for a
     * deadlock count from the same moment. */
    uint64_t now = dlock_clock_now(client->clock);
    /* All tries of this wait share the number, so that the server knows a try that is
     * repeated; wait.c draws a new one where the old one would mislead. */
    uint64_t number = dlock_number(session->client);

    /* may_come_late is about this acquire only: after the tries of an older one,
     * dlock_wait_end() has sent a withdraw. */
    session->may_come_late = false;
    *wait = (struct dlock_wait){
        .session = session,
        .strategy = client->strategy,
        .clock = client->clock,
        .terms = terms,
        .deadline_ms = now + terms->wait_ms,
        /* `answered` is false only while a wake-up is owed a try: nobody has been woken so
         * far. */
        .answered = true,
        .number = number,
        .attempt = {.session = session,
                    .name = name,
                    .number = number,
                    .holds = dlock_held_count(session, name),
                    .lease_ms = terms->lease_ms != 0
                                    ? terms->lease_ms
                                    : client->watchdog_lease_ms,
                    .renewed = terms->lease_ms == 0,
                    .fenced = terms->fenced || can(session, DLOCK_CAP_FENCED),
                    .fence_floor = terms->fence_floor,
                    .waits = terms->wait_ms > 0,
                    .limit_ms = dlock_session_limit(session, 1, terms->wait_ms),
                    .grant = &wait->grant,
                    .busy_ms = &wait->busy_ms}};
    /* The look is deferred, because most waits are short, and each look costs the server a
     * walk over all holders. */
    if (terms->deadlock_ms > 0)
        wait->look.at_ms = dlock_clock_after(now, terms->deadlock_ms);
    wait->tries = dlock_held_reserve(
        session, name, wait->attempt.renewed && can(session, DLOCK_CAP_RENEW));
    if (!wait->tries)
        wait->status = dlock_error_set(DLOCK_UNREACHABLE,
                                       "no memory, or no thread to renew with");
    return wait->tries;
}

enum dlock_status dlock_session_end(struct dlock_wait *wait,
                                    struct dlock_grant *grant)
{
    struct dlock_session *session = wait->session;
    const struct dlock_strategy *strategy = wait->strategy;
    struct dlock_grant *made = &wait->grant;
    struct dlock_attempt end = {.session = session, .name = wait->attempt.name};
    enum dlock_status status =
        wait->tries ? dlock_wait_end(wait) : wait->status;
    struct dlock_error kept;

    /* The grant is known by the wait's first number, also if the try that won had a later
     * one: a word of force (held.c) counts for all numbers up to its own. */
    (void)snprintf(made->name, sizeof(made->name), "%s", wait->attempt.name);
    (void)snprintf(made->owner, sizeof(made->owner), "%s", session->owner);
    made->attempt = wait->number;
    /* attempt.holds is 0 if the session held nothing before, or if the server has told
     * meanwhile that those holds are gone (note() in wait.c): none of NAME may count from
     * here on. */
    if (status == DLOCK_OK)
        dlock_held_add(session, made, wait->tried_at_ms,
                       wait->terms->max_hold_ms);
    else if (wait->attempt.holds == 0)
        dlock_held_lost(session, wait->attempt.name);
    /* The `finally` around an acquire: it runs for the losers as well. */
    if (status != DLOCK_OK && strategy->releases_always) {
        end.number = dlock_number(session->client);
        end.limit_ms = dlock_session_limit(session, 1, 0);
        /* `kept` is the text of the failed acquire, which is the one that the caller is to
         * read. */
        kept = dlock_error_take();
        (void)strategy->release(&end);
        dlock_error_put(&kept);
    }
    if (status == DLOCK_BUSY) {
        (void)dlock_error_take();
        status = wait->terms->wait_ms > 0 ? DLOCK_TIMEOUT : DLOCK_BUSY;
    }
    /* conclude() must come last: until then the lock may still go back for a cancel, and
     * dlock_session_give() needs the hold that was added above. */
    status = conclude(session, status, made);
    if (status == DLOCK_OK)
        *grant = *made;
    return status;
}

enum dlock_status dlock_acquire(struct dlock_session *session, const char *name,
                                const struct dlock_terms *terms,
                                struct dlock_grant *grant,
                                struct dlock_error *error)
{
    struct dlock_wait wait;
    enum dlock_status status = dlock_check_acquire(session, name, terms);

    if (status == DLOCK_OK && grant == NULL)
        status = dlock_check_null();
    if (status == DLOCK_OK)
        status = dlock_session_enter(session);
    if (status == DLOCK_OK) {
        if (dlock_session_begin(&wait, session, name, terms))
            /* The wait ends with the last try, won or not; from there on
             * dlock_session_end() knows what is still owed to the server. */
            while (dlock_wait_try(&wait))
                dlock_wait_sleep(&wait);
        status = dlock_session_end(&wait, grant);
        dlock_session_leave(session);
    }
    return dlock_error_report(error, status, "acquire");
}

enum dlock_status dlock_try(struct dlock_session *session, const char *name,
                            const struct dlock_terms *terms,
                            struct dlock_grant *grant,
                            struct dlock_error *error)
{
    struct dlock_terms once = {.wait_ms = 0};

    if (terms != NULL)
        once = *terms;
    once.wait_ms = 0;
    return dlock_acquire(session, name, &once, grant, error);
}

/* Leases ------------------------------------------------------------------- */

/* The lease ends by the answer; without one, it may also have its old end, so the earlier
 * one counts; of a lost one nothing remains. */
static enum dlock_status extend(struct dlock_session *session,
                                struct dlock_grant *grant, unsigned lease_ms)
{
    const struct dlock_clock *clock = session->client->clock;
    const struct dlock_strategy *strategy = session->client->strategy;
    struct dlock_attempt attempt = {
        .session = session,
        .name = grant->name,
        .holds = dlock_held_count(session, grant->name),
        .lease_ms = lease_ms,
        .limit_ms = dlock_session_limit(session, 2, 0)};
    /* The end counts from before the command leaves, because the server starts the lease
     * later: so by our clock it ends first. */
    uint64_t end_ms =
        dlock_clock_now(clock) + dlock_valid_ms(strategy, lease_ms);
    enum dlock_status status;
    bool uncertain;

    /* A grant once found lost stays lost, even if the server would lengthen the lease that
     * another grant of this session has. */
    if (dlock_held_deadline(session, grant) == 0)
        return DLOCK_LOST;
    status = dlock_wait_retry(&attempt, strategy->extend);
    /* DLOCK_LOST ends the lease now, and `uncertain` lets only an earlier end count: a
     * lease can be shortened by it, and never revived. */
    uncertain = status == DLOCK_UNKNOWN || status == DLOCK_LOST;
    if (status == DLOCK_LOST)
        end_ms = dlock_clock_now(clock);
    if (status == DLOCK_OK || uncertain) {
        /* The watchdog's hold comes first, then the caller's copy: dlock_remaining_ms()
         * reads the first one if the watchdog renews it. */
        dlock_held_reset(session, grant->attempt, end_ms, status);
        if (!uncertain || end_ms < grant->deadline_ms)
            grant->deadline_ms = end_ms;
    }
    /* Textbook locks do not ask whether the answer came too late, neither here nor after an
     * acquire. */
    if (status == DLOCK_OK && can(session, DLOCK_CAP_RENEW) &&
        dlock_clock_until(clock, end_ms) == 0)
        return dlock_error_set(DLOCK_LOST,
                               "the answer took longer than the lease");
    return status;
}

enum dlock_status dlock_extend(struct dlock_session *session,
                               struct dlock_grant *grant, unsigned lease_ms,
                               struct dlock_error *error)
{
    enum dlock_status status = dlock_check_grant(session, grant);

    if (status == DLOCK_OK)
        status = dlock_check_lease(lease_ms);
    if (status == DLOCK_OK && !can(session, DLOCK_CAP_LEASE))
        status = dlock_error_set(DLOCK_MISUSE, "strategy %s has no leases",
                                 session->client->strategy->info.name);
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

    /* The text of the check must not stay: this call reports no error, and the next one
     * that fails would tell it. */
    if (dlock_check_grant(session, grant) != DLOCK_OK ||
        !dlock_is_ours(session->client)) {
        (void)dlock_error_take();
        return 0;
    }
    client = session->client;
    deadline_ms = dlock_held_deadline(session, grant);
    /* A hold that is over counts as lost even where the strategy's own connection is
     * well. */
    if (deadline_ms > 0 && client->strategy->remaining != NULL)
        return client->strategy->remaining(session, grant);
    return dlock_clock_until(client->clock, deadline_ms);
}

/* Looks, and an operator's force: they need to hold nothing ------------------ */

/* NAME is fit for a call, which the strategy is able to do, and the session is entered. */
static enum dlock_status begin_look(struct dlock_session *session,
                                    const char *name, bool is_able,
                                    struct dlock_attempt *attempt)
{
    enum dlock_status status = dlock_check_name(name);

    if (!is_able)
        status = dlock_error_set(DLOCK_MISUSE, "strategy %s cannot",
                                 session->client->strategy->info.name);
    /* *ATTEMPT is filled in any case, so that no caller can read it half made. */
    *attempt = (struct dlock_attempt){.session = session, .name = name};
    if (status != DLOCK_OK)
        return status;
    /* One timeout is enough: the caller of a look, or of a force, holds nothing by it, and
     * can ask again. */
    attempt->limit_ms = dlock_session_limit(session, 1, 0);
    return dlock_session_enter(session);
}

enum dlock_status dlock_inspect(struct dlock_session *session, const char *name,
                                struct dlock_holder *holder,
                                struct dlock_error *error)
{
    /* FOUND begins with the answer of a lock without holds and without leases; the strategy
     * overwrites what it knows. */
    struct dlock_holder found = {.holds = 1, .remaining_ms = UINT64_MAX};
    const struct dlock_strategy *strategy;
    struct dlock_attempt attempt;
    enum dlock_status status;

    if (session == NULL || holder == NULL)
        return dlock_error_report(error, dlock_check_null(), "inspect");
    strategy = session->client->strategy;
    status = begin_look(session, name, strategy->inspect != NULL, &attempt);
    if (status == DLOCK_OK) {
        status = strategy->inspect(&attempt, &found);
        dlock_session_leave(session);
    }
    if (status == DLOCK_OK)
        /* A name that is free has no holds and no end: the values that FOUND began with
         * must not leak. */
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
    status = begin_look(session, name, strategy->waiters != NULL, &attempt);
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
    status = begin_look(session, name, strategy->force != NULL, &attempt);
    if (status == DLOCK_OK) {
        status = strategy->force(&attempt);
        dlock_session_leave(session);
    }
    if (status == DLOCK_LOST)
        dlock_error_say("nobody holds it");
    return dlock_error_report(error, status, "force");
}
