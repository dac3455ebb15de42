/*
 * A batch: from the queues whose lock is held into the store, and the answers
 * back. On the committer's thread, as all of the dispatcher.
 */
#include "server/order/dispatcher_private.h"

#include <limits.h>

#include "server/base/app.h"
#include "server/base/clock.h"
#include "server/base/metrics.h"
#include "server/order/hints.h"

/* Up to N of the first orders of QUEUE; USED of the batch is filled. */
static size_t fill_lot(struct dispatcher *d, struct store_lot *lot,
                       struct queue *queue, size_t n, size_t used)
{
    queue->batch = queue_pop(queue, n < LOT_MAX ? n : LOT_MAX);
    *lot = (struct store_lot){.orders = &d->batch[used], .owner = queue};
    for (struct order *order = queue->batch; order; order = order->next) {
        timers_cancel(&d->limits, &order->limit);
        d->batch[used + lot->n++] = &order->record;
    }
    return lot->n;
}

/* Whether the lease still runs is looked at last of all. If that look was too
 * early by a moment, the store's fence decides. */
size_t dispatcher_take(void *ctx, struct store_lot lots[], size_t n_max)
{
    struct dispatcher *d = ctx;
    size_t n = 0, used = 0;
    struct queue *queue;

    d->queues.now_us = clock_us();
    dispatcher_take_in(d);
    if (d->unlocked.waiting > 0) {
        used = fill_lot(d, &lots[n], &d->unlocked, SIZE_MAX, 0);
        lots[n++].unlocked = true;
    }
    while (n < n_max && used + LOT_MAX <= BATCH_MAX &&
           (queue = TAILQ_FIRST(&d->queues.ready))) {
        if (!locks_is_good(queue)) {
            locks_leave(d->locks, queue);
            continue;
        }
        used += fill_lot(d, &lots[n], queue, queue->quota, used);
        queue->quota -= queue->quota == SIZE_MAX ? 0 : lots[n].n;
        lots[n++].fence = &queue->fence;
        queue_update(&d->queues, queue);
    }
    d->queues.at_store_us = n > 0 ? d->queues.now_us : 0;
    return n;
}

/*
 * An order of which nothing was decided goes on: another segment has enough; or
 * no order had to be placed under the lock that was not asked for. Nothing is
 * written under a lock that is not ours any more: its orders wait for it again,
 * but not for ever.
 */
static void settle(struct dispatcher *d, const struct store_lot *lot,
                   struct order *order, const struct store_error *error)
{
    struct store_order *record = &order->record;
    bool goes_on =
        lot->status == STORE_OK &&
        (record->status == STORE_SHORT || record->status == STORE_NEEDS_LOCK);

    if (goes_on && order->is_fallback) {
        dispatcher_answer(d, order);
    } else if (goes_on && d->stopping) {
        dispatcher_refuse(d, order, ORDER_SHUTTING_DOWN,
                          "the service is shutting down");
    } else if (goes_on && record->status == STORE_NEEDS_LOCK) {
        dispatcher_choose(d, order, true);
    } else if (goes_on) {
        record->gather = ++order->probes >= ORDER_PROBES_MAX;
        record->segment = record->richest;
        hints_uneven(d->app->hints, record->product_id, d->queues.now_us);
        dispatcher_enqueue(d, order, true);
    } else if (lot->status == STORE_STALE_FENCE && !d->stopping &&
               ++order->tries < ORDER_TRIES_MAX) {
        dispatcher_enqueue(d, order, true);
    } else if (lot->status != STORE_OK && order->is_fallback) {
        order->is_fallback = false; /* nobody could look up its key */
        order_not_now(order, order->outcome, error->text);
        dispatcher_answer(d, order);
    } else {
        order_set_decided(order, lot->status, error);
        dispatcher_answer(d, order);
    }
}

static void settle_lot(struct dispatcher *d, const struct store_lot *lot,
                       const struct store_error *error)
{
    struct queue *queue = lot->owner;
    struct order *order = queue->batch, *next;

    queue->batch = NULL;
    metrics_observe(d->app->metrics, METRICS_BATCH, lot->n);
    if (lot->unlocked) {
        metrics_count(d->app->metrics, METRICS_CHECKS, lot->n);
        metrics_count(d->app->metrics, METRICS_WRONG, lot->wrongly_known);
    } else {
        hints_note(d->app->hints, queue->id.product_id, order->record.segments,
                   queue->id.segment, lot->left);
        queue->has_placed = true;
        if (lot->status == STORE_STALE_FENCE)
            locks_leave(d->locks, queue);
    }
    /* From the last to the first, so that those that go on keep their order. */
    if (lot->status != STORE_OK || lot->unlocked || order->record.segments > 1)
        order = order_list_reversed(order);
    for (; order; order = next) {
        next = order->next;
        settle(d, lot, order, error);
    }
    if (!lot->unlocked)
        locks_update(d->locks, queue);
}

void dispatcher_done(void *ctx, struct store_lot lots[], size_t n,
                     const struct store_error *error)
{
    struct dispatcher *d = ctx;
    int waiting = (int)atomic_load(&d->intake.depth);

    for (size_t i = 0; i < n; i++)
        waiting -= (int)lots[i].n;
    d->queues.now_us = clock_us();
    metrics_observe(d->app->metrics, METRICS_COMMIT,
                    d->queues.now_us - d->queues.at_store_us);
    d->queues.at_store_us = 0;
    d->gather_since_us = waiting > 0 ? d->queues.now_us : 0;
    d->gather_till_us = d->queues.now_us + 50;
    atomic_store(&d->intake.away,
                 waiting > 0 && n > 0 && lots[0].orders[0]->key[0] ? INT_MIN / 2
                                                                   : 0);
    for (size_t i = 0; i < n; i++)
        settle_lot(d, &lots[i], error);
}
