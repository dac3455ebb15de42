/*
 * Private to lock/async/: one asynchronous call, and the queues in which it
 * stands.
 */
#ifndef DLOCK_ASYNC_JOB_H
#define DLOCK_ASYNC_JOB_H

#include <pthread.h>
#include <sys/queue.h>

#include "lock/core/session.h"

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

#endif
