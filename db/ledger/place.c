/*
 * Guarded placing. See ledger.h.
 *
 * Orders are decided one after the other against what is left in memory. Their rows are
 * written several at a time; what they took is taken from the stock in the database at
 * the end, on condition that it is there.
 *
 * The clock is read inside the transaction, by the thread that commits: a sale
 * is over for an order that came in time but waited too long.
 *
 * Known products
 * --------------
 * Most of what an order costs is to read again what was read a moment ago: the
 * terms of its product, the stock of its segments. Between two transactions of the
 * committer none of that changes, as a rule, and the database can tell: it counts the
 * changes of this connection, and notices those of others. So there is one hard rule: if
 * anything has changed in between, whatever it is, all is forgotten. This is looked at
 * inside the transaction, when other connections cannot change anything.
 *
 * Inside a transaction orders take units from what is known here. The database is told
 * once for each segment, at the end, by an UPDATE that says how much has to be there. So a
 * sale cannot oversell even if something here were wrong. All else rests on the rule.
 */
#include "db/ledger/ledger.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/* ---- known products ---------------------------------------------------------- */

struct rows_segment {
    int64_t segment;
    int64_t stock; /* after the orders before */
    int64_t taken; /* by them, and not yet from the database's stock */
    int64_t terms; /* under which they were decided */
};

/* A product's terms, and its segments in use. */
struct rows_product {
    int64_t id;
    int64_t price_cents;
    int64_t limit_per_user;
    int64_t pay_within_s;
    int64_t opens_ms;
    int64_t ends_ms;
    int64_t segments; /* that it should have */
    int64_t stock;    /* of all segments in use */
    size_t n;         /* of these; 1 or more */
    bool counted;     /* what its users have, if it has a limit */

    /* Something was taken from it, and from the next ones: */
    bool dirty;
    struct rows_product *next_dirty;
    UT_hash_handle hh;

    struct rows_segment at[];
};

/* More products and segments are not kept for the next transaction. */
#define ROWS_MAX 16384

void place_forget(struct place *place)
{
    struct rows *rows = &place->rows;
    struct rows_product *product = rows->products, *next;

    /* The table goes before its products: they are freed along the list that
     * links them all. */
    HASH_CLEAR(hh, rows->products);
    for (; product; product = next) {
        next = product->hh.next;
        free(product);
    }
    rows->epoch = 0;
    place->announced.token = 0;
    rows->dirty = NULL;
    rows->n = 0;
}

/* The guard holds the stock, and the terms against a change that was committed
 * since they were read: with a limit units are counted for each user. */
#define TAKE                                                                   \
    "UPDATE segments SET stock = stock - ?3 "                                  \
    "WHERE product_id = ?1 AND segment = ?2 AND stock >= ?3 AND terms = ?4"

/* Tells the database what was taken from each segment, and what is sold. The stock
 * first: an order's row takes a lock on its segment's row, which it refers to, in a server
 * that has locks for rows; two instances that had both done so would wait for each
 * other. */
static void write_pending(struct place *place)
{
    struct rows *rows = &place->rows;
    struct rows_product *product;
    struct rows_segment *segment;

    for (; rows->dirty; rows->dirty = rows->dirty->next_dirty) {
        product = rows->dirty;
        product->dirty = false;
        for (size_t i = 0; i < product->n; i++) {
            segment = &product->at[i];
            if (segment->taken == 0)
                continue;
            sql_run(place->db, TAKE, product->id, segment->segment,
                    segment->taken, segment->terms);
            /* In SQLite nobody else could have changed the row, so that this is
             * a fault of ours; on a server it is a sale of another instance,
             * and the batch is run again. */
            if (place->db->status == STORE_OK && place->db->changed != 1)
                sql_conflict(place->db,
                             "the stock or the terms changed meanwhile");
            segment->taken = 0;
        }
    }
    if (place->pending_n > 0)
        orders_insert(place->db, place->pending, place->pending_n,
                      &place->proof);
    place->pending_n = 0;
}

