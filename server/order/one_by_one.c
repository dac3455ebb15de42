/*
 * Order by order: every order on its own, as textbooks do it, for the lab and the
 * load tests, where the lock alone shall decide what happens.
 *
 * Lock, decide, unlock - in this order and never another: the lock is given back
 * after the commit. To unlock first would let the next holder read what is not
 * there yet, the classic bug of flash sales. The customer is answered in between:
 * what is on disk is theirs, whatever becomes of the lock.
 *
 * The guarded way needs the lock for order only: the store's conditional
 * transaction decides. The naive way is what textbooks print, and is exactly as
 * right as the lock around it.
 */
#include "server/order/order.h"

#include <poll.h>

#include "server/base/app.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/order/hints.h"
#include "server/order/lock_tasks.h"

#define GIVE_MS_MAX   10000
#define GIVE_RETRY_MS 100

/* False: the service ends meanwhile. */
static bool pause_ms(const struct worker *worker, int ms)
{
    return poll(&(struct pollfd){worker->stop_fd, POLLIN, 0}, 1, ms) == 0;
}

/* The time that real services spend under their lock: prices, risk, taxes. */
static void think(const struct worker *worker)
{
    if (worker->app->config->think_ms > 0)
        (void)pause_ms(worker, (int)worker->app->config->think_ms);
}

/* Three steps with the world going on between them. The only thing that is not from the
 * textbook is the fence: announced before the read, so that a holder that slept through
 * its lease cannot write what it computed from an old read. (Of a lock that is late, it
 * is announced with the write. Too late.) */
static enum store_status decide_naive(struct worker *worker,
                                      struct store_order *record,
                                      const struct store_fence *fence,
                                      struct store_error *error)
{
    struct store *store = worker->app->store;
    enum store_status status = STORE_OK;
    int64_t stock = 0;

    /* The stamp comes before the read: from then on an older holder's write is
     * refused, so that what is read here stays true. */
    if (fence->token && !fence->late)
        status = store_stamp(store, fence, error);
    if (status == STORE_OK)
        status = store_naive_select(worker->reader, record, &stock, error);
    if (status != STORE_OK || record->status != STORE_OK || record->replayed)
        return status;
    think(worker);
    status = store_naive_update(store, record->product_id, record->segment,
                                stock - record->quantity, fence, error);
    if (status != STORE_OK)
        return status;
    status = store_naive_insert(store, record, fence, error);
    /* The stock is written and the order is not. To try again would take the
     * units twice. */
    return status == STORE_STALE_FENCE ? STORE_UNKNOWN : status;
}

static void decide(struct worker *worker, struct order *order,
                   const struct store_fence *fence)
{
    struct store_order *record = &order->record;
    struct store_error error = {""};
    enum store_status status;
    uint64_t begin_us;

    metrics_observe(worker->app->metrics, METRICS_BATCH, 1);
    if (worker->app->config->deduct == DEDUCT_NAIVE) {
        status = decide_naive(worker, record, fence, &error);
    } else {
        think(worker);
        begin_us = clock_us();
        status = store_place(worker->app->store, &record, 1, fence, &error);
        metrics_observe(worker->app->metrics, METRICS_COMMIT,
                        clock_us() - begin_us);
    }
    /* The order has its own status only if the transaction was committed: after
     * a failure it has the transaction's. */
    if (status != STORE_OK)
        record->status = status;
    order_set_decided(order, status, &error);
}

/* Nothing is decided, and the order may go on: the lock was overtaken, or
 * another segment has enough. */
static bool goes_on(const struct worker *worker, struct order *order)
{
    struct store_order *record = &order->record;

    if (record->status == STORE_STALE_FENCE)
        return ++order->tries < ORDER_TRIES_MAX;
    if (record->status != STORE_SHORT)
        return false;
    if (worker->app->config->deduct == DEDUCT_NAIVE) {
        metrics_count(worker->app->metrics, METRICS_WRONG, 1);
        return false;
    }
    record->gather = ++order->probes >= ORDER_PROBES_MAX;
    record->segment = record->richest;
    return true;
}

/* An order about to hear "not now": an earlier try with its key may have
 * ordered. */
static void look_up_key(struct worker *worker, struct order *order)
{
    struct store_order *record = &order->record, found = {0};

    if (record->key[0] == '\0' ||
        store_order_by_key(worker->reader, record->key, &found, NULL) !=
            STORE_OK)
        return;
    /* The same as the store's own check: a key names one request, and another
     * one under it must not get its order. */
    if (found.product_id != record->product_id ||
        found.user_id != record->user_id ||
        found.quantity != record->quantity) {
        order_set_outcome(order, ORDER_KEY_REUSED,
                          store_status_text(STORE_KEY_REUSED));
        return;
    }
    *record = found;
    record->replayed = true;
    order_set_outcome(order, ORDER_REPLAYED, "");
}

