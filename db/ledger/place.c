/*
 * Guarded placing. See place.h.
 *
 * Orders are decided one after the other against what is left in memory
 * (rows.h). Their rows are written several at a time; what they took is taken
 * from the stock in the database at the end, on condition that it is there.
 *
 * The clock is read inside the transaction, by the thread that commits: a sale
 * is over for an order that came in time but waited too long.
 */
#include "db/ledger/ledger.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- keys that are new ------------------------------------------------------- */

/*
 * Where the database is in this process its filter says so of most (filter.h). Where
 * each question is a round trip, one question for all keys of a batch goes ahead; and
 * only an order whose key was found is looked up by itself. Two orders of the batch
 * may have the same key: only the first of them is new. Keys are known by a bit of
 * their hash: of two that share one the second is looked up, and no more.
 */
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

/* Whether no order has this key; says so once, since the first one of the batch has
 * it from then on. */
static bool keys_take_new(struct keys *keys, const char *key)
{
    struct filter_span span = FILTER_BEGIN;

    if (keys->filter.next > 0)
        return !filter_next(&keys->filter, filter_key(&keys->filter, key),
                            &span);
    return keys->asked && !mark(keys, key);
}

/* Marks those that are used: N is ASK_MAX at most, other marks are NULL. */
static enum store_status ask(struct keys *keys, struct sql *db,
                             const char *const some[], size_t n)
{
    struct sql_query *query = sql_query(
        db, "SELECT `key` FROM orders WHERE `key` IN (" SQL_MARKS_64 ")");
    char used[STORE_KEY_BYTES_MAX + 1];

    for (size_t i = 0; i < ASK_MAX; i++)
        sql_bind_text(query, (int)i + 1, i < n ? some[i] : "");
    while (sql_next(query)) {
        sql_text(query, 0, used, sizeof(used));
        (void)mark(keys, used);
    }
    return sql_end(query);
}

/* A key that is no text is not asked for. */
static enum store_status keys_ask(struct keys *keys, struct sql *db,
                                  const struct store_lot lots[], size_t lots_n)
{
    enum store_status status = STORE_OK;
    const char *some[ASK_MAX], *key;
    size_t n = 0;

    memset(keys->used, 0, sizeof(keys->used));
    for (size_t i = 0; i < lots_n; i++) {
        for (size_t j = 0; j < lots[i].n && status == STORE_OK; j++) {
            key = lots[i].orders[j]->key;
            if (key[0] == '\0' || !memchr(key, '\0', STORE_KEY_BYTES_MAX + 1))
                continue;
            some[n++] = key;
            if (n == ASK_MAX) {
                status = ask(keys, db, some, n);
                n = 0;
            }
        }
    }
    if (status == STORE_OK && n > 0)
        status = ask(keys, db, some, n);
    keys->asked = status == STORE_OK;
    return status;
}

/* ---- an order ----------------------------------------------------------- */

/*
 * The stock first: an order's row takes a lock on its segment's row, which it
 * refers to, in a server that has locks for rows; two instances that had both
 * done so would wait for each other.
 */
static enum store_status write_pending(struct place *place)
{
    enum store_status status = rows_flush(&place->rows);
    size_t n = place->pending_n;

    place->pending_n = 0;
    if (status == STORE_OK && n > 0)
        status = orders_insert(place->db, place->pending, n, &place->proof);
    return status;
}

/* May the order be sold, as far as the sale and its units go? FROM is its
 * segment, NULL if that is not in use. */
static void judge(const struct place *place, struct rows_product *product,
                  const struct rows_segment *from, struct store_order *order)
{
    const struct rows_segment *richest;

    order->segments = product->segments;
    order->status =
        products_window(product->opens_ms, product->ends_ms, place->now_ms);
    if (order->status == STORE_OK && product->stock < order->quantity)
        order->status = STORE_SOLD_OUT;
    if (order->status != STORE_OK || place->lot->unlocked ||
        (from && (from->stock >= order->quantity || order->gather)))
        return;
    richest = rows_richest(product, NULL);
    if (from && richest->stock < order->quantity)
        return; /* no segment has enough: units are moved into this one */
    order->status = STORE_SHORT;
    order->richest = richest->segment;
}

