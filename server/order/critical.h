/*
 * The critical section: acquire - decide in the store - release, for a batch
 * of orders of one product. Everything else in this folder only leads here.
 */
#ifndef CRITICAL_H
#define CRITICAL_H

#include "server/order/order.h"

#define CRITICAL_BATCH_MAX 256 /* orders that share a lock and a commit */

struct app;
struct dlock_session;

/* What one worker thread works with; an owner of locks of its own. */
struct worker {
    const struct app *app;
    struct dlock_session *session;
    struct store_reader *reader;
    int stop_fd; /* readable when the service is about to end */
};

/*
 * Decides N orders of one product, 1 <= N <= CRITICAL_BATCH_MAX, and sets the outcome of each. Blocks for
 * at most a lock wait and a few commits. done() is left to the caller.
 */
void critical_run(struct worker *worker, struct ticket *const batch[],
                  size_t n);

#endif
