/*
 * Asynchronous calls: beginning them, ending them with their session, and the
 * descriptor of a program with a loop of its own. The threads are in pool.c.
 *
 * A job is its session's from its call until its callback begins. While a
 * callback runs, the session may begin its next one: so a session counts them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lock/async/pool.h"
#include "lock/core/clock.h"
#include "lock/core/error.h"

struct dlock_async *dlock_async_open(void)
{
    struct dlock_async *async = calloc(1, sizeof(*async));

    if (async == NULL)
        return NULL;
    TAILQ_INIT(&async->releases);
    TAILQ_INIT(&async->acquires);
    TAILQ_INIT(&async->done);
    TAILQ_INIT(&async->telling);
    async->watched_us = UINT64_MAX;
    async->fd = -1;
    (void)pthread_mutex_init(&async->mutex, NULL);
    (void)pthread_cond_init(&async->work, NULL);
    (void)pthread_cond_init(&async->settled, NULL);
    return async;
}

/* No session is left, and so no job: the threads are idle. */
void dlock_async_close(struct dlock_async *async)
{
    if (async == NULL)
        return;
    (void)pthread_mutex_lock(&async->mutex);
    async->stop = true;
    (void)pthread_cond_broadcast(&async->work);
    (void)pthread_mutex_unlock(&async->mutex);
    for (unsigned i = 0; i < async->threads_n; i++)
        (void)pthread_join(async->threads[i], NULL);
    if (async->fd >= 0)
        (void)close(async->fd);
    free(async->timers.jobs);
    (void)pthread_cond_destroy(&async->settled);
    (void)pthread_cond_destroy(&async->work);
    (void)pthread_mutex_destroy(&async->mutex);
    free(async);
}

/* Calls -------------------------------------------------------------------- */

/* NULL: *STATUS says why. The session is entered here, and left before the
 * callback or if the call is refused. */
static struct dlock_job *begin(struct dlock_session *session, bool acquires,
                               dlock_done *done, void *ctx,
                               enum dlock_status *status,
                               struct dlock_error *error)
{
    const char *call = acquires ? "acquire" : "release";
    struct dlock_job *job;

    *status = DLOCK_MISUSE;
    if (done == NULL)
        (void)dlock_error_set(error, *status, "%s: no callback", call);
    else
        *status = dlock_session_enter(session, call, error);
    if (*status != DLOCK_OK)
        return NULL;
    /* A callback that begins the next call each time would keep a close waiting for
     * ever. The close is looked for after entering, because a close that comes after
     * the look finds the session in a call and cancels it. */
    if (atomic_load(&session->closing)) {
        dlock_session_leave(session);
        *status = dlock_error_set(error, DLOCK_MISUSE,
                                  "%s: the session is being closed", call);
        return NULL;
    }
    job = calloc(1, sizeof(*job));
    if (job == NULL) {
        dlock_session_leave(session);
        *status = dlock_error_set(error, DLOCK_UNREACHABLE, "%s: out of memory",
                                  call);
        return NULL;
    }
    job->async = session->client->async;
    job->session = session;
    job->acquires = acquires;
    job->done = done;
    job->ctx = ctx;
    return job;
}

/* Hands JOB over; or refuses it, and it is gone. */
static enum dlock_status go(struct dlock_job *job, struct dlock_error *error)
{
    const char *call = job->acquires ? "acquire" : "release";
    struct dlock_session *session = job->session;
    struct dlock_async *async = job->async;
    int before = session->cancel_state;
    bool has;

    /* Another thread leaves the session. */
    session->cancel_state = DLOCK_CANCEL_STATE_KEPT;
    (void)pthread_mutex_lock(&async->mutex);
    has = dlock_pool_reserve(async);
    if (has) {
        async->jobs_n++;
        session->jobs_n++;
        session->job = job;
        dlock_pool_ready(async, job);
    }
    (void)pthread_mutex_unlock(&async->mutex);
    if (has) {
        (void)pthread_setcancelstate(before, NULL);
        return DLOCK_OK;
    }
    session->cancel_state = before;
    dlock_session_leave(session);
    free(job);
    return dlock_error_set(error, DLOCK_UNREACHABLE, "%s: no memory or thread",
                           call);
}

