/*
 * Lock, decide, unlock - in this order and never another: the lock is given
 * back after the commit. Unlocking first would let the next holder read what
 * is not there yet, the classic bug of flash sales. The customers are answered
 * in between: what is on disk is theirs, whatever becomes of the lock.
 *
 * The guarded way needs the lock for order only: the store's conditional
 * transaction decides. The naive way is what textbooks print, and is exactly
 * as right as the lock around it.
 */
#include "server/order/critical.h"

#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>

#include "server/app.h"
#include "server/clock.h"
#include "server/config.h"
#include "server/config_rules.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/order/outcome.h"

/* A holder that was overtaken, and has written nothing, may queue up again; but
 * not for ever. */
#define CRITICAL_TRIES_MAX 3

/* A lock that cannot be given back: tried so often, for so long. The lease of
 * a renewed lock is over by then. */
#define CRITICAL_RETRY_MS     100
#define CRITICAL_LEAVE_MS_MAX UINT64_C(10000)

static void answer_all(struct ticket *const batch[], size_t n,
                       enum order_outcome outcome, const char *detail)
{
    for (size_t i = 0; i < n; i++)
        outcome_set(batch[i], outcome, detail);
}

/* The time that real services spend under their lock: prices, risk, taxes. It
 * ends early when the service ends. */
static void think(const struct worker *worker)
{
    struct pollfd stop = {.fd = worker->stop_fd, .events = POLLIN};

    if (worker->app->config->think_ms > 0)
        poll(&stop, 1, (int)worker->app->config->think_ms);
}

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
    think(worker);
    status = store_naive_update(store, order->product_id,
                                stock - order->quantity, fence, error);
    return status == STORE_OK ? naive_finish(worker, order, fence, error)
                              : status;
}

/* ---- the guarded way ---------------------------------------------------- */

static enum store_status decide_guarded(struct worker *worker,
                                        struct store_order *const orders[],
                                        size_t n,
                                        const struct store_fence *fence,
                                        struct store_error *error)
{
    uint64_t begin;
    enum store_status status;

    think(worker);
    begin = clock_us();
    status = store_place(worker->app->store, orders, n, fence, error);
    metrics_time(worker->app->metrics, METRICS_COMMIT, clock_us() - begin);
    return status;
}

/* ---- around both -------------------------------------------------------- */

static enum store_status decide(struct worker *worker,
                                struct ticket *const batch[], size_t n,
                                const struct store_fence *fence)
{
    bool naive = worker->app->config->deduct == DEDUCT_NAIVE;
    struct store_order *orders[CRITICAL_BATCH_MAX];
    struct store_error error = {""};
    enum store_status status;

    assert(!naive || n == 1); /* naive orders go one by one: config_rules.c */
    for (size_t i = 0; i < n; i++)
        orders[i] = &batch[i]->order;
    status = naive ? decide_naive(worker, orders[0], fence, &error)
                   : decide_guarded(worker, orders, n, fence, &error);
    for (size_t i = 0; i < n; i++) {
        if (status != STORE_OK)
            orders[i]->status = status;
        outcome_set(batch[i], outcome_of_order(orders[i]),
                    status == STORE_OK ? store_status_text(orders[i]->status)
                                       : error.text);
    }
    return status;
}

static void lock_name(const struct ticket *ticket, char *name, size_t size)
{
    /* {product:segment} is a hash tag: one cluster slot for a segment's keys.
     * A product has one segment, number 0. */
    snprintf(name, size, "lock:{%" PRId64 ":0}", ticket->order.product_id);
}

/*
 * The wait for the lock counts from the order's arrival, and has to leave time
 * for the last command to fail in.
 */
static unsigned wait_ms(const struct config *config,
                        const struct ticket *oldest)
{
    uint64_t spent = (clock_us() - oldest->submitted_us) / 1000 +
                     config_rules_command_timeout_ms(config);
    uint64_t most = (uint64_t)config->lock_wait_ms;

    return (unsigned)(spent < most ? most - spent : 0);
}

/* Tokens of a lock server that lost its data go on from the store's. */
static bool terms_fill(struct worker *worker, const char *name,
                       const struct ticket *oldest, struct dlock_terms *terms,
                       struct store_error *error)
{
    const struct config *config = worker->app->config;
    const struct dlock_strategy_info *info = dlock_strategy_find(config->lock);

