/*
 * Group commit. See committer.h for what it promises.
 *
 * Failure
 * -------
 * A job that fails takes back only what it did itself. But some errors (a full
 * disk, a failed read) make SQLite roll back the whole transaction by itself;
 * then no job of the batch may be answered with success, the ones that went
 * well before included. After an I/O error the connection is not trusted any
 * more: it is closed, and opened anew for the next batch. As long as that
 * fails every batch gets its status; when the disk recovers, so do we.
 */
#include "db/committer.h"
#include "db/failure.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct committer {
    struct sqlite *db; /* NULL: to be opened anew. The thread's own. */
    struct sqlite_options options;
    bool moved; /* the file is gone from its path. The thread's own, too. */
    struct step step;
    pthread_t thread;

    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t wanted; /* there is work, or it closes */
    pthread_cond_t room;   /* the queue is not full, or it closes */
    pthread_cond_t left;   /* one who waited for room has gone */
    struct committer_job *head, **tail;
    size_t queued;
    size_t waiting; /* threads that wait for room */
    bool closing;
};

/* ---- a batch ------------------------------------------------------------ */

static enum store_status open_anew(struct committer *committer,
                                   struct store_error *error)
{
    if (committer->db)
        return STORE_OK;
    return sqlite_open(&committer->options, &committer->db, error);
}

static enum store_status begin(struct committer *committer,
                               struct store_error *error)
{
    enum store_status status;

    if (committer->db && sqlite_moved(committer->db))
        committer->moved = true;
    if (committer->moved)
        return failure_set(error, STORE_IO,
                           "the database file was moved, removed or replaced; "
                           "restart the service");
    status = open_anew(committer, error);
    if (status == STORE_OK)
        status = sqlite_run(committer->db, "BEGIN IMMEDIATE", error);
    return status;
}

/* The job's own status is the job's; what comes back is whether the batch can
 * go on. */
static enum store_status run_job(struct sqlite *db, struct committer_job *job,
                                 struct store_error *error)
{
    job->status = job->run(db, job->ctx, &job->error);
    if (sqlite_in_transaction(db))
        return STORE_OK;
    /* SQLite threw everything away; JOB's error says why. */
    assert(job->status != STORE_OK);
    if (error)
        *error = job->error;
    return job->status;
}

static enum store_status run_in_savepoint(struct sqlite *db,
                                          struct committer_job *job,
                                          struct store_error *error)
{
    enum store_status status = sqlite_run(db, "SAVEPOINT job", error);

    if (status == STORE_OK)
        status = run_job(db, job, error);
    if (status == STORE_OK && job->status != STORE_OK)
        status = sqlite_run(db, "ROLLBACK TO job", error);
    if (status == STORE_OK)
        status = sqlite_run(db, "RELEASE job", error);
    return status;
}

/*
 * A job without company needs no savepoint, under which SQLite would copy each
 * page before it changes. If it fails the whole transaction goes, and an empty
 * one takes its place: the commit that follows finds what it expects.
 */
static enum store_status run_alone(struct sqlite *db, struct committer_job *job,
                                   struct store_error *error)
{
    enum store_status status = run_job(db, job, error);

    if (status == STORE_OK && job->status != STORE_OK) {
        status = sqlite_run(db, "ROLLBACK", error);
        if (status == STORE_OK)
            status = sqlite_run(db, "BEGIN", error);
    }
    return status;
}

static enum store_status run_all(struct sqlite *db, struct committer_job *batch,
                                 struct store_error *error)
{
    enum store_status status = STORE_OK;

    if (!batch->next)
        return run_alone(db, batch, error);
    for (; batch && status == STORE_OK; batch = batch->next)
        status = run_in_savepoint(db, batch, error);
    return status;
}

static enum store_status commit(struct committer *committer,
                                struct store_error *error)
{
    enum store_status status;

    if (step_before(&committer->step, "commit", 0) == STORE_FAIL)
        return failure_set(error, STORE_IO, "the commit failed on purpose");
    status = sqlite_run(committer->db, "COMMIT", error);
    if (step_after(&committer->step, "commit", 0) == STORE_FAIL &&
        status == STORE_OK)
        return failure_set(error, STORE_IO, "the commit's answer got lost");
    return status;
}

/*
 * Nothing of the batch stays. An I/O error costs the connection its trust; a
 * full disk may have room again once the WAL begins anew.
 */
static void give_up(struct committer *committer, enum store_status status)
{
    if (!committer->db)
        return;
    if (sqlite_rollback(committer->db) && status != STORE_IO) {
        if (status == STORE_NO_SPACE)
            sqlite_checkpoint(committer->db);
        return;
    }
    sqlite_close(committer->db);
    committer->db = NULL;
}

static enum store_status run_batch(struct committer *committer,
                                   struct committer_job *batch,
                                   struct store_error *error)
{
    enum store_status status;

    status = begin(committer, error);
    if (status == STORE_OK)
        status = run_all(committer->db, batch, error);
    if (status == STORE_OK)
        status = commit(committer, error);
    if (status != STORE_OK)
        give_up(committer, status);
    return status;
}

/* The job may be gone as soon as done() has been called. */
static void answer(struct committer_job *batch, enum store_status status,
                   const struct store_error *error)
{
    struct committer_job *next;

    for (struct committer_job *job = batch; job; job = next) {
        next = job->next;
        if (status != STORE_OK) {
            job->status = status;
            job->error = *error;
        }
        job->done(job);
    }
}

