/*
 * Wake-ups: waiters of this process are told here when a lock they wait for is
 * given back anywhere.
 *
 * One connection and one reader thread per client, whatever the number of
 * waiters and names: a connection per waiter is how lock clients exhaust their
 * server. The waiters of a name share its subscription.
 *
 * A message is one permit: it wakes one waiter, the one that has waited
 * longest, since only one can get the lock; but that a lease was shortened is said
 * to all, who have gone to sleep until its old end. A permit is never lost: who leaves
 * without having used it passes it on. When a subscription comes to stand, or
 * breaks, all its waiters are woken, because nobody knows what they missed.
 *
 * All functions may be called from any thread.
 */
#ifndef DLOCK_WAKEUP_H
#define DLOCK_WAKEUP_H

#include "lock/core/wake_call.h"
#include "lock/redis/wire.h"

struct dlock_wakeup;
struct dlock_waiter;

/* The thread starts with the first waiter. NULL if out of memory. */
struct dlock_wakeup *dlock_wakeup_open(const struct dlock_wire_config *config);

/* After the last waiter has left. NULL is fine. */
void dlock_wakeup_close(struct dlock_wakeup *wakeup);

/*
 * Joins the waiters for CHANNEL, on which releases of the lock NAME are
 * published. Does not block. NULL if out of memory.
 */
struct dlock_waiter *dlock_wakeup_join(struct dlock_wakeup *wakeup,
                                       const char *name, const char *channel);

/*
 * *CALL is called when there is a permit; at once if there is one already, as
 * there is upon joining a standing subscription: the lock may have become free
 * just before. To be waited for until the lease time that is returned, UNTIL_MS
 * or earlier: a tenth of a second at most while the subscription does not stand,
 * so that a broken subscriber costs time, not liveness.
 */
uint64_t dlock_wakeup_arm(struct dlock_wakeup *wakeup,
                          struct dlock_waiter *waiter, uint64_t until_ms,
                          const struct dlock_wake_call *call);

/* *CALL is not called any more. The permit, if there was one, is used up. */
void dlock_wakeup_disarm(struct dlock_wakeup *wakeup,
                         struct dlock_waiter *waiter);

/* A permit for everybody who waits now. */
void dlock_wakeup_all(struct dlock_wakeup *wakeup);

/* UNUSED: the last permit led to no try that was answered; pass it on. */
void dlock_wakeup_leave(struct dlock_wakeup *wakeup,
                        struct dlock_waiter *waiter, bool unused);

#endif
