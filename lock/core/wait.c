/*
 * Waiting for a lock.
 *
 * Strategies that can wake a waiter do so: try, subscribe, try AGAIN, and only then sleep,
 * because a release between the first try and the subscription told nobody. The sleep ends
 * at a wake-up, or when the holder's lease would run out, since the dead do not publish.
 *
 * All others are polled: a lock that is a bare key tells nobody that it has gone. That
 * costs commands that do nothing, and fairness, since the one that happens to look next
 * gets it. The pause between two looks is random, so that waiters do not stay in step.
 *
 * A server that does not answer, or refuses, is waited for as well, whatever the reason.
 * The pauses grow, and are random, since everybody comes back at once.
 *
 * A try without an answer may have got the lock. The next one has the same number, by which
 * the server knows it for a copy, and says what came of the first; so the grant counts from
 * the first one. When all is over without a grant, a withdraw takes back what the server may
 * have granted.
 */
#include "lock/core/wait.h"

enum {
    POLL_MIN_US =
        500, /* below, a waiter is a burden to the holder's commands */
    POLL_MAX_US = 2000,
    NAP_US =
        5000, /* after so long, a sleeper looks whether its wait was ended */
    SILENT_MIN_MS = 10, /* after a try without an answer, and then twice, ... */
    SILENT_DOUBLINGS = 6,
};

/* The pause doubles with each silent try, up to 640 ms, and is a random part of that, one
 * half at least: all clients come back to a server that was away, and must not come at
 * once. */
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

/* The deadline of a grant by the try that begins now, unless the strategy sets an
 * earlier one. */
static uint64_t lease_end(const struct dlock_wait *wait)
{
    /* UINT64_MAX is "never" in all of the library: such a grant is only lost by a release,
     * or as ->remaining says. */
    if ((wait->strategy->info.capabilities & DLOCK_CAP_LEASE) == 0)
        return UINT64_MAX;
    return dlock_clock_after(
        wait->tried_at_ms,
        dlock_valid_ms(wait->strategy, wait->attempt.lease_ms));
}

static void renumber(struct dlock_wait *wait)
{
    wait->attempt.number = dlock_number(wait->session->client);
    wait->repeats = false;
}

/* A grant whose lease ended while the answer was on its way is none. It goes back, for the
 * server's clock may be later than ours; then an old number would be a late copy. */
static enum dlock_status give_back(struct dlock_wait *wait)
{
    struct dlock_attempt end = wait->attempt;

    end.number = dlock_number(wait->session->client);
    /* The hold that is given back is the one that the late answer tells of; those that the
     * session had before stay. */
    end.holds = wait->grant.holds - 1;
    /* The time of the acquire may be over; this has a time of its own. */
    end.limit_ms = dlock_session_limit(wait->session, 1, 0);
    /* A release without an answer is not repeated: the lease that it would end is short of
     * its end anyway. */
    (void)wait->strategy->release(&end);
    renumber(wait);
    return dlock_error_set(DLOCK_LOST, "the answer took longer than the lease");
}

/* The server has answered, and it was not yes. */
static bool is_open(enum dlock_status status)
{
    return status == DLOCK_BUSY || status == DLOCK_LOST ||
           status == DLOCK_DEADLOCK;
}

/* Notes of a try for the next one. After a "no" it is certain that nothing is ours; but
 * where copies are not known, we may be told of the key that we have put there ourselves.
 * And an earlier try, or the first copy of one whose second was told no, may still be on
 * its way: if it gets the lock, the next try comes in again by a higher number, because a
 * grant must not count from a try that is later than its lease. */
static void note(struct dlock_wait *wait, enum dlock_status status)
{
    bool knows_copies = wait->strategy->knows_copies;

    /* silent_n counts tries in a row: one answer shows that the server is back, so the
     * pauses begin small again. */
    wait->silent_n = is_silent(status) ? wait->silent_n + 1 : 0;
    if (status == DLOCK_UNKNOWN) {
        wait->uncertain = wait->session->may_come_late = true;
        /* A strategy without `withdraw` promises nothing for a second copy of a try: there
         * each try is a new one, and nobody may be told of the first one's grant. */
        wait->repeats = wait->strategy->withdraw != NULL;
    }
    if (status == DLOCK_BUSY && wait->session->may_come_late &&
        wait->strategy->withdraw != NULL) {
        renumber(wait);
        /* The server has just said that others hold the name: what the session held before
         * was lost, and must not be counted up from. */
        wait->attempt.holds = 0;
    }
    if (status == DLOCK_LOST || (status == DLOCK_BUSY && knows_copies))
        wait->uncertain = false;
    if (status == DLOCK_LOST)
        wait->busy_ms = 0; /* nobody is in the way */
    /* busy_at_ms is the end of the try, because a slow one would leave nothing of a pause
     * that began with it. */
    wait->busy_at_ms = dlock_clock_now(wait->clock);
}

static enum dlock_status try_once(struct dlock_wait *wait)
{
    enum dlock_status status;

