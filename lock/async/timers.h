/* Private to lock/async/: the jobs that are parked, the one that is due first at
 * the top. All functions are called with the mutex of the pool. */
#ifndef DLOCK_ASYNC_TIMERS_H
#define DLOCK_ASYNC_TIMERS_H

#include "lock/async/job.h"

/* All zero is an empty one. */
struct dlock_timers {
    struct dlock_job **jobs; /* a heap by due_us */
    size_t n;
    size_t room;
};

void dlock_timers_release(struct dlock_timers *timers);

/* Room for N jobs, so that putting one in cannot fail. False: no memory. */
bool dlock_timers_reserve(struct dlock_timers *timers, size_t n);

void dlock_timers_put(struct dlock_timers *timers, struct dlock_job *job);
void dlock_timers_remove(struct dlock_timers *timers, struct dlock_job *job);

/* NULL = there is none. */
struct dlock_job *dlock_timers_first(const struct dlock_timers *timers);

#endif
