/*
 * Lock, decide, unlock - in this order and never another: the lock is given
 * back after the commit. Unlocking first would let the next holder read what
 * is not there yet, the classic bug of flash sales. The customer is answered
 * in between: what is on disk is theirs, whatever becomes of the lock.
 *
 * The guarded way needs the lock for order only: the store's conditional
 * transaction decides. The naive way is what textbooks print, and is exactly
 * as right as the lock around it.
 */
#include "server/order/critical.h"

#include "server/app.h"
#include "server/clock.h"
#include "server/config.h"
#include "server/metrics.h"
#include "server/order/choice.h"
#include "server/order/outcome.h"

/* A holder that was overtaken, and has written nothing, may queue up again; but
 * not for ever. */
#define CRITICAL_TRIES_MAX 3

/* ---- the naive way ------------------------------------------------------ */

/*
 * From here on the stock is written and the order is not. Who is overtaken now
 * cannot try again: that would take the units twice.
 */
static enum store_status naive_finish(struct worker *worker,
                                      struct store_order *order,
                                      const struct store_fence *fence,
                                      struct store_error *error)
{
    enum store_status status =
        store_naive_insert(worker->app->store, order, fence, error);

    return status == STORE_STALE_FENCE ? STORE_IO : status;
}

/*
 * Three steps with the world going on between them. The only thing that is not
 * from the textbook is the fence: announced before the read, so that a holder
 * who slept through his lease cannot write what he computed from an old read.
 * (Of a lock that is late, it is announced with the write. Too late.)
 */
static enum store_status decide_naive(struct worker *worker,
                                      struct store_order *order,
                                      const struct store_fence *fence,
                                      struct store_error *error)
{
    struct store *store = worker->app->store;
    enum store_status status = STORE_OK;
    int64_t stock = 0;

    if (fence->token && !fence->late)
        status = store_stamp(store, fence, error);
    if (status == STORE_OK)
        status = store_naive_select(worker->reader, order, &stock, error);
    if (status != STORE_OK || order->status != STORE_OK || order->replayed)
        return status;
    hold_think(worker);
    status = store_naive_update(store, order->product_id, order->segment,
                                stock - order->quantity, fence, error);
    return status == STORE_OK ? naive_finish(worker, order, fence, error)
                              : status;
}

/* ---- the guarded way ---------------------------------------------------- */

static enum store_status decide_guarded(struct worker *worker,
                                        struct store_order *order,
                                        const struct store_fence *fence,
                                        struct store_error *error)
{
    uint64_t begin;
    enum store_status status;

    hold_think(worker);
    begin = clock_us();
    status = store_place(worker->app->store, &order, 1, fence, error);
    metrics_time(worker->app->metrics, METRICS_COMMIT, clock_us() - begin);
    return status;
}

/* ---- around both -------------------------------------------------------- */

static enum store_status decide(struct worker *worker, struct ticket *ticket,
                                const struct store_fence *fence)
{
    bool naive = worker->app->config->deduct == DEDUCT_NAIVE;
    struct store_error error = {""};
    enum store_status status =
        naive ? decide_naive(worker, &ticket->order, fence, &error)
              : decide_guarded(worker, &ticket->order, fence, &error);

    if (status != STORE_OK)
        ticket->order.status = status;
    outcome_of_store(ticket, status, &error);
    return status;
}

/* Whether the locks were had, and an order decided under them. */
static bool run_once(struct worker *worker, struct ticket *ticket,
                     struct holds *holds)
{
    const struct holds_terms terms = {.product_id = ticket->order.product_id,
                                      .segment = ticket->choice.lane,
                                      .submitted_us = ticket->submitted_us,
                                      .may_wait = true};
    struct dlock_error error = {""};
    enum order_outcome outcome = holds_take(worker, &terms, holds, &error);

    if (outcome != ORDER_PLACED) {
        outcome_set(ticket, outcome, error.text);
        return false;
    }
    metrics_batch(worker->app->metrics, 1);
    if (decide(worker, ticket, holds_fence(holds)) != STORE_OK)
        holds_failed(holds);
    return true;
}

/* Nothing is decided, and the order may wait once more: the lock was overtaken,
 * or another segment has to be asked. */
static bool goes_on(const struct worker *worker, struct ticket *ticket)
{
    if (ticket->order.status == STORE_STALE_FENCE)
        return ++ticket->stale < CRITICAL_TRIES_MAX;
    return choice_is_short(worker->app, ticket) &&
           choice_again(worker->app, ticket);
}

void critical_run(struct worker *worker, struct ticket *ticket,
                  struct holds *holds)
{
    while (run_once(worker, ticket, holds) && goes_on(worker, ticket))
        holds_leave(worker, holds);
}
