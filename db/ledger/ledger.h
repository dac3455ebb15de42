/*
 * The verbs' work inside a transaction, which is the caller's. The public
 * verbs of store.h that only read stand beside them in the same files.
 *
 * A db->status other than STORE_OK says that the database could not be asked, or is
 * a plain "no": see sql.h. So what is asked has no value then, and is false. What became
 * of an order stands in order->status.
 *
 * Where two writers meet
 * ----------------------
 * Each rule has a row that both transactions write. On one server the second one
 * waits for it; the nodes of a Galera cluster compare what was written, and only
 * that, when it is committed: the second one fails there, and is tried again. A
 * row that is only read, or locked, makes nobody meet. The row is written before
 * anything else is read that the rule is about.
 *
 *   rule                        the row
 *   stock                       the segment's
 *   limit, of two sales         the user's, in purchases
 *   limit, window and price     every segment's of the product: a change of its
 *     of a sale and a change      terms, and the count of what was ordered before
 *     of them; limit and          there was a limit, raise segments.terms; sale and
 *     cancel                      cancel write the row of their segment
 *   key, restock once           the new row's, by its unique index; keys of orders
 *                                 in SQLite, which has one writer, by a look before
 *   fence                       the lock's, in fences: on a cluster each
 *                                 transaction under it raises fences.writes
 *   cancel once                 the order's
 *   pay, cancel, expire         the hold's
 *   payment once                the new row's, by its unique index
 *   resize, of two              the product's
 *   resize, of a sale           the segment's
 *   create once                 the product's
 *
 * The naive verbs (store_naive.c) keep only the fence and the key: the rest is up to
 * the lock.
 */
#ifndef STORE_LEDGER_H
#define STORE_LEDGER_H

#include "db/ledger/filter.h"
#include "db/soldout.h"

struct store_reader {
    struct sql *db;
    struct step step;
};

static inline bool in_range(int64_t number, int64_t least)
{
    return number >= least && number <= STORE_NUMBER_MAX;
}

/* How a verb of a reader ends: as its connection says, which is ready for the next. */
static inline enum store_status read_end(struct store_reader *reader,
                                         struct store_error *error)
{
    enum store_status status = sql_clear(reader->db);

    if (status != STORE_OK && error)
        *error = *sql_error(reader->db);
    return status;
}

/*
 * Guarded placing: the right way to sell.
 *
 * Orders come in lots, each under a lock of its own. What several lots of one
 * transaction have in common is done for all of them at once: rows are written
 * together, whosever they are, and a segment's stock is written once.
 *
 * For the committer's thread only.
 */
#define PLACE_ROWS_MAX 64

/* The last order that a transaction has written: if it is in the database, all of the
 * transaction is. If it is not, nothing was kept, but on another server: a replica that
 * was promoted may have the transaction yet. */
struct place_proof {
    int64_t number; /* 0 = none */
    int64_t secret;
    int64_t server;
};

/* The products that were read and are as they were; place.c has the rule. All zero:
 * none. */
struct rows {
    int64_t epoch; /* db->epoch after the last transaction; 0 = none is valid */
    int64_t changes; /* db->changes as of then */
    size_t n;        /* products and segments */
    struct rows_product *products;
    struct rows_product *dirty; /* something was taken from these */
};

/* A transaction in which orders are placed. */
struct place {
    struct soldout *soldout; /* the store's, and its hook */
    struct step step;
    struct rows rows;
    uint64_t generation; /* of what is sold out, when the lots were taken */
    size_t lots_n;
    struct store_lot lots[STORE_LOTS_MAX]; /* the source's */

    struct sql *db;
    int64_t now_ms;   /* of the lot, read inside the transaction */
    int64_t clock_ms; /* by sql_clock(), for what is to be paid; 0 = not read */
    bool held;        /* orders were sold that are to be paid; kept or not */
    const struct store_lot *lot;
    bool stamped; /* the lot's fence is announced */
    struct keys keys;
    struct place_proof proof;
    /* The fence that was stamped last, while no row has changed since; token 0 = none. */
    struct {
        uint64_t token;
        char name[STORE_FENCE_NAME_BYTES_MAX + 1];
        char owner[STORE_FENCE_NAME_BYTES_MAX + 1];
    } announced;
    size_t pending_n;
    struct store_order *pending[PLACE_ROWS_MAX]; /* sold, to be written */
};

void place_take(struct place *place, const struct store_source *source);

/* Decides them, in the transaction that is open. A failure is its end. */
enum store_status place_lots(struct place *place, struct sql *db);

/* The transaction ended with STATUS: answers the lots. */
void place_done(struct place *place, const struct store_source *source,
                enum store_status status, const struct store_error *error);

/* Decides one lot that no source has, whose fence is valid. STORE_STALE_FENCE: none of
 * it is placed, and nothing was written. */
enum store_status place_alone(struct place *place, struct sql *db,
                              const struct store_lot *lot);

/* Nothing was kept: gives the lot and every order STATUS. */
void place_fail(struct store_lot *lot, enum store_status status);

/* The transaction is void, or the end has come: what is known of products is not known
 * any more, and its memory is given back. */
void place_forget(struct place *place);

/* Does a sale take orders at AT_MS? STORE_OK, STORE_NOT_OPEN, STORE_ENDED. */
enum store_status place_window(int64_t opens_ms, int64_t ends_ms,
                               int64_t at_ms);

/* ---- products.c, orders.c ------------------------------------------------ */

/* STORE_NO_PRODUCT if there is none. */
enum store_status products_get(struct sql *db, int64_t id,
                               struct store_product *product);

enum store_status products_none(struct sql *db, int64_t id);

/* Write: a struct store_change. */
enum store_status products_change(struct sql *db, struct store_write *write);

