/*
 * Waiting for a lock.
 *
 * There are two ways. Strategies that can wake a waiter do so: try, subscribe,
 * try AGAIN, and only then sleep, because a release between the first try and
 * the subscription told nobody. The sleep ends at a wake-up, or when the
 * holder's lease would run out, since the dead do not publish.
 *
 * All others are polled. A lock that is a bare key tells nobody that it has
 * gone; looking again and again is all that its waiters can do. They pay for it
 * twice: in commands per second that do nothing, and in fairness, since
 * whoever happens to look next gets it. The pause between two looks is random,
 * so that waiters that started together do not stay in step.
 *
 * A server that does not answer, or refuses, is waited for as well, whatever the
 * reason: it may be back within the wait, or somebody may repair what is wrong.
 * The pauses grow, and are random, since everybody comes back at once.
 *
 * A try without an answer may have got the lock. The next one has the same
 * number, by which the server knows it for a copy, and says what came of the
 * first; so the grant counts from the first one. Only when all is over, and
 * nothing has come of it, what may have been got is taken back.
 */
#include "lock/wait.h"

#include "lock/clock.h"
#include "lock/error.h"
#include "lock/session.h"

enum {
    POLL_MIN_US =
        500, /* below, a waiter is a burden to the holder's commands */
    POLL_MAX_US = 2000,
    NAP_US = 5000,      /* after so long, a sleeper looks if it is to go on */
    SILENT_MIN_MS = 10, /* after a try without an answer, and then twice, ... */
    SILENT_DOUBLINGS = 6,
};

struct attempt_state {
    struct dlock_session *session;
    const struct dlock_strategy *strategy;
    const struct dlock_clock *clock;
    struct dlock_attempt attempt; /* its number rises when it was answered */
    uint64_t deadline_ms;
    uint64_t tried_at_ms; /* before the last try, or the one that it repeats */
    uint64_t busy_ms;     /* the holder has at most so long, ... */
    uint64_t busy_at_ms;  /* ... from here, the end of the last try */
    unsigned silent_n;    /* tries without an answer, in a row */
    bool repeats;         /* the next try is a copy of one that got none */
    bool in_doubt;        /* we may have it */
    bool may_come_late;   /* or get it, by a try of which nothing was heard */
    struct dlock_grant *grant;
};

/* From one half of it to all of it, as the dice fall. */
static uint64_t silent_pause_ms(const struct dlock_clock *clock,
                                unsigned silent_n)
{
    unsigned doublings =
        silent_n - 1 < SILENT_DOUBLINGS ? silent_n - 1 : SILENT_DOUBLINGS;
    uint64_t half = (uint64_t)SILENT_MIN_MS << doublings >> 1;
    uint16_t dice = 0;

    clock->random(clock->ctx, &dice, sizeof(dice));
    return half + half * dice / UINT16_MAX;
}

static bool is_silent(enum dlock_status status)
{
    return status == DLOCK_UNREACHABLE || status == DLOCK_UNKNOWN;
}

/* Of a grant by the try that begins now, if it says nothing else itself. */
static uint64_t lease_end(const struct attempt_state *state)
{
    if ((state->strategy->info.capabilities & DLOCK_CAP_LEASE) == 0)
        return UINT64_MAX;
    return dlock_clock_after(
        state->tried_at_ms,
        dlock_valid_ms(state->strategy, state->attempt.lease_ms));
}

static void renumber(struct attempt_state *state)
{
    state->attempt.number = dlock_number(state->session->client);
    state->repeats = false;
}

/*
 * A grant whose lease ended while the answer was on its way is none: somebody
 * else may be inside. It goes back, for the server's clock may be later than
 * ours; after that an old number would be taken for a late copy.
 */
static enum dlock_status give_back(struct attempt_state *state,
                                   struct dlock_error *error)
{
    struct dlock_attempt end = state->attempt;

    end.number = dlock_number(state->session->client);
    end.holds = state->grant->holds - 1;
    /* The time of the acquire may be over; this has a time of its own. */
    end.limit_ms = dlock_session_limit(state->session, 1, 0);
    (void)state->strategy->release(state->session, &end, NULL);
    renumber(state);
    return dlock_error_set(error, DLOCK_LOST,
                           "the answer took longer than the lease");
}

