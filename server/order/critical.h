/*
 * The critical section of one order: acquire - decide in the store - release,
 * each waited for. It is what `--desk direct` does, and what textbooks do.
 */
#ifndef CRITICAL_H
#define CRITICAL_H

#include "server/order/holds.h"

/*
 * Takes the locks that the ticket has chosen (choice.h) and decides the order,
 * in other segments if those have too few; sets the outcome, done() is left to
 * the caller. Afterwards holds_leave() has to follow, when the customer has the
 * answer. Returns when it is on disk, or within --lock-wait-ms of the order's
 * arrival if the locks cannot be had.
 */
void critical_run(struct worker *worker, struct ticket *ticket,
                  struct holds *holds);

#endif
