/*
 * The life of a call:
 *
 *     inbox -> waiting -> a try -> answered
 *                 ^          |
 *                 +----------+  once more, at another inventory service
 *
 * A call waits while no inventory service has room for it. If none is ready it is
 * refused at once; but one that may have been done already waits for somebody who
 * can tell, as long as its time lasts.
 *
 * A try that was never sent costs nobody anything, and the next one begins at once.
 * One that was sent and not answered, or answered "not now", is followed by one more
 * at most; and all of these together are a tenth of all calls, beside a reserve for
 * what one service had under way when it died. So services that are slow because
 * they have too much to do do not get twice as much.
 */
#include <stdlib.h>
#include <string.h>

#include "server/base/app.h"
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/inventory/inventory_private.h"

#define TRIES_MAX   2     /* that were sent */
#define SWEEP_US    50000 /* how often all that wait are looked at */
#define RETRY_PRICE 10 /* what a retry takes from the budget; a call adds 1 */
#define BUDGET_MAX  (SERVICE_FLYING_MAX * RETRY_PRICE)

void calls_init(struct inventory *inv)
{
    TAILQ_INIT(&inv->waiting);
    TAILQ_INIT(&inv->inbox);
    pthread_mutex_init(&inv->mutex, NULL);
    inv->budget = BUDGET_MAX;
}

/* ---- the end of a call ------------------------------------------------------ */

/* A reply as the outcome of an order; ORDER_OUTCOME_N: none of these. */
static enum order_outcome outcome_of(const struct inventory_call *call)
{
    static const char type[] = "urn:stockade:problem:";
    const struct inventory_reply *reply = &call->reply;
    const char *slug = reply->text ? strstr(reply->text, type) : NULL;

    if (call->end != INVENTORY_ANSWERED || (reply->status != 201 && !slug))
        return ORDER_STORE_UNAVAILABLE;
    if (reply->status == 201)
        return reply->replayed ? ORDER_REPLAYED : ORDER_PLACED;
    slug += sizeof(type) - 1;
    for (unsigned i = 0; i < ORDER_OUTCOME_N; i++) {
        const char *name = order_outcome_slug((enum order_outcome)i);
        size_t size = strlen(name);

        if (strncmp(slug, name, size) == 0 && slug[size] == '"')
            return (enum order_outcome)i;
    }
    return ORDER_OUTCOME_N;
}

void calls_worked(struct inventory *inv, uint64_t begun_us)
{
    if (begun_us > atomic_load(&inv->failed_us))
        atomic_store(&inv->failed_us, 0);
}

/* Readiness follows the rule of server/base/health.h, for all services together. An
 * order that was told no, or not now, may have been placed by an earlier try. */
static void end_order(struct inventory *inv, const struct inventory_call *call)
{
    enum order_outcome outcome = outcome_of(call);
    uint64_t now_us = clock_us();

    if (outcome != ORDER_OUTCOME_N)
        metrics_order(inv->app->metrics, outcome);
    metrics_observe(inv->app->metrics, METRICS_ORDER, now_us - call->begun_us);
    if (outcome == ORDER_STORE_UNAVAILABLE || outcome == ORDER_LOCK_UNREACHABLE)
        atomic_store(&inv->failed_us, now_us);
    else if (outcome == ORDER_PLACED)
        calls_worked(inv, call->begun_us);
    if (call->is_lost && call->reply.status != 201)
        log_warn("unknown-order", "key=%s", call->key);
}

static void end_call(struct inventory *inv, struct inventory_call *call,
                     enum inventory_end end)
{
    call->end = end;
    if (call->key)
        end_order(inv, call);
    atomic_fetch_sub(&inv->depth, 1);
    call->done(call);
}

/* It has no more time, or there is nobody to ask. A "not now" counts only if no
 * other try was lost. */
static void end_without_answer(struct inventory *inv,
                               struct inventory_call *call)
{
    if (call->is_lost)
        end_call(inv, call, INVENTORY_UNKNOWN);
    else
        end_call(inv, call,
                 call->reply.status ? INVENTORY_ANSWERED : INVENTORY_NOT_SENT);
}

/* ---- tries ------------------------------------------------------------------ */

static bool begin_try(struct inventory *inv, struct inventory_call *call,
                      struct service *service, uint64_t now_us)
{
    uint64_t limit_us = call->due_us - now_us;
    struct http_try *try;

