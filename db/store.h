/*
 * The store: products, stock and orders, kept so that they always add up.
 *
 * Correctness lives here and not in the locks. An order is one transaction in
 * which every write carries its condition ("... WHERE stock >= :quantity"), so
 * no interleaving of threads, processes and crashes can sell a unit twice.
 * Locks bring order and speed; the store would be right without them. The one
 * exception is on purpose: the store_naive_* verbs do it the way the textbooks
 * write it, read - think - write, and are right only under a lock that works.
 *
 * Writing
 * -------
 * One committer thread has the only writing connection of the process. It takes
 * the writes of all threads from one inbox, runs them in one transaction, so
 * that each can be undone without the others, commits once and then answers
 * them all: one fsync for many orders. Nothing is answered before it is on
 * disk. store_async.h has writes that do not wait, and a source of
 * orders; both go through the same transactions.
 *
 * Reading
 * -------
 * A struct store_reader is a read-only connection for one thread at a time.
 * Readers never wait for the committer in WAL mode, and a bounded time for it
 * in shared mode.
 *
 * Several processes, one file
 * ---------------------------
 * A process that opens the store without `shared` is the only writer: a lock
 * file beside the database says so, and the journal is a WAL. With `shared`
 * several processes may write, and the journal is a rollback journal, because
 * SQLite before 3.51.3 may corrupt a WAL that several connections write and
 * checkpoint. The two do not mix: the process that comes second is refused.
 * (In MariaDB any number may write; a conflict is tried again.)
 *
 * Segments
 * --------
 * A product's stock may be split over several segments, so that its orders need
 * not all wait for one lock. An order asks for one segment. If that has too few
 * units and another segment has enough, the answer is STORE_SHORT, and
 * `richest` says where to ask next. If no segment has enough, but the product
 * has, what is missing is moved into the order's segment, on record, in the
 * same transaction. STORE_SOLD_OUT is only said of the whole product.
 *
 * A put with other segments, a restock and STORE_EVEN_OUT deal the units out
 * evenly to the segments. If there are fewer units than segments, the segments
 * without units are retired until there are more. Each of these is one
 * transaction and may come at any moment of a sale. A retired segment has no
 * stock: what a cancel returns to it moves on to the poorest segment in use.
 * For each segment, retired or not: initial = stock + sold. Units enter at
 * segment 0, and each move between two is on record; the audit adds up both.
 *
 * Pay or lose it
 * --------------
 * An order of a product with `pay_within_s` holds its units: they are sold, and count
 * for the user's limit. It is paid, cancelled or, at pay_until_ms, expired: then the
 * units go back, once, and the committer does that by itself, at that moment. Which of
 * the three it was, the first transaction that is committed decides, under one
 * condition; to the others it says so. From pay_until_ms on a payment is late, whether
 * or not the units are back yet: if it or a cancel comes first, the order expires by
 * that, so that no clock makes another thing of what was told. A late payment is kept on
 * record, for a refund; STORE_LATE_MAX of an order are, or, where instances write at the
 * same moment, one more for each of these.
 *
 * The time is that of the database server, or of this host with SQLite. If that clock
 * is set by an hour, orders expire an hour earlier or later, and nothing is lost.
 *
 * Errors
 * ------
 * "No" and "don't know" are different. STORE_SOLD_OUT is a no. STORE_BUSY,
 * STORE_NO_SPACE and STORE_IO mean that nothing was written. STORE_UNKNOWN
 * means that the commit was tried and not confirmed: the write may be on disk;
 * look for it by its key. Detail for a person goes to the caller's struct
 * store_error, which may be NULL and is left alone on success.
 *
 * Ownership: a plain pointer is borrowed for the call. store_open/store_close
 * and store_reader_open/store_reader_close pair up; closing NULL does nothing.
 * All structs below are values.
 */