/* All that an order may ask by one statement, as this is what a lot of a single order
 * pays for. *found has room for as many segments as a product can have. */
static void read_product(struct sql *db, int64_t id, struct rows_product *found)
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
    /* Each row has the product's own columns besides: the first one's are
     * taken. */
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
    sql_end(query);
}

/* A product, read if it is not known: with room for all segments that it could have, and
 * then without. NULL: there is none. */
static struct rows_product *find_product(struct place *place, int64_t id)
{
    const size_t size = sizeof(struct rows_segment);
    struct rows *rows = &place->rows;
    struct rows_product *found, *smaller;
    struct sql *db = place->db;

    HASH_FIND(hh, rows->products, &id, sizeof(id), found);
    if (found)
        return found;
    found = calloc(1, sizeof(*found) + STORE_SEGMENTS_MAX * size);
    if (found)
        read_product(db, id, found);
    if (found && found->n > 0 && !found->counted) {
        /* The limit is new, and the first sale under it counts. Then all is
         * read once more, since the count has raised the terms. */
        purchases_count(db, id);
        read_product(db, id, found);
    }
    if (found && (db->status != STORE_OK || found->n == 0)) {
        free(found);
        return NULL;
    }
    smaller = found ? realloc(found, sizeof(*found) + found->n * size) : NULL;
    if (smaller) {
        found = smaller;
        HASH_ADD(hh, rows->products, id, sizeof(found->id), found);
    }
    /* A table without memory leaves the product out of it: then nobody would
     * free it, and so the order fails. */
    if (!smaller || !found->hh.tbl) {
        free(found);
        sql_fail(db, STORE_IO, "out of memory");
        return NULL;
    }
    rows->n += 1 + found->n;
    return found;
}

/* NULL: not in use. Segments are in order, so none stands behind its number's place. */
static struct rows_segment *find_segment(struct rows_product *product,
                                         int64_t segment)
{
    size_t at = (size_t)segment, i = at < product->n ? at + 1 : product->n;

    while (i-- > 0)
        if (product->at[i].segment == segment)
            return &product->at[i];
    return NULL;
}

/* The segment in use with most units, but for BUT, which may be NULL. */
static struct rows_segment *richest_of(struct rows_product *product,
                                       const struct rows_segment *but)
{
    struct rows_segment *richest = NULL;

    for (size_t i = 0; i < product->n; i++)
        if (&product->at[i] != but &&
            (!richest || product->at[i].stock > richest->stock))
            richest = &product->at[i];
    return richest;
}

/* ---- an order ----------------------------------------------------------- */

enum store_status place_window(int64_t opens_ms, int64_t ends_ms, int64_t at_ms)
{
    if (at_ms < opens_ms)
        return STORE_NOT_OPEN;
    if (ends_ms != 0 && at_ms >= ends_ms)
        return STORE_ENDED;
    return STORE_OK;
}

/* May the order be sold, as far as the sale and its units go? FROM is its
 * segment, NULL if that is not in use. */
static void judge(const struct place *place, struct rows_product *product,
                  const struct rows_segment *from, struct store_order *order)
{
    const struct rows_segment *richest;

    order->segments = product->segments;
    order->status =
        place_window(product->opens_ms, product->ends_ms, place->now_ms);
    if (order->status == STORE_OK && product->stock < order->quantity)
        order->status = STORE_SOLD_OUT;
    /* A short segment of a product that has enough is no refusal: the order
     * moves on, but not without end. With `gather` it takes what there is,
     * wherever it is. */
    if (order->status != STORE_OK || place->lot->unlocked ||
        (from && (from->stock >= order->quantity || order->gather)))
        return;
    richest = richest_of(product, NULL);
    if (from && richest->stock < order->quantity)
        return; /* no segment has enough: units are moved into this one */
    order->status = STORE_SHORT;
    order->richest = richest->segment;
}