    /* The first try's lease is over, if it got one: no use in being told of it. */
    if (wait->repeats && dlock_clock_until(wait->clock, lease_end(wait)) == 0)
        renumber(wait);
    /* Read before the command leaves: our lease must end first, by our clock. */
    if (!wait->repeats)
        wait->tried_at_ms = dlock_clock_now(wait->clock);
    /* UINT64_MAX is a holder without a known end; a strategy that knows better overwrites
     * it, and so does a DLOCK_BUSY. */
    wait->busy_ms = UINT64_MAX;
    /* The grant is set anew for each try, because a try before this one may have left its
     * token or its holds there. */
    wait->grant.token = 0;
    wait->grant.holds = 1;
    wait->grant.deadline_ms = lease_end(wait);
    status = wait->strategy->acquire(&wait->attempt);
    /* A lock that counts may have counted the try that it did not answer. */
    if (status == DLOCK_OK && wait->uncertain &&
        wait->grant.holds > wait->attempt.holds + 1)
        wait->grant.holds = wait->attempt.holds + 1;
    /* Textbook locks do not ask; those that promise to be alone have to. */
    if (status == DLOCK_OK &&
        (wait->strategy->info.capabilities & DLOCK_CAP_RENEW) != 0 &&
        dlock_clock_until(wait->clock, wait->grant.deadline_ms) == 0)
        status = give_back(wait);
    /* note() must come after give_back(), because DLOCK_LOST is what the next try has to
     * know. */
    note(wait, status);
    return status;
}

/* The pause of a wait that is told by nobody when it is worth another try: because the
 * server is silent, or because the strategy polls. */
static struct dlock_pause untold_pause(struct dlock_wait *wait)
{
    /* A pause never goes beyond the deadline: the last try comes at the deadline, and finds
     * no time left after it. */
    uint64_t left_us = 1000 * dlock_clock_until(wait->clock, wait->deadline_ms);
    uint16_t dice = 0;
    uint64_t us;

    if (is_silent(wait->status)) {
        /* Silence has its own pauses also in a strategy that polls, because a look every
         * two milliseconds by each waiter would keep a server down that just comes up. */
        us = 1000 * silent_pause_ms(wait->clock, wait->silent_n);
    } else {
        wait->clock->random(wait->clock->ctx, &dice, sizeof(dice));
        us = wait->strategy->pause_us != NULL
                 ? wait->strategy->pause_us(++wait->looks, dice)
                 : (uint64_t)POLL_MIN_US +
                       dice % (POLL_MAX_US - POLL_MIN_US + 1);
    }
    return (struct dlock_pause){.us = us < left_us ? us : left_us};
}

/* Pieces --------------------------------------------------------------------- */

/* A look for a deadlock ends this wait with DLOCK_DEADLOCK if it is the one of its circle
 * that has to give way, and with DLOCK_MISUSE if the server's user may not look. */
bool dlock_wait_try(struct dlock_wait *wait)
{
    /* The first try is made even if the wait was ended before, because a caller with
     * wait_ms 0 does not wait, and dlock_end_waits() ends only waits. */
    if (wait->has_waited && dlock_wait_ended(wait->session))
        return false;
    wait->status = try_once(wait);
    wait->answered = wait->status == DLOCK_OK || is_open(wait->status);
    /* The end is asked for once more after the try: a cancel that came during it found
     * nobody asleep to wake. */
    if (!(is_open(wait->status) || is_silent(wait->status)) ||
        dlock_wait_ended(wait->session) ||
        dlock_clock_until(wait->clock, wait->deadline_ms) == 0)
        return false;
    /* DLOCK_BUSY alone says that somebody stands in the way; a server that is silent cannot
     * tell who waits for whom either. */
    if (wait->status != DLOCK_BUSY || wait->look.at_ms == 0 ||
        dlock_clock_until(wait->clock, wait->look.at_ms) > 0)
        return true;
    wait->status = dlock_detector_made->look(&wait->attempt, &wait->look);
    return wait->status == DLOCK_BUSY;
}

/* A wake-up whose try got no answer is passed on to the next waiter. So is the end of
 * the lease, our own or the holder's: others may know of a later one. */
static void leave_watch(struct dlock_wait *wait)
{
    uint64_t free_ms = wait->status == DLOCK_OK
                           ? wait->grant.deadline_ms
                           : dlock_clock_after(wait->busy_at_ms, wait->busy_ms);

    if (wait->watch != NULL && wait->strategy->unwatch != NULL)
        wait->strategy->unwatch(wait->watch, wait->answered ? free_ms : 0);
    wait->watch = NULL;
}