/* Moves units from one segment to another. Both accounts change with the stock, so that
 * each segment balances before and after; and a row says what was moved, so that an
 * audit can follow it. Both segments and so many units have to be there. */
enum store_status segments_move(struct sql *db, int64_t product_id,
                                int64_t from, int64_t to, int64_t units);

/* Units that were sold go back to the segment they came from; and on to the
 * poorest one in use if that is retired by now. */
enum store_status segments_give_back(struct sql *db, int64_t product_id,
                                     int64_t segment, int64_t units);

/* Nothing is sold any more by what was read of the product before. */
enum store_status segments_raise_terms(struct sql *db, int64_t product_id);

/* Writes: a struct store_restock, a struct store_even_out. */
enum store_status segments_restock(struct sql *db, struct store_write *write);
enum store_status segments_even_out(struct sql *db, struct store_write *write);

/* Clears all that the store fills in. False, and STORE_RANGE in order->status:
 * a number that is asked is out of range, or the key is no text. */
bool orders_reset(struct store_order *order);

/* Looks the order's key up. True: it was used before, and order->status says STORE_OK
 * (replayed, the stored order is filled in) or, if it was another request,
 * STORE_KEY_REUSED. False without a key. */
bool orders_replay(struct sql *db, struct store_order *order);

/* Inserts the orders, 1 to PLACE_ROWS_MAX, and gives them their ids. Their numbers rise in
 * the order given: the last is the transaction's *proof from now on. */
enum store_status orders_insert(struct sql *db,
                                struct store_order *const orders[], size_t n,
                                struct place_proof *proof);

/* STORE_NO_ORDER if the id is unknown, or half right. */
enum store_status orders_get(struct sql *db, const char *id,
                             struct store_order *order);

/* Whether this order is there. Waits for a transaction that has written it and is not
 * over. */
bool orders_find(struct sql *db, const struct place_proof *proof);

/* The order's units go back to its segment and its user, once: true if it was now. A
 * hold that it had is ended. */
bool orders_give_back(struct sql *db, struct store_order *order, int64_t now);

/* Write: a struct store_cancel. */
enum store_status orders_cancel(struct sql *db, struct store_write *write);

/* ---- holds.c: orders that wait for their payment ------------------------- */

/* The order, which is about to be inserted, is to be paid within so long. *CLOCK_MS is
 * the time; 0: it is read, which most orders need not wait for. */
void holds_promise(struct sql *db, int64_t pay_within_s, int64_t *clock_ms,
                   struct store_order *order);

/* Holds those of N new orders that are to be paid. */
enum store_status holds_insert(struct sql *db, const int64_t numbers[],
                               size_t n);

/* Ends the order's hold for WRITE, a payment or a cancel. True: it was there in time,
 * and nobody but this transaction has ended it. One that is overdue at NOW, by
 * sql_clock(), expires by that. */
bool holds_end(struct sql *db, struct store_write *write,
               struct store_order *order, int64_t now);

/* The answer that came first, if the order's hold was not there to be ended. */
enum store_status holds_winner(const struct store_order *order);

/* Write: a struct store_pay. */
enum store_status holds_pay(struct sql *db, struct store_write *write);

#define HOLDS_EXPIRE_MAX 64 /* in one transaction: others wait for it */

/* Gives back what was not paid in time; write->expired says how many. */
enum store_status holds_expire(struct sql *db, struct store_write *write);

/* In how many ms the next hold expires; 0 or less: now; INT64_MAX: there is none. */
enum store_status holds_next(struct sql *db, int64_t *in_ms);

enum store_status probe_write(struct sql *db);

/* Writes something that nobody reads. A server shows what is committed before it is on
 * disk; once a later COMMIT of something written is, so is all that was shown. */
enum store_status probe_flush(struct sql *db);

/*
 * How many units each user has bought of a product that has a limit.
 *
 * The limit could be checked by adding up the user's orders, but then two
 * clicks at once both find nothing and both buy. A row per user and product is
 * where they meet: the second one's condition sees the first one's units.
 */

/* Adds the order's units, which is sold next. False: that would go over LIMIT. */
bool purchases_take(struct sql *db, const struct store_order *order,
                    int64_t limit);

/* Units that the order's user has bought, of its product. */
int64_t purchases_read(struct sql *db, const struct store_order *order);

/* Counts a product's orders, if it has got a limit and nobody has yet. */
enum store_status purchases_count(struct sql *db, int64_t product_id);

/*
 * The store remembers the highest token announced for each lock and refuses
 * writes that come with less.
 *
 * It is not enough to compare at write time. The old holder of a lock may
 * write first, and the new one then writes what it computed from a stale read,
 * with a token that is rightly the highest. So a holder *stamps* its token when
 * its critical section begins, before it reads anything: from that moment the
 * old holder's writes are refused. (A guarded place reads and writes in one
 * transaction, which is a critical section; it stamps by itself, and before its
 * first write is early enough: there is no other writer while it lasts.)
 *
 * Token 0, or no fence at all, means: not under a lock that counts.
 */
static inline uint64_t fence_token(const struct store_fence *fence)
{
    return fence ? fence->token : 0;
}

static inline const char *fence_owner(const struct store_fence *fence)
{
    return fence->owner ? fence->owner : "";
}

/* False, with a text: a token without a name, or too long a name, ... */
bool fence_valid(const struct store_fence *fence, struct store_error *error);

/* Announces the token. STORE_STALE_FENCE if a higher one was, or this one by
 * another owner. */
enum store_status fence_stamp(struct sql *db, const struct store_fence *fence);

/* STORE_STALE_FENCE unless token and owner are those announced last. With `late` the
 * write announces them, and only a higher token is refused: the known wrong way. */
enum store_status fence_check(struct sql *db, const struct store_fence *fence);

#endif