/* Moves what is missing from the richest others into the order's segment. */
static void gather(struct place *place, struct rows_product *product,
                   struct rows_segment *into, int64_t quantity)
{
    struct rows_segment *richest;
    int64_t units;

    while (into->stock < quantity) {
        richest = richest_of(product, into);
        assert(richest); /* all together have enough */
        units = quantity - into->stock;
        if (units > richest->stock)
            units = richest->stock;
        /* The database moves the units at once, while what was taken is told at
         * the end: each UPDATE has its own condition. */
        richest->stock -= units;
        into->stock += units;
        segments_move(place->db, product->id, richest->segment, into->segment,
                      units);
    }
}

/* A lock that is kept: its fence need not be looked at for each lot, nor its row read. */
static bool is_announced(const struct place *place,
                         const struct store_fence *fence)
{
    return fence_token(fence) != 0 && fence->name &&
           fence->token == place->announced.token &&
           strcmp(fence->name, place->announced.name) == 0 &&
           strcmp(fence_owner(fence), place->announced.owner) == 0;
}

static void announce(struct place *place)
{
    const struct store_fence *fence = place->lot->fence;

    if (fence_token(fence) == 0)
        return;
    if (fence_stamp(place->db, fence) != STORE_OK)
        return;
    /* The fence counts as announced only once the database has taken it. */
    place->announced.token = fence->token;
    (void)stpcpy(place->announced.name, fence->name); /* fence_valid() */
    (void)stpcpy(place->announced.owner, fence_owner(fence));
}

/*
 * The fence, the limit, the units, the row: all of it happens, or nothing.
 *
 * The fence is stamped before the lot's first sale, which is before its first
 * write. A refusal says what the database says now and leaves nothing behind:
 * the lock of a product that does not exist must not get a row, or anybody
 * could fill the table.
 */
static void sell(struct place *place, struct rows_product *product,
                 struct rows_segment *from, struct store_order *order)
{
    if (!place->stamped)
        announce(place);
    place->stamped = true;
    if (place->db->status != STORE_OK) /* what is known here stays as it is */
        return;
    if (product->limit_per_user > 0 &&
        !purchases_take(place->db, order, product->limit_per_user)) {
        order->status = STORE_LIMIT;
        return;
    }
    gather(place, product, from, order->quantity);
    place->held |= product->pay_within_s > 0;
    if (product->pay_within_s > 0)
        holds_promise(place->db, product->pay_within_s, &place->clock_ms,
                      order);
    assert(from->stock >= order->quantity);
    from->stock -= order->quantity;
    from->taken += order->quantity;
    product->stock -= order->quantity;
    if (!product->dirty) {
        product->dirty = true;
        product->next_dirty = place->rows.dirty;
        place->rows.dirty = product;
    }
    order->created_ms = place->now_ms;
    order->price_cents = product->price_cents;
    order->fence = fence_token(place->lot->fence);
    /* The number is given here and not at the INSERT, because the next order's
     * purchase must know which bucket is the newest. */
    filter_sold(&place->keys.filter, order);
    order->limit_per_user = product->limit_per_user;
    place->pending[place->pending_n++] = order;
    if (place->pending_n == PLACE_ROWS_MAX)
        write_pending(place);
}

/* The key comes first of all: a buyer gets the same answer again, also when by
 * now everything is sold or the sale is over. An order with the same key may be of the
 * same batch: a row that waits to be written is not found in the table. */
