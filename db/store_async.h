/*
 * Writes whose caller does not wait for them: a part of the store's interface.
 * They share the transaction, and the fsync, of all that is written then.
 */
#ifndef STORE_ASYNC_H
#define STORE_ASYNC_H

#include "db/store.h"

struct sql;

/*
 * A write whose caller does not wait: the first member of each struct below.
 * The caller fills in DONE and OWNER, and what is asked. It keeps all of it in
 * place until DONE is called, once: on the committer's thread, where it must
 * not block; or, if the store is closing, inside the call. STATUS is a "no", a
 * failure as of store_place(), or STORE_OK: then the write is on disk, as is what
 * comes with a "no" in NO.
 */
struct store_write {
    void (*done)(struct store_write *write);
    void *owner;
    enum store_status status;
    struct store_error error;

    /* The store's, until DONE. */
    struct store_write *next;
    enum store_status (*run)(struct store *store, struct store_write *write);
    enum store_status (*verb)(struct sql *db, struct store_write *write);
    void *what; /* for run(), where the write is part of nothing */
    const char *step;
    int64_t product_id;
    enum store_status no; /* the status, though what run() did is kept */
    size_t expired;       /* orders that it has let expire */
};

/*
 * Cancels an order and returns its units exactly once. A second cancel is
 * STORE_OK too, with order.replayed set, and returns nothing. STORE_ALREADY_PAID,
 * STORE_ORDER_EXPIRED: that came first, of an order that is to be paid, and stays so.
 */
struct store_cancel {
    struct store_write write;
    char id[STORE_ID_BYTES_MAX + 1];
    struct store_order order; /* as it is then */
};

/*
 * Says that an order was paid. The same payment again gets the same answer;
 * STORE_PAYMENT_REUSED if it is of another order. One that came too late is on record
 * to be refunded, and hears what came first: STORE_ORDER_EXPIRED, STORE_ORDER_CANCELLED,
 * STORE_ALREADY_PAID. STORE_PAYMENTS_FULL: it came too late, and is not on record,
 * because STORE_LATE_MAX of this order are.
 */
struct store_pay {
    struct store_write write;
    char id[STORE_ID_BYTES_MAX + 1];
    char payment[STORE_PAYMENT_BYTES_MAX + 1]; /* its reference, not "" */
    bool replayed;                             /* it was there before */
    struct store_order order;                  /* as it is then */
};

/*
 * Adds units to a product. KEY ("" = none) makes it idempotent: the same key
 * and quantity again add nothing.
 */
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
 * STORE_STOCK_FIXED if the stock is given and differs from what it has had;
 * STORE_WINDOW if its sale would not end after its opening.
 * Other segments than before: the stock is dealt out to so many.
 */
struct store_change {
    struct store_write write;
    struct store_product product; /* id and what is given; then as it is */
    unsigned given;               /* of enum store_given */
    bool patch;
    unsigned missing; /* STORE_INCOMPLETE: what was left out */
    bool created;
};

/*
 * Deals a product's stock out evenly: for when one segment has run dry and
 * others have not. To do it twice is to do it once.
 */
struct store_even_out {
    struct store_write write;
    int64_t product_id;
    bool moved; /* something was uneven */
};

void store_cancel_begin(struct store *store, struct store_cancel *cancel);
void store_pay_begin(struct store *store, struct store_pay *pay);
void store_restock_begin(struct store *store, struct store_restock *restock);
void store_change_begin(struct store *store, struct store_change *change);
void store_even_out_begin(struct store *store, struct store_even_out *even_out);

/* Writes what an order writes and leaves no trace that a verb shows: whether an order
 * could be written. */
void store_probe_begin(struct store *store, struct store_write *probe);

#endif
