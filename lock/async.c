/*
 * Asynchronous calls: the ordinary ones, on threads of the client.
 *
 * A thread for each call that is under way, kept for the next one. That sounds
 * lavish, but a waiting acquire sleeps, and queueing it behind others that
 * sleep would be wrong: the lock they wait for may be held by the very session
 * whose call stands behind them. So an acquire gets a thread at once or is
 * refused, and one thread more than acquires are let in is there for releases,
 * which never wait for anybody and may queue.
 *
 * A job is on the list from its call until its callback has returned. When the
 * callback begins, the session is not the library's any more: from then on only
 * the job is touched here.
 */
#include "lock/async.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "lock/clock.h"
#include "lock/error.h"

enum { THREADS_MAX = DLOCK_ASYNC_ACQUIRES_MAX + 1 };

/* One call. A release has no terms, an acquire comes without a grant. */
struct job {
    struct job *next;
    struct dlock_session *session;
    bool acquires;
    struct dlock_terms terms;
    struct dlock_grant grant;
    char name[DLOCK_NAME_BYTES_MAX + 1];
    dlock_done *done;
    void *ctx;
    bool taken; /* by THREAD */
    pthread_t thread;
};

struct dlock_async {
    pthread_mutex_t mutex;  /* guards everything below */
    pthread_cond_t queued;  /* there is a job to take, or stop */
    pthread_cond_t settled; /* a job is gone */
    struct job *jobs;       /* in order of arrival */
    unsigned jobs_n;
    unsigned acquires_n; /* of these */
    unsigned threads_n;
    bool stop;
    pthread_t threads[THREADS_MAX];
};

struct dlock_async *dlock_async_open(void)
{
    struct dlock_async *async = calloc(1, sizeof(*async));

    if (async == NULL)
        return NULL;
    if (pthread_mutex_init(&async->mutex, NULL) != 0)
        goto err_after_alloc;
    if (pthread_cond_init(&async->queued, NULL) != 0)
        goto err_after_mutex;
    if (pthread_cond_init(&async->settled, NULL) != 0)
        goto err_after_queued;
    return async;

err_after_queued:
    (void)pthread_cond_destroy(&async->queued);
err_after_mutex:
    (void)pthread_mutex_destroy(&async->mutex);
err_after_alloc:
    free(async);
    return NULL;
}

void dlock_async_close(struct dlock_async *async)
{
    if (async == NULL)
        return;
    (void)pthread_mutex_lock(&async->mutex);
    async->stop = true;
    (void)pthread_cond_broadcast(&async->queued);
    (void)pthread_mutex_unlock(&async->mutex);
    /* No session is left, so nobody starts another one. */
    for (unsigned i = 0; i < async->threads_n; i++)
        (void)pthread_join(async->threads[i], NULL);
    (void)pthread_cond_destroy(&async->settled);
    (void)pthread_cond_destroy(&async->queued);
    (void)pthread_mutex_destroy(&async->mutex);
    free(async);
}

/* The threads -------------------------------------------------------------- */

/* Carries a job out and tells. The session is left before the callback. */
static void run(struct job *job)
{
    struct dlock_error error = {""};
    enum dlock_status status;

    if (job->acquires) {
        struct dlock_acquiring acquiring;

        if (dlock_session_begin(&acquiring, job->session, job->name,
                                &job->terms))
            while (dlock_wait_try(&acquiring.wait))
                dlock_wait_sleep(&acquiring.wait);
        status = dlock_session_end(&acquiring, &job->grant, &error);
    } else {
        status = dlock_session_give(job->session, &job->grant, &error);
    }
    dlock_session_leave(job->session);
    job->done(job->ctx, job->session, status,
              job->acquires && status == DLOCK_OK ? &job->grant : NULL, &error);
}

/* With the mutex: the oldest job that nobody has taken. */
static struct job *next_job(struct dlock_async *async)
{
    struct job *job = async->jobs;

    while (job != NULL && job->taken)
        job = job->next;
    return job;
}

/* With the mutex: off the list. */
static void settle(struct dlock_async *async, struct job *job)
{
    struct job **link = &async->jobs;

    while (*link != job)
        link = &(*link)->next;
    *link = job->next;
    if (job->acquires)
        async->acquires_n--;
    async->jobs_n--;
    (void)pthread_cond_broadcast(&async->settled);
}

static void *work(void *arg)
{
    struct dlock_async *async = arg;
    struct job *job;

    (void)pthread_mutex_lock(&async->mutex);
    for (;;) {
        job = next_job(async);
        if (job == NULL && async->stop)
            break;
        if (job == NULL) {
            (void)pthread_cond_wait(&async->queued, &async->mutex);
            continue;
        }
        job->taken = true;
        job->thread = pthread_self();
        (void)pthread_mutex_unlock(&async->mutex);
        run(job);
        (void)pthread_mutex_lock(&async->mutex);
        settle(async, job);
        free(job);
    }
    (void)pthread_mutex_unlock(&async->mutex);
    return NULL;
}

