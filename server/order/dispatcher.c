/*
 * The dispatcher's thread is the store's committer: attend(), take() and done()
 * are what it calls (db/store_async.h). So all here but for the last part runs on
 * one thread and needs no mutex.
 *
 *     inbox -> choose a segment -> its queue -> batch -> answer
 *                      ^              (locks.c)    |
 *                      +-- too few units there ----+
 *
 * Some orders need no lock, since nothing is to be written for them: the store
 * replays them by their key, or refuses them. They wait in a list of their own
 * and go into the next batch: orders for what is known to be sold out, or for a
 * product that does not exist; and orders with a key that are about to hear "not
 * now", since an earlier try with that key may have ordered.
 */
#include "server/order/dispatcher.h"

#include <semaphore.h>
#include <stdlib.h>

#include "db/store_async.h"
#include "server/base/app.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/order/hints.h"
#include "server/order/locks.h"

#define BATCH_MAX 1024 /* orders that share one transaction */
#define LOT_MAX   512  /* of them, those of one queue */

#define LIMIT_MS_MIN    250    /* there may be a batch ahead */
#define FALLBACK_US_MAX 250000 /* to look up a key before "not now" */

#define CHECKS         1024 /* products that meet share their second */
#define CHECK_EVERY_MS 1000 /* a refusal from memory of one product */

struct dispatcher {
    const struct app *app;
    struct intake intake;
    bool is_batched;            /* not one by one */
    atomic_uint_fast64_t beats; /* calls of attend() */
    atomic_uint_fast64_t check_due_ms[CHECKS];

    /* The inbox: other threads put orders in. */
    _Atomic(struct order *) inbox; /* the last one first */

    /* The committer's thread's. */
    struct queues queues;
    struct locks *locks;
    struct timers limits;  /* of the orders that wait */
    struct queue unlocked; /* of orders that need no lock; not in the table */
    struct store_order *batch[BATCH_MAX];
    bool stopping;
    bool has_segments; /* a product was met that has several: hints count */

    sem_t idle; /* posted while it is stopping and nothing is left to do */
};

/* ---- into the queues, or out of them --------------------------------------- */

static void answer(struct dispatcher *d, struct order *order)
{
    /* The timer must go before order_end(), since done() may free the order. */
    timers_cancel(&d->limits, &order->limit);
    order_end(order, d->queues.now_us);
}

/* It needs no lock, and waits for the next batch. */
static void wait_unlocked(struct dispatcher *d, struct order *order,
                          uint64_t until_us)
{
    queue_push(&d->unlocked, order, false);
    timers_set(&d->limits, &order->limit, until_us);
}

static void refuse(struct dispatcher *d, struct order *order,
                   enum order_outcome outcome, const char *why)
{
    /* At the end no key is looked up, because stop_all() empties the list in
     * which the order would wait; and one that waited there has not been. */
    bool look_up = order->record.key[0] != '\0' && !d->stopping;

    /* The flag is set before the text is made: what is written now is told if
     * the look finds no order. */
    order->is_fallback = look_up;
    order_not_now(order, outcome, why);
    if (look_up)
        /* The look has a limit of its own, because the order's was used up by
         * what it is refused for. */
        wait_unlocked(d, order, d->queues.now_us + FALLBACK_US_MAX);
    else
        answer(d, order);
}

static void refuse_at_the_end(struct dispatcher *d, struct order *order)
{
    refuse(d, order, ORDER_SHUTTING_DOWN, "the service is shutting down");
}

static uint64_t limit_us(const struct dispatcher *d, const struct order *order)
{
    const struct config *config = d->app->config;
    uint64_t ms = (uint64_t)config->lock_wait_ms;
    /* The other half of the request's time is for the commit and the reply. */
    uint64_t most = (uint64_t)config->request_deadline_ms / 2;

    if (ms < LIMIT_MS_MIN)
        ms = LIMIT_MS_MIN;
    return order->submitted_us + 1000 * (ms < most ? ms : most);
}

