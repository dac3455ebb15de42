/*
 * Keepers: the threads that take the lanes' locks and give them back. In
 * between they are not needed: what waits in an open lane flows into the store.
 *
 * When to close a batch is not decided here, nor anywhere: it is what has
 * gathered when the store is ready for it. What is decided here is how long a
 * lock is kept.
 *
 *   KEEP_GAPS      A lock that nobody here waits for is kept for that many of
 *                  the usual gaps between two orders (KEEP_IDLE_US at most): to
 *                  take it again would cost two round trips. If orders come
 *                  seldom (KEEP_GAP_US_MAX) it is given back at once.
 *   KEEP_US_MAX    Never for longer than that in one go.
 *   LOOK_US        So often a keeper looks at the locks it has, at LOOKS_MAX of
 *                  them; and with --shared, whether another instance waits for
 *                  one, which is given back then.
 *   STEP_BACK_MS   After that we stay away until the other one has it, who has
 *                  still to wake up while we are awake already; but no longer.
 *
 * Who holds locks does not wait for another one: a keeper that finds a lock
 * taken gives back all it has before it waits. So keepers of two instances that
 * want each other's locks cannot block each other.
 */
#include "server/clock.h"
#include "server/config.h"
#include "server/order/desk_private.h"

#include <poll.h>

#define KEEP_GAPS       4
#define KEEP_GAP_US_MAX 100000
#define KEEP_US_MIN     5000 /* finer than we look anyway */
#define KEEP_IDLE_US    100000
#define KEEP_US_MAX     1000000
#define LOOK_US         10000
#define LOOKS_MAX       16
#define STEP_BACK_MS    50

/* ---- when ----------------------------------------------------------------- */

/* Until when a lock is kept that no order waits for. */
static uint64_t idle_until_us(const struct lane *lane)
{
    uint64_t gap = lane_expects_us(lane);
    uint64_t keep = gap * KEEP_GAPS;

    if (gap > KEEP_GAP_US_MAX)
        return 0;
    if (keep < KEEP_US_MIN)
        keep = KEEP_US_MIN;
    return lane->pushed_us + (keep < KEEP_IDLE_US ? keep : KEEP_IDLE_US);
}

bool keeper_is_due(const struct lane *lane, uint64_t now_us)
{
    uint64_t longest = lane->hold.granted_us + KEEP_US_MAX;

    if (!lane_is_clear(lane) && lane->state == LANE_LEAVING)
        return false; /* we are called when it is */
    if (lane->state == LANE_LEAVING || now_us >= longest)
        return true;
    if (!lane_is_clear(lane) || (lane->first && !lane->choosy))
        return false;
    return lane->choosy || now_us >= idle_until_us(lane);
}

enum waiting { NOBODY_WAITS, SOMEBODY_WAITS, CANNOT_TELL };

/* Whether another instance waits for the lock. Without the mutex: it asks the
 * lock server. */
static enum waiting who_waits(struct desk_thread *self, const struct lane *lane)
{
    enum dlock_status status;
    size_t n = 0;

    if (!self->desk->app->config->shared)
        return NOBODY_WAITS;
    status = dlock_inspect_waiters(self->worker.session, lane->lock, NULL, 0,
                                   &n, NULL);
    if (status != DLOCK_OK)
        return CANNOT_TELL;
    return n > 0 ? SOMEBODY_WAITS : NOBODY_WAITS;
}

/* ---- giving back ---------------------------------------------------------- */

/* Whether the lock is somebody's again, or nobody wants it any more. */
static bool is_handed_on(struct desk_thread *self, const struct lane *lane)
{
    struct dlock_holder holder;

    return dlock_inspect(self->worker.session, lane->lock, &holder, NULL) !=
               DLOCK_OK ||
           holder.held || who_waits(self, lane) != SOMEBODY_WAITS;
}

/* The other one has to hear of it, to wake up and to ask; we would be faster.
 * Where nobody can tell, a moment has to do. */
static void step_back(struct desk_thread *self, const struct lane *lane)
{
    struct pollfd stop = {.fd = self->desk->stop_fd, .events = POLLIN};
    uint64_t until_us = clock_us() + UINT64_C(1000) * STEP_BACK_MS;

    do {
        if (poll(&stop, 1, 1) != 0)
            return;
    } while (!is_handed_on(self, lane) && clock_us() < until_us);
}

/* With the mutex held, but not all the time. Waits for what the store has. */
static void leave(struct desk_thread *self, struct lane *lane, bool to_others)
{
    struct desk *desk = self->desk;

    lanes_leave(desk->lanes, lane);
    while (!lane_is_clear(lane))
        pthread_cond_wait(&desk->placed, &desk->mutex);
    TAILQ_REMOVE(&self->held, lane, held);
    pthread_mutex_unlock(&desk->mutex);
    hold_leave(&self->worker, &lane->hold);
    if (to_others)
        step_back(self, lane);
    pthread_mutex_lock(&desk->mutex);
    lanes_shut(desk->lanes, lane);
}

static void leave_all(struct desk_thread *self)
{
    while (!TAILQ_EMPTY(&self->held))
        leave(self, TAILQ_FIRST(&self->held), false);
}