/* Calls -------------------------------------------------------------------- */

/*
 * With the mutex: whether there will be a thread for one more job. With all
 * threads busy, a release may still come: one of them is not an acquire's.
 */
static bool has_thread(struct dlock_async *async, bool acquires)
{
    if (acquires && async->acquires_n == DLOCK_ASYNC_ACQUIRES_MAX)
        return false;
    if (async->jobs_n < async->threads_n)
        return true;
    if (async->threads_n == THREADS_MAX)
        return !acquires;
    if (dlock_clock_thread(&async->threads[async->threads_n], "dlock-async",
                           work, async) != 0)
        return false;
    async->threads_n++;
    return true;
}

/* Hands JOB over, or refuses it, and then it is freed. */
static enum dlock_status submit_take(struct dlock_async *async, struct job *job)
{
    struct job **end = &async->jobs;
    bool has;

    (void)pthread_mutex_lock(&async->mutex);
    has = has_thread(async, job->acquires);
    if (has) {
        while (*end != NULL)
            end = &(*end)->next;
        *end = job;
        async->jobs_n++;
        async->acquires_n += job->acquires;
        (void)pthread_cond_signal(&async->queued);
    }
    (void)pthread_mutex_unlock(&async->mutex);
    if (has)
        return DLOCK_OK;
    free(job);
    return DLOCK_UNREACHABLE;
}

/*
 * A callback that begins the next call each time would keep a close waiting for
 * ever. The close is looked for after entering, because a close that comes after
 * the look finds the session in a call and cancels it.
 */
static enum dlock_status enter(struct dlock_session *session, const char *call,
                               struct dlock_error *error)
{
    enum dlock_status status = dlock_session_enter(session, call, error);

    if (status != DLOCK_OK || !atomic_load(&session->closing))
        return status;
    dlock_session_leave(session);
    return dlock_error_set(error, DLOCK_MISUSE,
                           "%s: the session is being closed", call);
}

/* The session is entered here, and left when the job is done or refused. */
static enum dlock_status begin(struct dlock_session *session,
                               const struct job *model,
                               struct dlock_error *error)
{
    const char *call = model->acquires ? "acquire" : "release";
    struct job *job;
    enum dlock_status status;

    if (model->done == NULL)
        return dlock_error_set(error, DLOCK_MISUSE, "%s: no callback", call);
    status = enter(session, call, error);
    if (status != DLOCK_OK)
        return status;
    job = malloc(sizeof(*job));
    if (job != NULL) {
        *job = *model;
        job->session = session;
        status = submit_take(session->client->async, job);
        if (status == DLOCK_OK)
            return status;
    }
    dlock_session_leave(session);
    return dlock_error_set(error, DLOCK_UNREACHABLE,
                           "%s: too many under way, or no memory or thread",
                           call);
}

enum dlock_status dlock_acquire_async(struct dlock_session *session,
                                      const char *name,
                                      const struct dlock_terms *terms,
                                      dlock_done *done, void *ctx,
                                      struct dlock_error *error)
{
    struct job model = {.acquires = true, .done = done, .ctx = ctx};
    enum dlock_status status =
        dlock_session_may_acquire(session, name, terms, error);

    if (status != DLOCK_OK)
        return status;
    model.terms = *terms;
    (void)snprintf(model.name, sizeof(model.name), "%s", name);
    return begin(session, &model, error);
}

enum dlock_status dlock_release_async(struct dlock_session *session,
                                      const struct dlock_grant *grant,
                                      dlock_done *done, void *ctx,
                                      struct dlock_error *error)
{
    struct job model = {.acquires = false, .done = done, .ctx = ctx};
    enum dlock_status status = dlock_session_may_release(session, grant, error);

    if (status != DLOCK_OK)
        return status;
    model.grant = *grant;
    return begin(session, &model, error);
}

/* With the mutex: a job of SESSION. */
static bool is_under_way(const struct dlock_async *async,
                         const struct dlock_session *session)
{
    for (const struct job *job = async->jobs; job != NULL; job = job->next)
        if (job->session == session)
            return true;
    return false;
}

void dlock_async_drain(struct dlock_async *async, struct dlock_session *session)
{
    atomic_store(&session->closing, true);
    dlock_cancel(session);
    (void)pthread_mutex_lock(&async->mutex);
    /* Its own callback closes the session: the job forgets it, because another
     * may be made at the same address while the callback still runs. */
    for (struct job *job = async->jobs; job != NULL; job = job->next)
        if (job->session == session && job->taken &&
            pthread_equal(job->thread, pthread_self()))
            job->session = NULL;
    while (is_under_way(async, session))
        (void)pthread_cond_wait(&async->settled, &async->mutex);
    (void)pthread_mutex_unlock(&async->mutex);
}