/* ---- the thread --------------------------------------------------------- */

/* Everything that waits, in order; NULL when closing and nothing is left. */
static struct committer_job *take_all(struct committer *committer)
{
    struct committer_job *batch;

    pthread_mutex_lock(&committer->mutex);
    while (!committer->head && !committer->closing)
        pthread_cond_wait(&committer->wanted, &committer->mutex);
    batch = committer->head;
    committer->head = NULL;
    committer->tail = &committer->head;
    committer->queued = 0;
    if (committer->waiting > 0)
        pthread_cond_broadcast(&committer->room);
    pthread_mutex_unlock(&committer->mutex);
    return batch;
}

static void *thread_main(void *arg)
{
    struct committer *committer = arg;
    struct committer_job *batch;
    struct store_error error;
    enum store_status status;

    while ((batch = take_all(committer)) != NULL) {
        error.text[0] = '\0';
        status = run_batch(committer, batch, &error);
        answer(batch, status, &error);
        /* After the answers: nobody has to wait for the housekeeping. */
        if (committer->db)
            sqlite_tend_wal(committer->db);
    }
    sqlite_close(committer->db);
    return NULL;
}

/* ---- handing in --------------------------------------------------------- */

/* Waits for room in the queue. False: closing. With the mutex held. */
static bool wait_for_room(struct committer *committer)
{
    committer->waiting++;
    while (committer->queued >= COMMITTER_QUEUE_MAX && !committer->closing)
        pthread_cond_wait(&committer->room, &committer->mutex);
    committer->waiting--;
    if (committer->closing)
        pthread_cond_signal(&committer->left);
    return !committer->closing;
}

bool committer_submit(struct committer *committer, struct committer_job *job)
{
    bool taken;

    job->next = NULL;
    job->error.text[0] = '\0';
    pthread_mutex_lock(&committer->mutex);
    taken = wait_for_room(committer);
    if (taken) {
        *committer->tail = job;
        committer->tail = &job->next;
        if (committer->queued++ == 0)
            pthread_cond_signal(&committer->wanted);
    }
    pthread_mutex_unlock(&committer->mutex);
    return taken;
}

struct waiter {
    struct committer_job job; /* first: done() gets it and finds the rest */
    pthread_mutex_t mutex;
    pthread_cond_t answered;
    bool is_answered;
};

/* Signals under the mutex: the waiter's stack is gone right after it. */
static void wake(struct committer_job *job)
{
    struct waiter *waiter = (struct waiter *)job;

    pthread_mutex_lock(&waiter->mutex);
    waiter->is_answered = true;
    pthread_cond_signal(&waiter->answered);
    pthread_mutex_unlock(&waiter->mutex);
}

enum store_status committer_do(struct committer *committer, committer_work *run,
                               void *ctx, struct store_error *error)
{
    struct waiter waiter = {
        .job = {.run = run, .done = wake, .ctx = ctx},
        .mutex = PTHREAD_MUTEX_INITIALIZER,
        .answered = PTHREAD_COND_INITIALIZER,
    };

    if (!committer_submit(committer, &waiter.job))
        return failure_set(error, STORE_CLOSED, "the store is being closed");
    pthread_mutex_lock(&waiter.mutex);
    while (!waiter.is_answered)
        pthread_cond_wait(&waiter.answered, &waiter.mutex);
    pthread_mutex_unlock(&waiter.mutex);
    pthread_cond_destroy(&waiter.answered);
    pthread_mutex_destroy(&waiter.mutex);
    if (waiter.job.status != STORE_OK && error)
        *error = waiter.job.error;
    return waiter.job.status;
}

/* ---- opening and closing ------------------------------------------------ */

enum store_status committer_open(struct sqlite *db,
                                 const struct sqlite_options *options,
                                 const struct step *step,
                                 struct committer **committer,
                                 struct store_error *error)
{
    struct committer *opened = calloc(1, sizeof(*opened));
    int rc;

    if (!opened)
        return failure_set(error, STORE_IO, "out of memory");
    opened->db = db;
    opened->options = *options;
    opened->step = *step;
    opened->tail = &opened->head;
    pthread_mutex_init(&opened->mutex, NULL);
    pthread_cond_init(&opened->wanted, NULL);
    pthread_cond_init(&opened->room, NULL);
    pthread_cond_init(&opened->left, NULL);
    rc = pthread_create(&opened->thread, NULL, thread_main, opened);
    if (rc != 0) {
        free(opened);
        return failure_set(error, STORE_IO, "cannot start a thread: %s",
                           strerror(rc));
    }
    (void)pthread_setname_np(opened->thread, "committer");
    *committer = opened;
    return STORE_OK;
}

void committer_close(struct committer *committer)
{
    if (!committer)
        return;
    pthread_mutex_lock(&committer->mutex);
    committer->closing = true;
    pthread_cond_broadcast(&committer->wanted);
    pthread_cond_broadcast(&committer->room);
    while (committer->waiting > 0)
        pthread_cond_wait(&committer->left, &committer->mutex);
    pthread_mutex_unlock(&committer->mutex);
    pthread_join(committer->thread, NULL);
    pthread_cond_destroy(&committer->left);
    pthread_cond_destroy(&committer->room);
    pthread_cond_destroy(&committer->wanted);
    pthread_mutex_destroy(&committer->mutex);
    free(committer);
}
