/*
 * The critical section: acquire - decide in the store - release, for a batch
 * of orders of one product. Everything else in this folder only leads here.
 */
#ifndef CRITICAL_H
#define CRITICAL_H

#include <stdatomic.h>

#include "lock/dlock.h"
#include "server/order/order.h"

#define CRITICAL_BATCH_MAX 256 /* orders that share a lock and a commit */

struct app;

/* What one worker thread works with; an owner of locks of its own. */
struct worker {
    const struct app *app;
    struct dlock_session *session;
    struct store_reader *reader;
    int stop_fd;            /* readable when the service is about to end */
    atomic_bool *lock_away; /* set here: the lock server did not answer */

    /* critical.c's: the lock that is held between _run and _leave. */
    struct dlock_grant grant;
    uint64_t granted_us; /* monotonic; 0 = none is held */
    bool failed;         /* the work under it ended with an error */
};

/*
 * Takes the lock and decides N orders of one product, 1 <= N <=
 * CRITICAL_BATCH_MAX, the one that has waited longest first. Sets the outcome
 * of each; done() is left to the caller. Returns when it is on disk, or within
 * --lock-wait-ms of the first order's arrival if the lock cannot be had.
 */
void critical_run(struct worker *worker, struct ticket *const batch[],
                  size_t n);

/*
 * Gives the lock back. To be called after each critical_run(), when the
 * customers have their answers: it may take as long as the lock server is away,
 * but no longer than the lock would stay by itself.
 */
void critical_leave(struct worker *worker);

#endif
