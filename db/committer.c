/*
 * The committer: the one thread, with the one connection, that writes.
 *
 * It takes what waits - orders of the source, writes of all threads - runs it
 * in one transaction, commits once and then answers. So many writes share the
 * price of one fsync, and the busier it gets the more they are (group commit).
 * It does not wait to make a batch larger: while it commits, the next batch
 * grows.
 *
 * What a status means
 * -------------------
 *   STORE_OK       run() said so, and the commit is on disk
 *   a "no"         run() said so; what it did was rolled back
 *   STORE_BUSY, STORE_NO_SPACE, STORE_IO, STORE_GONE
 *                  the batch failed before its COMMIT, or its COMMIT was rolled
 *                  back: nothing of it is kept, and all in it hear the same
 *   STORE_UNKNOWN  the COMMIT was tried and not confirmed: all of it may be on
 *                  disk, or nothing; all in it hear the same
 * run() runs once at most. A failed batch is not tried again: its callers have
 * waited long enough, and ask again if they still care.
 *
 * Failure
 * -------
 * A write that fails takes back only what it did itself. But some errors (a
 * full disk, a failed read) make SQLite roll back the whole transaction by
 * itself; then nothing in the batch may be answered with success, what went
 * well before included. After an I/O error the connection is not trusted any
 * more: it is closed, and opened anew for the next batch. As long as that fails
 * every batch hears so; when the disk recovers, so do we.
 */
#include "db/store_private.h"

#include <assert.h>
#include <string.h>
#include <time.h>

/* ---- the source --------------------------------------------------------- */

static bool is_due(const struct committer *committer)
{
    return committer->again || atomic_load(&committer->woken) ||
           (committer->due_us != UINT64_MAX &&
            monotonic_us() >= committer->due_us);
}

/* Woken while it is asked, the source is asked once more. */
static bool attend(struct committer *committer)
{
    const struct store_source *source = &committer->source;

    committer->again = false;
    committer->due_us = UINT64_MAX;
    atomic_store(&committer->woken, false);
    return source->attend(source->ctx, &committer->due_us);
}

/* The batch that waits is closed to what attend() finds: after it, again. */
void committer_on_wait(void *store)
{
    struct committer *committer = &((struct store *)store)->committer;

    if (!committer->asking)
        return;
    (void)attend(committer);
    committer->again = true;
}

void store_source_attach(struct store *store, const struct store_source *source)
{
    struct committer *committer = &store->committer;

    pthread_mutex_lock(&committer->mutex);
    assert(!committer->attached && !committer->asking);
    committer->source = *source;
    committer->attached = true;
    atomic_store(&committer->woken, true);
    pthread_cond_signal(&committer->wanted);
    pthread_mutex_unlock(&committer->mutex);
}

/*
 * The thread says that it sleeps before it looks whether the source is awake,
 * and here it is the other way round: one of the two sees the other.
 */
void store_source_wake(struct store *store)
{
    struct committer *committer = &store->committer;

    if (atomic_exchange(&committer->woken, true) ||
        !atomic_load(&committer->asleep))
        return;
    pthread_mutex_lock(&committer->mutex);
    pthread_cond_signal(&committer->wanted);
    pthread_mutex_unlock(&committer->mutex);
}

void store_source_detach(struct store *store)
{
    struct committer *committer = &store->committer;

    pthread_mutex_lock(&committer->mutex);
    committer->attached = false;
    while (committer->asking)
        pthread_cond_wait(&committer->passed, &committer->mutex);
    pthread_mutex_unlock(&committer->mutex);
}

/* ---- a transaction ------------------------------------------------------ */

/* What is written to a file that is no longer at its path, nobody will find; and
 * without the lock file others may write as well. NULL: both are there. */
static const char *what_is_moved(const struct store *store)
{
    if (file_is_moved(store->path, store->dev, store->ino))
        return "the database file";
    return lockfile_is_moved(&store->lock) ? "the lock file" : NULL;
}

static enum store_status is_there(const char *moved, struct store_error *error)
{
    return !moved ? STORE_OK
                  : failure_set(error, STORE_GONE,
                                "%s was moved, removed or replaced: "
                                "see FILES in stockade(1) before a restart",
                                moved);
}

bool store_is_there(const struct store *store, struct store_error *error)
{
    return is_there(what_is_moved(store), error) == STORE_OK;
}

static enum store_status begin(struct store *store, struct store_error *error)
{
    struct committer *committer = &store->committer;
    enum store_status status;

