/*
 * Asynchronous calls, and the threads that carry them out. An acquire that is told no gives
 * its thread back and is parked, with its wake-up armed and the end of its pause noted:
 * whichever comes first makes it ready for the next try. So a thousand that wait need a few
 * threads, because a try takes one round trip and never waits for a holder.
 *
 * Releases are taken before acquires, because others wait for them; but not by more than
 * half of the threads, because those that get no answer, and are tried again, would keep
 * all acquires waiting. One idle thread watches the pauses, the others sleep until there
 * is a job.
 *
 * A job is its session's from its call until its callback begins. While a callback runs,
 * the session may begin its next one: so a session counts them.
 *
 * The mutex is never held while a strategy is called, since strategies call back
 * (told) with theirs.
 */
#include "lock/core/session.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <time.h>
#include <unistd.h>

#include "lock/core/due.h"

/* THREADS_MAX is two for releases and two for acquires, where both wait: with one of each,
 * a server that does not answer one session would hold up all calls of that kind. */
enum { THREADS_MAX = 4 };

/* A release has no terms and comes with the grant, an acquire is given one. */
struct dlock_job {
    struct dlock_due
        pause_end; /* queued while parked; microseconds, real time */
    TAILQ_ENTRY(dlock_job) link; /* of another queue that it is in */
    struct dlock_async *async;
    bool acquires;
    bool begun; /* there was a first try */
    struct dlock_terms terms;
    struct dlock_grant grant;
    char name[DLOCK_NAME_BYTES_MAX + 1];
    struct dlock_wait wait;
    struct dlock_pause pause; /* to be waited for while parked */
    enum dlock_status status;
    struct dlock_error error;
    dlock_done *done;
    void *ctx;
    /* Guarded by the mutex of the pool. */
    struct dlock_session *session; /* NULL: its own callback has closed it */
    bool is_done;                  /* in the queue of dlock_dispatch() */
    bool told;                     /* worth a try, since the last one began */
    pthread_t teller;              /* the callback's thread */
};

TAILQ_HEAD(job_queue, dlock_job);

struct dlock_async {
    pthread_mutex_t mutex;     /* guards everything below */
    pthread_cond_t work;       /* a job is ready, or pauses are to be watched */
    pthread_cond_t settled;    /* a job is done, or gone */
    struct job_queue releases; /* these two are ready, ... */
    struct job_queue acquires;
    size_t ready_n;                /* ... so many of them */
    struct dlock_due_queue parked; /* acquires that were told no, */
    struct job_queue done;         /* those for dlock_dispatch(), */
    struct job_queue telling;      /* and in their callbacks */
    unsigned jobs_n; /* of all sessions, with those in callbacks */
    unsigned threads_n;
    unsigned idle_n;      /* of these */
    unsigned releasing_n; /* of these, at a release */
    uint64_t watched_us;  /* an idle one looks at pauses then; or never */
    bool stop;
    int fd; /* an eventfd that says that there is something done; -1 = none */
    pthread_t threads[THREADS_MAX];
};

struct dlock_async *dlock_async_open(void)
{
    struct dlock_async *async = calloc(1, sizeof(*async));

    if (async == NULL)
        return NULL;
    TAILQ_INIT(&async->releases);
    TAILQ_INIT(&async->acquires);
    TAILQ_INIT(&async->parked);
    TAILQ_INIT(&async->done);
    TAILQ_INIT(&async->telling);
    async->watched_us = UINT64_MAX;
    async->fd = -1;
    (void)pthread_mutex_init(&async->mutex, NULL);
    (void)pthread_cond_init(&async->work, NULL);
    (void)pthread_cond_init(&async->settled, NULL);
    return async;
}

/* Sessions that are not closed yet are being closed, by callbacks. After these there is
 * no job, and the threads are idle. */
void dlock_async_close(struct dlock_async *async)
{
    (void)pthread_mutex_lock(&async->mutex);
    while (async->jobs_n > 0)
        (void)pthread_cond_wait(&async->settled, &async->mutex);
    /* The flag is set only when there is no job: a thread that sees it finds its queues
     * empty, and ends. */
    async->stop = true;
    (void)pthread_cond_broadcast(&async->work);
    (void)pthread_mutex_unlock(&async->mutex);
    for (unsigned i = 0; i < async->threads_n; i++)
        (void)pthread_join(async->threads[i], NULL);
    if (async->fd >= 0)
        (void)close(async->fd);
    (void)pthread_cond_destroy(&async->settled);
    (void)pthread_cond_destroy(&async->work);
    (void)pthread_mutex_destroy(&async->mutex);
    free(async);
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
    if (async->threads_n == THREADS_MAX ||
        dlock_clock_thread(&async->threads[async->threads_n], "dlock-async",
                           work, async) != 0)
        return false;
    async->threads_n++;
    return true;
}