static void place_order(struct place *place, struct store_order *order)
{
    struct rows_product *product;
    struct rows_segment *from;
    int64_t limit;
    bool is_new;

    if (!orders_reset(order))
        return;
    is_new = order->key[0] == '\0' || keys_take_new(&place->keys, order->key);
    for (size_t i = 0; !is_new && i < place->pending_n; i++)
        if (!strcmp(place->pending[i]->key, order->key))
            write_pending(place);
    if (!is_new && orders_replay(place->db, order))
        return;
    product = find_product(place, order->product_id);
    if (!product) {
        order->status = STORE_NO_PRODUCT;
        return;
    }
    from = find_segment(product, order->segment);
    judge(place, product, from, order);
    if (order->status != STORE_OK)
        return;
    if (!place->lot->unlocked) {
        sell(place, product, from, order);
        return;
    }
    /* Without a lock it hears whether it would be sold. */
    limit = product->limit_per_user;
    order->status = STORE_NEEDS_LOCK;
    if (limit > 0 && order->quantity > limit - purchases_read(place->db, order))
        order->status = STORE_LIMIT;
}

/* ---- a lot -------------------------------------------------------------- */

/* Before anything is read in the transaction: unless nothing has changed since the last
 * end(), in any table, nothing is known. Nor if that would be too much. */
static void begin(struct place *place, struct sql *db)
{
    const struct rows *rows = &place->rows;

    place->db = db;
    place->pending_n = 0;
    if (rows->epoch == 0 || rows->epoch != db->epoch ||
        rows->changes != db->changes || rows->n > ROWS_MAX)
        place_forget(place);
    /* The known products are not valid until end() says so: a transaction that fails
     * on its way leaves it at 0. */
    place->rows.epoch = 0;
}

static enum store_status place_lot(struct place *place,
                                   const struct store_lot *lot)
{
    place->now_ms = now_ms();
    place->clock_ms = 0;
    place->lot = lot;
    for (size_t i = 0; i < lot->n && place->db->status == STORE_OK; i++)
        place_order(place, lot->orders[i]);
    return place->db->status;
}

/* Writes what still waits. Only then do all have numbers, and what is known is how the
 * database will be once it is committed: others could not change anything meanwhile. */
static void end(struct place *place, const struct store_lot lots[], size_t n)
{
    write_pending(place);
    if (place->db->engine->far)
        keys_replay_refused(&place->keys, place->db, lots, n);
    place->keys.asked = false;
    if (place->db->status != STORE_OK)
        return;
    place->rows.changes = place->db->changes;
    place->rows.epoch = place->db->epoch;
}

enum store_status place_alone(struct place *place, struct sql *db,
                              const struct store_lot *lot)
{
    begin(place, db);
    place->stamped = is_announced(place, lot->fence);
    place_lot(place, lot);
    end(place, lot, 1);
    /* Others of the transaction may go on without this lot: what it has changed
     * in memory must not stay. */
    if (db->status != STORE_OK)
        place_forget(place);
    return db->status;
}

void place_fail(struct store_lot *lot, enum store_status status)
{
    lot->status = status;
    lot->left = -1;
    lot->segments = 0;
    lot->wrongly_known = 0;
    for (size_t i = 0; i < lot->n; i++) {
        (void)orders_reset(lot->orders[i]);
        lot->orders[i]->status = status;
    }
}

/* ---- the source's lots -------------------------------------------------- */

/* The generation comes first: what is refused in this transaction is refused in
 * this generation, or in one that is over then. */
void place_take(struct place *place, const struct store_source *source)
{
    place->generation = soldout_generation(place->soldout);
    place->lots_n = source->take(source->ctx, place->lots, STORE_LOTS_MAX);
}

/* Orders that may be sold although their like is known to be sold out. */
static size_t wrongly_known(const struct place *place,
                            const struct store_lot *lot)
{
    uint64_t generation = place->generation;
    const struct store_order *order;
    size_t n = 0;

    for (size_t i = 0; i < lot->n && generation != 0; i++) {
        order = lot->orders[i];
        n += order->status == STORE_NEEDS_LOCK &&
             soldout_knows(place->soldout, order->product_id,
                           order->quantity) == generation;
    }
    return n;
}