enum dlock_status dlock_acquire_async(struct dlock_session *session,
                                      const char *name,
                                      const struct dlock_terms *terms,
                                      dlock_done *done, void *ctx,
                                      struct dlock_error *error)
{
    struct dlock_job *job = NULL;
    enum dlock_status status =
        dlock_session_may_acquire(session, name, terms, error);

    if (status == DLOCK_OK)
        job = begin(session, true, done, ctx, &status, error);
    if (job == NULL)
        return status;
    job->terms = *terms;
    (void)snprintf(job->name, sizeof(job->name), "%s", name);
    return go(job, error);
}

enum dlock_status dlock_release_async(struct dlock_session *session,
                                      const struct dlock_grant *grant,
                                      dlock_done *done, void *ctx,
                                      struct dlock_error *error)
{
    struct dlock_job *job = NULL;
    enum dlock_status status = dlock_session_may_release(session, grant, error);

    if (status == DLOCK_OK)
        job = begin(session, false, done, ctx, &status, error);
    if (job == NULL)
        return status;
    job->grant = *grant;
    return go(job, error);
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
    if (!atomic_compare_exchange_strong(&session->state, &calling,
                                        DLOCK_SESSION_CANCELLED))
        return;
    (void)pthread_mutex_lock(&client->async->mutex);
    has_job = session->job != NULL;
    if (has_job)
        dlock_pool_nudge(client->async, session->job);
    (void)pthread_mutex_unlock(&client->async->mutex);
    if (!has_job && client->strategy->wake_all != NULL)
        client->strategy->wake_all(client);
}

/* The thread that closes may be the one that would have to dispatch. */
void dlock_async_drain(struct dlock_async *async, struct dlock_session *session)
{
    struct dlock_job *job;

    dlock_cancel(session);
    (void)pthread_mutex_lock(&async->mutex);
    /* If its own callback closes the session, the job forgets it, because another may
     * be made at the same address while the callback runs. */
    TAILQ_FOREACH(job, &async->telling, link)
    if (job->session == session && pthread_equal(job->teller, pthread_self())) {
        job->session = NULL;
        session->jobs_n--;
    }
    while (session->jobs_n > 0) {
        job = session->job;

        if (job != NULL && job->place == DLOCK_JOB_DONE) {
            TAILQ_REMOVE(&async->done, job, link);
            dlock_pool_tell(async, job);
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
    int fd;

    if (client == NULL || !dlock_is_ours(client))
        return -1;
    async = client->async;
    (void)pthread_mutex_lock(&async->mutex);
    if (async->fd < 0)
        async->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    fd = async->fd;
    (void)pthread_mutex_unlock(&async->mutex);
    return fd;
}

/* Not more than there are now: a chain of callbacks must not keep the loop from
 * its other work. */
unsigned dlock_dispatch(struct dlock *client)
{
    struct dlock_async *async;
    struct dlock_job *job;
    unsigned due = 0;
    unsigned n = 0;
    eventfd_t rings;

    if (client == NULL || !dlock_is_ours(client))
        return 0;
    async = client->async;
    (void)pthread_mutex_lock(&async->mutex);
    if (async->fd >= 0)
        (void)!eventfd_read(async->fd, &rings);
    TAILQ_FOREACH(job, &async->done, link)
    due++;
    for (; n < due && (job = TAILQ_FIRST(&async->done)) != NULL; n++) {
        TAILQ_REMOVE(&async->done, job, link);
        dlock_pool_tell(async, job);
    }
    if (!TAILQ_EMPTY(&async->done))
        (void)!eventfd_write(async->fd, 1);
    (void)pthread_mutex_unlock(&async->mutex);
    return n;
}