static void enqueue(struct dispatcher *d, struct order *order, bool again)
{
    struct queue *queue =
        queue_need(&d->queues, order->record.product_id, order->record.segment);

    if (!queue) {
        refuse(d, order, ORDER_OVERLOADED, "out of memory");
        return;
    }
    timers_set(&d->limits, &order->limit, limit_us(d, order));
    queue_push(queue, order, again);
    locks_update(d->locks, queue);
}

static void choose(struct dispatcher *d, struct order *order, bool again)
{
    struct store_order *record = &order->record;

    /* Before a product with several segments was met, the hints know of none: a
     * look would be a mutex for nothing. */
    record->segment =
        d->has_segments
            ? hints_choose(d->app->hints, record->product_id, record->quantity)
            : 0;
    enqueue(d, order, again);
}

static void take_in(struct dispatcher *d)
{
    struct order *order = NULL, *next;

    /* The look is cheap where nothing has come: an exchange would take the
     * cache line from the threads that push. */
    if (atomic_load_explicit(&d->inbox, memory_order_relaxed))
        order = order_list_reversed(atomic_exchange(&d->inbox, NULL));
    for (; order; order = next) {
        next = order->next;
        if (d->stopping)
            refuse_at_the_end(d, order);
        /* An order that is sure to hear "sold out" must not take a lock for it:
         * after a sale there are thousands. */
        else if (store_knows_sold_out(d->app->store, order->record.product_id,
                                      order->record.quantity))
            wait_unlocked(d, order, limit_us(d, order));
        else
            choose(d, order, false);
    }
}

/* Says what the order has waited for in vain. */
static void expire(struct dispatcher *d, struct order *order)
{
    uint64_t think_us = 1000 * (uint64_t)d->app->config->think_ms;
    struct queue *queue = order->queue;
    enum order_outcome outcome = ORDER_LOCK_TIMEOUT;
    const char *why = dlock_status_text(DLOCK_TIMEOUT);

    /* Business time that began within the limit may end after it. */
    if (queue->is_thinking &&
        d->queues.now_us < limit_us(d, order) + think_us) {
        timers_set(&d->limits, &order->limit, limit_us(d, order) + think_us);
        return;
    }
    queue_remove(order);
    if (queue == &d->unlocked) { /* its key was not looked up in time */
        outcome = order->is_fallback ? order->outcome : ORDER_STORE_UNAVAILABLE;
        order->is_fallback = false;
        order_not_now(order, outcome, "the database was busy for too long");
        answer(d, order);
        return;
    }
    /* The reason, the first that holds: the lock server; the store, which has
     * the queue's batch, or could take it, or is asked before the lock; too
     * many queues before this one. Else the lock is another's. */
    if (locks_are_away(d->locks)) {
        outcome = ORDER_LOCK_UNREACHABLE;
        why = "the lock server did not answer the last orders";
    } else if (queue->batch ||
               (queue->state == QUEUE_HELD && !queue->is_thinking) ||
               (queue->state == QUEUE_TAKING &&
                atomic_load(&queue->lock.at_store))) {
        outcome = ORDER_STORE_UNAVAILABLE;
        why = "the database was busy for too long";
    } else if (queue->state == QUEUE_WANTED) {
        outcome = ORDER_OVERLOADED;
        why = "waited too long in the queue";
    }
    refuse(d, order, outcome, why);
    /* The queue may be empty now, and its lock of no use. */
    locks_update(d->locks, queue);
}

/* See locks_refuse. Orders for a product that does not exist hear so from the store. */
static void refuse_before(void *owner, struct queue *queue, uint64_t before_us,
                          enum order_outcome outcome, const char *why)
{
    struct dispatcher *d = owner;
    struct order *order = TAILQ_FIRST(&queue->orders), *next;