/* An order without a lock hears whether it would be sold. */
static enum store_status foresee(struct place *place,
                                 const struct rows_product *product,
                                 struct store_order *order)
{
    enum store_status status = STORE_OK;
    int64_t bought = 0;

    if (product->limit_per_user > 0)
        status = purchases_read(place->db, &place->keys.filter, order, &bought);
    order->status = STORE_NEEDS_LOCK;
    if (product->limit_per_user > 0 &&
        order->quantity > product->limit_per_user - bought)
        order->status = STORE_LIMIT;
    return status;
}

/* Moves what is missing from the richest others into the order's segment. */
static enum store_status gather(struct place *place,
                                struct rows_product *product,
                                struct rows_segment *into, int64_t quantity)
{
    enum store_status status = STORE_OK;
    struct rows_segment *richest;
    int64_t units;

    while (status == STORE_OK && into->stock < quantity) {
        richest = rows_richest(product, into);
        assert(richest); /* all together have enough */
        units = quantity - into->stock;
        if (units > richest->stock)
            units = richest->stock;
        richest->stock -= units;
        into->stock += units;
        status = segments_move(place->db, product->id, richest->segment,
                               into->segment, units);
    }
    return status;
}

/* The row of a lock that is kept need not be read for each lot. */
static enum store_status announce(struct place *place)
{
    const struct store_fence *fence = place->lot->fence;
    enum store_status status;

    if (fence_token(fence) == 0 ||
        (fence->token == place->announced.token &&
         strcmp(fence->name, place->announced.name) == 0 &&
         strcmp(fence_owner(fence), place->announced.owner) == 0))
        return STORE_OK;
    place->announced.token = 0;
    status = fence_stamp(place->db, fence);
    if (status != STORE_OK)
        return status;
    place->announced.token = fence->token;
    (void)stpcpy(place->announced.name, fence->name); /* fence_valid() */
    (void)stpcpy(place->announced.owner, fence_owner(fence));
    return STORE_OK;
}

/*
 * The fence, the limit, the units, the row: all of it happens, or nothing.
 *
 * The fence is stamped before the lot's first sale, which is before its first
 * write. A refusal says what the database says now and leaves nothing behind:
 * the lock of a product that does not exist must not get a row, or anybody
 * could fill the table.
 */
static enum store_status sell(struct place *place, struct rows_product *product,
                              struct rows_segment *from,
                              struct store_order *order)
{
    enum store_status status = STORE_OK;
    bool taken = true;

    if (!place->stamped)
        status = announce(place);
    place->stamped = status == STORE_OK;
    if (status == STORE_OK && product->limit_per_user > 0)
        status = purchases_take(place->db, &place->keys.filter, order,
                                product->limit_per_user, &taken);
    if (status == STORE_OK && !taken)
        order->status = STORE_LIMIT;
    if (status != STORE_OK || !taken)
        return status;
    status = gather(place, product, from, order->quantity);
    place->held |= product->pay_within_s > 0;
    if (status == STORE_OK && product->pay_within_s > 0)
        status = holds_promise(place->db, product->pay_within_s,
                               &place->clock_ms, order);
    if (status != STORE_OK)
        return status;
    rows_take(&place->rows, product, from, order->quantity);
    order->created_ms = place->now_ms;
    order->price_cents = product->price_cents;
    order->fence = fence_token(place->lot->fence);
    filter_sold(&place->keys.filter, order);
    place->pending[place->pending_n++] = (struct orders_row){
        .order = order, .limit_per_user = product->limit_per_user};
    return place->pending_n < PLACE_ROWS_MAX ? STORE_OK : write_pending(place);
}

/* The key comes first of all: a buyer gets the same answer again, also when by
 * now everything is sold or the sale is over. An order with the same key may be of the
 * same batch: a row that waits to be written is not found in the table. */
static enum store_status place_order(struct place *place,
                                     struct store_order *order)
{
    struct rows_product *product;
    enum store_status status = STORE_OK;
    struct rows_segment *from;
    bool decided = false, is_new;