#ifndef STORE_H
#define STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_KEY_BYTES_MAX        128 /* idempotency key, without the NUL */
#define STORE_ID_BYTES_MAX         40  /* public order id, without the NUL */
#define STORE_PAYMENT_BYTES_MAX    64  /* its reference, without the NUL */
#define STORE_PAY_WITHIN_S_MAX     31536000 /* a year */
#define STORE_LATE_MAX             16 /* late payments of an order, on record */
#define STORE_NAME_BYTES_MAX       100 /* product name in UTF-8, the same */
#define STORE_FENCE_NAME_BYTES_MAX 512
#define STORE_NUMBER_MAX           9007199254740991 /* 2^53-1: exact in JSON */
#define STORE_SEGMENTS_MAX         256              /* of one product */

#define STORE_STATUS_MAP(X)                                                    \
    X(STORE_OK, "ok")                                                          \
    X(STORE_SOLD_OUT, "fewer units are left than were asked for")              \
    X(STORE_SHORT, "this segment has too few units, the product has enough")   \
    X(STORE_NEEDS_LOCK, "the order may be sold, but only under its lock")      \
    X(STORE_LIMIT, "the user would have more than one user may buy")           \
    X(STORE_NOT_OPEN, "the sale has not begun")                                \
    X(STORE_ENDED, "the sale is over")                                         \
    X(STORE_NO_PRODUCT, "there is no such product")                            \
    X(STORE_NO_ORDER, "there is no such order")                                \
    X(STORE_KEY_REUSED, "the idempotency key belongs to another request")      \
    X(STORE_ORDER_EXPIRED, "the order was not paid in time")                   \
    X(STORE_ORDER_CANCELLED, "the order was cancelled")                        \
    X(STORE_ALREADY_PAID, "the order is paid")                                 \
    X(STORE_PAYMENT_REUSED, "the payment belongs to another order")            \
    X(STORE_PAYMENTS_FULL,                                                     \
      "too many came too late for the order: this one is not on record")       \
    X(STORE_STOCK_FIXED, "a product's stock changes by restock, not by put")   \
    X(STORE_INCOMPLETE, "the put leaves out what the product has set")         \
    X(STORE_CONDITION, "a condition of the request is not met")                \
    X(STORE_WINDOW, "the sale would not end after its opening")                \
    X(STORE_RANGE, "the number would leave its range")                         \
    X(STORE_STALE_FENCE, "a later holder of the lock has been here")           \
    X(STORE_BUSY, "the database is locked by another process")                 \
    X(STORE_NO_SPACE, "the disk is full")                                      \
    X(STORE_IO, "the database cannot be read or written")                      \
    X(STORE_GONE,                                                              \
      "the database or its lock file was moved, removed or replaced")          \
    X(STORE_UNKNOWN, "the commit was not confirmed: it may be on disk")        \
    X(STORE_CLOSED, "the store is being closed")                               \
    X(STORE_IN_USE, "another process has the database open")                   \
    X(STORE_UNFIT, "this program cannot use the database, or may not")         \
    X(STORE_MISUSE, "wrong use of the store")

enum store_status {
#define STORE_STATUS_ENUM(name, text) name,
    STORE_STATUS_MAP(STORE_STATUS_ENUM)
#undef STORE_STATUS_ENUM
        STORE_STATUS_N
};

struct store;        /* a process's way to write */
struct store_reader; /* a thread's way to read */

struct store_error {
    char text[200];
};

/*
 * The step hook, as in the lock library: called before and after each step, on the
 * thread that does it. It may block.
 *
 * Steps of the calling thread: "naive-select", "naive-update", "naive-insert", "stamp",
 * "place". Steps of the committer's thread: "begin" and "commit" of its transaction; in
 * it "place" of a lot, "cancel", "pay", "expire", "restock", "product-put", "even-out";
 * and "rollback", which no verdict keeps from being done. The lab's timeline, failpoints
 * and explorer use it.
 */
enum store_phase { STORE_BEFORE, STORE_AFTER };

enum store_verdict {
    STORE_GO,
    STORE_FAIL, /* BEFORE: do not do it, behave as if the disk had failed; of
                   "begin", as if another process had the database.
                   AFTER "commit": it is on disk, but the answer got lost;
                   ignored after other steps, which answer to us alone */
};

struct store_step {
    const char *name;
    int64_t product_id; /* 0 = no product alone */
    enum store_phase phase;
    const char *reply; /* AFTER: what came of it, in short; BEFORE: NULL */
};