    for (; order; order = next) {
        next = TAILQ_NEXT(order, place);
        /* An order that came later has not been tried for yet. */
        if (order->submitted_us >= before_us)
            continue;
        queue_remove(order);
        /* The store was only read for the lock, outside of a transaction: the
         * batch looks once more, and finds the order's key as well, if it has
         * one. */
        if (outcome == ORDER_NO_PRODUCT)
            queue_push(&d->unlocked, order, false);
        else
            refuse(d, order, outcome, why);
    }
}

/* The end: what waits is refused, what is held is given back. */
static void stop_all(struct dispatcher *d)
{
    struct timer *timer;
    struct order *order;
    struct queue *queue;

    if (!d->stopping) {
        d->stopping = true;
        /* The hints and the locks hear of the end first: locks_update(), which
         * follows each refusal, must give the lock back then, and not keep it. */
        hints_stop(d->app->hints);
        locks_stop(d->locks);
    }
    /* Each order that waits, in whatever queue, has a timer: so these are all. */
    while ((timer = timers_pop(&d->limits, UINT64_MAX))) {
        order = CONTAINER_OF(timer, struct order, limit);
        queue = order->queue;
        queue_remove(order);
        refuse_at_the_end(d, order);
        if (queue != &d->unlocked)
            locks_update(d->locks, queue);
    }
}

/* ---- what the store calls ---------------------------------------------------- */

static bool attend(void *ctx, uint64_t *due_us)
{
    struct dispatcher *d = ctx;
    struct timer *timer;

    atomic_fetch_add_explicit(&d->beats, 1, memory_order_relaxed);
    /* The workers have the orders; only the beat comes from here. */
    if (!d->is_batched)
        return false;
    d->queues.now_us = clock_us();
    take_in(d);
    while ((timer = timers_pop(&d->limits, d->queues.now_us)))
        expire(d, CONTAINER_OF(timer, struct order, limit));
    /* The end comes after take_in(), so that it refuses what has just come in,
     * and before locks_attend(), so that no lock is taken for that. */
    if (atomic_load(&d->intake.closed))
        stop_all(d);
    *due_us = locks_attend(d->locks);
    if (d->has_segments)
        hints_attend(d->app->hints, d->queues.now_us);
    /* An order that was counted and is not in the inbox yet is on its way. */
    if (d->stopping && atomic_load(&d->intake.depth) == 0 &&
        locks_are_idle(d->locks) && hints_are_idle(d->app->hints))
        sem_post(&d->idle);
    if (timers_next_us(&d->limits) < *due_us)
        *due_us = timers_next_us(&d->limits);
    return d->unlocked.waiting > 0 || !TAILQ_EMPTY(&d->queues.ready);
}

/* Up to N of the first orders of QUEUE; USED of the batch is filled. */
static size_t fill_lot(struct dispatcher *d, struct store_lot *lot,
                       struct queue *queue, size_t n, size_t used)
{
    /* From here to settle() the store decides: an order that is being written
     * cannot be refused for being late. So the timers go. */
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
static size_t take(void *ctx, struct store_lot lots[], size_t n_max)
{
    struct dispatcher *d = ctx;
    size_t n = 0, used = 0;
    struct queue *queue;

    d->queues.now_us = clock_us();
    /* The orders that came since attend() still get into this transaction. */
    take_in(d);
    if (d->unlocked.waiting > 0) {
        used = fill_lot(d, &lots[n], &d->unlocked, SIZE_MAX, 0);
        lots[n++].unlocked = true;
    }
    while (n < n_max && used + LOT_MAX <= BATCH_MAX &&
           (queue = TAILQ_FIRST(&d->queues.ready))) {
        /* locks_leave() takes the queue off the list of those ready, so that
         * the loop ends. */
        if (dlock_remaining_ms(queue->lock.session, &queue->lock.grant) == 0) {
            locks_leave(d->locks, queue);
            continue;
        }
        used += fill_lot(d, &lots[n], queue, queue->quota, used);
        queue->quota -= queue->quota == SIZE_MAX ? 0 : lots[n].n;
        lots[n++].fence = &queue->fence;
        /* The queue has a batch now, and is not ready: else it would be found
         * again. */
        queue_update(&d->queues, queue);
    }
    d->queues.at_store_us = n > 0 ? d->queues.now_us : 0;
    return n;
}

/* The order goes on if nothing was decided: another segment has enough units; or it
 * came without a lock, and needs one. An order whose lock was overtaken waits for the
 * lock again, but not for ever, because nothing was written for it. */
static void settle(struct dispatcher *d, const struct store_lot *lot,
                   struct order *order, const struct store_error *error)
{
    struct store_order *record = &order->record;
    bool goes_on =
        lot->status == STORE_OK &&
        (record->status == STORE_SHORT || record->status == STORE_NEEDS_LOCK);

