/*
 * The dispatcher's thread is the store's committer: attend(), take() and done()
 * are what it calls (db/store_batch.h). So all here and in dispatcher_batch.c, but
 * for the last part, runs on one thread and needs no mutex.
 *
 *     intake -> choose a segment -> its queue -> batch -> answer
 *                       ^              (locks.c)    |
 *                       +-- too few units there ----+
 *
 * Some orders need no lock, since nothing is to be written for them: the store
 * replays them by their key, or refuses them. They wait in a list of their own
 * and go into the next batch: orders for what is known to be sold out, or for a
 * product that does not exist; and orders with a key that are about to hear "not
 * now", since an earlier try with that key may have ordered.
 */
#include "server/order/dispatcher_private.h"

#include <stdlib.h>

#include "server/base/app.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/order/hints.h"

#define QUIET_US  50
#define GATHER_US 2000

#define LIMIT_MS_MIN    250    /* there may be a batch ahead */
#define FALLBACK_US_MAX 250000 /* to look up a key before "not now" */

void dispatcher_answer(struct dispatcher *d, struct order *order)
{
    timers_cancel(&d->limits, &order->limit);
    if (order->returns)
        atomic_fetch_add(&d->intake.away, 1);
    intake_answer(order, d->queues.now_us);
}

void dispatcher_refuse(struct dispatcher *d, struct order *order,
                       enum order_outcome outcome, const char *why)
{
    bool look_up =
        order->record.key[0] != '\0' && !order->is_fallback && !d->stopping;

    order->is_fallback |= look_up;
    order_not_now(order, outcome, why);
    if (!look_up) {
        dispatcher_answer(d, order);
        return;
    }
    queue_push(&d->unlocked, order, false);
    (void)timers_set(&d->limits, &order->limit,
                     d->queues.now_us + FALLBACK_US_MAX);
}

static void refuse_at_the_end(struct dispatcher *d, struct order *order)
{
    dispatcher_refuse(d, order, ORDER_SHUTTING_DOWN,
                      "the service is shutting down");
}

static uint64_t limit_us(const struct dispatcher *d, const struct order *order)
{
    const struct config *config = d->app->config;
    uint64_t ms = (uint64_t)config->lock_wait_ms;
    uint64_t most = (uint64_t)config->request_deadline_ms / 2;

    if (ms < LIMIT_MS_MIN)
        ms = LIMIT_MS_MIN;
    return order->submitted_us + 1000 * (ms < most ? ms : most);
}

void dispatcher_enqueue(struct dispatcher *d, struct order *order, bool again)
{
    struct queue *queue =
        queue_need(&d->queues, order->record.product_id, order->record.segment);

    if (!queue || !timers_set(&d->limits, &order->limit, limit_us(d, order))) {
        dispatcher_refuse(d, order, ORDER_OVERLOADED, "out of memory");
        return;
    }
    queue_push(queue, order, again);
    locks_update(d->locks, queue);
}

void dispatcher_choose(struct dispatcher *d, struct order *order, bool again)
{
    struct store_order *record = &order->record;

    record->segment =
        hints_choose(d->app->hints, record->product_id, record->quantity);
    dispatcher_enqueue(d, order, again);
}

void dispatcher_take_in(struct dispatcher *d)
{
    struct order *order = intake_take(&d->intake), *next;

    if (order) {
        if (d->gather_since_us == 0)
            d->gather_since_us = d->queues.now_us;
        d->gather_till_us = d->queues.now_us + QUIET_US;
        if (d->gather_till_us > d->gather_since_us + GATHER_US)
            d->gather_till_us = d->gather_since_us + GATHER_US;
    }
    for (; order; order = next) {
        next = order->next;
        order->record.gather = false;
        if (d->stopping)
            refuse_at_the_end(d, order);
        else if (store_knows_sold_out(d->app->store, order->record.product_id,
                                      order->record.quantity) &&
                 timers_set(&d->limits, &order->limit, limit_us(d, order)))
            queue_push(&d->unlocked, order, false);
        else
            dispatcher_choose(d, order, false);
    }
}

