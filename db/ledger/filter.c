/*
 * The filters. See filter.h.
 *
 * Each is a hash table of fingerprints with open addressing: a slot has the bucket, and
 * bits of the hash that have not chosen the slot. Two thirds are taken at most. So one
 * of some 50,000 that are not there is taken for one that may be.
 */
#include "db/ledger/filter.h"

#include "db/ledger/ledger.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define READ_MAX  65536 /* rows at once: others may write between two */
#define SECRET_OF "SELECT secret FROM orders WHERE number = ?1"

/* ---- hashes --------------------------------------------------------------- */

static uint64_t mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

#define ODD_1 UINT64_C(0x9e3779b97f4a7c15)
#define ODD_2 UINT64_C(0xd1b54a32d192ed03)

uint64_t filter_key(const struct filter *filter, const char *key)
{
    size_t left = strlen(key);
    /* The seed is drawn anew in each process: a client that could choose keys
     * with one hash would fill one slot's neighbourhood and slow each look. */
    uint64_t hash = (filter ? filter->seed : 0) ^ left, word;

    for (; left > 0; key += 8, left = left > 8 ? left - 8 : 0) {
        word = 0;
        memcpy(&word, key, left < 8 ? left : 8);
        hash = mix(hash ^ word, ODD_1);
    }
    return mix(hash ^ ODD_2, ODD_1);
}

uint64_t filter_user(const struct filter *filter, int64_t product_id,
                     int64_t user_id)
{
    uint64_t seed = filter ? filter->seed : 0;
    uint64_t product = mix(seed ^ (uint64_t)product_id, ODD_2);

    return mix(product ^ (uint64_t)user_id, ODD_1);
}

/* ---- slots ---------------------------------------------------------------- */

#define BUCKETS_BITS                                                           \
    (FILTER_ORDERS_BITS - FILTER_BUCKET_BITS) /* of one filter */
#define BUCKETS   (UINT32_C(1) << BUCKETS_BITS)
#define TAKEN_MAX (FILTER_SLOTS / 8 * 7)

#define GET(slot) atomic_load_explicit(&(slot), memory_order_relaxed)
#define SET(slot, value)                                                       \
    atomic_store_explicit(&(slot), value, memory_order_relaxed)

/* The upper half of the hash chooses it. */
static uint32_t slot_of(uint64_t hash, uint32_t walked)
{
    uint64_t first = ((hash >> 32) * FILTER_SLOTS) >> 32;

    return (uint32_t)((first + walked) % FILTER_SLOTS);
}

/* The lower half without a bucket; never 0, because a free slot is. */
static uint32_t print_of(uint64_t hash)
{
    uint32_t print = (uint32_t)hash << BUCKETS_BITS;

    return print ? print : BUCKETS;
}

/* Orders that were not kept stay, and may be too many. */
static bool is_there(const struct filter *filter, int64_t n)
{
    return n < filter->begun && filter->slots[n] &&
           GET(filter->taken[n]) < TAKEN_MAX;
}

static void add(struct filter *filter, int64_t number, uint64_t hash)
{
    int64_t n = number >> FILTER_ORDERS_BITS;
    int64_t bucket = number >> FILTER_BUCKET_BITS;
    uint32_t entry = print_of(hash) | (uint32_t)(bucket % BUCKETS), found = 0;
    struct filter_recent *recent = &filter->recent[hash % FILTER_RECENT];

    if (recent->hash == hash && recent->bucket == bucket + 1)
        return;
    /* The filters before are begun as well, if empty: a reader takes one that
     * is not begun for "may be there". */
    for (; filter->begun <= n && filter->begun < FILTERS_MAX; filter->begun++)
        filter->slots[filter->begun] =
            calloc(FILTER_SLOTS, sizeof(*filter->slots[0]));
    *recent = (struct filter_recent){hash, bucket + 1};
    /* Without its filter an order is found all the same: its buckets are always
     * looked into. */
    if (n >= FILTERS_MAX || !is_there(filter, n))
        return;
    /* A page of the table that is read first and written then has two faults. */
    for (uint32_t walked = 0;; walked++, found = 0) {
        if (atomic_compare_exchange_strong(
                &filter->slots[n][slot_of(hash, walked)], &found, entry)) {
            /* Only the committer's thread adds, so that a load and a store are
             * enough. */
            SET(filter->taken[n], filter->taken[n] + 1);
            break;
        }
        if (found == entry)
            break;
    }
}

static void add_order(struct filter *filter, int64_t number, int64_t product_id,
                      int64_t user_id, const char *key)
{
    /* One table has the entries of both: a customer's order is two entries, and
     * a key that looks like a user costs a look in vain. */
    add(filter, number, filter_user(filter, product_id, user_id));
    if (key[0] != '\0')
        add(filter, number, filter_key(filter, key));
}

