/* How answers of the lock and of the store become an order's outcome. */
#ifndef OUTCOME_H
#define OUTCOME_H

#include "lock/dlock.h"
#include "server/order/order.h"

/* For every status but DLOCK_OK. */
enum order_outcome outcome_of_lock(enum dlock_status status);

/* From order->status, as the store left it. */
enum order_outcome outcome_of_order(const struct store_order *order);

/* Puts the answer onto a ticket; DETAIL is copied. */
void outcome_set(struct ticket *ticket, enum order_outcome outcome,
                 const char *detail);

#endif