    if (!committer->moved)
        committer->moved = what_is_moved(store);
    status = is_there(committer->moved, error);
    if (status == STORE_OK && !store->db)
        status = sqlite_open(&store->writer, &store->db, error);
    if (status != STORE_OK)
        return status;
    sqlite_error(store->db)->text[0] = '\0';
    status = sqlite_run(store->db, "BEGIN IMMEDIATE");
    *error = *sqlite_error(store->db);
    return status;
}

/*
 * WRITE's own status is its own; what comes back is whether the batch can go
 * on. Changes are kept if run() said STORE_OK, and undone if not. A write
 * without company needs no savepoint, under which SQLite would copy each page
 * before it changes: if it fails, the whole transaction goes.
 */
static enum store_status run_one(struct store *store, struct store_write *write,
                                 bool alone)
{
    struct sqlite *db = store->db;
    enum store_status status = STORE_OK;

    if (!alone)
        status = sqlite_run(db, "SAVEPOINT one");
    if (status != STORE_OK)
        return status;
    write->status = write->run(store, write);
    if (write->status != STORE_OK)
        write->error = *sqlite_error(db);
    if (!sqlite_in_transaction(db)) {
        assert(write->status != STORE_OK); /* SQLite threw everything away */
        return write->status;
    }
    if (alone)
        return write->status == STORE_OK ? STORE_OK
                                         : sqlite_run(db, "ROLLBACK");
    if (write->status != STORE_OK)
        status = sqlite_run(db, "ROLLBACK TO one");
    return status == STORE_OK ? sqlite_run(db, "RELEASE one") : status;
}

/*
 * SQLite rolls a COMMIT back that finds no space, and leaves the transaction
 * open if others read on for too long: nothing was written then. After any
 * other failure it may be on disk or not.
 */
static enum store_status commit(struct store *store)
{
    enum store_status status;

    if (!sqlite_in_transaction(store->db))
        return STORE_OK;
    if (step_call(store->step, "commit", 0, STORE_BEFORE) == STORE_FAIL)
        return sqlite_fail(store->db, STORE_IO, "the commit failed on purpose");
    status = sqlite_run(store->db, "COMMIT");
    if (step_call(store->step, "commit", 0, STORE_AFTER) == STORE_FAIL &&
        status == STORE_OK)
        return sqlite_fail(store->db, STORE_UNKNOWN,
                           "the commit's answer got lost");
    if (status == STORE_OK || status == STORE_BUSY || status == STORE_NO_SPACE)
        return status;
    return STORE_UNKNOWN;
}

/* In a transaction that has begun. *error is the lots': one of them may have
 * failed alone. */
static enum store_status run_all(struct store *store,
                                 struct store_write *writes,
                                 struct store_error *error)
{
    bool alone = store->place.lots_n == 0 && writes && !writes->next;
    enum store_status status = STORE_OK;

    if (store->place.lots_n > 0)
        status = place_lots(store);
    *error = *sqlite_error(store->db);
    for (; writes && status == STORE_OK; writes = writes->next)
        status = run_one(store, writes, alone);
    /* Whatever failed by now, nothing was written. */
    if (status != STORE_OK && status != STORE_BUSY && status != STORE_NO_SPACE)
        status = STORE_IO;
    if (status == STORE_OK)
        status = commit(store);
    if (status != STORE_OK)
        *error = *sqlite_error(store->db);
    return status;
}

/*
 * Nothing of the batch stays. An I/O error costs the connection its trust; a
 * full disk may have room again once the WAL begins anew.
 */
static void give_up(struct store *store, enum store_status status)
{
    rows_forget(&store->place.rows);
    if (!store->db)
        return;
    if (!sqlite_rollback(store->db) ||
        (status != STORE_BUSY && status != STORE_NO_SPACE)) {
        sqlite_close(store->db);
        store->db = NULL;
    } else if (status == STORE_NO_SPACE) {
        wal_checkpoint(store->db);
    }
}

/* Both lots and writes are taken as late as can be: in the transaction. If that
 * did not begin they hear so. */