/* With the mutex: JOB, which is in no queue, is for the next thread. */
static void make_ready(struct dlock_async *async, struct dlock_job *job)
{
    if (job->acquires)
        TAILQ_INSERT_TAIL(&async->acquires, job, link);
    else
        TAILQ_INSERT_TAIL(&async->releases, job, link);
    async->ready_n++;
    /* A thread is started only where no idle one is left for the job; if there is none to
     * be had, those that run take it later: begin() has made sure of one. */
    if (async->ready_n > async->idle_n)
        (void)start_thread(async);
    if (async->idle_n > 0)
        (void)pthread_cond_signal(&async->work);
}

/* Parking ---------------------------------------------------------------------- */

/* With the mutex: JOB, if it is still under way, is worth a look at once. If it is
 * running, it sees that it was told before it is parked. */
static void nudge(struct dlock_async *async, struct dlock_job *job)
{
    /* TOLD is set in any case: a job that is just running looks at it before it is
     * parked. */
    job->told = true;
    if (!job->pause_end.queued)
        return;
    dlock_due_remove(&async->parked, &job->pause_end);
    make_ready(async, job);
}

/* A strategy's call: a wake-up has come for the job. */
static void told(void *ctx)
{
    struct dlock_job *job = ctx;
    DLOCK_LOCKED(&job->async->mutex);

    nudge(job->async, job);
}

/* The end of a pause, as far as it can be known: lease time may run by itself. */
static uint64_t pause_end(const struct dlock_job *job, uint64_t now_us)
{
    /* A pause of a poller is real time, and was cut to the deadline before. */
    if (job->pause.us > 0)
        return now_us + job->pause.us;
    return now_us +
           1000 * dlock_clock_until(job->wait.clock, job->pause.until_ms);
}

/* With the mutex: those whose pause is over are ready. */
static void end_pauses(struct dlock_async *async)
{
    uint64_t now_us = real_us();
    struct dlock_due *first;

    while ((first = TAILQ_FIRST(&async->parked)) != NULL &&
           first->at <= now_us) {
        struct dlock_job *job = (struct dlock_job *)first;

        /* The job leaves the queue before its time is changed, because the queue is in the
         * order of these times. */
        dlock_due_remove(&async->parked, first);
        /* The end was a guess for lease time, which a test may stop, or let jump: it is
         * looked at again. */
        if (job->pause.us == 0)
            first->at = pause_end(job, now_us);
        if (first->at <= now_us)
            make_ready(async, job);
        else
            dlock_due_put(&async->parked, first);
    }
}

/* Telling ---------------------------------------------------------------------- */

/* With the mutex, which is let go of meanwhile: leaves the session and calls the callback
 * of JOB, which is in no queue; then it is gone. From the callback on, the session is
 * touched only as long as that has not closed it. */
static void tell(struct dlock_async *async, struct dlock_job *job)
{
    struct dlock_session *session = job->session;

    /* The teller is noted before the callback can run: a callback that closes its own
     * session must not wait for itself. */
    job->teller = pthread_self();
    TAILQ_INSERT_TAIL(&async->telling, job, link);
    /* A cancel finds no job from here on: the answer is made, and can only be told. */
    session->job = NULL;
    (void)pthread_mutex_unlock(&async->mutex);
    /* The session is idle before its callback is called, so that the callback may begin the
     * next call. */
    dlock_session_leave(session);
    job->done(job->ctx, session, job->status,
              job->acquires && job->status == DLOCK_OK ? &job->grant : NULL,
              &job->error);
    (void)pthread_mutex_lock(&async->mutex);
    TAILQ_REMOVE(&async->telling, job, link);
    /* A callback that has closed the session has set this to NULL (dlock_async_drain()):
     * then the session is freed memory. */
    if (job->session != NULL)
        job->session->jobs_n--;
    async->jobs_n--;
    (void)pthread_cond_broadcast(&async->settled);
    free(job);
}

