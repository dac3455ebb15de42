/*
 * The textbook's way to sell. See naive.h.
 *
 * What makes it naive is only that its steps are separate transactions and
 * that the UPDATE writes an absolute number. Each step alone is as careful as
 * a textbook's: stock >= quantity and not stock > 0, the limit, the window.
 *
 * The one guard that helps it is the fence: a write is taken only from the
 * holder that announced itself last, and it did so before it read.
 */
#include "db/naive.h"
#include "db/failure.h"
#include "db/fence.h"
#include "db/now.h"
#include "db/orders.h"
#include "db/products.h"
#include "db/purchases.h"

bool naive_valid(const struct store_order *order)
{
    return orders_valid(order) && order->segment != STORE_SEGMENT_ANY;
}

static enum store_status read_stock(struct sqlite *db,
                                    const struct store_order *order,
                                    int64_t *stock, struct store_error *error)
{
    struct sqlite_query *query;

    query = sqlite_query(db, "SELECT stock FROM cells "
                             "WHERE product_id = ?1 AND segment = ?2");
    sqlite_bind(query, order->product_id, order->segment);
    *stock = sqlite_next(query) ? sqlite_int(query, 0) : 0;
    return sqlite_end(query, error);
}

/* What the textbook checks, on what it has read. */
static enum store_status judge(struct sqlite *db,
                               const struct store_product *product,
                               int64_t stock, struct store_order *order,
                               struct store_error *error)
{
    enum store_status status = STORE_OK;
    int64_t bought = 0;

    order->price_cents = product->price_cents;
    order->status = products_window(product, now_ms());
    if (order->status == STORE_OK && stock < order->quantity)
        order->status =
            product->stock < order->quantity ? STORE_SOLD_OUT : STORE_SHORT;
    if (order->status != STORE_OK || product->limit_per_user == 0)
        return STORE_OK;
    status =
        purchases_read(db, order->product_id, order->user_id, &bought, error);
    if (bought + order->quantity > product->limit_per_user)
        order->status = STORE_LIMIT;
    return status;
}

static enum store_status select_all(struct sqlite *db,
                                    struct store_order *order, int64_t *stock,
                                    struct store_error *error)
{
    struct store_product product;
    enum store_status status;
    bool decided, found;

    status = orders_replay(db, order, &decided, error);
    if (status != STORE_OK || decided)
        return status;
    status = products_find(db, order->product_id, &product, &found, error);
    if (status != STORE_OK || !found) {
        order->status = STORE_NO_PRODUCT;
        return status;
    }
    status = read_stock(db, order, stock, error);
    return status == STORE_OK ? judge(db, &product, *stock, order, error)
                              : status;
}

enum store_status naive_select(struct sqlite *db, struct store_order *order,
                               int64_t *stock, struct store_error *error)
{
    enum store_status status;

    *stock = 0;
    orders_reset(order);
    if (!naive_valid(order)) {
        order->status = STORE_RANGE;
        return STORE_OK;
    }
    /* One transaction: what it sees is of one moment. That moment passes. */
    status = sqlite_run(db, "BEGIN", error);
    if (status == STORE_OK)
        status = select_all(db, order, stock, error);
    (void)sqlite_rollback(db);
    if (status != STORE_OK)
        order->status = status;
    return status;
}

enum store_status naive_stamp_run(struct sqlite *db, void *naive,
                                  struct store_error *error)
{
    const struct naive *work = naive;

    return fence_stamp(db, NULL, work->fence, error);
}

enum store_status naive_update_run(struct sqlite *db, void *naive,
                                   struct store_error *error)
{
    const struct naive *work = naive;
    struct sqlite_query *query;
    enum store_status status;
    int64_t changed;

    status = fence_check(db, work->fence, error);
    if (status != STORE_OK)
        return status;
    query = sqlite_query(db, "UPDATE cells SET stock = ?3 "
                             "WHERE product_id = ?1 AND segment = ?2");
    sqlite_bind(query, work->product_id, work->segment, work->stock);
    status = sqlite_end_changes(query, &changed, error);
    if (status == STORE_OK && changed == 0)
        return failure_set(error, STORE_NO_PRODUCT, "there is no such cell");
    return status;
}

/* The row that the limit is read from, with no regard to the limit. */
static enum store_status count_purchase(struct sqlite *db,
                                        const struct store_order *order,
                                        const struct store_product *product,
                                        struct store_error *error)
{
    bool taken;

    if (product->limit_per_user == 0)
        return STORE_OK;
    return purchases_take(db, order, STORE_NUMBER_MAX, &taken, error);
}

/*
 * A key can still meet its like here, though the SELECT had not seen it. The
 * row that is there is the order then; that the stock was taken twice is the
 * naive way's own fault, and the audit will say so.
 */
enum store_status naive_insert_run(struct sqlite *db, void *naive,
                                   struct store_error *error)
{
    struct naive *work = naive;
    struct store_order *order = &work->order;
    struct store_product product;
    struct orders_row row = {.order = order, .segment = order->segment};
    enum store_status status;
    bool decided;

    status = fence_check(db, work->fence, error);
    if (status == STORE_OK)
        status = orders_replay(db, order, &decided, error);
    if (status != STORE_OK)
        return status;
    if (decided)
        return order->status;
    status = products_get(db, order->product_id, &product, error);
    if (status == STORE_OK)
        status = count_purchase(db, order, &product, error);
    if (status != STORE_OK)
        return status;
    order->price_cents = product.price_cents;
    order->from_segment = order->segment;
    order->fence = fence_token(work->fence);
    order->created_ms = now_ms();
    row.limit_per_user = product.limit_per_user;
    return orders_insert(db, &row, 1, error);
}
