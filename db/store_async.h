/*
 * A part of the store's interface: writes whose caller does not wait for them, and
 * batches of orders, the fast way into the store. They share the transaction, and the
 * fsync, of all that is written then.
 */
#ifndef STORE_ASYNC_H
#define STORE_ASYNC_H

#include "db/store.h"

/* Verbs: each has the struct of its name, below, or is a write alone. */
enum store_verb {
    STORE_CANCEL,
    STORE_PAY,
    STORE_RESTOCK,
    STORE_CHANGE,
    STORE_EVEN_OUT,
    STORE_PROBE,  /* what an order writes, leaving no trace that a verb shows:
                     whether an order could be written; a write alone */
    STORE_EXPIRE, /* the store's own: gives back what was not paid in time */
};

/* A write whose caller does not wait: the first member of each struct below. The caller
 * fills in DONE and OWNER, and what is asked. It keeps all of it in place until DONE is
 * called, once: on the committer's thread, where it must not block; or, if the store is
 * closing, inside the call. STATUS is a "no", a failure as of store_place(), or
 * STORE_OK: then the write is on disk, as is what comes with a "no" in NO. */
struct store_write {
    void (*done)(struct store_write *write);
    void *owner;
    enum store_status status;
    struct store_error error;

    /* The store's, until DONE. */
    struct store_write *next;
    enum store_status (*run)(struct store *store, struct store_write *write);
    enum store_verb verb;
    void *what;           /* for run(), where the write is part of nothing */
    enum store_status no; /* the status, though what run() did is kept */
    size_t expired;       /* orders that it has let expire */
};

/* Cancels an order and returns its units exactly once. A second cancel is STORE_OK too,
 * with order.replayed set, and returns nothing. STORE_ALREADY_PAID,
 * STORE_ORDER_EXPIRED: that came first, of an order that is to be paid, and stays so. */
struct store_cancel {
    struct store_write write;
    char id[STORE_ID_BYTES_MAX + 1];
    struct store_order order; /* as it is then */
};

/* Says that an order was paid. The same payment again gets the same answer;
 * STORE_PAYMENT_REUSED if it is of another order. One that came too late is on record
 * to be refunded, and hears what came first: STORE_ORDER_EXPIRED,
 * STORE_ORDER_CANCELLED, STORE_ALREADY_PAID. STORE_PAYMENTS_FULL: it came too late, and
 * is not on record, because STORE_LATE_MAX of this order are. */
struct store_pay {
    struct store_write write;
    char id[STORE_ID_BYTES_MAX + 1];
    char payment[STORE_PAYMENT_BYTES_MAX + 1]; /* its reference, not "" */
    bool replayed;                             /* it was there before */
    struct store_order order;                  /* as it is then */
};

/* Adds units to a product. KEY ("" = none) makes it idempotent: the same key and
 * quantity again add nothing. */
struct store_restock {
    struct store_write write;
    int64_t product_id;
    int64_t quantity;
    char key[STORE_KEY_BYTES_MAX + 1];
    bool replayed; /* it was there before: same key, same quantity */
    struct store_product product; /* as it is then */
};

/* The fields that a change of a product gives; `initial` is STORE_GIVEN_STOCK. */
enum store_given {
    STORE_GIVEN_NAME = 1 << 0,
    STORE_GIVEN_PRICE = 1 << 1,
    STORE_GIVEN_LIMIT = 1 << 2,
    STORE_GIVEN_OPENS = 1 << 3,
    STORE_GIVEN_ENDS = 1 << 4,
    STORE_GIVEN_STOCK = 1 << 5,
    STORE_GIVEN_SEGMENTS = 1 << 6,
    STORE_GIVEN_PAY = 1 << 7,
    STORE_GIVEN_ALL = (1 << 8) - 1,
};

/*
 * Creates a product with product.initial units, or changes one that is there.
 *   put    Of a new product the name and the stock have to be given; what else
 *          is left out is 0, or one segment. Of a product that is there all has
 *          to be given that it has set (price, limit, opens, ends, several
 *          segments, time to pay) but for its stock: else STORE_INCOMPLETE.
 *   patch  Changes what is given and leaves the rest; STORE_NO_PRODUCT if there
 *          is no such product.
 * STORE_CONDITION if there is no such product and it is to change one, or there is and
 * it is to be new. STORE_STOCK_FIXED if the stock is given and differs from what it has had;
 * STORE_WINDOW if its sale would not end after its opening.
 * Other segments than before: the stock is dealt out to so many.
 */
struct store_change {
    struct store_write write;
    struct store_product product; /* id and what is given; then as it is */
    unsigned given;               /* of enum store_given */
    bool patch;
    bool only_new, only_there; /* else STORE_CONDITION */
    unsigned missing;          /* STORE_INCOMPLETE: what was left out */
    bool created;
};

/* Deals a product's stock out evenly: for when one segment has run dry and others have
 * not. To do it twice is to do it once. */
struct store_even_out {
    struct store_write write;
    int64_t product_id;
    bool moved; /* something was uneven */
};

/* Hands the WRITE of a verb's struct in. From any thread. */
void store_begin(struct store *store, enum store_verb verb,
                 struct store_write *write);

/* ---- batches of orders --------------------------------------------------- */

/*
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
#define STORE_LOTS_MAX 256 /* that share one transaction */

/* Orders of one segment of one product that are placed under its lock, in the
 * order given. */
struct store_lot {
    struct store_order *const *orders;
    size_t n;
    const struct store_fence *fence; /* of the lock; NULL = unfenced */
    /* No lock is held: each order is replayed or refused, and nothing is written. One
     * that could be sold gets STORE_NEEDS_LOCK. These orders may be of different
     * products. */
    bool unlocked;
    void *owner; /* the source's own */

    /* How it ended, as store_place() would have said: STORE_OK, look at each order;
     * STORE_STALE_FENCE, nothing of this lot was written, which does not hurt the other
     * lots; else a failure of the whole batch. */
    enum store_status status;
    int64_t left;     /* in the segment, after the orders; -1 = not known */
    int64_t segments; /* of the product; 0 = not known */
    /* An unlocked lot's orders that store_knows_sold_out() would refuse, and
     * that could be sold. Has to be 0. */
    size_t wrongly_known;
};

/* All are called on the committer's thread, and must not block. */
struct store_source {
    /* Called when somebody has woken the source, when it is due, after done(), and now
     * and then while the committer waits for another process's lock on the database.
     * True: there are orders to be placed; take() will be called. *due_us: when to call
     * again at the latest, by CLOCK_MONOTONIC; UINT64_MAX = not before it is woken. */
    bool (*attend)(void *ctx, uint64_t *due_us);
    /* Fills up to N_MAX of LOTS and says how many. They, and all they point to, have to
     * stay as they are until done(). */
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

/* Whether an order of QUANTITY units, one without a key, is sure to be refused as sold
 * out: one was, and nothing came back since, in another process neither. False: don't
 * know. From any thread; does not look into the database. (Of a product that was sold
 * out when its sale ended it goes on saying so.) */
bool store_knows_sold_out(const struct store *store, int64_t product_id,
                          int64_t quantity);

/* Transactions that were run once more so far: another instance was in the way, or
 * the connection was lost. */
uint64_t store_retries(const struct store *store);

/* Orders that this instance has let expire so far. */
uint64_t store_expired(const struct store *store);

#endif
