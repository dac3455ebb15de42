/*
 * Wake-ups: waiters of this process sleep here until a lock they wait for is
 * given back anywhere.
 *
 * One connection and one reader thread per client, whatever the number of
 * waiters and names: a connection per waiter is how lock clients exhaust their
 * server. The waiters of a name share its subscription.
 *
 * A message is one permit: it wakes one waiter, the one that has waited
 * longest, since only one can get the lock. A permit is never lost: who leaves
 * without having used it passes it on. When a subscription comes to stand, or
 * breaks, all its waiters are woken, because nobody knows what they missed.
 *
 * All functions may be called from any thread.
 */
#ifndef DLOCK_WAKEUP_H
#define DLOCK_WAKEUP_H

#include "lock/wire.h"

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
 * Sleeps until there is a permit, which is then used up, or until UNTIL_MS of
 * lease time; for a tenth of a second at most while the subscription does not
 * stand, so that a broken subscriber costs time, not liveness. Does not sleep
 * at all if there is a permit already, as there is upon joining a standing
 * subscription: the lock may have become free just before.
 */
void dlock_wakeup_wait(struct dlock_wakeup *wakeup, struct dlock_waiter *waiter,
                       uint64_t until_ms);

/* A permit for everybody who waits now. */
void dlock_wakeup_all(struct dlock_wakeup *wakeup);

/* UNUSED: the last permit led to no try that was answered; pass it on. */
void dlock_wakeup_leave(struct dlock_wakeup *wakeup,
                        struct dlock_waiter *waiter, bool unused);

#endif
