/*
 * The committer: the one thread, with the one connection, that writes.
 *
 * Orders of the source and writes of all threads share one transaction and its fsync, the
 * more the busier it gets (group commit). The committer does not wait to make a batch
 * larger: while it commits, the next batch grows.
 *
 * Orders that are not paid in time are given back without being asked for: a look into
 * the index of the holds says when the next one is due. While there are holds the
 * committer looks again each half second at the latest, since a wall clock may be set
 * meanwhile; a new hold has a second at least, so that it is seen before its time.
 *
 * A status means
 * --------------
 *   STORE_OK       run() said so, and the commit is on disk
 *   a "no"         run() said so; what it did was rolled back, unless it is
 *                  write->no: then that is on disk
 *   others         as of store_place(), the same to all in the batch
 * A failed batch is not tried again: its callers have waited long enough, and ask
 * again if they still care. But a conflict with another instance, or a connection
 * that was lost before the COMMIT, is no failure yet: the batch is run again, with
 * pauses, for as long as one may wait for another process. So run() may run more
 * than once, and what it did before is undone then. A COMMIT whose answer was
 * lost is looked up by the last order it has written: if that is there, all of it
 * is, and if it is not, nothing was kept and it is run again.
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
#include "db/store/committer.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#define LOOK_US    500000
#define LATE_TRIES 8 /* when the time is up; keys of one batch */

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
    /* `woken` falls before the source looks: what comes during the look wakes
     * it once more, and is never missed. */
    atomic_store(&committer->woken, false);
    return source->attend(source->ctx, &committer->due_us);
}

/* The batch that waits does not take what attend() finds now: the source is asked once
 * more after it. */
