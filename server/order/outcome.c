/*
 * From what the lock and the store said to what the customer is told: the only
 * place where the vocabularies of lock/ and db/ become that of an order.
 */
#include "server/order/outcome.h"

#include <stdio.h>

static const char *const slugs[] = {
#define ORDER_OUTCOME_SLUG(name, slug) slug,
    ORDER_OUTCOME_MAP(ORDER_OUTCOME_SLUG)
#undef ORDER_OUTCOME_SLUG
};

const char *order_outcome_slug(enum order_outcome outcome)
{
    return outcome < ORDER_OUTCOME_N ? slugs[outcome] : "unknown";
}

enum order_outcome outcome_of_lock(enum dlock_status status)
{
    /* LOST: it was free, and we were too slow. */
    if (status == DLOCK_BUSY || status == DLOCK_TIMEOUT || status == DLOCK_LOST)
        return ORDER_LOCK_TIMEOUT;
    return ORDER_LOCK_UNREACHABLE;
}

static enum order_outcome outcome_of_order(const struct store_order *order)
{
    switch (order->status) {
    case STORE_OK:
        return order->replayed ? ORDER_REPLAYED : ORDER_PLACED;
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

void outcome_set(struct ticket *ticket, enum order_outcome outcome,
                 const char *detail)
{
    ticket->outcome = outcome;
    ticket->detail[0] = '\0';
    if (*detail)
        snprintf(ticket->detail, sizeof(ticket->detail), "%s", detail);
}

/* A yes speaks for itself; a no is explained by its status, and a failure,
 * which is that of the whole batch, by the error. */
void outcome_of_store(struct ticket *ticket, enum store_status status,
                      const struct store_error *error)
{
    const char *why = "";

    if (status != STORE_OK)
        why = error->text;
    else if (ticket->order.status != STORE_OK)
        why = store_status_text(ticket->order.status);
    outcome_set(ticket, outcome_of_order(&ticket->order), why);
}
