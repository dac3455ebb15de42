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

#include <pthread.h>

#include "lock/clock.h"
#include "lock/error.h"
#include "lock/session.h"

enum {
    POLL_MIN_US =
        500, /* below, a waiter is a burden to the holder's commands */
    POLL_MAX_US = 2000,
};

/* Of a grant by the try that begins now, if it says nothing else itself. */
static uint64_t lease_end(const struct dlock_wait *wait)
{
    if ((wait->strategy->info.capabilities & DLOCK_CAP_LEASE) == 0)
        return UINT64_MAX;
    return dlock_clock_after(
        wait->tried_at_ms,
        dlock_valid_ms(wait->strategy, wait->attempt.lease_ms));
}

/*
 * A grant whose lease ended while the answer was on its way is none: somebody
 * else may be inside. It goes back, for the server's clock may be later than
 * ours; after that an old number would be taken for a late copy.
 */
static enum dlock_status give_back(struct dlock_wait *wait)
{
    struct dlock_attempt end = wait->attempt;

    end.number = dlock_number(wait->session->client);
    end.holds = wait->grant->holds - 1;
    /* The time of the acquire may be over; this has a time of its own. */
    end.limit_ms = dlock_session_limit(wait->session, 1, 0);
    (void)wait->strategy->release(wait->session, &end, NULL);
    wait->attempt.number = dlock_number(wait->session->client);
    return dlock_error_set(wait->error, DLOCK_LOST,
                           "the answer took longer than the lease");
}

/* Textbook locks do not ask; those that promise to be alone have to. */
static bool is_over(const struct dlock_wait *wait)
{
    return (wait->strategy->info.capabilities & DLOCK_CAP_RENEW) != 0 &&
           dlock_clock_until(wait->clock, wait->grant->deadline_ms) == 0;
}

/* Neither had nor refused for good: worth another try. */
static bool is_open(enum dlock_status status)
{
    return status == DLOCK_BUSY || status == DLOCK_LOST;
}

static enum dlock_status try_once(struct dlock_wait *wait)
{
    enum dlock_status status;

    /* Read before the command leaves: our lease must end first, by our clock. */
    wait->tried_at_ms = dlock_clock_now(wait->clock);
    wait->busy_ms = UINT64_MAX;
    wait->grant->deadline_ms = lease_end(wait);
    status = wait->strategy->acquire(wait->session, &wait->attempt, wait->grant,
                                     &wait->busy_ms, wait->error);
    if (status == DLOCK_OK && is_over(wait))
        status = give_back(wait);
    if (status == DLOCK_LOST)
        wait->busy_ms = 0; /* nobody is in the way */
    /* Not from its beginning: of a pause, a slow try would leave nothing. */
    if (is_open(status))
        wait->busy_at_ms = dlock_clock_now(wait->clock);
    return status;
}

static bool has_time(const struct dlock_wait *wait)
{
    return !dlock_wait_ended(wait->session) &&
           dlock_clock_until(wait->clock, wait->deadline_ms) > 0;
}

static uint64_t poll_pause_us(struct dlock_wait *wait)
{
    uint64_t left_us = 1000 * dlock_clock_until(wait->clock, wait->deadline_ms);
    uint16_t dice = 0;
    uint64_t pause;

    wait->clock->random(wait->clock->ctx, &dice, sizeof(dice));
    if (wait->strategy->pause_us != NULL)
        pause = wait->strategy->pause_us(++wait->looks, dice);
    else
        pause = POLL_MIN_US + dice % (POLL_MAX_US - POLL_MIN_US + 1);
    return left_us < pause ? left_us : pause;
}

/* The end of this sleep: the deadline, or the end of the holder's lease. */
static uint64_t sleep_until(const struct dlock_wait *wait)
{
    uint64_t free_ms = dlock_clock_after(wait->busy_at_ms, wait->busy_ms);

    /* The server counts in whole milliseconds: one more, or we come early. */
    free_ms = dlock_clock_after(free_ms, 1);
    return free_ms < wait->deadline_ms ? free_ms : wait->deadline_ms;
}

