/*
 * Guarded placing.
 *
 * The condition travels with the write: one UPDATE takes the units if there
 * are enough of them and the sale is on, or changes no row at all. There is no
 * moment between the look and the deed in which somebody else could come.
 * Only when it has changed no row do we look for the reason, for the reply.
 *
 * The clock is read inside the transaction, by the thread that commits: a sale
 * is over for an order that was at the door in time but waited too long.
 */
#include "db/place.h"
#include "db/fence.h"
#include "db/now.h"
#include "db/orders.h"
#include "db/products.h"
#include "db/purchases.h"

/* The product's terms; a batch mostly has one product, so keep the last. */
static enum store_status load_product(struct sqlite *db, struct place *place,
                                      struct store_order *order,
                                      struct store_error *error)
{
    enum store_status status;
    bool found;

    if (place->product.id == order->product_id)
        return STORE_OK;
    status =
        products_find(db, order->product_id, &place->product, &found, error);
    if (status == STORE_OK && found)
        return STORE_OK;
    place->product.id = 0;
    order->status = STORE_NO_PRODUCT;
    return status;
}

/* Takes the units, or says in order->status why not. */
static enum store_status take_stock(struct sqlite *db,
                                    const struct place *place,
                                    struct store_order *order, int64_t segment,
                                    struct store_error *error)
{
    struct sqlite_query *query;
    enum store_status status;
    int64_t changed;

    query = sqlite_query(db, "UPDATE cells SET stock = stock - ?3 "
                             "WHERE product_id = ?1 AND segment = ?2 "
                             "AND stock >= ?3 AND EXISTS "
                             "(SELECT 1 FROM products WHERE id = ?1 "
                             "AND opens_ms <= ?4 "
                             "AND (ends_ms = 0 OR ends_ms > ?4))");
    sqlite_bind(query, order->product_id, segment, order->quantity,
                place->now_ms);
    status = sqlite_end_changes(query, &changed, error);
    if (status != STORE_OK || changed == 1)
        return status;
    order->status = products_window(&place->product, place->now_ms);
    if (order->status == STORE_OK)
        order->status = STORE_SOLD_OUT;
    return STORE_OK;
}

static enum store_status untake_stock(struct sqlite *db,
                                      const struct store_order *order,
                                      int64_t segment,
                                      struct store_error *error)
{
    struct sqlite_query *query;

    query = sqlite_query(db, "UPDATE cells SET stock = stock + ?3 "
                             "WHERE product_id = ?1 AND segment = ?2");
    sqlite_bind(query, order->product_id, segment, order->quantity);
    sqlite_next(query);
    return sqlite_end(query, error);
}

/* Counts the units against the user's limit; over it, the stock goes back. */
static enum store_status take_limit(struct sqlite *db,
                                    const struct place *place,
                                    struct store_order *order, int64_t segment,
                                    struct store_error *error)
{
    enum store_status status;
    bool taken;

    if (place->product.limit_per_user == 0)
        return STORE_OK;
    status =
        purchases_take(db, order, place->product.limit_per_user, &taken, error);
    if (status != STORE_OK || taken)
        return status;
    order->status = STORE_LIMIT;
    return untake_stock(db, order, segment, error);
}

/* Units, limit, row: what all must happen, or nothing. */
static enum store_status sell(struct sqlite *db, struct place *place,
                              struct store_order *order,
                              struct store_error *error)
{
    struct orders_terms terms = {
        .segment = 0,
        .price_cents = place->product.price_cents,
        .limit_per_user = place->product.limit_per_user,
    };
    enum store_status status;

    status = take_stock(db, place, order, terms.segment, error);
    if (status != STORE_OK || order->status != STORE_OK)
        return status;
    status = take_limit(db, place, order, terms.segment, error);
    if (status != STORE_OK || order->status != STORE_OK)
        return status;
    order->fence = fence_token(place->fence);
    order->created_ms = place->now_ms;
    return orders_insert(db, order, &terms, error);
}

/*
 * The key comes first of all: whoever has bought gets the same answer again,
 * also when by now everything is sold or the sale is over.
 */
static enum store_status place_one(struct sqlite *db, struct place *place,
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
    status = orders_replay(db, order, &decided, error);
    if (status != STORE_OK || decided)
        return status;
    status = load_product(db, place, order, error);
    if (status != STORE_OK || order->status != STORE_OK)
        return status;
    return sell(db, place, order, error);
}

enum store_status place_run(struct sqlite *db, void *place,
                            struct store_error *error)
{
    struct place *work = place;
    enum store_status status = STORE_OK;

    if (fence_given(work->fence))
        status = fence_stamp(db, work->fence, error);
    work->now_ms = now_ms();
    for (size_t i = 0; i < work->n && status == STORE_OK; i++)
        status = place_one(db, work, work->orders[i], error);
    return status;
}

void place_fail(const struct place *place, enum store_status status)
{
    for (size_t i = 0; i < place->n; i++) {
        orders_reset(place->orders[i]);
        place->orders[i]->status = status;
    }
}
