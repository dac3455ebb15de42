/*
 * A thread that takes the lock "k", and gives it back again: somebody who waits while
 * the test goes on.
 */
#ifndef LOCK_WAITER_H
#define LOCK_WAITER_H

#include "tests/support/lock_rig.h"

struct lock_waiter {
    struct dlock_session *session;
    unsigned wait_ms;
    unsigned lease_ms;
    enum dlock_status status;
    struct dlock_grant grant;
    struct dlock_error error;
    uint64_t done_at_ms;
    unsigned turn;        /* how many others were done before */
    struct dlock *client; /* its own, if it stands in a queue */
    pthread_t thread;
};

void lock_waiter_start(struct lock_waiter *waiter);
void lock_waiter_join(struct lock_waiter *waiter);

/* How many stand in the queue of the fair lock; and until they are so many. */
long long lock_queue_length(void);
void lock_queue_await(long long n);

/*
 * With a client of its own: returns when it stands in the queue as number N. It
 * waits for two minutes if nothing else is said, and so long is its lease.
 * Closing it waits for its end.
 */
void lock_waiter_queue_up(struct lock_waiter *waiter, long long n);
void lock_waiter_close(struct lock_waiter *waiter);

#endif