void filter_sold(struct filter *filter, struct store_order *order)
{
    order->number = 0; /* the server gives one */
    if (filter->next == 0)
        return;
    order->number = filter->next++;
    add_order(filter, order->number, order->product_id, order->user_id,
              order->key);
}

/* The newest bucket below one that may have it, in filter N; -1: there is none. */
static int64_t newest_below(const struct filter *filter, int64_t n,
                            uint64_t hash, int64_t below)
{
    int64_t newest = -1, bucket;
    uint32_t entry, walked = 0;

    /* A free slot ends the walk: nothing is ever taken out of the table, and
     * TAKEN_MAX leaves some free. */
    while ((entry = GET(filter->slots[n][slot_of(hash, walked++)]))) {
        bucket = n * BUCKETS + entry % BUCKETS;
        if ((entry ^ print_of(hash)) < BUCKETS && bucket < below &&
            bucket > newest)
            newest = bucket;
    }
    return newest;
}

bool filter_next(const struct filter *filter, uint64_t hash,
                 struct filter_span *span)
{
    int64_t next = filter ? filter->next : 0;
    int64_t below = span->oldest, last = next >> FILTER_ORDERS_BITS, n;

    /* Bucket 0 was looked into: there is none below it. */
    if (below == 0)
        return false;
    *span = (struct filter_span){0, below - 1};
    if (next == 0)
        return true;
    for (n = (below - 1) / BUCKETS < last ? (below - 1) / BUCKETS : last;
         n >= 0; n--) {
        span->oldest = n * BUCKETS;
        /* The filter has no memory, or is too full: all of its buckets are one
         * span. */
        if (!is_there(filter, n))
            return true;
        span->newest = newest_below(filter, n, hash, below);
        if (span->newest >= 0) {
            span->oldest = span->newest;
            return true;
        }
        span->newest = n * BUCKETS - 1;
    }
    return false;
}

bool filter_first(struct sql *db, uint64_t hash, struct filter_span *span)
{
    const struct filter *filter = db->options.filter;
    const struct filter_recent *recent;
    int64_t seen, last, secret = 0;

    *span = FILTER_BEGIN;
    if (!filter || filter->next == 0 ||
        (!db->options.writes && !db->options.shared))
        return filter_next(filter, hash, span);
    if (db->options.writes) { /* the committer's thread */
        recent = &filter->recent[hash % FILTER_RECENT];
        if (recent->hash != hash || recent->bucket == 0)
            return filter_next(filter, hash, span);
        /* The newest bucket is known without a walk: a customer who orders
         * again and again would make that longer each time. */
        span->oldest = span->newest = recent->bucket - 1;
        return true;
    }
    /* `seen` is read before `secret`, and filter_kept() writes them the other
     * way round: of a pair that does not match the row is not that secret's,
     * and all is looked into. */
    seen = filter->seen;
    last = filter->secret;
    sql_first(sql_query(db, SECRET_OF, seen), &secret);
    span->newest = INT64_MAX;
    span->oldest = secret == last ? seen >> FILTER_BUCKET_BITS : 0;
    return true;
}

void filter_kept(struct filter *filter, int64_t number, int64_t secret)
{
    if (filter->next == 0 || number == 0)
        return;
    filter->secret = secret;
    filter->seen = number;
}

/* ---- reading -------------------------------------------------------------- */

/* Orders that are not kept give their numbers to others. */
void filter_begin(struct filter *filter, struct sql *db)
{
    bool same =
        filter->next > 0 && db->epoch != 0 && db->epoch == filter->epoch;

    filter->epoch = db->epoch;
    /* Nobody has committed since: only the numbers of a transaction that was
     * not kept are to be given again. */
    if (same)
        filter->next = filter->seen + 1;
    else
        filter_read(filter, db);
}

/* The last order that was seen must be there still: else an operator has put another
 * database in the place of this one. As long as nobody can say, what was seen must stay.
 */
enum store_status filter_read(struct filter *filter, struct sql *db)
{
    struct sql_query *query;
    char key[STORE_KEY_BYTES_MAX + 1];
    int64_t rows = READ_MAX, seen = filter->seen, secret = 0;

