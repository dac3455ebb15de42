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
 * to all, who have gone to sleep until its old end. A permit is never lost: a waiter
 * that leaves without having used it passes it on. When a subscription comes to stand, or
 * breaks, all its waiters are woken, because nobody knows what they missed.
 */
#ifndef DLOCK_WAKEUP_H
#define DLOCK_WAKEUP_H

#include "lock/core/client.h"

struct dlock_wakeup;

/* A strategy's open, close and wake_all: client->wakeup, from its open to its close.
 * The thread starts with the first waiter. */
enum dlock_status dlock_wakeup_open(struct dlock *client);
void dlock_wakeup_close(struct dlock *client);
void dlock_wakeup_all(struct dlock *client);

/*
 * A strategy's watch, arm, disarm and unwatch, for one with a struct dlock_node_kind.
 * *CALL is called when there is a permit, as there is upon joining a standing
 * subscription: the lock may have become free just before. While the subscription does
 * not stand, the time that arm returns is a tenth of a second away at most, so that a
 * broken subscriber costs time, not liveness; in a cluster a second, because a subscription
 * that stands may be deaf. A disarm uses the permit up.
 */
void *dlock_wakeup_watch(struct dlock_session *session, const char *name);
uint64_t dlock_wakeup_arm(void *watch, uint64_t until_ms,
                          const struct dlock_wake_call *call);
void dlock_wakeup_disarm(void *watch);
void dlock_wakeup_leave(void *watch, uint64_t free_ms);

#define DLOCK_WAKEUP_FUNCTIONS                                                 \
    .watch = dlock_wakeup_watch, .arm = dlock_wakeup_arm,                      \
    .disarm = dlock_wakeup_disarm, .unwatch = dlock_wakeup_leave,              \
    .wake_all = dlock_wakeup_all

#endif