/* Textbook locks do not ask; those that promise to be alone have to. */
static bool is_over(const struct attempt_state *state)
{
    return (state->strategy->info.capabilities & DLOCK_CAP_RENEW) != 0 &&
           dlock_clock_until(state->clock, state->grant->deadline_ms) == 0;
}

/* The server has answered, and it was not yes. */
static bool is_open(enum dlock_status status)
{
    return status == DLOCK_BUSY || status == DLOCK_LOST;
}

static bool is_worth_a_try(enum dlock_status status)
{
    return is_open(status) || is_silent(status);
}

/*
 * What a try leaves for the next one to know. A "no" is no doubt any more, and
 * nothing is ours then; but where copies are not known, we may be told of the
 * key that we have put there ourselves. And a first try may still be on its way:
 * if it gets the lock, the next one comes in again, and by a higher number.
 */
static void note(struct attempt_state *state, enum dlock_status status)
{
    bool knows_copies = state->strategy->knows_copies;

    state->silent_n = is_silent(status) ? state->silent_n + 1 : 0;
    if (status == DLOCK_UNKNOWN) {
        state->in_doubt = state->may_come_late = true;
        state->repeats = state->strategy->withdraw != NULL;
    }
    if (status == DLOCK_BUSY && state->repeats) {
        renumber(state);
        state->attempt.holds = 0;
    }
    if (status == DLOCK_LOST || (status == DLOCK_BUSY && knows_copies))
        state->in_doubt = false;
    if (status == DLOCK_LOST)
        state->busy_ms = 0; /* nobody is in the way */
    /* Not from its beginning: of a pause, a slow try would leave nothing. */
    state->busy_at_ms = dlock_clock_now(state->clock);
}

static enum dlock_status try_once(struct attempt_state *state,
                                  struct dlock_error *error)
{
    enum dlock_status status;

    /* What the first try may have got is over: no use in being told of it. */
    if (state->repeats &&
        dlock_clock_until(state->clock, lease_end(state)) == 0)
        renumber(state);
    /* Read before the command leaves: our lease must end first, by our clock. */
    if (!state->repeats)
        state->tried_at_ms = dlock_clock_now(state->clock);
    state->busy_ms = UINT64_MAX;
    state->grant->deadline_ms = lease_end(state);
    status = state->strategy->acquire(state->session, &state->attempt,
                                      state->grant, &state->busy_ms, error);
    /* A lock that counts may have counted the try that it did not answer. */
    if (status == DLOCK_OK && state->in_doubt &&
        state->grant->holds > state->attempt.holds + 1)
        state->grant->holds = state->attempt.holds + 1;
    if (status == DLOCK_OK && is_over(state))
        status = give_back(state, error);
    note(state, status);
    return status;
}

static bool has_time(const struct attempt_state *state)
{
    return !dlock_wait_ended(state->session) &&
           dlock_clock_until(state->clock, state->deadline_ms) > 0;
}

static uint64_t poll_pause_us(const struct attempt_state *state, unsigned look)
{
    uint64_t left_us =
        1000 * dlock_clock_until(state->clock, state->deadline_ms);
    uint16_t dice = 0;
    uint64_t pause;

    state->clock->random(state->clock->ctx, &dice, sizeof(dice));
    if (state->strategy->pause_us != NULL)
        pause = state->strategy->pause_us(look, dice);
    else
        pause = POLL_MIN_US + dice % (POLL_MAX_US - POLL_MIN_US + 1);
    return left_us < pause ? left_us : pause;
}

/* Nobody wakes who polls; who ends its wait has not to wait for it. */
static void nap(const struct attempt_state *state, uint64_t us)
{
    while (us > 0 && !dlock_wait_ended(state->session)) {
        uint64_t part = us < NAP_US ? us : NAP_US;

        dlock_clock_sleep_us(part);
        us -= part;
    }
}

static enum dlock_status poll_lock(struct attempt_state *state,
                                   struct dlock_error *error)
{
    enum dlock_status status = DLOCK_BUSY;

    for (unsigned look = 1; is_open(status) && has_time(state); look++) {
        nap(state, poll_pause_us(state, look));
        if (!dlock_wait_ended(state->session))
            status = try_once(state, error);
    }
    return status;
}

/* One more try, after a while. Nobody could tell when it is worth it. */
static enum dlock_status await_answer(struct attempt_state *state,
                                      enum dlock_status status,
                                      struct dlock_error *error)
{
    uint64_t pause_ms = silent_pause_ms(state->clock, state->silent_n);
    uint64_t left_ms = dlock_clock_until(state->clock, state->deadline_ms);