    *terms = (struct dlock_terms){
        .wait_ms = wait_ms(config, oldest),
        .lease_ms = (unsigned)config->lock_lease_ms,
        .max_hold_ms = (unsigned)config->lock_max_hold_ms,
    };
    return !(info->capabilities & DLOCK_CAP_FENCED) ||
           store_fence_get(worker->reader, name, &terms->fence_floor, error) ==
               STORE_OK;
}

/* For those who wait behind us and will want to know why. */
static bool note_away(struct worker *worker, enum dlock_status status)
{
    bool away = status == DLOCK_UNREACHABLE || status == DLOCK_UNKNOWN;

    atomic_store(worker->lock_away, away);
    return away;
}

/* True with the grant filled; false with every ticket answered. */
static bool enter(struct worker *worker, struct ticket *const batch[], size_t n,
                  const char *name)
{
    struct store_error store_error = {""};
    struct dlock_error error = {""};
    struct dlock_terms terms;
    uint64_t begin = clock_us();
    enum dlock_status status;

    if (!terms_fill(worker, name, batch[0], &terms, &store_error)) {
        answer_all(batch, n, ORDER_STORE_UNAVAILABLE, store_error.text);
        return false;
    }
    status =
        dlock_acquire(worker->session, name, &terms, &worker->grant, &error);
    metrics_time(worker->app->metrics, METRICS_LOCK_WAIT, clock_us() - begin);
    note_away(worker, status);
    if (status != DLOCK_OK) {
        answer_all(batch, n, outcome_of_lock(status), error.text);
        return false;
    }
    worker->granted_us = clock_us();
    metrics_batch(worker->app->metrics, n);
    return true;
}

/* The lock says how its tokens are to be used; to be wrong is its lesson. */
static bool is_late(const struct worker *worker)
{
    const struct dlock_strategy_info *info =
        dlock_strategy_find(worker->app->config->lock);

    return (info->capabilities & DLOCK_CAP_FENCED_LATE) != 0;
}

static enum store_status run_once(struct worker *worker,
                                  struct ticket *const batch[], size_t n)
{
    char name[64];
    struct store_fence fence;
    enum store_status status;

    lock_name(batch[0], name, sizeof(name));
    if (!enter(worker, batch, n, name))
        return STORE_OK; /* all answered */
    fence = (struct store_fence){name, worker->grant.token, worker->grant.owner,
                                 is_late(worker)};
    status = decide(worker, batch, n, &fence);
    worker->failed = status != STORE_OK;
    return status;
}

void critical_run(struct worker *worker, struct ticket *const batch[], size_t n)
{
    int tries = 1;

    while (run_once(worker, batch, n) == STORE_STALE_FENCE &&
           tries++ < CRITICAL_TRIES_MAX)
        critical_leave(worker);
}

/* ---- leaving -------------------------------------------------------------- */

static enum dlock_status release(struct worker *worker, bool first)
{
    struct dlock_error error = {""};
    char text[220];
    enum dlock_status status =
        worker->failed ? dlock_abandon(worker->session, &worker->grant, &error)
                       : dlock_release(worker->session, &worker->grant, &error);

    if (status == DLOCK_LOST)
        metrics_lock_lost(worker->app->metrics);
    if (status != DLOCK_OK && first)
        log_warn("release", "lock=%s error=%s", worker->grant.name,
                 log_quote(error.text, text, sizeof(text)));
    return status;
}

/* False when the service ends meanwhile. */
static bool pause_before_retry(const struct worker *worker)
{
    struct pollfd stop = {.fd = worker->stop_fd, .events = POLLIN};

    return poll(&stop, 1, CRITICAL_RETRY_MS) == 0;
}

/*
 * A lock server that cannot take a lock back may be there again in a moment;
 * until then the product is blocked for everybody, and this worker with it.
 * What cannot be given back at all ends with its lease.
 */
void critical_leave(struct worker *worker)
{
    uint64_t give_up_us = clock_us() + CRITICAL_LEAVE_MS_MAX * 1000;
    enum dlock_status status;

    if (worker->granted_us == 0)
        return;
    metrics_time(worker->app->metrics, METRICS_LOCK_HOLD,
                 clock_us() - worker->granted_us);
    status = release(worker, true);
    while (note_away(worker, status) && clock_us() < give_up_us &&
           pause_before_retry(worker))
        status = release(worker, false);
    worker->granted_us = 0;
}
