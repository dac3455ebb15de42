/*
 * Keepers: the threads that take the lanes' locks and give them back. In
 * between they are not needed: what waits in an open lane flows into the store.
 *
 * When to close a batch is not decided here, nor anywhere: it is what has
 * gathered when the store is ready for it. How long a lock is kept that nobody
 * else wants is decided in keep.c. Here is decided when it is given up for
 * others:
 *
 *   KEEP_LOOK_US   So often a keeper looks at the locks it has: with --shared,
 *                  whether another instance waits for one, which is given back
 *                  then. At LOOKS_MAX of them each time, those first that were
 *                  looked at longest ago: if it has more, each has its turn less
 *                  often.
 *   STEP_BACK_MS   After that we stay away until the other one has it, who has
 *                  still to wake up while we are awake already; but no longer.
 *
 * Who holds locks does not wait for another one: a keeper that finds a lock
 * taken gives back all it has before it waits. So keepers of two instances that
 * want each other's locks cannot block each other.
 *
 * The one exception is the lane of all segments of a product, whose locks are
 * waited for one after the other while those before are held (holds.h). Keepers
 * of this process make way for it at once. Those of another instance find out at
 * a look, or when orders come for a lock that is gone already: then they give
 * back all that they have, as above, so it is a few looks and not one for each
 * lock. It is kept for one batch.
 */
#include "server/clock.h"
#include "server/config.h"
#include "server/order/desk_private.h"

#include <poll.h>

#define LOOKS_MAX    16
#define STEP_BACK_MS 50

/* ---- for others ----------------------------------------------------------- */

enum waiting { NOBODY_WAITS, SOMEBODY_WAITS, CANNOT_TELL };

/* The lane's lock, or had it is given back. (Of the lane of all segments, which
 * is left soon in any case, the first.) */
static const char *lock_of(const struct lane *lane)
{
    return lane->holds.at[0].grant.name;
}

/* Whether another instance waits for a lock, with --shared. Without the mutex:
 * it asks the lock server. */
static enum waiting who_waits(struct desk_thread *self, const char *lock)
{
    enum dlock_status status;
    size_t n = 0;

    status =
        dlock_inspect_waiters(self->worker.session, lock, NULL, 0, &n, NULL);
    if (status != DLOCK_OK)
        return CANNOT_TELL;
    return n > 0 ? SOMEBODY_WAITS : NOBODY_WAITS;
}

/* ---- giving back ---------------------------------------------------------- */

/* Whether the lock is somebody's again, or nobody wants it any more. */
static bool is_handed_on(struct desk_thread *self, const char *lock)
{
    struct dlock_holder holder;

    return dlock_inspect(self->worker.session, lock, &holder, NULL) !=
               DLOCK_OK ||
           holder.held || who_waits(self, lock) != SOMEBODY_WAITS;
}

/* The other one has to hear of it, to wake up and to ask; we would be faster.
 * Where nobody can tell, a moment has to do. */
static void step_back(struct desk_thread *self, const char *lock)
{
    struct pollfd stop = {.fd = self->desk->stop_fd, .events = POLLIN};
    uint64_t until_us = clock_us() + UINT64_C(1000) * STEP_BACK_MS;

    do {
        if (poll(&stop, 1, 1) != 0)
            return;
    } while (!is_handed_on(self, lock) && clock_us() < until_us);
}

/* What there is to do besides is for others: before we are busy for long, and
 * when orders wait for a lock that we have given back. */
static void call_others(struct desk *desk)
{
    if (lanes_wanted(desk->lanes))
        desk_call(desk);
}

/* With the mutex held, but not all the time. Waits for what the store has. */
static void leave(struct desk_thread *self, struct lane *lane, bool to_others)
{
    struct desk *desk = self->desk;

    lanes_leave(desk->lanes, lane);
    while (!lane_is_clear(lane))
        pthread_cond_wait(&desk->placed, &desk->mutex);
    TAILQ_REMOVE(&self->held, lane, held);
    keep_remove(lane);
    desk->held_n--;
    pthread_mutex_unlock(&desk->mutex);
    holds_leave(&self->worker, &lane->holds);
    if (to_others)
        step_back(self, lock_of(lane));
    pthread_mutex_lock(&desk->mutex);
    lanes_shut(desk->lanes, lane);
    call_others(desk);
}

static void leave_all(struct desk_thread *self)
{
    while (!TAILQ_EMPTY(&self->held))
        leave(self, TAILQ_FIRST(&self->held), false);
}

