/*
 * The committer's memory of products. See rows.h.
 *
 * Products are kept whole, with all segments in use: then everything that an
 * order may ask - what its segment has, which one has most, what all have
 * together - is known after one statement.
 */
#include "db/ledger/ledger.h"

#include <assert.h>
#include <stdlib.h>

/* The most products with their segments that are kept. When there are as many all is
 * forgotten, and read again when it is asked for. */
#define ROWS_MAX 16384

/* ---- for how long ------------------------------------------------------- */

void rows_forget(struct rows *rows)
{
    struct rows_product *product = rows->products, *next;

    HASH_CLEAR(hh, rows->products);
    for (; product; product = next) {
        next = product->hh.next;
        free(product);
    }
    rows->epoch = 0;
    rows->dirty = NULL;
    rows->n = 0;
}

bool rows_begin(struct rows *rows, struct sql *db)
{
    bool same = rows->epoch != 0 && rows->epoch == db->epoch &&
                rows->changes == db->changes;

    if (!same)
        rows_forget(rows);
    rows->db = db;
    rows->epoch = 0;
    return same;
}

/* The guard holds the stock, and the terms against a change that was committed
 * since they were read: with a limit units are counted for each user. */
#define TAKE                                                                   \
    "UPDATE segments SET stock = stock - ?3 "                                  \
    "WHERE product_id = ?1 AND segment = ?2 AND stock >= ?3 AND terms = ?4"

enum store_status rows_flush(struct rows *rows)
{
    enum store_status status = STORE_OK;
    struct rows_product *product;
    struct rows_segment *segment;

    for (; rows->dirty && status == STORE_OK;
         rows->dirty = rows->dirty->next_dirty) {
        product = rows->dirty;
        product->dirty = false;
        for (size_t i = 0; i < product->n && status == STORE_OK; i++) {
            segment = &product->at[i];
            if (segment->taken == 0)
                continue;
            status = sql_run(rows->db, TAKE, product->id, segment->segment,
                             segment->taken, segment->terms);
            if (status == STORE_OK && rows->db->changed != 1)
                status = sql_conflict(
                    rows->db, "the stock or the terms changed meanwhile");
            segment->taken = 0;
        }
    }
    return status;
}

/* Others could not change anything meanwhile: all changes are ours. */
enum store_status rows_end(struct rows *rows)
{
    enum store_status status = rows_flush(rows);

    rows->changes = rows->db->changes;
    rows->epoch = status == STORE_OK ? rows->db->epoch : 0;
    return status;
}

/* ---- products ----------------------------------------------------------- */

/* One statement, as this is what a lot of a single order pays for. *found has
 * room for as many segments as a product can have. */
static enum store_status read_product(struct sql *db, int64_t id,
                                      struct rows_product *found)
{
    struct sql_query *query;

    *found = (struct rows_product){.id = id};
    query = sql_query(db,
                      "SELECT segment, stock, price_cents, "
                      "limit_per_user, opens_ms, ends_ms, segments, terms, "
                      "counted OR limit_per_user = 0, pay_within_s "
                      "FROM products JOIN segments ON product_id = id "
                      "WHERE id = ?1 AND active ORDER BY segment",
                      id);
    while (found->n < STORE_SEGMENTS_MAX && sql_next(query)) {
        found->at[found->n++] =
            (struct rows_segment){.segment = sql_int(query, 0),
                                  .stock = sql_int(query, 1),
                                  .terms = sql_int(query, 7)};
        found->stock += sql_int(query, 1);
        if (found->n > 1)
            continue;
        found->price_cents = sql_int(query, 2);
        found->limit_per_user = sql_int(query, 3);
        found->opens_ms = sql_int(query, 4);
        found->ends_ms = sql_int(query, 5);
        found->segments = sql_int(query, 6);
        found->counted = sql_int(query, 8) != 0;
        found->pay_within_s = sql_int(query, 9);
    }
    return sql_end(query);
}

static struct rows_product *find(const struct rows *rows, int64_t id)
{
    struct rows_product *known;

    HASH_FIND(hh, rows->products, &id, sizeof(id), known);
    return known;
}

/* With room for all segments that it could have, and then without. */
enum store_status rows_product(struct rows *rows, int64_t id,
                               struct rows_product **product)
{
    const size_t size = sizeof(struct rows_segment);
    enum store_status status = STORE_OK;
    struct rows_product *found, *smaller;

    *product = find(rows, id);
    if (*product)
        return STORE_OK;
    found = calloc(1, sizeof(*found) + STORE_SEGMENTS_MAX * size);
    if (!found)
        return sql_fail(rows->db, STORE_IO, "out of memory");
    status = read_product(rows->db, id, found);
    if (status == STORE_OK && found->n > 0 && !found->counted) {
        status = purchases_count(rows->db, id);
        if (status == STORE_OK)
            status = read_product(rows->db, id, found);
    }
    if (status == STORE_OK && found->n > 0 && rows->n + found->n > ROWS_MAX) {
        status = rows_flush(rows);
        if (status == STORE_OK)
            rows_forget(rows);
    }
    if (status != STORE_OK || found->n == 0) {
        free(found);
        return status;
    }
    smaller = realloc(found, sizeof(*found) + found->n * size);
    if (smaller)
        found = smaller;
    HASH_ADD(hh, rows->products, id, sizeof(found->id), found);
    if (!found->hh.tbl) {
        free(found);
        return sql_fail(rows->db, STORE_IO, "out of memory");
    }
    rows->n += 1 + found->n;
    *product = found;
    return STORE_OK;
}

int64_t rows_stock(const struct rows *rows, int64_t product_id, int64_t segment)
{
    struct rows_product *known = find(rows, product_id);
    const struct rows_segment *found;

    if (!known)
        return -1;
    found = rows_segment(known, segment);
    return found ? found->stock : 0;
}

/* As a rule the segments in use are the first ones, with none left out. */
struct rows_segment *rows_segment(struct rows_product *product, int64_t segment)
{
    size_t i = (size_t)segment;

    if (i < product->n && product->at[i].segment == segment)
        return &product->at[i];
    for (i = 0; i < product->n; i++)
        if (product->at[i].segment == segment)
            return &product->at[i];
    return NULL;
}

struct rows_segment *rows_richest(struct rows_product *product,
                                  const struct rows_segment *but)
{
    struct rows_segment *richest = NULL;

    for (size_t i = 0; i < product->n; i++)
        if (&product->at[i] != but &&
            (!richest || product->at[i].stock > richest->stock))
            richest = &product->at[i];
    return richest;
}

void rows_take(struct rows *rows, struct rows_product *product,
               struct rows_segment *segment, int64_t quantity)
{
    assert(segment->stock >= quantity);
    segment->stock -= quantity;
    segment->taken += quantity;
    product->stock -= quantity;
    if (product->dirty)
        return;
    product->dirty = true;
    product->next_dirty = rows->dirty;
    rows->dirty = product;
}