    nap(state, 1000 * (pause_ms < left_ms ? pause_ms : left_ms));
    return dlock_wait_ended(state->session) ? status : try_once(state, error);
}

/* The end of this sleep: the deadline, or the end of the holder's lease. */
static uint64_t sleep_until(const struct attempt_state *state)
{
    uint64_t free_ms = dlock_clock_after(state->busy_at_ms, state->busy_ms);

    /* The server counts in whole milliseconds: one more, or we come early. */
    free_ms = dlock_clock_after(free_ms, 1);
    return free_ms < state->deadline_ms ? free_ms : state->deadline_ms;
}

static enum dlock_status await_wakeup(struct attempt_state *state,
                                      struct dlock_error *error)
{
    const struct dlock_strategy *strategy = state->strategy;
    void *watch = strategy->watch(state->session, state->attempt.name);
    enum dlock_status status = DLOCK_BUSY;
    bool answered = true;

    if (watch == NULL)
        return poll_lock(state, error);
    while (is_open(status) && has_time(state)) {
        strategy->wait(state->session, watch, sleep_until(state));
        answered = false;
        if (dlock_wait_ended(state->session))
            break;
        status = try_once(state, error);
        answered = status == DLOCK_OK || is_open(status);
    }
    strategy->unwatch(state->session, watch, !answered);
    return status;
}

/* What is left to do after the last try, and what it comes to. */
static enum dlock_status conclude(struct attempt_state *state,
                                  enum dlock_status status)
{
    const struct dlock_strategy *strategy = state->strategy;

    if (!is_worth_a_try(status))
        return status;
    /* Without an answer there is nobody to tell. */
    if (is_open(status) && state->attempt.waits && strategy->give_up != NULL)
        strategy->give_up(state->session, &state->attempt);
    if (state->may_come_late && strategy->withdraw != NULL)
        strategy->withdraw(state->session, &state->attempt);
    if (state->in_doubt)
        return DLOCK_UNKNOWN;
    if (status == DLOCK_UNREACHABLE && state->attempt.waits &&
        dlock_wait_ended(state->session))
        return DLOCK_TIMEOUT;
    return status;
}

enum dlock_status dlock_wait_acquire(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     uint64_t deadline_ms,
                                     struct dlock_grant *grant,
                                     uint64_t *granted_at_ms,
                                     struct dlock_error *error)
{
    struct attempt_state state = {
        .session = session,
        .strategy = session->client->strategy,
        .clock = session->client->clock,
        .attempt = *attempt,
        .deadline_ms = deadline_ms,
        .grant = grant,
    };
    unsigned capabilities = state.strategy->info.capabilities;
    enum dlock_status status = try_once(&state, error);

    while (is_worth_a_try(status) && has_time(&state)) {
        if (is_silent(status))
            status = await_answer(&state, status, error);
        else if (capabilities & DLOCK_CAP_WAKE)
            status = await_wakeup(&state, error);
        else
            status = poll_lock(&state, error);
    }
    *granted_at_ms = state.tried_at_ms;
    return conclude(&state, status);
}

enum dlock_status
dlock_wait_insist(struct dlock_session *session,
                  const struct dlock_attempt *attempt,
                  enum dlock_status (*call)(struct dlock_session *session,
                                            const struct dlock_attempt *attempt,
                                            struct dlock_error *error),
                  struct dlock_error *error)
{
    const struct dlock *client = session->client;
    unsigned capabilities = client->strategy->info.capabilities;
    bool in_doubt = false;
    enum dlock_status status;

    /* There, a thread goes on deleting what was given back. */
    if (capabilities & DLOCK_CAP_ZK)
        return call(session, attempt, error);
    for (unsigned silent_n = 1;; silent_n++) {
        uint64_t pause_ms = silent_pause_ms(client->clock, silent_n);

        status = call(session, attempt, error);
        in_doubt = in_doubt || status == DLOCK_UNKNOWN;
        if (!is_silent(status) ||
            (in_doubt && !client->strategy->knows_copies) ||
            dlock_clock_until(client->clock, attempt->limit_ms) <= pause_ms)
            break;
        dlock_clock_sleep_us(1000 * pause_ms);
    }
    return in_doubt && status == DLOCK_UNREACHABLE ? DLOCK_UNKNOWN : status;
}