/* Working ---------------------------------------------------------------------- */

/* With the mutex, which is let go of meanwhile: a release, or the next piece of an
 * acquire. After it the job is parked, or ready again; or its callback has been called,
 * or dlock_dispatch() will call it. */
static void run(struct dlock_async *async, struct dlock_job *job)
{
    const struct dlock_wake_call call = {told, job};
    struct dlock_wait *wait = &job->wait;
    bool tries = job->acquires, waits = false;

    /* take_next() has taken the job off its queue; from here on it is this thread's alone
     * until it is parked, ready or told. */
    async->ready_n--;
    async->releasing_n += !job->acquires;
    (void)pthread_mutex_unlock(&async->mutex);
    dlock_error_put(
        &job->error); /* of the last try, on another thread perhaps */
    if (job->begun)
        /* The strategy must forget the call before the try: a wake-up that comes later is
         * for the pause after it. */
        dlock_wait_disarm(wait);
    else if (job->acquires)
        /* TERMS and NAME are the job's copies: the wait keeps pointers to them for as long
         * as it lives. */
        tries = dlock_session_begin(wait, job->session, job->name, &job->terms);
    job->begun = tries;
    /* A wake-up from here on is worth another try. A cancel that is wiped out here is
     * seen by the try itself. */
    (void)pthread_mutex_lock(&async->mutex);
    job->told = false;
    (void)pthread_mutex_unlock(&async->mutex);
    if (tries && dlock_wait_try(wait)) {
        /* The text belongs to this thread, and the next try may be on another one. */
        job->error = dlock_error_take();
        /* told() may come from here on, on any thread, also before this one has the mutex:
         * then job->told says so below. */
        job->pause = dlock_wait_arm(wait, &call);
        waits = true;
    } else {
        job->status = job->acquires
                          ? dlock_session_end(wait, &job->grant)
                          : dlock_session_give(job->session, &job->grant);
        /* dlock_error_report() leaves the text alone on success, and the last try's would
         * stay. */
        job->error.text[0] = '\0';
        (void)dlock_error_report(&job->error, job->status,
                                 job->acquires ? "acquire" : "release");
    }
    (void)pthread_mutex_lock(&async->mutex);
    async->releasing_n -= !job->acquires;
    /* A wake-up or a cancel between the arming and the mutex found the job not parked, and
     * could not make it ready. */
    if (waits && (job->told || dlock_wait_ended(job->session))) {
        make_ready(async, job);
    } else if (waits) {
        job->pause_end.at = pause_end(job, real_us());
        dlock_due_put(&async->parked, &job->pause_end);
    } else if (async->fd < 0) {
        tell(async, job);
    } else {
        /* dlock_dispatch() on a thread of the program calls the callback, or the close of
         * the session does. */
        job->is_done = true;
        TAILQ_INSERT_TAIL(&async->done, job, link);
        (void)!eventfd_write(async->fd, 1);
        (void)pthread_cond_broadcast(&async->settled);
    }
}

/* With the mutex: sleeps until there is something to do. A thread that finds that no
 * other looks at the pauses early enough does so itself. */
static void idle(struct dlock_async *async)
{
    const struct dlock_due *first = TAILQ_FIRST(&async->parked);
    struct timespec until;

    async->idle_n++;
    /* One watcher is enough: the others sleep without an end, or all would wake at each
     * pause's end for one job. */
    if (first == NULL || async->watched_us <= first->at) {
        (void)pthread_cond_wait(&async->work, &async->mutex);
    } else {
        async->watched_us = first->at;
        until.tv_sec = (time_t)(first->at / 1000000);
        until.tv_nsec = (long)(first->at % 1000000) * 1000;
        (void)pthread_cond_clockwait(&async->work, &async->mutex,
                                     CLOCK_MONOTONIC, &until);
        async->watched_us = UINT64_MAX;
    }
    async->idle_n--;
}

/* With the mutex: the job that comes next, off its queue; or NULL. */
static struct dlock_job *take_next(struct dlock_async *async)
{
    struct job_queue *queue = &async->releases;
    struct dlock_job *job;