typedef enum store_verdict store_step_hook(void *ctx,
                                           const struct store_step *step);

struct store_options {
    const char *url;  /* "sqlite:PATH", "mysql:...": see sql.h */
    bool shared;      /* other processes write to the same file */
    unsigned busy_ms; /* longest wait for another process; 0 = 2000 */
    /* How often to look for holds of other instances, which may have died; 0 = only
     * while this one knows of some. */
    unsigned look_ms;
    store_step_hook *on_step; /* NULL = none */
    void *on_step_ctx;
    /* Called after each transaction that failed, before its orders hear of it: on the
     * committer's thread, where it must not block. NULL = none. */
    void (*on_failure)(void *ctx, enum store_status status,
                       const struct store_error *error);
    void *on_failure_ctx;
    /* Called by store_open() with a sentence, before what takes long. NULL = none. */
    void (*on_note)(const char *text);
};

/* The first is all there is of a product that is paid at once; and CANCELLED. */
enum store_order_state {
    STORE_PLACED,
    STORE_AWAITING, /* its units are held until it is paid */
    STORE_PAID,
    STORE_CANCELLED,
    STORE_EXPIRED, /* it was not paid in time: its units went back */
};

/* An order: what was asked above, what the store made of it below. */
struct store_order {
    int64_t product_id; /* 1 .. STORE_NUMBER_MAX */
    int64_t user_id;    /* 1 .. STORE_NUMBER_MAX */
    int64_t quantity;   /* 1 .. STORE_NUMBER_MAX */
    int64_t segment;    /* to sell from; afterwards: it was sold from */
    bool gather;        /* if the segment has too few, move units into it even
                           though another segment has enough */
    char key[STORE_KEY_BYTES_MAX + 1]; /* idempotency key; "" = none */

    /* From the id on, placing fills in; orders_reset() clears it as a whole. */
    char id[STORE_ID_BYTES_MAX + 1];           /* public, cannot be guessed */
    char payment[STORE_PAYMENT_BYTES_MAX + 1]; /* "" = not paid */
    char late_payment[STORE_PAYMENT_BYTES_MAX + 1]; /* the last; "" = none */
    bool replayed;            /* it was there before: same key, same order */
    enum store_status status; /* how placing it ended */
    enum store_order_state state;
    int64_t richest;      /* STORE_SHORT: the segment with most units */
    int64_t segments;     /* that the product has; 0 = nobody looked */
    int64_t number;       /* rises in commit order */
    int64_t price_cents;  /* of one unit, when it was sold */
    int64_t created_ms;   /* Unix time */
    int64_t cancelled_ms; /* Unix time; 0 = neither cancelled nor expired */
    uint64_t fence;       /* token it was written under; 0 = none */

    int64_t secret;         /* in its id */
    int64_t limit_per_user; /* that it was held against; 0 = none */

    int64_t pay_until_ms; /* Unix time, exclusive; 0 = nothing to pay */
    int64_t paid_ms;      /* Unix time; 0 = not paid */
    int64_t late;         /* payments that came too late, to be refunded */
};

struct store_product {
    int64_t id;
    char name[STORE_NAME_BYTES_MAX + 1];
    int64_t price_cents;
    int64_t limit_per_user; /* units one user may buy; 0 = no limit */
    int64_t pay_within_s;   /* after the order; 0 = it is paid at once */
    int64_t opens_ms;       /* Unix time; 0 = always open */
    int64_t ends_ms;        /* Unix time, exclusive; 0 = never ends */
    int64_t initial;        /* all units ever put on sale */
    int64_t stock;          /* units left, as its segments say */
    int64_t segments;       /* that its stock is split over */
    int64_t epoch;          /* rises when the stock is dealt out anew */
};

/* A segment in use. */
struct store_segment {
    int64_t segment;
    int64_t initial; /* in stock, or sold from it */
    int64_t stock;
};

/* All of a product's, ascending, as they were at one moment. */
struct store_segments {
    size_t n; /* 1 or more */
    struct store_segment at[STORE_SEGMENTS_MAX];
};