static void run_batch(struct store *store, bool with_orders)
{
    struct committer *committer = &store->committer;
    struct store_write *writes, *next;
    struct store_error error = {.text = ""};
    enum store_status status = begin(store, &error);
    int64_t changes = store->db ? sqlite_changes(store->db) : 0;

    if (with_orders)
        place_take(store, &committer->source);
    pthread_mutex_lock(&committer->mutex);
    writes = committer->head;
    committer->head = NULL;
    committer->tail = &committer->head;
    pthread_mutex_unlock(&committer->mutex);
    if (status == STORE_OK)
        status = run_all(store, writes, &error);
    else if (status != STORE_BUSY && status != STORE_NO_SPACE &&
             status != STORE_GONE)
        status = STORE_IO;
    if (store->on_commit &&
        (status != STORE_OK || sqlite_changes(store->db) != changes))
        store->on_commit(store->on_commit_ctx, status, &error);
    if (status != STORE_OK)
        give_up(store, status);
    if (with_orders) {
        place_done(store, &committer->source, status, &error);
        committer->again = true;
    }
    /* A write may be gone as soon as done() has been called. */
    for (; writes; writes = next) {
        next = writes->next;
        if (status != STORE_OK) {
            writes->status = status;
            writes->error = error;
        }
        writes->done(writes);
    }
    if (store->db)
        wal_tend(store->db); /* after the answers: no write waits for it */
}

/* ---- the thread --------------------------------------------------------- */

static void sleep_till_due(struct committer *committer)
{
    uint64_t due_us = committer->attached ? committer->due_us : UINT64_MAX;
    struct timespec due = {(time_t)(due_us / 1000000),
                           (long)(due_us % 1000000) * 1000};

    if (due_us == UINT64_MAX)
        pthread_cond_wait(&committer->wanted, &committer->mutex);
    else
        pthread_cond_clockwait(&committer->wanted, &committer->mutex,
                               CLOCK_MONOTONIC, &due);
}

/* Ends a pass and waits for work: *writes, or for the source. False: it closes,
 * and there is none left. */
static bool next_pass(struct committer *committer, bool *writes)
{
    bool more;

    pthread_mutex_lock(&committer->mutex);
    committer->asking = false;
    pthread_cond_broadcast(&committer->passed);
    atomic_store(&committer->asleep, true);
    while (!committer->head && !committer->closing &&
           !(committer->attached && is_due(committer)))
        sleep_till_due(committer);
    atomic_store(&committer->asleep, false);
    committer->asking = committer->attached;
    *writes = committer->head != NULL;
    more = *writes || !committer->closing;
    pthread_mutex_unlock(&committer->mutex);
    return more;
}

static void *thread_main(void *arg)
{
    struct store *store = arg;
    struct committer *committer = &store->committer;
    bool orders, writes;

    while (next_pass(committer, &writes)) {
        orders = committer->asking && is_due(committer) && attend(committer);
        if (orders || writes)
            run_batch(store, orders);
    }
    return NULL;
}

/* ---- from other threads ------------------------------------------------- */

void committer_submit(struct store *store, struct store_write *write)
{
    struct committer *committer = &store->committer;
    bool closing;

    write->next = NULL;
    write->error.text[0] = '\0';
    pthread_mutex_lock(&committer->mutex);
    closing = committer->closing;
    if (!closing) {
        if (!committer->head)
            pthread_cond_signal(&committer->wanted);
        *committer->tail = write;
        committer->tail = &write->next;
    }
    pthread_mutex_unlock(&committer->mutex);
    if (!closing)
        return;
    write->status =
        failure_set(&write->error, STORE_CLOSED, "the store is being closed");
    write->done(write);
}

enum store_status committer_open(struct store *store, struct store_error *error)
{
    struct committer *committer = &store->committer;
    int rc;

    committer->due_us = UINT64_MAX;
    committer->tail = &committer->head;
    pthread_mutex_init(&committer->mutex, NULL);
    pthread_cond_init(&committer->wanted, NULL);
    pthread_cond_init(&committer->passed, NULL);
    rc = pthread_create(&committer->thread, NULL, thread_main, store);
    if (rc != 0)
        return failure_set(error, STORE_IO, "cannot start a thread: %s",
                           strerror(rc));
    (void)pthread_setname_np(committer->thread, "committer");
    return STORE_OK;
}

void committer_close(struct store *store)
{
    struct committer *committer = &store->committer;

    pthread_mutex_lock(&committer->mutex);
    committer->attached = false;
    committer->closing = true;
    pthread_cond_signal(&committer->wanted);
    pthread_mutex_unlock(&committer->mutex);
    pthread_join(committer->thread, NULL);
    pthread_cond_destroy(&committer->passed);
    pthread_cond_destroy(&committer->wanted);
    pthread_mutex_destroy(&committer->mutex);
}
