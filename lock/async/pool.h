/*
 * Private to lock/async/: the threads of a client's asynchronous calls, and what
 * they have to do.
 */
#ifndef DLOCK_ASYNC_POOL_H
#define DLOCK_ASYNC_POOL_H

#include "lock/async/async.h"
#include "lock/async/timers.h"

enum { DLOCK_POOL_THREADS = 4 };

struct dlock_async {
    pthread_mutex_t mutex;  /* guards everything below */
    pthread_cond_t work;    /* a job is ready, or somebody is to watch timers */
    pthread_cond_t settled; /* a job is done, or gone */
    struct dlock_job_queue releases; /* these two are ready, ... */
    struct dlock_job_queue acquires;
    size_t ready_n;                 /* ... so many of them; */
    struct dlock_timers timers;     /* these are parked, */
    struct dlock_job_queue done;    /* for dlock_dispatch(), */
    struct dlock_job_queue telling; /* and in their callbacks */
    size_t jobs_n;                  /* all there are */
    unsigned threads_n;
    unsigned idle_n;     /* of these */
    uint64_t watched_us; /* an idle one looks at the timers then; or never */
    bool stop;
    int fd; /* an eventfd that says that there is something done; -1 = none */
    pthread_t threads[DLOCK_POOL_THREADS];
};

/* With the mutex, for a new job: room for it, and a thread at least. */
bool dlock_pool_reserve(struct dlock_async *async);

/* With the mutex: JOB, which is in no queue, is for the next thread. */
void dlock_pool_ready(struct dlock_async *async, struct dlock_job *job);

/* With the mutex: worth a look at once, if it is still under way. */
void dlock_pool_nudge(struct dlock_async *async, struct dlock_job *job);

/*
 * With the mutex, which is let go of meanwhile: leaves the session and calls the
 * callback of JOB, which is in no queue; then it is gone.
 */
void dlock_pool_tell(struct dlock_async *async, struct dlock_job *job);

#endif