/* False: it was not had, and the order has its outcome. */
static bool take_lock(struct worker *worker, struct order *order,
                      struct lock_task *lock)
{
    /* The time in the pool's queue, and that of earlier rounds, counts: the
     * customer hears within --lock-wait-ms. */
    uint64_t waited_ms = (clock_us() - order->submitted_us) / 1000;
    uint64_t wait_ms = lock_wait_ms(worker->app);
    enum order_outcome outcome;
    const char *why;

    lock->kind = LOCK_TAKE;
    lock->product_id = order->record.product_id;
    if (worker->app->config->lock_per == LOCK_PER_USER)
        lock_name_of_user(order->record.user_id, lock->name);
    else
        lock_name(lock->product_id, order->record.segment, lock->name);
    lock->session = worker->session;
    lock->wait_ms = waited_ms < wait_ms ? (unsigned)(wait_ms - waited_ms) : 0;
    lock_task_run(lock, worker);
    if (lock->status == DLOCK_OK)
        return true;
    outcome = lock_task_outcome(lock, &why);
    if (outcome == ORDER_NO_PRODUCT) {
        order_set_outcome(order, outcome, why);
    } else {
        order_not_now(order, outcome, why);
        look_up_key(worker, order);
    }
    return false;
}

/* A lock that cannot be given back ends with its lease; and the worker becomes another
 * owner, since nobody knows what the server believes of this one. */
static void give_lock(struct worker *worker, struct lock_task *lock)
{
    uint64_t until_us = clock_us() + GIVE_MS_MAX * UINT64_C(1000);
    struct dlock_session *fresh;

    /* The release must go on for some time: as long as the lock stands on the
     * server, the product is blocked for all. */
    lock->kind = LOCK_GIVE;
    do {
        lock_task_run(lock, worker);
        if (!health_is_no_answer(lock->status))
            return;
    } while (clock_us() < until_us && pause_ms(worker, GIVE_RETRY_MS));
    log_warn("release", "error=\"the lock server is away: what is held ends "
                        "with its lease\"");
    /* The new session is opened first: if that fails, the old one is better
     * than none. */
    if (dlock_session_open(worker->app->locks, &fresh, NULL) != DLOCK_OK)
        return;
    dlock_session_close(worker->session);
    worker->session = fresh;
}

static void answer_not_now(struct order *order, enum order_outcome outcome,
                           const char *why)
{
    order_not_now(order, outcome, why);
    order_end(order, clock_us());
}

/* All workers may have been busy for longer than the order may wait. The textbook's way
 * knows of one segment only; how many there are, the store says. */
void one_by_one_run(struct task *task, struct worker *worker)
{
    struct order *order = task->owner;
    const struct app *app = order->intake->app;
    const struct config *config = app->config;
    struct hints *hints = app->hints;
    struct store_order *record = &order->record;
    int64_t most_ms = config->request_deadline_ms / 2;
    struct lock_task lock = {0};
    struct store_fence fence;
    bool again = true;

    if (!worker) {
        answer_not_now(order, ORDER_SHUTTING_DOWN,
                       "the service is shutting down");
        return;
    }
    if (config->lock_wait_ms < most_ms)
        most_ms = config->lock_wait_ms;
    if (most_ms > 0 &&
        clock_us() > order->submitted_us + 1000 * (uint64_t)most_ms) {
        answer_not_now(order, ORDER_OVERLOADED, "waited too long in the queue");
        return;
    }
    record->segment =
        config->deduct == DEDUCT_NAIVE
            ? 0
            : hints_choose(hints, record->product_id, record->quantity);
    /* A loop that ends with `again` has not had the lock: take_lock() has set
     * the outcome then. */
    while (again && take_lock(worker, order, &lock)) {
        fence = lock_fence(app, &lock.grant);
        decide(worker, order, &fence);
        /* The hints are told before the answer: after order_end() the order is
         * its owner's again, and maybe freed. */
        if (record->segments > 1)
            hints_note(hints, record->product_id, record->segments,
                       record->segment, -1);
        again = goes_on(worker, order);
        if (!again)
            order_end(order, clock_us());
        give_lock(worker, &lock);
    }
    if (again) /* without the lock */
        order_end(order, clock_us());
}

void one_by_one_submit(struct intake *intake, struct order *list)
{
    struct order *next;

    for (; list; list = next) {
        /* `next` is read first: a worker may have answered the order before the
         * call returns. */
        next = list->next;
        list->task = (struct task){.run = one_by_one_run, .owner = list};
        tasks_submit(intake->app->workers, &list->task);
    }
}
