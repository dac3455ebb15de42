/*
 * Batches of orders: the fast way into the store.
 *
 * A *source* has orders that wait, and lives on the committer's thread. It only
 * says from outside that there is something to look at; all else the committer
 * asks it, one call at a time, so the source needs no mutex for its own state:
 *
 *     something comes    store_source_wake()      from any thread
 *     awake, or due      attend()                 are there orders to place?
 *     BEGIN
 *     in it              take()                   which, and under which locks?
 *     COMMIT, fsync
 *     it is decided      done()                   answer them
 *
 * A batch is closed as late as it can be: in the transaction. While one is on
 * its way to the disk the next one grows by itself. Writes of other threads
 * (store.h) share the transaction and its fsync.
 */
#ifndef STORE_BATCH_H
#define STORE_BATCH_H

#include "db/store.h"

#define STORE_LOTS_MAX 256 /* that share one transaction */

/* Orders of one segment of one product that are placed under its lock, in the
 * order given. */
struct store_lot {
    struct store_order *const *orders;
    size_t n;
    const struct store_fence *fence; /* of the lock; NULL = unfenced */
    /*
     * No lock is held: each order is replayed or refused, and nothing is
     * written. One that could be sold gets STORE_NEEDS_LOCK. These orders may
     * be of different products.
     */
    bool unlocked;
    void *owner; /* the source's own */

    /*
     * How it ended, as store_place() would have said: STORE_OK, look at each
     * order; STORE_STALE_FENCE, nothing of this lot was written, which does not
     * hurt the other lots; else a failure of the whole batch.
     */
    enum store_status status;
    int64_t left; /* in the segment, after the orders; -1 = not known */
    /* An unlocked lot's orders that store_knows_sold_out() would refuse, and
     * that could be sold. Has to be 0. */
    size_t wrongly_known;
};

/* All are called on the committer's thread, and must not block. */
struct store_source {
    /*
     * Called when somebody has woken the source, when it is due, after done(),
     * and now and then while the committer waits for another process's lock on
     * the database. True: there are orders to be placed; take() will be called.
     * *due_us: when to call again at the latest, by CLOCK_MONOTONIC;
     * UINT64_MAX = not before it is woken.
     */
    bool (*attend)(void *ctx, uint64_t *due_us);
    /*
     * Fills up to N_MAX of LOTS and says how many. They, and all they point to,
     * have to stay as they are until done().
     */
    size_t (*take)(void *ctx, struct store_lot lots[], size_t n_max);
    /* The lots taken are decided, and on disk where they say so. If BEGIN failed,
     * take() was called all the same, so that they hear of it. */
    void (*done)(void *ctx, struct store_lot lots[], size_t n,
                 const struct store_error *error);
    void *ctx;
};

/* From now on SOURCE, which is copied, is asked. A store has one at a time. */
void store_source_attach(struct store *store,
                         const struct store_source *source);

/* attend() will be called, once for any number of calls. From any thread. Cheap
 * if the source is awake already. */
void store_source_wake(struct store *store);

/* When it returns no call is under way, and there will be none. Not on the
 * committer's thread. */
void store_source_detach(struct store *store);

/*
 * Whether an order of QUANTITY units, one without a key, is sure to be refused
 * as sold out: one was, and nothing came back since, in another process
 * neither. False: don't know. From any thread; does not look into the database.
 * (Of a product that was sold out when its sale ended it goes on saying so.)
 */
bool store_knows_sold_out(const struct store *store, int64_t product_id,
                          int64_t quantity);

/* Transactions that were run once more so far: another instance was in the way, or
 * the connection was lost. */
uint64_t store_retries(const struct store *store);

/* Orders that this instance has let expire so far. */
uint64_t store_expired(const struct store *store);

#endif
