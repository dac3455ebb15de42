/*
 * The threads. An acquire that is told no gives its thread back and is parked,
 * with its wake-up armed and its pause among the timers: whichever comes first
 * makes it ready for the next try. So a thousand that wait need no more threads
 * than a few, because a try takes one round trip and never waits for a holder.
 *
 * Releases are taken before acquires: they are what others wait for.
 *
 * One idle thread watches the timers, the others sleep until there is a job.
 *
 * The mutex is never held while a strategy is called, since strategies call back
 * (told) with theirs.
 */
#include "lock/async/pool.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>

#include "lock/core/clock.h"

/* Timers --------------------------------------------------------------------- */

/* They are a binary heap: with thousands that wait, a list in order would be walked with
 * each pause, and a pause may be half a millisecond. */

/* Room for N jobs, so that putting one in cannot fail. False: no memory. */
static bool reserve_timers(struct dlock_timers *timers, size_t n)
{
    struct dlock_job **jobs;
    size_t room = timers->room == 0 ? 16 : timers->room;

    if (n <= timers->room)
        return true;
    while (room < n)
        room *= 2;
    jobs = realloc(timers->jobs, room * sizeof(struct dlock_job *));
    if (jobs == NULL)
        return false;
    timers->jobs = jobs;
    timers->room = room;
    return true;
}

static void set(struct dlock_timers *timers, size_t at, struct dlock_job *job)
{
    timers->jobs[at] = job;
    job->timer = at;
}

/* JOB goes to AT, or nearer to the top. */
static void rise(struct dlock_timers *timers, size_t at, struct dlock_job *job)
{
    while (at > 0) {
        struct dlock_job *parent = timers->jobs[(at - 1) / 2];

        if (parent->due_us <= job->due_us)
            break;
        set(timers, at, parent);
        at = (at - 1) / 2;
    }
    set(timers, at, job);
}

/* JOB goes to AT, or farther down. */
static void sink(struct dlock_timers *timers, size_t at, struct dlock_job *job)
{
    size_t child;

    while ((child = 2 * at + 1) < timers->n) {
        if (child + 1 < timers->n &&
            timers->jobs[child + 1]->due_us < timers->jobs[child]->due_us)
            child++;
        if (job->due_us <= timers->jobs[child]->due_us)
            break;
        set(timers, at, timers->jobs[child]);
        at = child;
    }
    set(timers, at, job);
}

static void put_timer(struct dlock_timers *timers, struct dlock_job *job)
{
    rise(timers, timers->n++, job);
}

/* The last one fills the gap, and may have to go either way from there. */
static void remove_timer(struct dlock_timers *timers, struct dlock_job *job)
{
    size_t at = job->timer;
    struct dlock_job *last = timers->jobs[--timers->n];

    if (last == job)
        return;
    sink(timers, at, last);
    if (last->timer == at)
        rise(timers, at, last);
}

/* NULL = there is none. */
static struct dlock_job *first_timer(const struct dlock_timers *timers)
{
    return timers->n > 0 ? timers->jobs[0] : NULL;
}

/* Threads -------------------------------------------------------------------- */

static uint64_t real_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void *work(void *arg);

/* With the mutex. */
static bool start_thread(struct dlock_async *async)
{
    if (async->threads_n == DLOCK_POOL_THREADS ||
        dlock_clock_thread(&async->threads[async->threads_n], "dlock-async",
                           work, async) != 0)
        return false;
    async->threads_n++;
    return true;
}

bool dlock_pool_reserve(struct dlock_async *async)
{
    return reserve_timers(&async->timers, async->jobs_n + 1) &&
           (async->threads_n > 0 || start_thread(async));
}

void dlock_pool_ready(struct dlock_async *async, struct dlock_job *job)
{
    job->place = DLOCK_JOB_READY;
    if (job->acquires)
        TAILQ_INSERT_TAIL(&async->acquires, job, link);
    else
        TAILQ_INSERT_TAIL(&async->releases, job, link);
    async->ready_n++;
    if (async->ready_n > async->idle_n)
        (void)start_thread(async);
    if (async->idle_n > 0)
        (void)pthread_cond_signal(&async->work);
}

/* Parking ---------------------------------------------------------------------- */

/* If it is running, it sees that it was told before it is parked. */
void dlock_pool_nudge(struct dlock_async *async, struct dlock_job *job)
{
    job->told = true;
    if (job->place != DLOCK_JOB_PARKED)
        return;
    remove_timer(&async->timers, job);
    dlock_pool_ready(async, job);
}

/* A strategy's call: a wake-up has come for the job. */
static void told(void *ctx)
{
    struct dlock_job *job = ctx;

    (void)pthread_mutex_lock(&job->async->mutex);
    dlock_pool_nudge(job->async, job);
    (void)pthread_mutex_unlock(&job->async->mutex);
}

/* The end of a pause, as far as it can be known: lease time may run by itself. */
static uint64_t pause_end(const struct dlock_job *job, uint64_t now_us)
{
    if (job->pause.us > 0)
        return now_us + job->pause.us;
    return now_us + 1000 * dlock_clock_until(job->acquiring.wait.clock,
                                             job->pause.until_ms);
}