/*
 * The announced holder of a lock, which alone may write. token 0 = unfenced.
 *
 * The owner counts, too: a lock server that lost its data before a token was
 * announced may give the same token to a second holder.
 */
struct store_fence {
    const char *name; /* the lock's name, up to STORE_FENCE_NAME_BYTES_MAX */
    uint64_t token;
    const char *owner; /* of the lock, the same length at most; NULL = "" */
    bool late; /* for the lab: announced by each write, not before the read */
};

const char *store_status_text(enum store_status status);

/* ---- opening ------------------------------------------------------------ */

/* Whether the database can be opened, or created; the statuses are those of
 * store_open(). Makes none; of one that is there, what a dead process has left in the
 * journal is brought in. STORE_OK also if it is busy. */
enum store_status store_check(const char *url, struct store_error *error);

/*
 * Opens or creates the database, brings its schema up, starts the committer.
 * STORE_UNFIT and STORE_MISUSE are for a person: it is no database, another
 * program's, of a newer version, not ours to read; the url is wrong. After all others
 * a later try may end well.
 * STORE_IN_USE if another process has it open in a way that excludes us. If the
 * file or its lock file is moved, removed or replaced later, every write is
 * STORE_GONE; a reader goes on with the file that it has, or just fails.
 */
enum store_status store_open(const struct store_options *options,
                             struct store **store, struct store_error *error);

/* From now on what would wait for another process's lock is STORE_BUSY at once,
 * for the store and its readers; and what is read has to end within half a second, or
 * is STORE_CLOSED (MariaDB: STORE_IO). For shutting down; from any thread. */
void store_end_waits(struct store *store);

/* For processes that share a database: says that this one goes by ID, a random
 * number, until it ends or closes the store; and whether no process that has
 * the database open goes by ID. From any thread. */
bool store_announce(struct store *store, uint64_t id);
bool store_is_gone(const struct store *store, uint64_t id);

/* Lets the committer finish what is queued, then closes. Every reader of the
 * store has to be closed before, and the source detached. NULL is fine. */
void store_close(struct store *store);

enum store_status store_reader_open(struct store *store,
                                    struct store_reader **reader,
                                    struct store_error *error);

/* A reader without a store: for a look at a database that other processes use, or that
 * a killed one has left behind. Creates no database and changes none, but for what
 * SQLite must roll back of a commit that was cut short; beside a WAL database SQLite
 * keeps its -wal and -shm files. */
enum store_status store_reader_open_url(const char *url,
                                        struct store_reader **reader,
                                        struct store_error *error);

void store_reader_close(struct store_reader *reader);

/* ---- writing: from any thread but the committer's; returns when on disk - */

/*
 * Places N orders in one transaction, in the order given. Each order's own
 * status says how it ended; the batch's status is
 *   STORE_OK           decided and on disk: look at each order
 *   STORE_STALE_FENCE  nothing was written, nor will be under this token (not
 *                      looked at if there is nothing to be sold)
 *   STORE_BUSY, STORE_NO_SPACE, STORE_IO, STORE_GONE, STORE_CLOSED
 *                      nothing was written
 *   STORE_UNKNOWN      all of it is written, or nothing
 * After a failure each order has this status as well. The sale window is tested
 * inside the transaction, against the wall clock.
 */
enum store_status store_place(struct store *store,
                              struct store_order *const orders[], size_t n,
                              const struct store_fence *fence,
                              struct store_error *error);

/* Announces the holder of a lock: from now on only writes with this token are taken. To
 * be called when the critical section begins, before the first read. STORE_STALE_FENCE
 * if a higher token was announced before, or this one by another owner. */
enum store_status store_stamp(struct store *store,
                              const struct store_fence *fence,
                              struct store_error *error);

/* Waits for a put (store_async.h) with all given, but segments if that is 0.
 * *product is filled with what is stored then; CREATED may be NULL. */
enum store_status store_product_put(struct store *store,
                                    struct store_product *product,
                                    bool *created, struct store_error *error);

/* ---- the textbook's way: each call one step, right only under a lock ---- */

