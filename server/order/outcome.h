/* How answers of the lock and of the store become an order's outcome. */
#ifndef OUTCOME_H
#define OUTCOME_H

#include "lock/dlock.h"
#include "server/order/order.h"

/* For every status but DLOCK_OK. */
enum order_outcome outcome_of_lock(enum dlock_status status);

/* From what the store left in the ticket's order. */
void outcome_of_store(struct ticket *ticket, enum store_status status,
                      const struct store_error *error);

/* Puts the answer onto a ticket; DETAIL is copied. */
void outcome_set(struct ticket *ticket, enum order_outcome outcome,
                 const char *detail);

#endif