    if (filter->seed == 0 && getrandom(&filter->seed, sizeof(filter->seed),
                                       0) != sizeof(filter->seed))
        sql_fail(db, STORE_IO, "the kernel gives no randomness");
    sql_first(sql_query(db, SECRET_OF, seen), &secret);
    if (db->status == STORE_OK && secret != filter->secret)
        seen = secret = 0;
    /* Each round is a statement of its own, so that a long read keeps no writer
     * out. */
    while (db->status == STORE_OK && rows == READ_MAX) {
        query =
            sql_query(db,
                      "SELECT number, secret, product_id, user_id, `key` "
                      "FROM orders WHERE number > ?1 ORDER BY number LIMIT ?2",
                      seen, READ_MAX);
        for (rows = 0; sql_next(query); rows++) {
            seen = sql_int(query, 0);
            secret = sql_int(query, 1);
            sql_text(query, 4, key, sizeof(key));
            add_order(filter, seen, sql_int(query, 2), sql_int(query, 3), key);
        }
        sql_end(query);
        filter->secret = secret;
        filter->seen = seen;
    }
    /* A read that failed leaves orders out: with 0 nothing is believed of the
     * filter until one has succeeded. */
    filter->next = db->status == STORE_OK ? seen + 1 : 0;
    return db->status;
}

void filter_release(struct filter *filter)
{
    for (int64_t i = 0; i < filter->begun; i++)
        free(filter->slots[i]);
    *filter = (struct filter){0};
}

/* ---- keys that are new ------------------------------------------------------- */

#define ASK_MAX 64

/* The bit of a key that an order has, or is about to have. True: it was set. */
static bool mark(struct keys *keys, const char *key)
{
    uint64_t bit = filter_key(&keys->filter, key) % (8 * sizeof(keys->used));
    unsigned char *byte = &keys->used[bit / 8];
    bool was_set = *byte >> bit % 8 & 1;

    *byte = (unsigned char)(*byte | 1u << bit % 8);
    return was_set;
}

bool keys_take_new(struct keys *keys, const char *key)
{
    struct filter_span span = FILTER_BEGIN;

    if (keys->filter.next > 0)
        return !filter_next(&keys->filter, filter_key(&keys->filter, key),
                            &span);
    return keys->asked && !mark(keys, key);
}

static bool is_refused(const struct store_order *order)
{
    return order->key[0] != '\0' && order->status >= STORE_SOLD_OUT &&
           order->status <= STORE_NO_PRODUCT;
}

#define USED "SELECT `key` FROM orders WHERE `key` IN (" SQL_MARKS_64 ")"

/* Marks those that are used, and returns how many are: N is ASK_MAX at most, other marks
 * are NULL. */
static size_t ask(struct keys *keys, struct sql *db, const char *const some[],
                  size_t n, bool refused)
{
    struct sql_query *query =
        sql_query(db, refused ? USED " LOCK IN SHARE MODE" : USED);
    char used[STORE_KEY_BYTES_MAX + 1];
    size_t found = 0;

    for (size_t i = 0; i < ASK_MAX; i++)
        /* "" is bound as NULL, which equals no key. */
        sql_bind_text(query, (int)i + 1, i < n ? some[i] : "");
    for (; sql_next(query); found++) {
        sql_text(query, 0, used, sizeof(used));
        (void)mark(keys, used);
    }
    sql_end(query);
    return found;
}

static size_t ask_all(struct keys *keys, struct sql *db,
                      const struct store_lot lots[], size_t lots_n,
                      bool refused)
{
    const struct store_order *order;
    const char *some[ASK_MAX];
    size_t n = 0, found = 0;

    memset(keys->used, 0, sizeof(keys->used));
    for (size_t i = 0; i < lots_n; i++) {
        for (size_t j = 0; j < lots[i].n; j++) {
            order = lots[i].orders[j];
            /* The orders are not checked yet: a key without an end must not be
             * read past its array. */
            if (order->key[0] == '\0' ||
                !memchr(order->key, '\0', sizeof(order->key)) ||
                (refused && !is_refused(order)))
                continue;
            some[n++] = order->key;
            if (n == ASK_MAX) {
                found += ask(keys, db, some, n, refused);
                n = 0;
            }
        }
    }
    if (n > 0)
        found += ask(keys, db, some, n, refused);
    keys->asked = db->status == STORE_OK;
    return found;
}

void keys_ask(struct keys *keys, struct sql *db, const struct store_lot lots[],
              size_t lots_n)
{
    (void)ask_all(keys, db, lots, lots_n, false);
}

void keys_replay_refused(struct keys *keys, struct sql *db,
                         const struct store_lot lots[], size_t lots_n)
{
    struct store_order *order;

    if (ask_all(keys, db, lots, lots_n, true) == 0)
        return;
    for (size_t i = 0; i < lots_n; i++) {
        for (size_t j = 0; j < lots[i].n; j++) {
            order = lots[i].orders[j];
            if (is_refused(order) && !keys_take_new(keys, order->key))
                (void)orders_replay(db, order);
        }
    }
}