/* Pieces --------------------------------------------------------------------- */

void dlock_wait_begin(struct dlock_wait *wait, struct dlock_session *session,
                      const struct dlock_attempt *attempt, uint64_t deadline_ms,
                      struct dlock_grant *grant, struct dlock_error *error)
{
    *wait = (struct dlock_wait){
        .status = DLOCK_BUSY,
        .session = session,
        .strategy = session->client->strategy,
        .clock = session->client->clock,
        .attempt = *attempt,
        .deadline_ms = deadline_ms,
        .grant = grant,
        .error = error,
        .answered = true,
    };
}

bool dlock_wait_try(struct dlock_wait *wait)
{
    if (wait->watched && dlock_wait_ended(wait->session))
        return false;
    wait->status = try_once(wait);
    wait->answered = wait->status == DLOCK_OK || is_open(wait->status);
    return is_open(wait->status) && has_time(wait);
}

struct dlock_pause dlock_wait_arm(struct dlock_wait *wait,
                                  const struct dlock_wake_call *call)
{
    const struct dlock_strategy *strategy = wait->strategy;

    if (!wait->watched && strategy->watch != NULL)
        wait->watch = strategy->watch(wait->session, wait->attempt.name);
    wait->watched = true;
    wait->answered = false;
    if (wait->watch == NULL)
        return (struct dlock_pause){.us = poll_pause_us(wait)};
    return (struct dlock_pause){
        .until_ms =
            strategy->arm(wait->session, wait->watch, sleep_until(wait), call)};
}

void dlock_wait_disarm(struct dlock_wait *wait)
{
    if (wait->watch != NULL)
        wait->strategy->disarm(wait->session, wait->watch);
}

enum dlock_status dlock_wait_end(struct dlock_wait *wait,
                                 uint64_t *granted_at_ms)
{
    const struct dlock_strategy *strategy = wait->strategy;

    if (wait->watch != NULL)
        strategy->unwatch(wait->session, wait->watch, !wait->answered);
    /* Without an answer there is nobody to tell. */
    if (is_open(wait->status) && wait->attempt.waits &&
        strategy->give_up != NULL)
        strategy->give_up(wait->session, &wait->attempt);
    *granted_at_ms = wait->tried_at_ms;
    return wait->status;
}

/* On the caller's thread ------------------------------------------------------- */

struct sleeper {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool told;
};

static void tell_sleeper(void *ctx)
{
    struct sleeper *sleeper = ctx;

    (void)pthread_mutex_lock(&sleeper->mutex);
    sleeper->told = true;
    (void)pthread_cond_signal(&sleeper->cond);
    (void)pthread_mutex_unlock(&sleeper->mutex);
}

void dlock_wait_sleep(struct dlock_wait *wait)
{
    struct sleeper sleeper = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    const struct dlock_wake_call call = {tell_sleeper, &sleeper};
    struct dlock_pause pause;
    bool time_left = true;

    /* Cannot fail where threads are the C library's own. */
    (void)dlock_clock_cond_init(&sleeper.cond);
    pause = dlock_wait_arm(wait, &call);
    if (pause.us > 0)
        dlock_clock_sleep_us(pause.us);
    (void)pthread_mutex_lock(&sleeper.mutex);
    while (!sleeper.told && time_left)
        time_left = dlock_clock_wait(wait->clock, &sleeper.cond, &sleeper.mutex,
                                     pause.until_ms);
    (void)pthread_mutex_unlock(&sleeper.mutex);
    /* From here on nobody tells, so the condition may go. */
    dlock_wait_disarm(wait);
    (void)pthread_cond_destroy(&sleeper.cond);
    (void)pthread_mutex_destroy(&sleeper.mutex);
}
