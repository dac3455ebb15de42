/*
 * From what the lock and the store said to what the customer is told: the only
 * place where the vocabularies of lock/ and db/ become that of an order.
 */

#include "server/order/order.h"

#include <stdio.h>

enum order_outcome order_outcome_of_lock(enum dlock_status status)
{
    /* LOST: the lock was free, and the answer came too late. */
    if (status == DLOCK_BUSY || status == DLOCK_TIMEOUT || status == DLOCK_LOST)
        return ORDER_LOCK_TIMEOUT;
    return ORDER_LOCK_UNREACHABLE;
}

static enum order_outcome outcome_of_status(const struct store_order *record)
{
    switch (record->status) {
    case STORE_OK:
        return record->replayed ? ORDER_REPLAYED : ORDER_PLACED;
    case STORE_SOLD_OUT:
    case STORE_SHORT: /* of the naive way, which knows one segment only */
        return ORDER_SOLD_OUT;
    case STORE_LIMIT:
        return ORDER_PURCHASE_LIMIT;
    case STORE_NOT_OPEN:
        return ORDER_SALE_NOT_OPEN;
    case STORE_ENDED:
        return ORDER_SALE_ENDED;
    case STORE_NO_PRODUCT:
        return ORDER_NO_PRODUCT;
    case STORE_KEY_REUSED:
        return ORDER_KEY_REUSED;
    case STORE_STALE_FENCE: /* overtaken again and again; nothing written */
        return ORDER_LOCK_TIMEOUT;
    default:
        return ORDER_STORE_UNAVAILABLE;
    }
}

void order_set_outcome(struct order *order, enum order_outcome outcome,
                       const char *why)
{
    order->outcome = outcome;
    snprintf(order->detail, sizeof(order->detail), "%s", why);
}

void order_not_now(struct order *order, enum order_outcome outcome,
                   const char *why)
{
    const char *tail = order->record.key[0] != '\0' && !order->is_fallback
                           ? "; an earlier try with this key may have ordered"
                           : "; nothing was ordered";

    order->outcome = outcome;
    snprintf(order->detail, sizeof(order->detail), "%.140s%s", why, tail);
}

void order_set_decided(struct order *order, enum store_status status,
                       const struct store_error *error)
{
    enum order_outcome outcome = outcome_of_status(&order->record);
    char text[200];

    if (status == STORE_UNKNOWN) {
        snprintf(text, sizeof(text),
                 "%.120s; it may have been ordered: look for it by its key",
                 error->text);
        order_set_outcome(order, outcome, text);
    } else if (outcome >= ORDER_LOCK_TIMEOUT) {
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
