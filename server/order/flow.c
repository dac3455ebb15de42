/*
 * The flow: from the open lanes into the store, and back to the customers. Runs
 * on the store's committer, which comes for orders when it is ready for them;
 * so nobody wakes up anybody, except the customers.
 *
 * The lock is held all the time, or the lane would not be open; whether its
 * lease is still good is looked at last of all, and if that look was too early
 * by a moment, the store's fence decides.
 */
#include "server/clock.h"
#include "server/metrics.h"
#include "server/order/desk_private.h"
#include "server/order/outcome.h"

/* An order whose lock was overtaken, and of which nothing is written, may wait
 * for the lock again; but not for ever. */
#define FLOW_TRIES_MAX 3

/* ---- taking --------------------------------------------------------------- */

static bool is_lost(const struct lane *lane)
{
    return dlock_remaining_ms(lane->keeper->worker.session,
                              &lane->hold.grant) == 0;
}

/* Its lock is no good any more; but an order does not queue up for ever. */
static bool may_try_again(struct ticket *ticket)
{
    return ++ticket->stale < FLOW_TRIES_MAX;
}

/* The lock's lease is over, or nobody may write under it any more. */
static void let_go(struct desk *desk, struct lane *lane, struct ticket *list)
{
    lanes_push_back(desk->lanes, lane, list);
    lanes_leave(desk->lanes, lane);
}

/* What was taken of a lane whose lock is lost goes back into it; who has been
 * there too often is put before REFUSED. */
static void lose(struct desk *desk, struct lane *lane, struct ticket **refused)
{
    struct ticket *again = NULL, **last = &again, *next;

    for (struct ticket *ticket = lane->placing; ticket; ticket = next) {
        next = ticket->next;
        if (may_try_again(ticket)) {
            *last = ticket;
            last = &ticket->next;
        } else {
            ticket->next = *refused;
            *refused = ticket;
        }
    }
    *last = NULL;
    let_go(desk, lane, again);
    lanes_placed(desk->lanes, lane);
    pthread_cond_signal(&lane->keeper->wake);
    pthread_cond_broadcast(&desk->placed);
}

static size_t fill_lot(struct store_lot *lot, struct lane *lane,
                       struct store_order *orders[])
{
    size_t n = 0;

    for (struct ticket *ticket = lane->placing; ticket; ticket = ticket->next)
        orders[n++] = &ticket->order;
    *lot = (struct store_lot){
        .orders = orders, .n = n, .fence = &lane->fence, .owner = lane};
    return n;
}

static size_t take(void *ctx, struct store_lot lots[], size_t n_max)
{
    struct desk *desk = ctx;
    struct ticket *refused = NULL;
    size_t n = 0, used = 0;
    struct lane *lane;

    desk->batch_us = clock_us();
    pthread_mutex_lock(&desk->mutex);
    while (n < n_max && used + DESK_LOT_MAX <= DESK_BATCH_MAX &&
           (lane = lanes_take(desk->lanes, DESK_LOT_MAX))) {
        if (is_lost(lane))
            lose(desk, lane, &refused);
        else
            used += fill_lot(&lots[n++], lane, &desk->batch[used]);
    }
    pthread_mutex_unlock(&desk->mutex);
    desk_refuse(desk, refused, ORDER_LOCK_TIMEOUT,
                "the lock's lease was over each time before the order was "
                "placed");
    return n;
}

/* ---- answering ------------------------------------------------------------ */

/* Answers what is decided; what may try again comes back as a list. */
static struct ticket *answer_lot(struct desk *desk, const struct store_lot *lot,
                                 const struct store_error *error,
                                 uint64_t now_us)
{
    struct ticket *ticket = ((struct lane *)lot->owner)->placing;
    struct ticket *again = NULL, **last = &again, *next;

    metrics_batch(desk->app->metrics, lot->n);
    for (; ticket; ticket = next) {
        next = ticket->next;
        if (lot->status == STORE_STALE_FENCE && may_try_again(ticket)) {
            *last = ticket;
            last = &ticket->next;
        } else {
            outcome_of_store(ticket, lot->status, error);
            desk_answer(desk, ticket, now_us);
        }
    }
    *last = NULL;
    return again;
}

/* Under the mutex. The keeper hears of it if there is something for it to do:
 * else it would only wake up to go to sleep again. */
static void settle_lane(struct desk *desk, const struct store_lot *lot,
                        struct ticket *again, uint64_t now_us)
{
    struct lane *lane = lot->owner;

    if (lot->status != STORE_OK)
        lane->hold.failed = true;
    lanes_placed(desk->lanes, lane);
    if (lot->status == STORE_STALE_FENCE)
        let_go(desk, lane, again);
    if (keeper_is_due(lane, now_us))
        pthread_cond_signal(&lane->keeper->wake);
    if (lane->state == LANE_LEAVING)
        pthread_cond_broadcast(&desk->placed);
}

static void done(void *ctx, struct store_lot lots[], size_t n,
                 const struct store_error *error)
{
    struct desk *desk = ctx;
    struct ticket *again[STORE_LOTS_MAX];
    uint64_t now_us = clock_us();
    bool flowing;

    metrics_time(desk->app->metrics, METRICS_COMMIT, now_us - desk->batch_us);
    for (size_t i = 0; i < n; i++)
        again[i] = answer_lot(desk, &lots[i], error, now_us);
    pthread_mutex_lock(&desk->mutex);
    for (size_t i = 0; i < n; i++)
        settle_lane(desk, &lots[i], again[i], now_us);
    flowing = lanes_flowing(desk->lanes) && !desk->stopping;
    pthread_mutex_unlock(&desk->mutex);
    if (flowing)
        store_stream_wake(desk->stream);
}

enum store_status flow_open(struct desk *desk, struct store_error *error)
{
    const struct store_source source = {
        .take = take, .done = done, .ctx = desk};

    return store_stream_open(desk->app->store, &source, &desk->stream, error);
}