    /* Releases are half of the threads at most while acquires wait, as the head of this
     * file says. */
    if (TAILQ_EMPTY(queue) || (async->releasing_n >= THREADS_MAX / 2 &&
                               !TAILQ_EMPTY(&async->acquires)))
        queue = &async->acquires;
    job = TAILQ_FIRST(queue);
    if (job != NULL)
        TAILQ_REMOVE(queue, job, link);
    return job;
}

static void *work(void *arg)
{
    struct dlock_async *async = arg;
    DLOCK_LOCKED(&async->mutex);

    for (;;) {
        struct dlock_job *job;

        end_pauses(async);
        job = take_next(async);
        /* The queues come first: a job that is ready is done even if the end has come. */
        if (job == NULL && async->stop)
            return NULL;
        if (job == NULL) {
            idle(async);
            continue;
        }
        /* Another one is to look at the pauses meanwhile. */
        if (async->watched_us == UINT64_MAX && !TAILQ_EMPTY(&async->parked))
            (void)pthread_cond_signal(&async->work);
        run(async, job);
    }
}

/* Calls -------------------------------------------------------------------- */

/* Makes a job as WANTED. The session is entered here, and left before the callback or
 * if the call is refused. */
static enum dlock_status begin(struct dlock_session *session,
                               const struct dlock_job *wanted)
{
    struct dlock_async *async = session->client->async;
    struct dlock_job *job = malloc(sizeof(*job));
    enum dlock_status status = DLOCK_MISUSE;
    bool has_thread;
    int before;

    if (job == NULL)
        return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    if (wanted->done == NULL)
        dlock_error_say("no callback");
    else
        status = dlock_session_enter(session);
    if (status != DLOCK_OK)
        goto err_after_alloc;
    /* A callback that begins the next call each time would keep a close waiting for
     * ever. The close is looked for after entering, because a close that comes after
     * the look finds the session in a call and cancels it. */
    if (atomic_load(&session->closing)) {
        status = dlock_error_set(DLOCK_MISUSE, "the session is being closed");
        goto err_after_enter;
    }
    *job = *wanted;
    job->async = async;
    job->session = session;
    /* Another thread leaves the session. */
    before = session->cancel_state;
    /* The mark must stand before the job is ready, because another thread may leave the
     * session at once. */
    session->cancel_state = DLOCK_CANCEL_STATE_KEPT;
    (void)pthread_mutex_lock(&async->mutex);
    /* The first thread is made sure of here: later ones may fail, but a job without any
     * would never end. */
    has_thread = async->threads_n > 0 || start_thread(async);
    if (has_thread) {
        async->jobs_n++;
        session->jobs_n++;
        /* The job is the session's before it is ready: a cancel from now on finds it. */
        session->job = job;
        make_ready(async, job);
    }
    (void)pthread_mutex_unlock(&async->mutex);
    if (has_thread) {
        /* This thread's own state goes back here, and not where the session is left. */
        (void)pthread_setcancelstate(before, NULL);
        return DLOCK_OK;
    }
    session->cancel_state = before;
    status = dlock_error_set(DLOCK_UNREACHABLE, "no thread");
err_after_enter:
    dlock_session_leave(session);
err_after_alloc:
    free(job);
    return status;
}

enum dlock_status dlock_acquire_async(struct dlock_session *session,
                                      const char *name,
                                      const struct dlock_terms *terms,
                                      dlock_done *done, void *ctx,
                                      struct dlock_error *error)
{
    struct dlock_job job = {.acquires = true, .done = done, .ctx = ctx};
    enum dlock_status status = dlock_check_acquire(session, name, terms);

    if (status != DLOCK_OK)
        return dlock_error_report(error, status, "acquire");
    job.terms = *terms;
    (void)snprintf(job.name, sizeof(job.name), "%s", name);
    return dlock_error_report(error, begin(session, &job), "acquire");
}

enum dlock_status dlock_release_async(struct dlock_session *session,
                                      const struct dlock_grant *grant,
                                      dlock_done *done, void *ctx,
                                      struct dlock_error *error)
{
    struct dlock_job job = {.done = done, .ctx = ctx};
    enum dlock_status status = dlock_check_grant(session, grant);

    if (status != DLOCK_OK)
        return dlock_error_report(error, status, "release");
    job.grant = *grant;
    return dlock_error_report(error, begin(session, &job), "release");
}

/* Ending them ------------------------------------------------------------------ */

