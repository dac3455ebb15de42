/*
 * Guarded placing.
 *
 * Orders are decided one after the other against what is on the shelf
 * (shelf.h). Their rows are written several at a time; what they took is taken
 * from the cells when the next product comes, and at the end, with the condition
 * that it is there.
 *
 * The clock is read inside the transaction, by the thread that commits: a sale
 * is over for an order that was at the door in time but waited too long.
 */
#include "db/place.h"
#include "db/failure.h"
#include "db/fence.h"
#include "db/now.h"
#include "db/parts.h"
#include "db/products.h"
#include "db/purchases.h"

#include <string.h>

/* Turns to the order's product: may it be sold, as far as that goes? */
static enum store_status look(struct placing *placing,
                              struct store_order *order,
                              struct store_error *error)
{
    struct shelf *shelf = &placing->shelf;
    enum store_status status;
    bool found;

    status = shelf_turn(placing->db, shelf, order->product_id, order->segment,
                        &found, error);
    if (status != STORE_OK)
        return status;
    order->status = found ? products_window(&shelf->product, placing->now_ms)
                          : STORE_NO_PRODUCT;
    if (order->status != STORE_OK || shelf->left >= order->quantity)
        return STORE_OK;
    return shelf_refusal(placing->db, shelf, order->quantity, &order->status,
                         error);
}

/* Counts the units against the user's limit. */
static enum store_status take_limit(struct sqlite *db, int64_t limit,
                                    struct store_order *order,
                                    struct store_error *error)
{
    enum store_status status;
    bool taken;

    if (limit == 0)
        return STORE_OK;
    status = purchases_take(db, order, limit, &taken, error);
    if (status == STORE_OK && !taken)
        order->status = STORE_LIMIT;
    return status;
}

/*
 * The token goes on record with the cell whose lock it is of: the one that was
 * asked for, or the first if any would do. Of another cell's order it would say
 * nothing: tokens of two locks cannot be compared.
 */
static uint64_t token_of(const struct placing *placing,
                         const struct store_order *order,
                         const struct store_parts *parts)
{
    int64_t locked = order->segment == STORE_SEGMENT_ANY ? 0 : order->segment;

    return parts->parts[0].segment == locked ? placing->token : 0;
}

static enum store_status write_rows(struct placing *placing,
                                    struct store_error *error)
{
    size_t n = placing->rows_n;

    placing->rows_n = 0;
    return orders_insert(placing->db, placing->rows, n, error);
}

/* Parts need the order's number, which comes with its row. */
static enum store_status add_row(struct placing *placing,
                                 struct store_order *order,
                                 const struct store_parts *parts,
                                 struct store_error *error)
{
    enum store_status status;

    placing->rows[placing->rows_n++] = (struct orders_row){
        .order = order,
        .segment = parts->parts[0].segment,
        .limit_per_user = placing->shelf.product.limit_per_user};
    if (parts->n == 1 && placing->rows_n < PLACE_ROWS_MAX)
        return STORE_OK;
    status = write_rows(placing, error);
    if (status != STORE_OK)
        return status;
    return parts_insert(placing->db, order->number, parts, error);
}

/*
 * Before the first sale, which is before the first write: refusals are what the
 * database says now, whoever asks, and leave nothing behind. A lock of a product
 * that does not exist must not get a row, as there is no end of such.
 */
static enum store_status stamp(struct placing *placing,
                               struct store_error *error)
{
    const struct store_fence *fence = placing->fence;

    placing->fence = NULL;
    return fence_stamp(placing->db, placing->recall, fence, error);
}

/* Units, limit, row: what all must happen, or nothing. */
static enum store_status sell(struct placing *placing,
                              struct store_order *order,
                              struct store_error *error)
{
    const struct store_product *product = &placing->shelf.product;
    struct store_parts parts;
    enum store_status status;

    status = stamp(placing, error);
    if (status == STORE_OK)
        status = take_limit(placing->db, product->limit_per_user, order, error);
    if (status != STORE_OK || order->status != STORE_OK)
        return status;
    order->created_ms = placing->now_ms;
    order->price_cents = product->price_cents;
    order->segments = product->segments;
    shelf_take(&placing->shelf, order->quantity, &parts);
    order->from_segment =
        parts.n > 1 ? STORE_SEGMENT_ANY : parts.parts[0].segment;
    order->fence = token_of(placing, order, &parts);
    return add_row(placing, order, &parts, error);
}

static bool has_row_of(const struct placing *placing, const char *key)
{
    for (size_t i = 0; i < placing->rows_n; i++)
        if (!strcmp(placing->rows[i].order->key, key))
            return true;
    return false;
}

/* What has the same key may be of the same batch: a row that waits is not found
 * in the table. */
static enum store_status replay(struct placing *placing,
                                struct store_order *order, bool *decided,
                                struct store_error *error)
{
    enum store_status status = STORE_OK;

    if (order->key[0] != '\0' && has_row_of(placing, order->key))
        status = write_rows(placing, error);
    return status == STORE_OK
               ? orders_replay(placing->db, order, decided, error)
               : status;
}

/*
 * The key comes first of all: whoever has bought gets the same answer again,
 * also when by now everything is sold or the sale is over.
 */
static enum store_status place_one(struct placing *placing,
                                   struct store_order *order,
                                   struct store_error *error)
{
    enum store_status status;
    bool decided;

    orders_reset(order);
    if (!orders_valid(order)) {
        order->status = STORE_RANGE;
        return STORE_OK;
    }
    status = replay(placing, order, &decided, error);
    if (status != STORE_OK || decided)
        return status;
    status = look(placing, order, error);
    if (status != STORE_OK || order->status != STORE_OK)
        return status;
    return sell(placing, order, error);
}

/* ---- a transaction ------------------------------------------------------ */

void placing_begin(struct placing *placing, struct sqlite *db,
                   struct recall *recall)
{
    placing->db = db;
    placing->recall = recall;
    placing->rows_n = 0;
    shelf_init(&placing->shelf, recall);
}

enum store_status placing_lot(struct placing *placing,
                              struct store_order *const orders[], size_t n,
                              const struct store_fence *fence,
                              struct store_error *error)
{
    enum store_status status = STORE_OK;

    placing->now_ms = now_ms();
    placing->fence = fence;
    placing->token = fence_token(fence);
    for (size_t i = 0; i < n && status == STORE_OK; i++)
        status = place_one(placing, orders[i], error);
    return status;
}

enum store_status placing_end(struct placing *placing,
                              struct store_error *error)
{
    enum store_status status = write_rows(placing, error);

    return status == STORE_OK ? shelf_flush(placing->db, &placing->shelf, error)
                              : status;
}

enum store_status place_run(struct sqlite *db, void *place,
                            struct store_error *error)
{
    const struct place *work = place;
    struct placing placing;
    enum store_status status;

    placing_begin(&placing, db, NULL);
    status = placing_lot(&placing, work->orders, work->n, work->fence, error);
    return status == STORE_OK ? placing_end(&placing, error) : status;
}

void place_fail(struct store_order *const orders[], size_t n,
                enum store_status status)
{
    for (size_t i = 0; i < n; i++) {
        orders_reset(orders[i]);
        orders[i]->status = status;
    }
}