/* Says what the order has waited for in vain. */
static void expire(struct dispatcher *d, struct order *order)
{
    uint64_t think_us = 1000 * (uint64_t)d->app->config->think_ms;
    struct queue *queue = order->queue;
    enum order_outcome outcome = ORDER_LOCK_TIMEOUT;
    const char *why = dlock_status_text(DLOCK_TIMEOUT);

    /* What began within the limit ends within the business time after it. */
    if (queue->is_thinking &&
        d->queues.now_us < limit_us(d, order) + think_us) {
        (void)timers_set(&d->limits, &order->limit,
                         limit_us(d, order) + think_us);
        return;
    }
    queue_remove(order);
    if (queue == &d->unlocked) { /* its key was not looked up in time */
        outcome = order->is_fallback ? order->outcome : ORDER_STORE_UNAVAILABLE;
        order->is_fallback = false;
        order_not_now(order, outcome, "the database was busy for too long");
        dispatcher_answer(d, order);
        return;
    }
    if (locks_are_away(d->locks)) {
        outcome = ORDER_LOCK_UNREACHABLE;
        why = "the lock server did not answer those before";
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
    dispatcher_refuse(d, order, outcome, why);
    locks_update(d->locks, queue);
}

/* See struct locks_owner. Of what is not there, the store says so. */
static void refuse_before(void *ctx, struct queue *queue, uint64_t before_us,
                          enum order_outcome outcome, const char *why)
{
    struct dispatcher *d = ctx;
    struct order *order = TAILQ_FIRST(&queue->orders), *next;

    for (; order; order = next) {
        next = TAILQ_NEXT(order, place);
        if (order->submitted_us >= before_us)
            continue;
        queue_remove(order);
        if (outcome == ORDER_NO_PRODUCT)
            queue_push(&d->unlocked, order, false);
        else
            dispatcher_refuse(d, order, outcome, why);
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
        hints_stop(d->app->hints);
        locks_stop(d->locks);
    }
    while ((timer = timers_pop(&d->limits, UINT64_MAX))) {
        order = CONTAINER_OF(timer, struct order, limit);
        queue = order->queue;
        queue_remove(order);
        refuse_at_the_end(d, order);
        if (queue != &d->unlocked)
            locks_update(d->locks, queue);
    }
}

/*
 * Customers who were just answered order again in a moment, and an order that just
 * misses a batch waits for a whole commit. So a batch waits until they are all back,
 * or no order has come for QUIET_US, or the first one has waited for GATHER_US.
 */
static bool is_full(const struct dispatcher *d)
{
    return atomic_load(&d->intake.away) <= 0 || d->stopping ||
           d->queues.now_us >= d->gather_till_us;
}

static bool attend(void *ctx, uint64_t *due_us)
{
    struct dispatcher *d = ctx;
    struct timer *timer;
    bool is_ready;

    atomic_fetch_add_explicit(&d->beats, 1, memory_order_relaxed);
    if (!d->is_batched)
        return false;
    d->queues.now_us = clock_us();
    atomic_store(&d->intake.is_timed, false);
    dispatcher_take_in(d);
    while ((timer = timers_pop(&d->limits, d->queues.now_us)))
        expire(d, CONTAINER_OF(timer, struct order, limit));
    if (atomic_load(&d->intake.closed))
        stop_all(d);
    locks_attend(d->locks);
    hints_attend(d->app->hints, d->queues.now_us);
    /* An order that was counted and is not in the inbox yet is on its way. */
    if (d->stopping && atomic_load(&d->intake.depth) == 0 &&
        locks_are_idle(d->locks) && hints_are_idle(d->app->hints)) {
        pthread_mutex_lock(&d->mutex);
        d->is_idle = true;
        pthread_cond_signal(&d->idle);
        pthread_mutex_unlock(&d->mutex);
    }
    *due_us = timers_next_us(&d->limits);
    if (locks_due_us(d->locks) < *due_us)
        *due_us = locks_due_us(d->locks);
    is_ready = d->unlocked.waiting > 0 || !TAILQ_EMPTY(&d->queues.ready);
    if (!is_ready || is_full(d))
        return is_ready;
    if (d->gather_till_us < *due_us)
        *due_us = d->gather_till_us;
    atomic_store(&d->intake.is_timed, true);
    return false;
}

void dispatcher_submit(struct dispatcher *dispatcher, struct order *list)
{
    list = intake_count(&dispatcher->intake, list);
    if (dispatcher->is_batched)
        intake_put(&dispatcher->intake, list, false);
    else
        one_by_one_submit(&dispatcher->intake, list);
}

void dispatcher_gather(struct dispatcher *dispatcher, struct order *order)
{
    order->next = NULL;
    order = intake_count(&dispatcher->intake, order);
    if (dispatcher->is_batched)
        intake_put(&dispatcher->intake, order, true);
    else
        one_by_one_submit(&dispatcher->intake, order);
}

bool dispatcher_refuses(struct dispatcher *dispatcher, struct order *order)
{
    return intake_refuses(&dispatcher->intake, order);
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
    const struct locks_owner owner = {.refuse = refuse_before, .ctx = d};
    const struct store_source source = {.attend = attend,
                                        .take = dispatcher_take,
                                        .done = dispatcher_done,
                                        .ctx = d};

    if (!d)
        return NULL;
    d->app = app;
    d->intake.app = app;
    queues_init(&d->queues);
    TAILQ_INIT(&d->unlocked.orders);
    pthread_mutex_init(&d->mutex, NULL);
    pthread_mutex_init(&d->intake.hints_mutex, NULL);
    pthread_cond_init(&d->idle, NULL);
    d->locks = locks_open(app, &d->queues, &owner);
    if (!d->locks) {
        log_error("dispatcher", "error=\"out of memory\"");
        dispatcher_close(d);
        return NULL;
    }
    d->is_batched = app->config->orders == ORDERS_BATCHED;
    store_source_attach(app->store, &source);
    return d;
}

/* Orders that are handed in while this happens find the intake closed; or they
 * have passed it, and are waited for. */
void dispatcher_stop(struct dispatcher *d)
{
    if (atomic_exchange(&d->intake.closed, true))
        return;
    dlock_end_waits(d->app->locks); /* whatever --lock-wait-ms says */
    if (d->is_batched) {
        store_source_wake(d->app->store);
        pthread_mutex_lock(&d->mutex);
        while (!d->is_idle)
            pthread_cond_wait(&d->idle, &d->mutex);
        pthread_mutex_unlock(&d->mutex);
    }
    store_source_detach(d->app->store);
    tasks_stop(d->app->workers);
}

void dispatcher_close(struct dispatcher *d)
{
    if (!d)
        return;
    dispatcher_stop(d);
    queues_release(&d->queues);
    locks_close(d->locks);
    timers_release(&d->limits);
    pthread_cond_destroy(&d->idle);
    pthread_mutex_destroy(&d->intake.hints_mutex);
    pthread_mutex_destroy(&d->mutex);
    free(d);
}