void committer_on_wait(void *store)
{
    struct committer *committer = &((struct store *)store)->committer;

    /* A pass that does not ask the source must not begin to: a detach would not
     * wait for it. */
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

/* The thread says that it sleeps before it looks whether the source is awake, and here
 * it is the other way round: one of the two sees the other. */
void store_source_wake(struct store *store)
{
    struct committer *committer = &store->committer;

    /* The mutex is taken only to signal, by the first one that finds the thread
     * asleep: one system call for a whole batch. */
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
    /* The pass that is under way may still call the source. */
    while (committer->asking)
        pthread_cond_wait(&committer->passed, &committer->mutex);
    pthread_mutex_unlock(&committer->mutex);
}

bool store_knows_sold_out(const struct store *store, int64_t product_id,
                          int64_t quantity)
{
    return soldout_knows(&store->soldout, product_id, quantity) != 0;
}

/* ---- what was not paid in time ------------------------------------------ */

/* The next hold expires in so many ms; INT64_MAX: it knows of none. */
static void plan_look(struct store *store, int64_t in_ms)
{
    uint64_t wait_us = in_ms == INT64_MAX ? store->look_every_us : LOOK_US;

    if (in_ms < LOOK_US / 1000)
        wait_us = in_ms > 0 ? (uint64_t)in_ms * 1000 : 0;
    store->committer.look_us =
        wait_us == UINT64_MAX ? UINT64_MAX : monotonic_us() + wait_us;
}

static bool is_time_to_look(const struct committer *committer)
{
    return committer->look_us != UINT64_MAX &&
           monotonic_us() >= committer->look_us;
}

/* Orders of other instances must be read now, because a batch would read them while
 * nobody else can write. Without a connection the batch opens one. Where the database
 * cannot be asked, later. */
static bool look(struct store *store)
{
    int64_t in_ms = 0;

    if (store->db && !store->db->engine->far) {
        sql_clear(store->db);
        /* A look that nobody asked for must not wait for another process, since
         * a batch may come. */
        store->db->hasty = true;
        filter_read(&store->place.keys.filter, store->db);
        store->db->hasty = false;
    }
    if (store->db && holds_next(store->db, &in_ms) != STORE_OK)
        in_ms = LOOK_US / 1000;
    plan_look(store, in_ms);
    return in_ms <= 0;
}

/* Where nothing has expired although it was due, another instance was first. */
static void on_expired(struct store_write *write)
{
    struct store *store = write->owner;
    bool more = write->status == STORE_OK && write->expired > 0;

    if (write->status != STORE_OK && write->status != STORE_CLOSED &&
        store->options.on_failure)
        store->options.on_failure(store->options.on_failure_ctx, write->status,
                                  &write->error);
    plan_look(store, more ? 0 : LOOK_US / 1000);
}

/* ---- a batch: orders and writes in one transaction ----------------------- */

static enum store_status begin(struct store *store, struct store_error *error)
{
    struct committer *committer = &store->committer;
    enum store_status status;

    /* A file that was lost once stays lost: if it came back, two processes
     * could have sold from two files under one name. */
    if (!committer->lost)
        committer->lost = lockfile_lost(store->lockfile);
    if (committer->lost)
        return failure_set(error, STORE_GONE,
                           "%s was moved, removed or replaced: "
                           "see FILES in stockade(1) before a restart",
                           committer->lost);
    if (!store->db && (status = sql_open(&store->writer, &store->db, error)))
        return status;
    if (step_begin(store->step, "begin", 0) == STORE_FAIL)
        return failure_set(error, STORE_BUSY, "the begin failed on purpose");
    status = sql_begin(store->db);
    (void)step_end(store->step, "begin", 0, store_status_text(status));
    /* The filter must have what others have committed before a key is looked
     * up. From here on nobody else can commit. */
    if (status == STORE_OK && !store->db->engine->far)
        filter_begin(&store->place.keys.filter, store->db);
    *error = *sql_error(store->db);
    return store->db->status;
}

static bool undo(struct store *store)
{
    bool good;

    (void)step_begin(store->step, "rollback", 0);
    good = sql_rollback(store->db);
    (void)step_end(store->step, "rollback", 0, good ? "ok" : "failed");
    return good;
}

/* WRITE's own status is its own; what comes back is whether the batch can go on.
 * Changes are kept if run() said STORE_OK, and undone if not. A write without company
 * needs no savepoint, under which SQLite would copy each page before it changes: if it
 * fails, the whole transaction goes. */
static enum store_status run_one(struct store *store, struct store_write *write,
                                 bool alone)
{
    const struct place_proof proof = store->place.proof;
    struct sql *db = store->db;

    if (!alone && sql_run(db, "SAVEPOINT one") != STORE_OK)
        return db->status;
    write->no = STORE_OK;
    write->expired = 0;
    write->status = write->run(store, write);
    if (write->status == STORE_OK) /* a half of it must not be kept */
        write->status = db->status;
    /* The whole transaction is run once more: what this write was told does not
     * count. */
    if (db->again)
        return write->status;
    if (write->status != STORE_OK) {
        write->error = *sql_error(db);
        store->place.proof = proof; /* it is undone */
    }
    if (!db->in_transaction) /* the database threw everything away */
        return write->status;
    sql_clear(db);
    /* Alone, a "no" undoes the whole transaction, and the batch is in order;
     * commit() then finds none open. */
    if (alone)
        return write->status == STORE_OK || undo(store) ? STORE_OK : STORE_IO;
    if (write->status != STORE_OK)
        sql_run(db, "ROLLBACK TO SAVEPOINT one");
    return sql_run(db, "RELEASE SAVEPOINT one");
}

static enum store_status commit(struct store *store)
{
    enum store_status status;

    if (!store->db->in_transaction) { /* a write alone, which said no */
        assert(store->place.lots_n == 0);
        return STORE_OK;
    }
    if (step_begin(store->step, "commit", 0) == STORE_FAIL)
        return sql_fail(store->db, STORE_IO, "the commit failed on purpose");
    status = sql_commit(store->db);
    if (step_end(store->step, "commit", 0, store_status_text(status)) ==
            STORE_FAIL &&
        status == STORE_OK)
        return sql_fail(store->db, STORE_UNKNOWN,
                        "the commit's answer got lost");
    return status;
}

/* Whether it says yes to what another transaction has done: an order, or a write, that
 * came once more. */
static bool repeats(const struct place *place, const struct store_write *write)
{
    for (size_t i = 0; i < place->lots_n; i++)
        for (size_t j = 0; j < place->lots[i].n; j++)
            if (place->lots[i].orders[j]->status == STORE_OK)
                return true;
    while (write && write->status != STORE_OK)
        write = write->next;
    return write;
}

/* In a transaction that has begun. *error is the lots': one of them may have
 * failed alone. */
static enum store_status run_all(struct store *store,
                                 struct store_write *writes,
                                 struct store_error *error)
{
    bool alone = store->place.lots_n == 0 && writes && !writes->next;
    const struct store_write *first = writes;
    int64_t changes = store->db->changes;
    enum store_status status = STORE_OK;

    /* The proof of an earlier try must not pass for this one's. */
    store->place.proof.number = 0;
    if (store->place.lots_n > 0)
        status = place_lots(&store->place, store->db);
    *error = *sql_error(store->db);
    for (; writes && status == STORE_OK; writes = writes->next)
        status = run_one(store, writes, alone);
    /* A batch that wrote nothing, but says yes, goes by what others have
     * committed. It is told as lasting, so it must be on the server's disk: see
     * probe_flush(). */
    if (status == STORE_OK && store->db->engine->far &&
        store->db->changes == changes && repeats(&store->place, first))
        status = probe_flush(store->db);
    if (status == STORE_OK)
        status = commit(store);
    if (status == STORE_OK)
        filter_kept(&store->place.keys.filter, store->place.proof.number,
                    store->place.proof.secret);
    else
        *error = *sql_error(store->db);
    return status;
}

/* Nothing of the batch stays. An I/O error costs the connection its trust; a full disk
 * may have room again once the WAL begins anew. */
static void give_up(struct store *store, enum store_status status)
{
    /* The known products were read, or changed, in a transaction that is
     * void now. */
    place_forget(&store->place);
    if (!store->db)
        return;
    if (!undo(store) || (status != STORE_BUSY && status != STORE_NO_SPACE)) {
        sql_close(store->db);
        store->db = NULL;
    } else if (status == STORE_NO_SPACE && store->db->engine->tend) {
        store->db->engine->tend(store->db, true);
    }
}

/* A COMMIT's answer was lost: was it carried out? In a cluster, or where the address is
 * another server's by now, only a yes is certain. An order that can be seen need not be
 * on disk yet: a COMMIT of ours says so. STORE_UNKNOWN: nobody can tell in time. */
static enum store_status settle(struct store *store, struct backoff *pause,
                                struct store_error *error)
{
    struct store_error why;
    bool kept;

    /* In SQLite the file itself has failed, and there is nobody to ask. A batch
     * without new orders has no row to look for. */
    if (!store->writer.engine->far || store->place.proof.number == 0)
        return STORE_UNKNOWN;
    do {
        /* The connection goes each time, because it may be the one whose COMMIT
         * got no answer. */
        give_up(store, STORE_UNKNOWN);
        committer_on_wait(store);
        if (sql_open(&store->writer, &store->db, &why) != STORE_OK)
            continue;
        sql_begin(store->db);
        kept = orders_find(store->db, &store->place.proof);
        if (kept && probe_flush(store->db) == STORE_OK &&
            sql_commit(store->db) == STORE_OK)
            return STORE_OK;
        sql_rollback(store->db);
        /* A "not there" counts only from the server that was asked to commit:
         * another one may not have it yet. */
        if (!kept && store->db->status == STORE_OK && !store->db->cluster &&
            store->db->server == store->place.proof.server) {
            store->db->again = true;
            return failure_set(error, STORE_IO, "the commit was not kept");
        }
    } while (backoff_wait(pause));
    return STORE_UNKNOWN;
}

/* Once more, if that may help. *status is how the last try ended. Where another one was
 * first with a key there is nothing to wait for, and the next try finds the answer,
 * however late it is: LATE says how often that was done. */
static bool next_try(struct store *store, struct backoff *pause, unsigned *late,
                     enum store_status *status, struct store_error *error)
{
    if (*status == STORE_UNKNOWN)
        *status = settle(store, pause, error);
    /* Without a connection the last begin() could not open one: that is an
     * answer, and the orders hear it. */
    if (*status == STORE_OK || !store->db || !store->db->again)
        return false;
    if (!backoff_wait(pause) && (!store->db->at_once || ++*late > LATE_TRIES))
        return false;
    atomic_fetch_add(&store->retries, 1);
    give_up(store, *status);
    *status = begin(store, error);
    return true;
}

/* A write may be gone as soon as done() has been called. */
static void answer(struct store *store, struct store_write *writes,
                   enum store_status status, const struct store_error *error)
{
    struct store_write *next;

    for (; writes; writes = next) {
        next = writes->next;
        if (status != STORE_OK) {
            writes->status = status;
            writes->error = *error;
        } else if (writes->status == STORE_OK) {
            writes->status = writes->no;
            atomic_fetch_add(&store->expired, writes->expired);
        }
        writes->done(writes);
    }
}

/* Both lots and writes are taken as late as can be: in the transaction. If that
 * did not begin they hear so. */
static void batch_run(struct store *store, bool with_orders)
{
    struct committer *committer = &store->committer;
    struct backoff pause = {.hurry = &store->hurry};
    struct store_write *writes;
    struct store_error error = {.text = ""};
    enum store_status status = begin(store, &error);
    unsigned late = 0;

    backoff_begin(&pause, store->writer.busy_ms);
    if (with_orders)
        place_take(&store->place, &committer->source);
    pthread_mutex_lock(&committer->mutex);
    writes = committer->head;
    committer->head = NULL;
    committer->tail = &committer->head;
    pthread_mutex_unlock(&committer->mutex);
    do {
        if (status == STORE_OK)
            status = run_all(store, writes, &error);
        if (status != STORE_OK && status != STORE_BUSY &&
            status != STORE_NO_SPACE && status != STORE_UNKNOWN &&
            status != STORE_GONE)
            status = STORE_IO;
    } while (next_try(store, &pause, &late, &status, &error));
    /* The failure is told before the orders are answered: a customer who was
     * refused, and asks /readyz, must find it there. */
    if (store->options.on_failure && status != STORE_OK)
        store->options.on_failure(store->options.on_failure_ctx, status,
                                  &error);
    if (status != STORE_OK)
        give_up(store, status);
    if (with_orders) {
        place_done(&store->place, &committer->source, status, &error);
        committer->again = true;
    }
    answer(store, writes, status, &error);
    /* Orders were sold that are to be paid: the look that was planned may be
     * too late for their holds. */
    if (store->place.held && committer->look_us > monotonic_us() + LOOK_US)
        committer->look_us = monotonic_us() + LOOK_US;
    store->place.held = false;
    /* After the answers: no write waits for it. */
    if (store->db && store->db->engine->tend)
        store->db->engine->tend(store->db, false);
}

/* ---- the thread --------------------------------------------------------- */

/* Ends a pass and waits for work: *writes, the source, or a look. False: it closes,
 * and there is none left. */
static bool next_pass(struct committer *committer, bool *writes)
{
    struct timespec due;
    uint64_t due_us;
    bool more;

    pthread_mutex_lock(&committer->mutex);
    /* `asking` falls under the mutex, and is told: store_source_detach() waits
     * for it. */
    committer->asking = false;
    pthread_cond_broadcast(&committer->passed);
    /* `asleep` is set before is_due() reads `woken`; store_source_wake() does
     * it the other way round. */
    atomic_store(&committer->asleep, true);
    while (!committer->head && !committer->closing &&
           !(committer->attached && is_due(committer)) &&
           !is_time_to_look(committer)) {
        due_us = committer->look_us;
        if (committer->attached && committer->due_us < due_us)
            due_us = committer->due_us;
        due = (struct timespec){(time_t)(due_us / 1000000),
                                (long)(due_us % 1000000) * 1000};
        if (due_us == UINT64_MAX)
            pthread_cond_wait(&committer->wanted, &committer->mutex);
        else
            pthread_cond_clockwait(&committer->wanted, &committer->mutex,
                                   CLOCK_MONOTONIC, &due);
    }
    atomic_store(&committer->asleep, false);
    /* The pass may call the source, or may not: that is settled here, for all
     * of it. */
    committer->asking = committer->attached;
    *writes = committer->head != NULL;
    more = *writes || !committer->closing;
    pthread_mutex_unlock(&committer->mutex);
    return more;
}

/* Orders and what expires share a batch; but not on a server: an instance that has a
 * segment's row would wait for one that ends the same holds, and the other one for it. */
static void *thread_main(void *arg)
{
    struct store *store = arg;
    struct committer *committer = &store->committer;
    bool orders, writes, expires;

    while (next_pass(committer, &writes)) {
        orders = committer->asking && is_due(committer) && attend(committer);
        expires = is_time_to_look(committer) && look(store);
        if (orders && expires && store->writer.engine->far) {
            batch_run(store, true);
            orders = false;
        }
        if (expires)
            store_begin(store, STORE_EXPIRE, &committer->expiry);
        if (orders || writes || expires)
            batch_run(store, orders);
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
        /* A list that is not empty has woken the thread already. */
        if (!committer->head)
            pthread_cond_signal(&committer->wanted);
        *committer->tail = write;
        committer->tail = &write->next;
    }
    pthread_mutex_unlock(&committer->mutex);
    if (!closing)
        return;
    /* The write was not handed in, and nobody else knows it. It is answered
     * without the mutex, which done() may need. */
    write->status =
        failure_set(&write->error, STORE_CLOSED, "the store is being closed");
    write->done(write);
}

enum store_status committer_open(struct store *store, struct store_error *error)
{
    struct committer *committer = &store->committer;
    int64_t in_ms = 0;
    int rc;

    /* Holds that ran out while nobody looked are due at once. */
    (void)holds_next(store->db, &in_ms);
    plan_look(store, in_ms);
    committer->expiry.done = on_expired;
    committer->expiry.owner = store;
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
