/*
 * The committer: the one thread, with the one connection, that writes.
 *
 * It takes what waits - orders of the source, writes of all threads - runs it
 * in one transaction, commits once and then answers. So many writes share the
 * price of one fsync, and the busier it gets the more they are (group commit).
 * It does not wait to make a batch larger: while it commits, the next batch
 * grows.
 *
 * batch.c has the batch.
 *
 * Orders that are not paid in time are given back without being asked for: a look into
 * the index of the holds says when the next one is due. While there are holds the
 * committer looks again each half second at the latest, since a wall clock may be set
 * meanwhile; a new hold has a second at least, so that it is seen before its time.
 */
#include "db/committer.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#define LOOK_US 500000

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

void committer_look(struct store *store)
{
    uint64_t soon_us = monotonic_us() + LOOK_US;

    if (soon_us < store->committer.look_us)
        store->committer.look_us = soon_us;
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
        store->db->hasty = true;
        (void)filter_read(&store->place.keys.filter, store->db);
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
        store->on_failure)
        store->on_failure(store->on_failure_ctx, write->status, &write->error);
    plan_look(store, more ? 0 : LOOK_US / 1000);
}

/* ---- the thread --------------------------------------------------------- */

static void sleep_till_due(struct committer *committer)
{
    uint64_t due_us = committer->attached ? committer->due_us : UINT64_MAX;
    struct timespec due;

    if (committer->look_us < due_us)
        due_us = committer->look_us;
    due = (struct timespec){(time_t)(due_us / 1000000),
                            (long)(due_us % 1000000) * 1000};
    if (due_us == UINT64_MAX)
        pthread_cond_wait(&committer->wanted, &committer->mutex);
    else
        pthread_cond_clockwait(&committer->wanted, &committer->mutex,
                               CLOCK_MONOTONIC, &due);
}

/* Ends a pass and waits for work: *writes, the source, or a look. False: it closes,
 * and there is none left. */
static bool next_pass(struct committer *committer, bool *writes)
{
    bool more;

    pthread_mutex_lock(&committer->mutex);
    committer->asking = false;
    pthread_cond_broadcast(&committer->passed);
    atomic_store(&committer->asleep, true);
    while (!committer->head && !committer->closing &&
           !(committer->attached && is_due(committer)) &&
           !is_time_to_look(committer))
        sleep_till_due(committer);
    atomic_store(&committer->asleep, false);
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
            write_expiry(store, &committer->expiry);
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
