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
 */
#include "lock/wait.h"

#include "lock/clock.h"
#include "lock/error.h"
#include "lock/session.h"

enum {
    POLL_MIN_US =
        500, /* below, a waiter is a burden to the holder's commands */
    POLL_MAX_US = 2000,
};

struct attempt_state {
    struct dlock_session *session;
    const struct dlock_strategy *strategy;
    const struct dlock_clock *clock;
    struct dlock_attempt attempt; /* its number rises with each late grant */
    uint64_t deadline_ms;
    uint64_t tried_at_ms; /* before the last try */
    uint64_t busy_ms;     /* the holder has at most so long, ... */
    uint64_t busy_at_ms;  /* ... from here, the end of the last try */
    struct dlock_grant *grant;
};

/* Of a grant by the try that begins now, if it says nothing else itself. */
static uint64_t lease_end(const struct attempt_state *state)
{
    if ((state->strategy->info.capabilities & DLOCK_CAP_LEASE) == 0)
        return UINT64_MAX;
    return dlock_clock_after(
        state->tried_at_ms,
        dlock_valid_ms(state->strategy, state->attempt.lease_ms));
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
    state->attempt.number = dlock_number(state->session->client);
    return dlock_error_set(error, DLOCK_LOST,
                           "the answer took longer than the lease");
}

/* Textbook locks do not ask; those that promise to be alone have to. */
static bool is_over(const struct attempt_state *state)
{
    return (state->strategy->info.capabilities & DLOCK_CAP_RENEW) != 0 &&
           dlock_clock_until(state->clock, state->grant->deadline_ms) == 0;
}

/* Neither had nor refused for good: worth another try. */
static bool is_open(enum dlock_status status)
{
    return status == DLOCK_BUSY || status == DLOCK_LOST;
}

static enum dlock_status try_once(struct attempt_state *state,
                                  struct dlock_error *error)
{
    enum dlock_status status;

    /* Read before the command leaves: our lease must end first, by our clock. */
    state->tried_at_ms = dlock_clock_now(state->clock);
    state->busy_ms = UINT64_MAX;
    state->grant->deadline_ms = lease_end(state);
    status = state->strategy->acquire(state->session, &state->attempt,
                                      state->grant, &state->busy_ms, error);
    if (status == DLOCK_OK && is_over(state))
        status = give_back(state, error);
    if (status == DLOCK_LOST)
        state->busy_ms = 0; /* nobody is in the way */
    /* Not from its beginning: of a pause, a slow try would leave nothing. */
    if (is_open(status))
        state->busy_at_ms = dlock_clock_now(state->clock);
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

static enum dlock_status poll_lock(struct attempt_state *state,
                                   struct dlock_error *error)
{
    enum dlock_status status = DLOCK_BUSY;

    for (unsigned look = 1; is_open(status) && has_time(state); look++) {
        dlock_clock_sleep_us(poll_pause_us(state, look));
        if (!dlock_wait_ended(state->session))
            status = try_once(state, error);
    }
    return status;
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

    if (is_open(status) && has_time(&state)) {
        if (capabilities & DLOCK_CAP_WAKE)
            status = await_wakeup(&state, error);
        else
            status = poll_lock(&state, error);
    }
    /* Without an answer there is nobody to tell. */
    if (is_open(status) && attempt->waits && state.strategy->give_up != NULL)
        state.strategy->give_up(session, attempt);
    *granted_at_ms = state.tried_at_ms;
    return status;
}
