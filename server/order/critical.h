/*
 * The critical section of one order: acquire - decide in the store - release,
 * each waited for. It is what `--desk direct` does, and what textbooks do.
 */
#ifndef CRITICAL_H
#define CRITICAL_H

#include "server/order/hold.h"

/*
 * Takes the lock and decides the order; sets the outcome, done() is left to the
 * caller. True: the lock is held now and hold_leave() has to follow, when the
 * customer has the answer. Returns when it is on disk, or within --lock-wait-ms
 * of the order's arrival if the lock cannot be had.
 */
bool critical_run(struct worker *worker, struct ticket *ticket,
                  struct hold *hold);

#endif