/* For the step hook: an order's own end, or how many were placed. */
static void tell_placed(const struct place *place, const struct store_lot *lot,
                        int64_t product_id)
{
    enum store_status status = lot->status;
    size_t placed = 0;
    char reply[64];

    if (!place->step.hook)
        return;
    for (size_t i = 0; i < lot->n && status == STORE_OK; i++)
        placed += lot->orders[i]->status == STORE_OK;
    (void)snprintf(reply, sizeof(reply), "%zu of %zu placed", placed, lot->n);
    if (status == STORE_OK && lot->n == 1)
        status = lot->orders[0]->status;
    (void)step_end(
        place->step, "place", product_id,
        status == STORE_OK && lot->n > 1 ? reply : store_status_text(status));
}

/* A fault of this lot alone does not end the transaction. */
static void decide(struct place *place, struct store_lot *lot)
{
    int64_t product_id = lot->n > 0 ? lot->orders[0]->product_id : 0;

    lot->wrongly_known = 0;
    place->stamped = is_announced(place, lot->fence);
    /* A fence that is announced was looked at when it was stamped. */
    if (!lot->unlocked && !place->stamped &&
        !fence_valid(lot->fence, sql_error(place->db))) {
        place_fail(lot, STORE_MISUSE);
        return;
    }
    if (step_begin(place->step, "place", product_id) == STORE_FAIL) {
        sql_fail(place->db, STORE_IO, "place failed on purpose");
        return;
    }
    lot->status = place_lot(place, lot);
    if (lot->status == STORE_STALE_FENCE)
        /* The stamp is refused before the lot's first write, so that there is
         * nothing to undo, and the next lots go on. */
        place_fail(lot, sql_clear(place->db));
    else if (lot->status == STORE_OK && lot->unlocked)
        lot->wrongly_known = wrongly_known(place, lot);
    tell_placed(place, lot, product_id);
}

/* By the first order that was judged: one that was replayed names another segment. */
static void tell_left(const struct place *place, struct store_lot *lot)
{
    const struct rows_segment *segment;
    struct rows_product *product;
    size_t i = 0;

    lot->left = -1;
    lot->segments = 0;
    while (i < lot->n && lot->orders[i]->segments == 0)
        i++;
    if (lot->unlocked || i == lot->n)
        return;
    HASH_FIND(hh, place->rows.products, &lot->orders[i]->product_id,
              sizeof(product->id), product);
    if (!product)
        return;
    segment = find_segment(product, lot->orders[i]->segment);
    lot->left = segment ? segment->stock : 0;
    lot->segments = product->segments;
}

enum store_status place_lots(struct place *place, struct sql *db)
{
    begin(place, db);
    if (db->engine->far)
        keys_ask(&place->keys, db, place->lots, place->lots_n);
    for (size_t i = 0; i < place->lots_n && db->status == STORE_OK; i++)
        decide(place, &place->lots[i]);
    end(place, place->lots, place->lots_n);
    /* A lot may move units out of the segment of one before it. */
    for (size_t i = 0; i < place->lots_n; i++)
        tell_left(place, &place->lots[i]);
    return db->status;
}

/* If the transaction failed, what the lots were told before is void. */
void place_done(struct place *place, const struct store_source *source,
                enum store_status status, const struct store_error *error)
{
    const struct store_order *order;
    size_t n = place->lots_n;

    /* The lots are the source's again after done(): a batch that takes none
     * must not find them. */
    place->lots_n = 0;
    for (size_t i = 0; i < n; i++) {
        if (status != STORE_OK)
            place_fail(&place->lots[i], status);
        for (size_t j = 0; j < place->lots[i].n; j++) {
            order = place->lots[i].orders[j];
            /* A note is made of what is on disk only: a refusal in a
             * transaction that failed has become that failure's status above. */
            if (order->status == STORE_SOLD_OUT)
                soldout_note(place->soldout, order->product_id, order->quantity,
                             place->generation);
        }
    }
    source->done(source->ctx, place->lots, n, error);
}