/* Gives one lock back if one is due. */
static bool leave_due(struct desk_thread *self)
{
    uint64_t now = clock_us();
    struct lane *lane = NULL;

    TAILQ_FOREACH(lane, &self->held, held)
    {
        if (keeper_is_due(lane, now)) {
            leave(self, lane, false);
            return true;
        }
    }
    return false;
}

/*
 * Gives one lock back if somebody else waits for it. The list is in the order
 * in which they were looked at. Only this thread changes its own list, so a
 * lane stays in it while the mutex is not held.
 */
static bool leave_wanted(struct desk_thread *self)
{
    struct desk *desk = self->desk;
    struct lane *lane;
    bool wanted;

    for (int i = 0; i < LOOKS_MAX; i++) {
        lane = TAILQ_FIRST(&self->held);
        if (!lane || clock_us() < lane->looked_us + LOOK_US)
            return false;
        pthread_mutex_unlock(&desk->mutex);
        wanted = who_waits(self, lane) != NOBODY_WAITS;
        pthread_mutex_lock(&desk->mutex);
        lane->looked_us = clock_us();
        TAILQ_REMOVE(&self->held, lane, held);
        TAILQ_INSERT_TAIL(&self->held, lane, held);
        if (wanted) {
            leave(self, lane, true);
            return true;
        }
    }
    return false;
}

/* ---- taking --------------------------------------------------------------- */

/* Before we are busy for long: what else there is to do is for others. */
static void call_others(struct desk *desk)
{
    if (lanes_wanted(desk->lanes))
        desk_call(desk);
}

/* With the mutex held, but not all the time. */
static enum order_outcome take_lock(struct desk_thread *self, struct lane *lane,
                                    struct dlock_error *error)
{
    struct desk *desk = self->desk;
    uint64_t oldest_us = lane->first ? lane->first->submitted_us : clock_us();
    bool may_wait = TAILQ_EMPTY(&self->held);
    enum order_outcome outcome;

    pthread_mutex_unlock(&desk->mutex);
    outcome = hold_take(&self->worker, lane->lock,
                        may_wait ? hold_patience_ms(desk->app, oldest_us) : 0,
                        &lane->hold, error);
    pthread_mutex_lock(&desk->mutex);
    if (outcome != ORDER_LOCK_TIMEOUT || may_wait)
        return outcome;
    leave_all(self);
    call_others(desk);
    return take_lock(self, lane, error);
}

/*
 * Those that came before hear the answer; for the others we ask again: who came
 * while we asked, and of a lock that others have, who may wait longer.
 */
static void refuse(struct desk_thread *self, struct lane *lane,
                   uint64_t asked_us, enum order_outcome outcome,
                   const char *why)
{
    struct desk *desk = self->desk;
    uint64_t before_us =
        outcome == ORDER_LOCK_TIMEOUT ? hold_impatient_us(desk->app) : asked_us;
    struct ticket *list = lanes_pop_before(desk->lanes, lane, before_us);

    lanes_shut(desk->lanes, lane);
    pthread_mutex_unlock(&desk->mutex);
    desk_refuse(desk, list, outcome, why);
    pthread_mutex_lock(&desk->mutex);
}

/* The time under the lock is that of the orders that were there when it began;
 * those that come meanwhile have to wait for their own. No other lock has to
 * wait for that. */
static void think(struct desk_thread *self, struct lane *lane)
{
    struct desk *desk = self->desk;

    if (desk->app->config->think_ms == 0)
        return;
    leave_all(self);
    call_others(desk);
    lanes_choose(desk->lanes, lane, DESK_LOT_MAX);
    pthread_mutex_unlock(&desk->mutex);
    hold_think(&self->worker);
    pthread_mutex_lock(&desk->mutex);
}

static void enter(struct desk_thread *self, struct lane *lane)
{
    struct desk *desk = self->desk;
    struct dlock_error error = {""};
    uint64_t asked_us = clock_us();
    enum order_outcome outcome = take_lock(self, lane, &error);

    if (outcome != ORDER_PLACED) {
        refuse(self, lane, asked_us, outcome, error.text);
        return;
    }
    lane->keeper = self;
    lane->fence = hold_fence(&self->worker, &lane->hold);
    lane->looked_us = lane->hold.granted_us;
    think(self, lane);
    TAILQ_INSERT_TAIL(&self->held, lane, held);
    lanes_open(desk->lanes, lane);
    pthread_mutex_unlock(&desk->mutex);
    store_stream_wake(desk->stream);
    pthread_mutex_lock(&desk->mutex);
}

void *keeper_main(void *arg)
{
    struct desk_thread *self = arg;
    struct desk *desk = self->desk;
    struct lane *lane;

    pthread_mutex_lock(&desk->mutex);
    while (!desk->stopping) {
        if (leave_due(self) || leave_wanted(self))
            continue;
        if ((lane = lanes_enter(desk->lanes))) {
            call_others(desk);
            enter(self, lane);
        } else {
            desk_idle(self, TAILQ_EMPTY(&self->held) ? UINT64_MAX
                                                     : clock_us() + LOOK_US);
        }
    }
    leave_all(self);
    pthread_mutex_unlock(&desk->mutex);
    return NULL;
}
