/* See intake.h. */
#include "server/order/intake.h"

#include <stdio.h>
#include <string.h>

#include "db/store_batch.h"
#include "server/base/app.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/health.h"
#include "server/base/metrics.h"

#define CHECK_EVERY_MS 1000 /* a refusal from memory of one product */

static void refuse(const struct intake *intake, struct order *order,
                   enum order_outcome outcome, const char *why)
{
    order_not_now(order, outcome, why);
    metrics_order(intake->app->metrics, outcome);
    order->done(order);
}

struct order *intake_count(struct intake *intake, struct order *list)
{
    size_t most = (size_t)intake->app->config->queue_max;
    struct order *taken = NULL, **last = &taken, *next;
    uint64_t now_us = clock_us();

    for (; list; list = next) {
        next = list->next;
        list->intake = intake;
        list->submitted_us = now_us;
        list->tries = list->probes = 0;
        list->is_fallback = list->returns = false;
        list->limit = (struct timer){0};
        list->queue = NULL;
        if (atomic_load(&intake->closed)) {
            refuse(intake, list, ORDER_SHUTTING_DOWN,
                   "the service is shutting down");
        } else if (atomic_fetch_add(&intake->depth, 1) >= most) {
            atomic_fetch_sub(&intake->depth, 1);
            if (atomic_load(&intake->closed)) /* it waits for a depth of 0 */
                store_source_wake(intake->app->store);
            refuse(intake, list, ORDER_OVERLOADED,
                   "too many orders are waiting");
        } else {
            *last = list;
            last = &list->next;
        }
    }
    *last = NULL;
    return taken;
}

/*
 * The inbox is a stack: what comes together is turned round, and once more when it
 * is taken. An order with a key counts twice: the store takes longer for those, and
 * places those of one half of the customers while the other half's are read.
 */
void intake_put(struct intake *intake, struct order *list, bool returns)
{
    struct order *first = list; /* that ends up last */
    int back;

    if (!list)
        return;
    back = list->record.key[0] != '\0' ? 2 : 1;
    list->returns = returns;
    list = order_list_reversed(list);
    first->next = atomic_load(&intake->inbox);
    while (!atomic_compare_exchange_weak(&intake->inbox, &first->next, list))
        continue;
    if (!returns || atomic_fetch_sub(&intake->away, back) <= back ||
        !atomic_load(&intake->is_timed))
        store_source_wake(intake->app->store);
}

struct order *intake_take(struct intake *intake)
{
    if (!atomic_load_explicit(&intake->inbox, memory_order_relaxed))
        return NULL;
    return order_list_reversed(atomic_exchange(&intake->inbox, NULL));
}

/* Whether it went through, or what of ours is to blame: the detail without its tail. */
static void tell_health(struct health *health, const struct order *order)
{
    enum health_part part =
        order->outcome == ORDER_LOCK_UNREACHABLE ? HEALTH_LOCK : HEALTH_STORE;
    char why[sizeof(order->detail)];

    if (order->outcome == ORDER_PLACED) {
        health_worked(health, part, order->submitted_us);
    } else if (order->outcome == ORDER_STORE_UNAVAILABLE ||
               order->outcome == ORDER_LOCK_UNREACHABLE) {
        (void)snprintf(why, sizeof(why), "%.*s",
                       (int)strcspn(order->detail, ";"), order->detail);
        health_refused(health, part, why);
    }
}

void intake_answer(struct order *order, uint64_t now_us)
{
    struct intake *intake = order->intake;
    struct metrics *metrics = intake->app->metrics;

    tell_health(intake->app->health, order);
    metrics_order(metrics, order->outcome);
    metrics_observe(metrics, METRICS_ORDER, now_us - order->submitted_us);
    if (order->record.segments > 1)
        metrics_observe(metrics, METRICS_PROBES, order->probes + 1);
    atomic_fetch_sub(&intake->depth, 1);
    order->done(order);
}

bool intake_refuses(struct intake *intake, struct order *order)
{
    const struct store_order *record = &order->record;
    atomic_uint_fast64_t *due_ms =
        &intake->check_due_ms[(uint64_t)record->product_id % INTAKE_CHECKS];
    uint_fast64_t due, now_ms;

    if (record->key[0] ||
        !store_knows_sold_out(intake->app->store, record->product_id,
                              record->quantity))
        return false;
    /* The thread that moves the time on lets its order through. */
    now_ms = clock_ms();
    due = atomic_load_explicit(due_ms, memory_order_relaxed);
    if (now_ms >= due &&
        atomic_compare_exchange_strong(due_ms, &due, now_ms + CHECK_EVERY_MS))
        return false;
    order_set_outcome(order, ORDER_SOLD_OUT, store_status_text(STORE_SOLD_OUT));
    metrics_order(intake->app->metrics, ORDER_SOLD_OUT);
    return true;
}