    if (limit_us > inv->try_us)
        limit_us = inv->try_us;
    try = tries_begin(inv->tries, service, call, limit_us / 1000 + 1);
    if (!try)
        return false;
    try->call = call;
    service->flying++;
    inv->services.turn = (size_t)(service - inv->services.list) + 1;
    return true;
}

/* Whether the call may be tried once more; then that is paid for. */
static bool may_retry(struct inventory *inv, const struct inventory_call *call)
{
    if (call->tries >= TRIES_MAX || inv->budget < RETRY_PRICE)
        return false;
    if (call->reply.status && !services_any(&inv->services, call->failed))
        return false;
    inv->budget -= RETRY_PRICE;
    atomic_fetch_add(&inv->retries, 1);
    return true;
}

static bool is_not_now(const struct http_try *try)
{
    return try->end == TRY_ANSWERED &&
           (try->reply.status == 503 || try->reply.status == 429);
}

/* The reply is an inventory service's own: it says where the order is, or names a
 * problem. */
static bool is_verdict(const struct inventory_reply *reply)
{
    return reply->text &&
           (reply->status == 201
                ? strncmp(reply->location, "/api/orders/", 12) == 0
                : strcmp(reply->type, "application/problem+json") == 0);
}

/* A proxy in between, a service with a bug or a reply that is cut in its head, which
 * libcurl takes, does not say what was done. */
static bool is_lost(const struct http_try *try)
{
    return try->end == TRY_LOST ||
           (try->end == TRY_ANSWERED && !is_not_now(try) &&
            (try->reply.status >= 500 ||
             (try->call->key && !is_verdict(&try->reply))));
}

void calls_heard(struct inventory *inv, struct http_try *try, uint64_t now_us)
{
    struct inventory_call *call = try->call;
    bool not_now = is_not_now(try), lost = is_lost(try);

    if (try->end != TRY_NOT_SENT)
        call->tries++;
    call->failed = try->service;
    call->is_lost |= lost;
    if (try->end == TRY_ANSWERED) {
        free(call->reply.text);
        call->reply = try->reply;
        try->reply.text = NULL;
    }
    if (try->end == TRY_ANSWERED && !not_now && !lost)
        end_call(inv, call, INVENTORY_ANSWERED);
    else if (now_us < call->due_us &&
             (try->end == TRY_NOT_SENT || may_retry(inv, call)))
        TAILQ_INSERT_HEAD(&inv->waiting, call, place);
    else
        end_without_answer(inv, call);
}

/* ---- calls that wait ------------------------------------------------------ */

void calls_take(struct inventory *inv, uint64_t now_us)
{
    struct inventory_call *call;
    struct call_list taken;

    TAILQ_INIT(&taken);
    pthread_mutex_lock(&inv->mutex);
    TAILQ_CONCAT(&taken, &inv->inbox, place);
    pthread_mutex_unlock(&inv->mutex);
    TAILQ_FOREACH(call, &taken, place)
    {
        call->begun_us = now_us;
        call->due_us = now_us + 2 * inv->try_us;
        if (inv->budget < BUDGET_MAX)
            inv->budget++;
    }
    TAILQ_CONCAT(&inv->waiting, &taken, place);
}

/* The service for CALL. A second try goes elsewhere; but if the first was lost, and
 * the others are away, it goes to the same one, which may have come back. */
static struct service *choose(struct inventory *inv,
                              const struct inventory_call *call)
{
    bool same = call->is_lost && !services_any(&inv->services, call->failed);

    return services_choose(&inv->services, same ? NULL : call->failed);
}

void calls_serve(struct inventory *inv, uint64_t now_us)
{
    bool sweeps = now_us >= inv->swept_us + SWEEP_US;
    struct inventory_call *call, *next;
    struct service *service;

    if (sweeps)
        inv->swept_us = now_us;
    for (call = TAILQ_FIRST(&inv->waiting); call; call = next) {
        next = TAILQ_NEXT(call, place);
        service = now_us < call->due_us ? choose(inv, call) : NULL;
        if (!service && now_us < call->due_us &&
            (call->is_lost || services_any(&inv->services, call->failed))) {
            if (!sweeps && !services_choose(&inv->services, NULL))
                break;
            continue;
        }
        TAILQ_REMOVE(&inv->waiting, call, place);
        if (!service || !begin_try(inv, call, service, now_us))
            end_without_answer(inv, call);
    }
}
