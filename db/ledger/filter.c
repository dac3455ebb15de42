/*
 * The filters. See filter.h.
 *
 * Each is a Bloom filter in lines of a cache line's half: a hash has one line, and one
 * bit in each of its eight words. With 32 bits for each key and each user, one of some
 * 40,000 that are not there is taken for one that may be.
 */
#include "db/ledger/filter.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define READ_MAX 65536 /* rows at once: others may write between two */

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
    uint64_t hash = filter->seed ^ left, word;

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
    uint64_t product = mix(filter->seed ^ (uint64_t)product_id, ODD_2);

    return mix(product ^ (uint64_t)user_id, ODD_1);
}

/* ---- bits ----------------------------------------------------------------- */

static _Atomic uint32_t *line_of(const struct filter *filter, int64_t n,
                                 uint64_t hash)
{
    return &filter->bits[n][((hash >> 32) * FILTER_LINES) >> 32][0];
}

#define GET(word) atomic_load_explicit(&(word), memory_order_relaxed)
#define SET(word, bits)                                                        \
    atomic_store_explicit(&(word), (bits), memory_order_relaxed)

/* The lower half of the hash chooses it, because the upper one has chosen the line. */
static uint32_t bit_of(uint64_t hash, int word)
{
    static const uint32_t odd[8] = {0x47b6137b, 0x44974d91, 0x8824ad5b,
                                    0xa2b7289d, 0x705495c7, 0x2df1424b,
                                    0x9efc4947, 0x5c6bfb31};

    return UINT32_C(1) << (((uint32_t)hash * odd[word]) >> 27);
}

static void add(struct filter *filter, int64_t number, uint64_t hash)
{
    int64_t n = number >> FILTER_ORDERS_BITS;
    _Atomic uint32_t *line;

    for (; filter->begun <= n && filter->begun < FILTERS_MAX; filter->begun++)
        filter->bits[filter->begun] =
            calloc(FILTER_LINES, sizeof(*filter->bits[0]));
    if (n >= FILTERS_MAX || !filter->bits[n])
        return;
    line = line_of(filter, n, hash);
    for (int i = 0; i < 8; i++) /* no other thread writes */
        SET(line[i], GET(line[i]) | bit_of(hash, i));
}

static void add_order(struct filter *filter, int64_t number, int64_t product_id,
                      int64_t user_id, const char *key)
{
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

static bool may_have(const struct filter *filter, int64_t n, uint64_t hash)
{
    _Atomic uint32_t *line;

    if (n >= filter->begun || !filter->bits[n])
        return true;
    line = line_of(filter, n, hash);
    for (int i = 0; i < 8; i++)
        if (!(GET(line[i]) & bit_of(hash, i)))
            return false;
    return true;
}

bool filter_next(const struct filter *filter, uint64_t hash,
                 struct filter_span *span)
{
    const int bits = FILTER_ORDERS_BITS - FILTER_BUCKET_BITS;
    int64_t next = filter ? filter->next : 0, n = (span->oldest >> bits) - 1;

    if (next == 0) {
        n = span->oldest;
        *span = (struct filter_span){0, INT64_MAX};
        return n > 0;
    }
    if (n > next >> FILTER_ORDERS_BITS)
        n = next >> FILTER_ORDERS_BITS;
    while (n >= 0 && !may_have(filter, n, hash))
        n--;
    *span = (struct filter_span){n * (1 << bits), (n + 1) * (1 << bits) - 1};
    if (span->newest > next >> FILTER_BUCKET_BITS)
        span->newest = next >> FILTER_BUCKET_BITS;
    return n >= 0;
}

/* ---- reading -------------------------------------------------------------- */

/* Orders that are not kept give their numbers to others, so that only orders that were
 * read count as seen. The last of these must be there still: else an operator has put
 * another database in the place of this one. */
enum store_status filter_read(struct filter *filter, struct sql *db)
{
    enum store_status status;
    struct sql_query *query;
    char key[STORE_KEY_BYTES_MAX + 1];
    int64_t rows, secret = 0;

    if (filter->seed == 0 && getrandom(&filter->seed, sizeof(filter->seed),
                                       0) != sizeof(filter->seed))
        return sql_fail(db, STORE_IO, "the kernel gives no randomness");
    status = sql_first(sql_query(db,
                                 "SELECT secret FROM orders "
                                 "WHERE number = ?1",
                                 filter->seen),
                       &secret);
    if (status == STORE_OK && secret != filter->secret)
        filter->seen = filter->secret = 0;
    do {
        query =
            sql_query(db,
                      "SELECT number, secret, product_id, user_id, `key` "
                      "FROM orders WHERE number > ?1 ORDER BY number LIMIT ?2",
                      filter->seen, READ_MAX);
        for (rows = 0; sql_next(query); rows++) {
            filter->seen = sql_int(query, 0);
            filter->secret = sql_int(query, 1);
            sql_text(query, 4, key, sizeof(key));
            add_order(filter, filter->seen, sql_int(query, 2),
                      sql_int(query, 3), key);
        }
        status = sql_end(query);
    } while (status == STORE_OK && rows == READ_MAX);
    filter->next = status == STORE_OK ? filter->seen + 1 : 0;
    return status;
}

size_t filter_bytes(const struct filter *filter)
{
    size_t n = 0;

    for (int64_t i = 0; i < filter->begun; i++)
        n += filter->bits[i] != NULL;
    return n * FILTER_LINES * sizeof(*filter->bits[0]);
}

void filter_release(struct filter *filter)
{
    for (int64_t i = 0; i < filter->begun; i++)
        free(filter->bits[i]);
    *filter = (struct filter){0};
}