struct dlock_pause dlock_wait_arm(struct dlock_wait *wait,
                                  const struct dlock_wake_call *call)
{
    const struct dlock_strategy *strategy = wait->strategy;
    uint64_t until_ms, look_ms = wait->look.at_ms;

    wait->has_waited = true;
    if (is_silent(wait->status)) {
        /* A silent server tells nobody of releases, so the watch goes, and with it any
         * wake-up that this waiter owes to the next one. */
        leave_watch(wait);
        return untold_pause(wait);
    }
    if (wait->watch == NULL && strategy->watch != NULL)
        wait->watch = strategy->watch(wait->session, wait->attempt.name);
    /* A wake-up may come from here on, and it is this waiter's debt until a try gets an
     * answer. */
    wait->answered = false;
    if (wait->watch == NULL)
        return untold_pause(wait);
    /* Until the end of the holder's lease. The server counts in whole milliseconds: one
     * more, or we come early. */
    until_ms = dlock_clock_after(wait->busy_at_ms, wait->busy_ms);
    until_ms = dlock_clock_after(until_ms, 1);
    if (until_ms > wait->deadline_ms)
        until_ms = wait->deadline_ms;
    /* The look for a deadlock is part of a try, so the sleep must end for it even if the
     * holder's lease runs on. */
    if (look_ms > 0 && look_ms < until_ms)
        until_ms = look_ms;
    return (struct dlock_pause){.until_ms =
                                    strategy->arm(wait->watch, until_ms, call)};
}

void dlock_wait_disarm(struct dlock_wait *wait)
{
    if (wait->watch != NULL)
        wait->strategy->disarm(wait->watch);
}

/* The duties after the last try, and the status that comes of all. */
enum dlock_status dlock_wait_end(struct dlock_wait *wait)
{
    const struct dlock_strategy *strategy = wait->strategy;
    enum dlock_status status = wait->status;
    struct dlock_error kept;

    /* leave_watch() comes before the duties at the server: a wake-up that is passed on late
     * is a lock that stands free for as long. */
    leave_watch(wait);
    if (!is_open(status) && !is_silent(status) && status != DLOCK_MISUSE)
        return status;
    /* KEPT is why the wait failed, which the caller is to read, and not what became of the
     * good-byes. */
    kept = dlock_error_take();
    /* Without an answer there is nobody to tell. */
    if (!is_silent(status) && wait->attempt.waits && strategy->give_up != NULL)
        strategy->give_up(&wait->attempt);
    /* withdraw() follows give_up(), since its number must be the highest: the server
     * refuses with it every try that is still on its way. */
    if (wait->session->may_come_late && strategy->withdraw != NULL)
        strategy->withdraw(&wait->attempt);
    dlock_error_put(&kept);
    /* A withdraw gets no answer, so it does not end the doubt: the lock may be held until
     * the withdraw arrives, or the lease ends. */
    if (wait->uncertain)
        return DLOCK_UNKNOWN;
    /* A wait that was ended from outside is told so, even if the server was away at that
     * moment: it did not fail for that. */
    if (status == DLOCK_UNREACHABLE && wait->attempt.waits &&
        dlock_wait_ended(wait->session))
        return DLOCK_TIMEOUT;
    return status;
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
    struct sleeper sleeper = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                              .cond = PTHREAD_COND_INITIALIZER};
    const struct dlock_wake_call call = {tell_sleeper, &sleeper};
    struct dlock_pause pause;
    bool time_left = true;

    /* The pause has one part set: the loop below does nothing for a waiter that is woken,
     * the one after it nothing for a poller. */
    pause = dlock_wait_arm(wait, &call);
    /* Pollers get no wake-up, so they sleep in parts, and look whether the wait was
     * ended. */
    while (pause.us > 0 && !dlock_wait_ended(wait->session)) {
        uint64_t part = pause.us < NAP_US ? pause.us : NAP_US;

        dlock_clock_sleep_us(part);
        pause.us -= part;
    }
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

/* Release and extend --------------------------------------------------------- */

enum dlock_status
dlock_wait_retry(const struct dlock_attempt *attempt,
                 enum dlock_status (*call)(const struct dlock_attempt *attempt))
{
    const struct dlock *client = attempt->session->client;
    unsigned capabilities = client->strategy->info.capabilities;
    bool uncertain = false;
    enum dlock_status status;

    /* ZooKeeper's keeper (zk_node.c) goes on deleting what was given back: another call
     * would only wait for it. */
    if (capabilities & DLOCK_CAP_ZK)
        return call(attempt);
    for (unsigned silent_n = 1;; silent_n++) {
        uint64_t pause_ms;

        status = call(attempt);
        /* The doubt stays when a later try is refused: DLOCK_UNREACHABLE is about that try,
         * and the first one may have worked. */
        uncertain = uncertain || status == DLOCK_UNKNOWN;
        if (!is_silent(status) ||
            (uncertain && !client->strategy->knows_copies))
            break;
        /* A pause that reaches the limit is not begun: no try could follow it, and the
         * caller would only be told later. */
        pause_ms = silent_pause_ms(client->clock, silent_n);
        if (dlock_clock_until(client->clock, attempt->limit_ms) <= pause_ms)
            break;
        dlock_clock_sleep_us(1000 * pause_ms);
    }
    return uncertain && status == DLOCK_UNREACHABLE ? DLOCK_UNKNOWN : status;
}
