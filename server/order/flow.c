/*
 * The flow: from the open lanes into the store, and back to the customers. Runs
 * on the store's committer, which comes for orders when it is ready for them;
 * so nobody wakes up anybody, except the customers.
 *
 * The lock is held all the time, or the lane would not be open; whether its
 * lease is still good is looked at last of all, and if that look was too early
 * by a moment, the store's fence decides.
 */
#include <assert.h>

#include "server/clock.h"
#include "server/metrics.h"
#include "server/order/choice.h"
#include "server/order/desk_private.h"
#include "server/order/outcome.h"

/* An order whose lock was overtaken, and of which nothing is written, may wait
 * for the lock again; but not for ever. */
#define FLOW_TRIES_MAX 3

/* ---- taking --------------------------------------------------------------- */

/* Its lock is no good any more; but an order does not queue up for ever. */
static bool may_try_again(struct ticket *ticket)
{
    return ++ticket->stale < FLOW_TRIES_MAX;
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
    again = lanes_push_back(desk->lanes, again);
    assert(!again); /* into its own lane, for which there is memory */
    lanes_leave(desk->lanes, lane);
    lanes_placed(desk->lanes, lane);
    keeper_call(lane);
    pthread_cond_broadcast(&desk->placed);
}

static size_t fill_lot(struct store_lot *lot, struct lane *lane,
                       struct store_order *orders[])
{
    size_t n = 0;

    for (struct ticket *ticket = lane->placing; ticket; ticket = ticket->next)
        orders[n++] = &ticket->order;
    *lot = (struct store_lot){.orders = orders,
                              .n = n,
                              .fence = holds_fence(&lane->holds),
                              .owner = lane};
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
        if (holds_lost(&lane->keeper->worker, &lane->holds))
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

/* The store has decided nothing about an order, and it may wait once more: for
 * the same lock, or in the lane of another segment, which is chosen here. */
static bool goes_on(struct desk *desk, const struct store_lot *lot,
                    struct ticket *ticket)
{
    if (lot->status == STORE_STALE_FENCE)
        return may_try_again(ticket);
    return choice_is_short(desk->app, ticket) &&
           choice_again(desk->app, ticket);
}

/* Answers what is decided; what goes on comes back as a list. */
static struct ticket *answer_lot(struct desk *desk, const struct store_lot *lot,
                                 const struct store_error *error,
                                 uint64_t now_us)
{
    struct ticket *ticket = ((struct lane *)lot->owner)->placing;
    struct ticket *again = NULL, **last = &again, *next;

    metrics_batch(desk->app->metrics, lot->n);
    for (; ticket; ticket = next) {
        next = ticket->next;
        outcome_of_store(ticket, lot->status, error);
        if (goes_on(desk, lot, ticket)) {
            *last = ticket;
            last = &ticket->next;
        } else {
            desk_answer(desk, ticket, now_us);
        }
    }
    *last = NULL;
    return again;
}

/* Under the mutex. The keeper hears of it if there is something for it to do:
 * else it would only wake up to go to sleep again. */
static void settle_lane(struct desk *desk, const struct store_lot *lot,
                        uint64_t now_us)
{
    struct lane *lane = lot->owner;

    if (lot->status != STORE_OK)
        holds_failed(&lane->holds);
    if (lot->status == STORE_STALE_FENCE)
        lanes_leave(desk->lanes, lane); /* it is ours no more */
    lanes_placed(desk->lanes, lane);
    if (keep_is_due(lane, now_us))
        keeper_call(lane);
    if (lane->state == LANE_LEAVING)
        pthread_cond_broadcast(&desk->placed);
}

struct ticket *flow_send_on(struct desk *desk, struct ticket *list)
{
    struct ticket *lost = list ? lanes_push_back(desk->lanes, list) : NULL;

    if (list && lanes_wanted(desk->lanes))
        desk_call(desk);
    return lost;
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
    for (size_t i = 0; i < n; i++) {
        again[i] = flow_send_on(desk, again[i]);
        settle_lane(desk, &lots[i], now_us);
    }
    /* Also when the desk stops: what was chosen is placed, and then only can
     * its lane be left. */
    flowing = lanes_flowing(desk->lanes);
    pthread_mutex_unlock(&desk->mutex);
    for (size_t i = 0; i < n; i++)
        desk_refuse(desk, again[i], ORDER_OVERLOADED, "out of memory");
    if (flowing)
        store_stream_wake(desk->stream);
}

enum store_status flow_open(struct desk *desk, struct store_error *error)
{
    const struct store_source source = {
        .take = take, .done = done, .ctx = desk};

    return store_stream_open(desk->app->store, &source, &desk->stream, error);
}