    if (!orders_reset(order))
        return STORE_OK;
    is_new = order->key[0] == '\0' || keys_take_new(&place->keys, order->key);
    for (size_t i = 0; !is_new && i < place->pending_n; i++)
        if (!strcmp(place->pending[i].order->key, order->key))
            status = write_pending(place);
    if (!is_new && status == STORE_OK)
        status = orders_replay(place->db, &place->keys.filter, order, &decided);
    if (status != STORE_OK || decided)
        return status;
    status = rows_product(&place->rows, order->product_id, &product);
    if (status != STORE_OK)
        return status;
    if (!product) {
        order->status = STORE_NO_PRODUCT;
        return STORE_OK;
    }
    from = rows_segment(product, order->segment);
    judge(place, product, from, order);
    if (order->status != STORE_OK)
        return STORE_OK;
    return place->lot->unlocked ? foresee(place, product, order)
                                : sell(place, product, from, order);
}

/* ---- a lot -------------------------------------------------------------- */

static void begin(struct place *place, struct sql *db)
{
    place->db = db;
    place->pending_n = 0;
    if (!rows_begin(&place->rows, db))
        place->announced.token = 0;
}

static enum store_status place_lot(struct place *place,
                                   const struct store_lot *lot)
{
    enum store_status status = STORE_OK;

    place->now_ms = now_ms();
    place->clock_ms = 0;
    place->lot = lot;
    place->stamped = false;
    for (size_t i = 0; i < lot->n && status == STORE_OK; i++)
        status = place_order(place, lot->orders[i]);
    return status;
}

/* Writes what still waits. Only then do all have numbers. */
static enum store_status end(struct place *place)
{
    enum store_status status = write_pending(place);

    return status == STORE_OK ? rows_end(&place->rows) : status;
}

enum store_status place_alone(struct place *place, struct sql *db,
                              const struct store_lot *lot)
{
    enum store_status status;

    begin(place, db);
    status = place_lot(place, lot);
    if (status == STORE_OK)
        status = end(place);
    if (status != STORE_OK)
        rows_forget(&place->rows);
    return status;
}

void place_fail(struct store_lot *lot, enum store_status status)
{
    lot->status = status;
    lot->left = -1;
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
static enum store_status decide(struct place *place, struct store_lot *lot)
{
    int64_t product_id = lot->n > 0 ? lot->orders[0]->product_id : 0;

    lot->wrongly_known = 0;
    if (!lot->unlocked && !fence_valid(lot->fence, sql_error(place->db))) {
        place_fail(lot, STORE_MISUSE);
        return STORE_OK;
    }
    if (step_begin(place->step, "place", product_id) == STORE_FAIL)
        return sql_fail(place->db, STORE_IO, "place failed on purpose");
    lot->status = place_lot(place, lot);
    if (lot->status == STORE_STALE_FENCE)
        place_fail(lot, STORE_STALE_FENCE);
    else if (lot->status == STORE_OK && lot->unlocked)
        lot->wrongly_known = wrongly_known(place, lot);
    tell_placed(place, lot, product_id);
    return lot->status == STORE_STALE_FENCE ? STORE_OK : lot->status;
}

enum store_status place_lots(struct place *place, struct sql *db)
{
    enum store_status status = STORE_OK;
    struct store_lot *lot;

    begin(place, db);
    if (db->engine->far)
        status = keys_ask(&place->keys, db, place->lots, place->lots_n);
    for (size_t i = 0; i < place->lots_n && status == STORE_OK; i++)
        status = decide(place, &place->lots[i]);
    if (status == STORE_OK)
        status = end(place);
    place->keys.asked = false;
    /* A lot may move units out of the segment of one before it. */
    for (size_t i = 0; i < place->lots_n; i++) {
        lot = &place->lots[i];
        lot->left = lot->unlocked || lot->n == 0
                        ? -1
                        : rows_stock(&place->rows, lot->orders[0]->product_id,
                                     lot->orders[0]->segment);
    }
    return status;
}

/* If the transaction failed, what the lots were told before is void. */
void place_done(struct place *place, const struct store_source *source,
                enum store_status status, const struct store_error *error)
{
    const struct store_order *order;
    size_t n = place->lots_n;

    place->lots_n = 0;
    for (size_t i = 0; i < n; i++) {
        if (status != STORE_OK)
            place_fail(&place->lots[i], status);
        for (size_t j = 0; j < place->lots[i].n; j++) {
            order = place->lots[i].orders[j];
            if (order->status == STORE_SOLD_OUT)
                soldout_note(place->soldout, order->product_id, order->quantity,
                             place->generation);
        }
    }
    source->done(source->ctx, place->lots, n, error);
}