/* Gives one lock back if one is due. */
static bool leave_due(struct desk_thread *self)
{
    struct lane *lane = keep_find_due(&self->keep, clock_us());

    if (lane)
        leave(self, lane, false);
    return lane;
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

    if (!desk->app->config->shared)
        return false;
    for (int i = 0; i < LOOKS_MAX; i++) {
        lane = TAILQ_FIRST(&self->held);
        if (!lane || clock_us() < lane->looked_us + KEEP_LOOK_US)
            return false;
        pthread_mutex_unlock(&desk->mutex);
        wanted = who_waits(self, lock_of(lane)) != NOBODY_WAITS;
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

void keeper_call(struct lane *lane)
{
    if (lane->keeper && keep_call(&lane->keeper->keep, lane))
        pthread_cond_signal(&lane->keeper->wake);
}

/* ---- taking --------------------------------------------------------------- */

/*
 * All locks of a product are about to be taken: who has one of them here places
 * what waits now, and gives it back. So do we.
 */
static void make_way(struct desk_thread *self, const struct lane *all)
{
    struct desk *desk = self->desk;
    struct lane *lane;

    for (int64_t i = 0; i < STORE_SEGMENTS_MAX; i++) {
        lane = lanes_find(desk->lanes, all->product_id, i);
        if (!lane)
            continue;
        lanes_yield(desk->lanes, lane, DESK_LOT_MAX);
        keeper_call(lane);
    }
    leave_all(self);
}

/* With the mutex held, but not all the time. */
static enum order_outcome take_locks(struct desk_thread *self,
                                     struct lane *lane,
                                     struct dlock_error *error)
{
    struct desk *desk = self->desk;
    const struct ticket *oldest = TAILQ_FIRST(&lane->tickets);
    const struct holds_terms terms = {
        .product_id = lane->product_id,
        .segment = lane->segment,
        .submitted_us = oldest ? oldest->submitted_us : clock_us(),
        .may_wait = TAILQ_EMPTY(&self->held)};
    enum order_outcome outcome;

    pthread_mutex_unlock(&desk->mutex);
    outcome = holds_take(&self->worker, &terms, &lane->holds, error);
    pthread_mutex_lock(&desk->mutex);
    if (outcome != ORDER_LOCK_TIMEOUT || terms.may_wait)
        return outcome;
    leave_all(self);
    return take_locks(self, lane, error);
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
    uint64_t before_us = outcome == ORDER_LOCK_TIMEOUT
                             ? hold_impatient_us(desk->app, clock_us())
                             : asked_us;
    struct ticket *list = lanes_pop_before(desk->lanes, lane, before_us);

    pthread_mutex_unlock(&desk->mutex);
    desk_refuse(desk, list, outcome, why);
    holds_leave(&self->worker, &lane->holds);
    pthread_mutex_lock(&desk->mutex);
    lanes_shut(desk->lanes, lane);
}

/* The time under the lock is that of the orders that were there when it began;
 * those that come meanwhile have to wait for their own. No other lock has to
 * wait for that. */
static void think(struct desk_thread *self, struct lane *lane)
{
    struct desk *desk = self->desk;

    leave_all(self);
    lanes_choose(desk->lanes, lane, DESK_LOT_MAX);
    pthread_mutex_unlock(&desk->mutex);
    hold_think(&self->worker);
    pthread_mutex_lock(&desk->mutex);
}

/* With the mutex held, but not all the time; as it is opened it is in one. */
static void open_lane(struct desk_thread *self, struct lane *lane)
{
    struct desk *desk = self->desk;

    lane->looked_us = holds_since_us(&lane->holds);
    if (desk->app->config->think_ms > 0)
        think(self, lane);
    else if (lane->yields || lane->segment == STORE_SEGMENT_ANY)
        lanes_choose(desk->lanes, lane, DESK_LOT_MAX);
    TAILQ_INSERT_TAIL(&self->held, lane, held);
    desk->held_n++;
    lanes_open(desk->lanes, lane);
    keep_add(&self->keep, lane, clock_us());
}

static void enter(struct desk_thread *self, struct lane *lane)
{
    struct desk *desk = self->desk;
    struct dlock_error error = {""};
    uint64_t asked_us = clock_us();
    enum order_outcome outcome;

    lane->keeper = self;
    if (lane->segment == STORE_SEGMENT_ANY)
        make_way(self, lane);
    outcome = take_locks(self, lane, &error);
    if (outcome != ORDER_PLACED) {
        refuse(self, lane, asked_us, outcome, error.text);
        return;
    }
    open_lane(self, lane);
    pthread_mutex_unlock(&desk->mutex);
    store_stream_wake(desk->stream);
    pthread_mutex_lock(&desk->mutex);
}

/* Who called while we were asking for others did not wake us up. */
static uint64_t next_look_us(const struct desk_thread *self)
{
    if (TAILQ_EMPTY(&self->held))
        return UINT64_MAX;
    return keep_is_called(&self->keep) ? 0 : clock_us() + KEEP_LOOK_US;
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
            desk_idle(self, next_look_us(self));
        }
    }
    leave_all(self);
    pthread_mutex_unlock(&desk->mutex);
    return NULL;
}