/* Only a call that is under way can be cancelled. An asynchronous acquire looks at
 * once; a thread that sleeps is woken by the strategy, or looks by itself soon. */
void dlock_cancel(struct dlock_session *session)
{
    int calling = DLOCK_SESSION_CALLING;
    struct dlock *client;
    bool has_job;

    if (session == NULL || !dlock_is_ours(session->client))
        return;
    client = session->client;
    /* ANSWERED and IDLE are left alone: a cancel that comes too late must not hit the next
     * call of the session. */
    if (!atomic_compare_exchange_strong(&session->state, &calling,
                                        DLOCK_SESSION_CANCELLED))
        return;
    (void)pthread_mutex_lock(&client->async->mutex);
    has_job = session->job != NULL;
    /* The state was changed before: a job that runs now sees it before it is parked. */
    if (has_job)
        nudge(client->async, session->job);
    (void)pthread_mutex_unlock(&client->async->mutex);
    /* A thread that sleeps in dlock_wait_sleep() is on a list of the strategy: all are
     * woken, and the others sleep on. */
    if (!has_job && client->strategy->wake_all != NULL)
        client->strategy->wake_all(client);
}

/* Those that are about to be parked see by themselves that it is over. */
void dlock_end_waits(struct dlock *client)
{
    struct dlock_due *first;

    if (client == NULL || !dlock_is_ours(client))
        return;
    /* The flag comes before the wake-ups: whoever is woken must see why. */
    atomic_store(&client->waits_ended, true);
    (void)pthread_mutex_lock(&client->async->mutex);
    while ((first = TAILQ_FIRST(&client->async->parked)) != NULL)
        nudge(client->async, (struct dlock_job *)first);
    (void)pthread_mutex_unlock(&client->async->mutex);
    if (client->strategy->wake_all != NULL)
        client->strategy->wake_all(client);
}

/* The thread that closes may be the one that would have to dispatch. */
void dlock_async_drain(struct dlock_async *async, struct dlock_session *session)
{
    struct dlock_job *job;

    /* An acquire under way would wait for its holder else; a release goes on, and is waited
     * for. */
    dlock_cancel(session);
    (void)pthread_mutex_lock(&async->mutex);
    /* If its own callback closes the session, the job forgets it, because another may
     * be made at the same address while the callback runs. */
    TAILQ_FOREACH(job, &async->telling, link)
        if (job->session == session &&
            pthread_equal(job->teller, pthread_self())) {
            job->session = NULL;
            session->jobs_n--;
        }
    while (session->jobs_n > 0) {
        job = session->job;

        /* One that was told is the session's no more. NOLINTNEXTLINE(*unix.Malloc) */
        if (job != NULL && job->is_done) {
            TAILQ_REMOVE(&async->done, job, link);
            tell(async, job);
        } else {
            (void)pthread_cond_wait(&async->settled, &async->mutex);
        }
    }
    (void)pthread_mutex_unlock(&async->mutex);
}

/* For a loop -------------------------------------------------------------------- */

int dlock_fd(struct dlock *client)
{
    struct dlock_async *async;

    if (client == NULL || !dlock_is_ours(client))
        return -1;
    async = client->async;
    DLOCK_LOCKED(&async->mutex);
    if (async->fd < 0)
        async->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return async->fd;
}

/* Not more than there are now: a chain of callbacks must not keep the loop from its other
 * work. A job that ends meanwhile has rung for the next time. */
unsigned dlock_dispatch(struct dlock *client)
{
    struct dlock_async *async;
    struct dlock_job *job;
    int before = PTHREAD_CANCEL_ENABLE;
    unsigned due = 0;
    unsigned n = 0;
    eventfd_t rings;

    if (client == NULL || !dlock_is_ours(client))
        return 0;
    async = client->async;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    (void)pthread_mutex_lock(&async->mutex);
    if (async->fd >= 0)
        /* The bell is read before the queue: a job that comes in between rings again. */
        (void)!eventfd_read(async->fd, &rings);
    TAILQ_FOREACH(job, &async->done, link)
        due++;
    for (; n < due && (job = TAILQ_FIRST(&async->done)) != NULL; n++) {
        TAILQ_REMOVE(&async->done, job, link);
        tell(async, job);
    }
    (void)pthread_mutex_unlock(&async->mutex);
    (void)pthread_setcancelstate(before, NULL);
    return n;
}