/* With the mutex: those whose pause is over are ready. */
static void end_pauses(struct dlock_async *async)
{
    uint64_t now_us = real_us();
    struct dlock_job *first;

    while ((first = first_timer(&async->timers)) != NULL &&
           first->due_us <= now_us) {
        remove_timer(&async->timers, first);
        if (first->pause.us == 0)
            first->due_us = pause_end(first, now_us);
        if (first->due_us <= now_us)
            dlock_pool_ready(async, first);
        else
            put_timer(&async->timers, first);
    }
}

/* Working ---------------------------------------------------------------------- */

/* The next piece of an acquire. True: it was told no, and is to be parked. */
static bool advance(struct dlock_job *job)
{
    const struct dlock_wake_call call = {told, job};
    struct dlock_wait *wait = &job->acquiring.wait;
    bool tries = true;

    if (job->begun)
        dlock_wait_disarm(wait);
    else
        tries = dlock_session_begin(&job->acquiring, job->session, job->name,
                                    &job->terms);
    job->begun = true;
    /* A wake-up from here on is worth another try. A cancel that is wiped out here is
     * seen by the try itself. */
    (void)pthread_mutex_lock(&job->async->mutex);
    job->told = false;
    (void)pthread_mutex_unlock(&job->async->mutex);
    if (tries && dlock_wait_try(wait)) {
        job->pause = dlock_wait_arm(wait, &call);
        return true;
    }
    job->status = dlock_session_end(&job->acquiring, &job->grant, &job->error);
    return false;
}

/* With the mutex, which is let go of meanwhile. After it the job is parked, or ready
 * again; or its callback has been called, or dlock_dispatch() will call it. */
static void run(struct dlock_async *async, struct dlock_job *job)
{
    bool waits = false;

    job->place = DLOCK_JOB_RUNNING;
    async->ready_n--;
    (void)pthread_mutex_unlock(&async->mutex);
    if (job->acquires)
        waits = advance(job);
    else
        job->status =
            dlock_session_give(job->session, &job->grant, &job->error);
    (void)pthread_mutex_lock(&async->mutex);
    if (waits && job->told) {
        dlock_pool_ready(async, job);
    } else if (waits) {
        job->place = DLOCK_JOB_PARKED;
        job->due_us = pause_end(job, real_us());
        put_timer(&async->timers, job);
    } else if (async->fd < 0) {
        dlock_pool_tell(async, job);
    } else {
        job->place = DLOCK_JOB_DONE;
        TAILQ_INSERT_TAIL(&async->done, job, link);
        (void)!eventfd_write(async->fd, 1);
        (void)pthread_cond_broadcast(&async->settled);
    }
}

/*
 * With the mutex: sleeps until there is something to do. A thread that finds that no
 * other looks at the timers early enough does so itself.
 */
static void idle(struct dlock_async *async)
{
    const struct dlock_job *first = first_timer(&async->timers);
    struct timespec until;

    async->idle_n++;
    if (first == NULL || async->watched_us <= first->due_us) {
        (void)pthread_cond_wait(&async->work, &async->mutex);
    } else {
        async->watched_us = first->due_us;
        until.tv_sec = (time_t)(first->due_us / 1000000);
        until.tv_nsec = (long)(first->due_us % 1000000) * 1000;
        (void)pthread_cond_clockwait(&async->work, &async->mutex,
                                     CLOCK_MONOTONIC, &until);
        async->watched_us = UINT64_MAX;
    }
    async->idle_n--;
}

static void *work(void *arg)
{
    struct dlock_async *async = arg;

    (void)pthread_mutex_lock(&async->mutex);
    for (;;) {
        struct dlock_job_queue *queue;
        struct dlock_job *job;

        end_pauses(async);
        queue =
            TAILQ_EMPTY(&async->releases) ? &async->acquires : &async->releases;
        job = TAILQ_FIRST(queue);
        if (job == NULL && async->stop)
            break;
        if (job == NULL) {
            idle(async);
            continue;
        }
        TAILQ_REMOVE(queue, job, link);
        /* Another one is to look at the timers meanwhile. */
        if (async->watched_us == UINT64_MAX && async->timers.n > 0)
            (void)pthread_cond_signal(&async->work);
        run(async, job);
    }
    (void)pthread_mutex_unlock(&async->mutex);
    return NULL;
}

/* Telling ---------------------------------------------------------------------- */

/*
 * When the callback begins, the session is not the library's any more: from then
 * on only the job is touched here, and the session only as long as the callback
 * has not closed it.
 */
void dlock_pool_tell(struct dlock_async *async, struct dlock_job *job)
{
    struct dlock_session *session = job->session;

    job->place = DLOCK_JOB_TELLING;
    job->teller = pthread_self();
    TAILQ_INSERT_TAIL(&async->telling, job, link);
    session->job = NULL;
    (void)pthread_mutex_unlock(&async->mutex);
    dlock_session_leave(session);
    job->done(job->ctx, session, job->status,
              job->acquires && job->status == DLOCK_OK ? &job->grant : NULL,
              &job->error);
    (void)pthread_mutex_lock(&async->mutex);
    async->jobs_n--;
    TAILQ_REMOVE(&async->telling, job, link);
    if (job->session != NULL)
        job->session->jobs_n--;
    (void)pthread_cond_broadcast(&async->settled);
    free(job);
}