    /* No order has its key, and it could be sold now; but it was refused
     * before, with a text that is still true. */
    if (goes_on && order->is_fallback) {
        answer(d, order);
    } else if (goes_on && record->status == STORE_NEEDS_LOCK) {
        choose(d, order, true);
    } else if (goes_on) {
        /* The order asks the segment that the store has named. After a few that
         * were short it gathers: the store moves units into its segment. */
        record->gather = ++order->probes >= ORDER_PROBES_MAX;
        record->segment = record->richest;
        hints_uneven(d->app->hints, record->product_id, d->queues.now_us);
        enqueue(d, order, true);
    } else if (lot->status == STORE_STALE_FENCE && !d->stopping &&
               ++order->tries < ORDER_TRIES_MAX) {
        enqueue(d, order, true);
    } else if (lot->status != STORE_OK && order->is_fallback) {
        order->is_fallback = false; /* nobody could look up its key */
        order_not_now(order, order->outcome, error->text);
        answer(d, order);
    } else {
        order_set_decided(order, lot->status, error);
        answer(d, order);
    }
}

static void settle_lot(struct dispatcher *d, const struct store_lot *lot,
                       const struct store_error *error)
{
    struct queue *queue = lot->owner;
    /* From the last to the first, so that those that go on keep their order. */
    struct order *order = order_list_reversed(queue->batch), *next;

    /* The batch is over before its orders are settled: enqueue() and
     * locks_update() go by it. */
    queue->batch = NULL;
    metrics_observe(d->app->metrics, METRICS_BATCH, lot->n);
    if (lot->unlocked) {
        metrics_count(d->app->metrics, METRICS_CHECKS, lot->n);
        metrics_count(d->app->metrics, METRICS_WRONG, lot->wrongly_known);
    } else {
        d->has_segments |= lot->segments > 1;
        if (d->has_segments)
            hints_note(d->app->hints, queue->id.product_id, lot->segments,
                       queue->id.segment, lot->left);
        queue->has_placed = true;
        /* The lock must be left before the orders go on, or they would be
         * placed under the same stale token. */
        if (lot->status == STORE_STALE_FENCE)
            locks_leave(d->locks, queue);
    }
    for (; order; order = next) {
        next = order->next;
        settle(d, lot, order, error);
    }
    /* The queue `unlocked` has no lock: locks.c does not know it. */
    if (!lot->unlocked)
        locks_update(d->locks, queue);
}

static void done(void *ctx, struct store_lot lots[], size_t n,
                 const struct store_error *error)
{
    struct dispatcher *d = ctx;

    d->queues.now_us = clock_us();
    if (n == 0) /* the leases of all that was ready had ended */
        return;
    metrics_observe(d->app->metrics, METRICS_COMMIT,
                    d->queues.now_us - d->queues.at_store_us);
    d->queues.at_store_us = 0;
    for (size_t i = 0; i < n; i++)
        settle_lot(d, &lots[i], error);
}

/* ---- from any thread --------------------------------------------------------- */

/* The inbox is a stack: what comes together is turned round, and once more when it is
 * taken. */
void dispatcher_submit(struct dispatcher *d, struct order *list)
{
    struct order *last = order_begin(&d->intake, list);

    if (last && !d->is_batched)
        one_by_one_submit(&d->intake, last);
    if (!last || !d->is_batched)
        return;
    /* A stack has its newest on top: the first order of the list becomes
     * `last`, and is linked to what lies there. A failed exchange has loaded
     * the new top into last->next. */
    list = order_list_reversed(last);
    last->next = atomic_load(&d->inbox);
    while (!atomic_compare_exchange_weak(&d->inbox, &last->next, list))
        continue;
    store_source_wake(d->app->store);
}

bool dispatcher_refuse_known(struct dispatcher *d, struct order *order)
{
    const struct store_order *record = &order->record;
    atomic_uint_fast64_t *due_ms =
        &d->check_due_ms[(uint64_t)record->product_id % CHECKS];
    uint_fast64_t due, now_ms;

    if (record->key[0] ||
        !store_knows_sold_out(d->app->store, record->product_id,
                              record->quantity))
        return false;
    /* The thread that moves the time on lets its order through. */
    now_ms = clock_ms();
    due = atomic_load_explicit(due_ms, memory_order_relaxed);
    if (now_ms >= due &&
        atomic_compare_exchange_strong(due_ms, &due, now_ms + CHECK_EVERY_MS))
        return false;
    order_set_outcome(order, ORDER_SOLD_OUT, store_status_text(STORE_SOLD_OUT));
    metrics_order(d->app->metrics, ORDER_SOLD_OUT);
    return true;
}

size_t dispatcher_depth(const struct dispatcher *dispatcher)
{
    return atomic_load(&dispatcher->intake.depth);
}

uint64_t dispatcher_beat(struct dispatcher *dispatcher)
{
    store_source_wake(dispatcher->app->store);
    return atomic_load(&dispatcher->beats);
}

struct dispatcher *dispatcher_open(const struct app *app)
{
    struct dispatcher *d = calloc(1, sizeof(*d));
    const struct store_source source = {
        .attend = attend, .take = take, .done = done, .ctx = d};

