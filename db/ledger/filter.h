/*
 * Which orders may have a key, or be a user's: what spares the look into large old
 * indexes, in SQLite.
 *
 * An index of random keys is slow when it is large: each new key changes a page of
 * its own, anywhere. So in SQLite orders are in buckets, by their numbers, and the
 * keys of a bucket stand together (orders_key_of_64), as do its users (purchases): only
 * the newest bucket grows, and its pages are few, because a batch writes each of them.
 * To find a key would then be a look into each bucket; a filter in memory, for each
 * million orders, says which few may have it. What a user has bought in all stands in
 * the newest bucket that has him: so it is found at once, however often he orders.
 *
 * A filter is a hint that errs on one side only. It has all orders that are committed:
 * each transaction that writes begins with a look for orders that it lacks, while nobody
 * else can write, unless nobody else has since the one before. And it has those of the
 * transaction itself as soon as they are sold. An order that was not kept stays in it:
 * then a look finds nothing. Where there is no memory for a filter its buckets are always
 * looked into. If an operator puts another database in the place of this one while we
 * run, the last order that was seen is not there, and all are read anew.
 *
 * Where the database is on a server none is ever read: one look is enough there.
 */
#ifndef STORE_FILTER_H
#define STORE_FILTER_H

#include "db/sql.h"
#include "db/store_async.h"

#define FILTER_BUCKET_BITS 6  /* schema_8.sql and SQLite's words say 6, too */
#define FILTER_ORDERS_BITS 20 /* of one filter */
#define FILTER_SLOTS       (3 << FILTER_ORDERS_BITS) /* a key and a user an order */
#define FILTERS_MAX        128
#define FILTER_RECENT      256 /* entries that are remembered */

/* All zero: nothing was read, and everything may be anywhere. The committer's thread
 * changes it. Other threads may ask it as well: what this process has committed was in
 * it before, and what others have committed up to the order `seen`. */
struct filter {
    _Atomic int64_t seen;   /* it has all committed orders up to this number */
    _Atomic int64_t secret; /* of that one */
    int64_t epoch;          /* db->epoch at the last filter_begin() */
    uint64_t seed;          /* so that nobody can choose keys that look alike */
    _Atomic int64_t next;   /* the next order's number; 0 = nothing was read */
    /* Each is begun with its first order, or it would lack some. */
    _Atomic int64_t begun;
    _Atomic uint32_t *slots[FILTERS_MAX]; /* NULL: there was no memory */
    _Atomic uint32_t taken[FILTERS_MAX];  /* of those */
    /* Entries that it has: a customer who orders again and again has one in each bucket,
     * and each order of his must not walk over all of them. */
    struct filter_recent {
        uint64_t hash;
        int64_t bucket; /* from 1 */
    } recent[FILTER_RECENT];
};

/* Buckets that may have it. */
struct filter_span {
    int64_t oldest, newest;
};

/* For filter_next(): before the first. */
#define FILTER_BEGIN ((struct filter_span){.oldest = INT64_MAX})

/* The hashes that it goes by. FILTER may be NULL. */
uint64_t filter_key(const struct filter *filter, const char *key);
uint64_t filter_user(const struct filter *filter, int64_t product_id,
                     int64_t user_id);

/* The order is sold: gives it its number, and has its key and its user from now on.
 * If nothing was read, neither: number 0. */
void filter_sold(struct filter *filter, struct store_order *order);

/* The next buckets that may have it, below the oldest of *SPAN, the newest first; false:
 * there are no more. FILTER may be NULL: all may. */
bool filter_next(const struct filter *filter, uint64_t hash,
                 struct filter_span *span);

/* The same by the filter of DB, from the beginning. On a reader's connection, where other
 * processes write, buckets of orders that the filter may lack come first, all if it is of
 * no use. */
bool filter_first(struct sql *db, uint64_t hash, struct filter_span *span);

/* For a transaction that writes, as its first: has all committed orders from now on. */
void filter_begin(struct filter *filter, struct sql *db);

/* The transaction is committed. Of its orders the last one is this; 0 = it has none. */
void filter_kept(struct filter *filter, int64_t number, int64_t secret);

/* Reads the orders that it does not have yet, without a transaction: they may be
 * millions. */
enum store_status filter_read(struct filter *filter, struct sql *db);

void filter_release(struct filter *filter);

/*
 * Which keys no order has. In this process the filter says so of most. Where each
 * question is a round trip, one question for all keys of a batch goes ahead; and only an
 * order whose key was found is looked up by itself. Two orders of the batch may have
 * the same key: only the first of them is new. Keys are known by a bit of their hash: of
 * two that share one the second is looked up, and no more.
 *
 * All zero: none is known to be new.
 */
struct keys {
    struct filter filter;      /* kept from one transaction to the next */
    bool asked;                /* the server was, of all keys of this batch */
    unsigned char used[32768]; /* bits of those that orders have */
};

/* Whether no order has this key; says so once, since the first one of the batch has
 * it from then on. */
bool keys_take_new(struct keys *keys, const char *key);

/* Asks the server for those of the lots. A key that is no text is not asked for. */
void keys_ask(struct keys *keys, struct sql *db, const struct store_lot lots[],
              size_t lots_n);

/* Orders that are about to hear a no, though one has their key by now, hear of that one:
 * its units, or its user's, are the reason for the no. It is another instance's, whose
 * transaction is waited for, or stands behind the refused one in this batch. */
void keys_replay_refused(struct keys *keys, struct sql *db,
                         const struct store_lot lots[], size_t lots_n);

#endif
