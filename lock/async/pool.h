/*
 * Private to lock/async/: asynchronous calls, the queues and timers in which they
 * stand, and the threads of a client that carry them out.
 */
#ifndef DLOCK_ASYNC_POOL_H
#define DLOCK_ASYNC_POOL_H

#include <pthread.h>
#include <sys/queue.h>

#include "lock/async/async.h"

enum { DLOCK_POOL_THREADS = 4 };

/* Where a job is; it goes from the second to the third again and again. */
enum dlock_job_place {
    DLOCK_JOB_READY,   /* in a queue for a thread */
    DLOCK_JOB_RUNNING, /* on one */
    DLOCK_JOB_PARKED,  /* an acquire that was told no: among the timers */
    DLOCK_JOB_DONE,    /* in the queue of dlock_dispatch() */
    DLOCK_JOB_TELLING, /* in its callback */
};

/* A release has no terms and comes with the grant, an acquire is given one. */
struct dlock_job {
    TAILQ_ENTRY(dlock_job) link; /* of the queue it is in */
    struct dlock_async *async;
    bool acquires;
    bool begun; /* there was a first try */
    struct dlock_terms terms;
    struct dlock_grant grant;
    char name[DLOCK_NAME_BYTES_MAX + 1];
    struct dlock_acquiring acquiring;
    struct dlock_pause pause; /* to be waited for while parked */
    enum dlock_status status;
    struct dlock_error error;
    dlock_done *done;
    void *ctx;
    /* Guarded by the mutex of the pool. */
    struct dlock_session *session; /* NULL: its own callback has closed it */
    enum dlock_job_place place;
    bool told;        /* worth a try, since the last one began */
    uint64_t due_us;  /* real time; while parked */
    size_t timer;     /* its place among the timers */
    pthread_t teller; /* the callback's thread */
};

TAILQ_HEAD(dlock_job_queue, dlock_job);

/* The jobs that are parked, the one that is due first at the top. All zero is an
 * empty one. */
struct dlock_timers {
    struct dlock_job **jobs; /* a heap by due_us */
    size_t n;
    size_t room;
};

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