    if (!d)
        return NULL;
    d->app = app;
    d->intake.app = app;
    queues_init(&d->queues);
    TAILQ_INIT(&d->unlocked.orders);
    sem_init(&d->idle, 0, 0);
    d->locks = locks_open(app, &d->queues, refuse_before, d);
    if (!d->locks) {
        log_error("dispatcher", "error=\"out of memory\"");
        dispatcher_close(d);
        return NULL;
    }
    /* All must be in place before the source is attached: attend() is called at
     * once, on the committer's thread. */
    d->is_batched = app->config->orders == ORDERS_BATCHED;
    store_source_attach(app->store, &source);
    return d;
}

/* Orders that were counted before the intake closes are waited for. */
void dispatcher_stop(struct dispatcher *d)
{
    if (atomic_exchange(&d->intake.closed, true))
        return;
    /* The intake is closed before the waits end: what they wake must find that
     * nothing is taken any more. */
    dlock_end_waits(d->app->locks); /* whatever --lock-wait-ms says */
    if (d->is_batched) {
        store_source_wake(d->app->store);
        /* A signal may end the wait. More posts than one do no harm. */
        while (sem_wait(&d->idle) != 0)
            continue;
    }
    /* After the detach no call uses D. The workers end last: until the locks
     * are back their tasks are needed. */
    store_source_detach(d->app->store);
    tasks_stop(d->app->workers);
}

void dispatcher_close(struct dispatcher *d)
{
    if (!d)
        return;
    dispatcher_stop(d);
    /* The queues stand in lists of the locks, and so go first. */
    queues_release(&d->queues);
    locks_close(d->locks);
    sem_destroy(&d->idle);
    free(d);
}