/* Step "naive-select": reads the stock of the order's segment and checks what
 * the textbooks check: product, window, key, limit, stock >= quantity. STORE_OK
 * if it could read; order->status is the answer. A replay fills the order. */
enum store_status store_naive_select(struct store_reader *reader,
                                     struct store_order *order, int64_t *stock,
                                     struct store_error *error);

/* Step "naive-update": writes the absolute value that the caller computed. */
enum store_status store_naive_update(struct store *store, int64_t product_id,
                                     int64_t segment, int64_t stock,
                                     const struct store_fence *fence,
                                     struct store_error *error);

/* Step "naive-insert": writes the order, whatever the stock says. A key that is
 * taken by now gives the order that has it, or STORE_KEY_REUSED. order->status
 * is what is returned. */
enum store_status store_naive_insert(struct store *store,
                                     struct store_order *order,
                                     const struct store_fence *fence,
                                     struct store_error *error);

/* ---- reading ------------------------------------------------------------ */

enum store_status store_order_get(struct store_reader *reader, const char *id,
                                  struct store_order *order,
                                  struct store_error *error);
enum store_status store_order_by_key(struct store_reader *reader,
                                     const char *key, struct store_order *order,
                                     struct store_error *error);

/* Up to N orders with number > after, ascending. Of segment and fence nothing is
 * said. */
enum store_status
store_order_list(struct store_reader *reader, int64_t after, size_t n,
                 void (*on_order)(void *ctx, const struct store_order *order),
                 void *ctx, struct store_error *error);

/* Up to N products with id > after, ascending; *n_found says how many. */
enum store_status store_product_list(struct store_reader *reader, int64_t after,
                                     size_t n, struct store_product products[],
                                     size_t *n_found,
                                     struct store_error *error);

/* A product and its segments in use, of one moment: their numbers add up. */
enum store_status store_product_segments(struct store_reader *reader,
                                         int64_t product_id,
                                         struct store_product *product,
                                         struct store_segments *segments,
                                         struct store_error *error);

/* To be asked before the lock NAME of a product is taken: the token announced
 * last for it, 0 if none was. STORE_NO_PRODUCT if there is no such product. */
enum store_status store_fence_floor(struct store_reader *reader,
                                    int64_t product_id, const char *name,
                                    uint64_t *token, struct store_error *error);

/* Sums over all products. */
struct store_units {
    int64_t left;
    int64_t stranded; /* of them: in retired segments; there should be none */
    int64_t held;     /* sold, and not paid yet */
};

enum store_status store_units_left(struct store_reader *reader,
                                   struct store_units *units,
                                   struct store_error *error);

/* ---- the verdict -------------------------------------------------------- */

/* One segment against the orders that drew from it. */
struct store_audit_line {
    int64_t product_id;
    int64_t segment;
    int64_t initial;
    int64_t stock;
    int64_t sold;   /* units of placed orders, from the orders themselves */
    int64_t orders; /* placed, not cancelled, that drew from it */
    int64_t drift;  /* stock + sold - initial: >0 sold twice, <0 vanished */
    bool retired;   /* out of use: its stock would be stranded */
};

/* The verdict on the whole ledger: the numbers of audit.txt, which says what they are. */
struct store_audit {
#define ROW(member, ...) int64_t member;
#include "db/audit.inc"
    bool balanced; /* none is a fault */
};

/* STORE_UNFIT, and what is damaged: a page of a SQLite file, or an index that has not
 * what its table has. What an audit reads in one says nothing then. Takes a quarter as
 * long as the audit. */
enum store_status store_intact(struct store_reader *reader,
                               struct store_error *error);

/* Audits the whole ledger in one read transaction. ON_LINE (may be NULL) gets every
 * segment. ACKED (may be NULL) are ids of orders that were acknowledged to somebody:
 * each that is not stored counts as lost. It mends nothing, and there is no verb that
 * does. */
enum store_status
store_audit(struct store_reader *reader,
            void (*on_line)(void *ctx, const struct store_audit_line *line),
            void *ctx, const char *const acked[], size_t acked_n,
            struct store_audit *audit, struct store_error *error);

#endif
