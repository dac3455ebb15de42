/*
 * From what the store said to what the customer is told (lock_tasks.c: from what the
 * lock said). And the two ends of an order's way, where orders are counted.
 */
#include "server/order/order.h"

#include <stdio.h>
#include <string.h>

#include "db/store_async.h"
#include "server/base/app.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/health.h"
#include "server/base/metrics.h"

enum order_outcome order_outcome_of(enum store_status status)
{
    /* The statuses that say no stand here, and the one that is tried again; all
     * others are failures, of which nobody knows what they would have said. */
    const enum order_outcome outcomes[STORE_STATUS_N] = {
        [STORE_SOLD_OUT] = ORDER_SOLD_OUT,
        /* of the naive way, which knows one segment only */
        [STORE_SHORT] = ORDER_SOLD_OUT,
        [STORE_LIMIT] = ORDER_PURCHASE_LIMIT,
        [STORE_NOT_OPEN] = ORDER_SALE_NOT_OPEN,
        [STORE_ENDED] = ORDER_SALE_ENDED,
        [STORE_NO_PRODUCT] = ORDER_NO_PRODUCT,
        [STORE_KEY_REUSED] = ORDER_KEY_REUSED,
        /* overtaken again and again; nothing written */
        [STORE_STALE_FENCE] = ORDER_LOCK_TIMEOUT,
    };

    if (status == STORE_OK)
        return ORDER_PLACED;
    /* A status without a row reads as 0, which is ORDER_PLACED: a failure must
     * never become a yes. */
    return outcomes[status] ? outcomes[status] : ORDER_STORE_UNAVAILABLE;
}

void order_set_outcome(struct order *order, enum order_outcome outcome,
                       const char *why)
{
    order->outcome = outcome;
    order->detail[0] = '\0';
    if (*why != '\0') /* of most there is nothing to say */
        snprintf(order->detail, sizeof(order->detail), "%s", why);
}

void order_not_now(struct order *order, enum order_outcome outcome,
                   const char *why)
{
    /* The tail is a promise. This try has ordered nothing, but an earlier one
     * with the same key may have; is_fallback says that the key is looked up,
     * and that the text is only told if no order has it. */
    const char *tail = order->record.key[0] != '\0' && !order->is_fallback
                           ? "; an earlier try with this key may have ordered"
                           : "; nothing was ordered";

    order->outcome = outcome;
    /* WHY is cut at 140 bytes, because the tail must fit behind it whole. */
    snprintf(order->detail, sizeof(order->detail), "%.140s%s", why, tail);
}

void order_set_decided(struct order *order, enum store_status status,
                       const struct store_error *error)
{
    enum order_outcome outcome = order_outcome_of(order->record.status);
    char text[200];

    if (outcome == ORDER_PLACED && order->record.replayed)
        outcome = ORDER_REPLAYED;
    /* The answer to the COMMIT was lost: neither a yes nor "nothing was
     * ordered" would be true, so the text must say how the customer can find
     * out, if there is a key. */
    if (status == STORE_UNKNOWN) {
        snprintf(text, sizeof(text), "%.120s; it may have been ordered%s",
                 error->text,
                 order->record.key[0] ? ": look for it by its key" : "");
        order_set_outcome(order, outcome, text);
    } else if (outcome >= ORDER_LOCK_TIMEOUT) {
        /* The outcomes from ORDER_LOCK_TIMEOUT on are a "not now": see
         * order_outcomes.txt. */
        order_not_now(order, outcome, error->text);
    } else {
        order_set_outcome(order, outcome,
                          order->record.status == STORE_OK
                              ? ""
                              : store_status_text(order->record.status));
    }
}

struct order *order_list_reversed(struct order *list)
{
    struct order *turned = NULL, *next;

    for (; list; list = next) {
        next = list->next;
        list->next = turned;
        turned = list;
    }
    return turned;
}

/* ---- from its beginning to its end ------------------------------------------ */

/* The order was not counted, so that it must not go through order_end(). The
 * health is not told either: to be busy, or to end, is no outage. */
static void refuse_at_once(const struct intake *intake, struct order *order,
                           enum order_outcome outcome, const char *why)
{
    order_not_now(order, outcome, why);
    metrics_order(intake->app->metrics, outcome);
    order->done(order);
}

struct order *order_begin(struct intake *intake, struct order *list)
{
    size_t most = (size_t)intake->app->config->queue_max;
    struct order *taken = NULL, **last = &taken, *next;
    uint64_t now_us = clock_us();

    for (; list; list = next) {
        /* `next` is read first: done() may free the order. */
        next = list->next;
        list->intake = intake;
        list->submitted_us = now_us;
        /* The depth is raised before it is compared: two threads that compared
         * first would both take the last place. And before `closed` is read: the
         * thread that ends reads them the other way round, so that no order is
         * left behind. */
        if (atomic_fetch_add(&intake->depth, 1) < most &&
            !atomic_load(&intake->closed)) {
            *last = list;
            last = &list->next;
            continue;
        }
        atomic_fetch_sub(&intake->depth, 1);
        if (atomic_load(&intake->closed)) {
            /* The thread that ends waits for a depth of 0. */
            store_source_wake(intake->app->store);
            refuse_at_once(intake, list, ORDER_SHUTTING_DOWN,
                           "the service is shutting down");
        } else {
            refuse_at_once(intake, list, ORDER_OVERLOADED,
                           "too many orders are waiting");
        }
    }
    /* A list that was cut by refusals must end at the last order that was
     * taken. */
    *last = NULL;
    return taken;
}

/* Health hears whether it went through, or what of ours is to blame: the detail without
 * its tail. */
void order_end(struct order *order, uint64_t now_us)
{
    struct intake *intake = order->intake;
    struct health *health = intake->app->health;
    struct metrics *metrics = intake->app->metrics;
    bool no_lock = order->outcome == ORDER_LOCK_UNREACHABLE;
    char why[sizeof(order->detail)];

    if (order->outcome == ORDER_PLACED) {
        health_worked(health, HEALTH_STORE, order->submitted_us);
    } else if (order->outcome == ORDER_STORE_UNAVAILABLE || no_lock) {
        (void)snprintf(why, sizeof(why), "%.*s",
                       (int)strcspn(order->detail, ";"), order->detail);
        health_refused(health, no_lock ? HEALTH_LOCK : HEALTH_STORE, why);
    }
    metrics_order(metrics, order->outcome);
    metrics_observe(metrics, METRICS_ORDER, now_us - order->submitted_us);
    /* Only an order of several segments can have probed one in vain. */
    if (order->record.segments > 1)
        metrics_observe(metrics, METRICS_PROBES, order->probes + 1);
    /* The place is free before done() is called, because the customer may send
     * the next order from there. Afterwards the order is no longer ours. */
    atomic_fetch_sub(&intake->depth, 1);
    order->done(order);
}
