/*
 * Guarded placing.
 *
 * The transaction has the write lock from its first statement on, so what it
 * reads nobody else can change before it ends. A product's terms and stock are
 * read once; the orders are decided one after the other against what is left;
 * their units are taken in one UPDATE, when the next product comes or the batch
 * ends. That UPDATE carries the condition all the same: it takes the units if
 * there are that many, or changes no row, and then the whole batch is undone.
 *
 * The clock is read inside the transaction, by the thread that commits: a sale
 * is over for an order that was at the door in time but waited too long.
 */
#include "db/place.h"
#include "db/failure.h"
#include "db/fence.h"
#include "db/now.h"
#include "db/orders.h"
#include "db/products.h"
#include "db/purchases.h"

/* A product has one segment, number 0. */
#define PLACE_SEGMENT 0

/* What is left of the product, before the orders of this batch. */
static enum store_status load_stock(struct sqlite *db, struct place *place,
                                    struct store_error *error)
{
    struct sqlite_query *query;

    query = sqlite_query(db, "SELECT stock FROM cells "
                             "WHERE product_id = ?1 AND segment = ?2");
    sqlite_bind(query, place->product.id, PLACE_SEGMENT);
    place->left = sqlite_next(query) ? sqlite_int(query, 0) : 0;
    place->taken = 0;
    return sqlite_end(query, error);
}

/* Takes the units of all that was sold of the product. */
static enum store_status take_units(struct sqlite *db, struct place *place,
                                    struct store_error *error)
{
    struct sqlite_query *query;
    enum store_status status;
    int64_t changed;

    if (place->taken == 0)
        return STORE_OK;
    query = sqlite_query(db, "UPDATE cells SET stock = stock - ?3 "
                             "WHERE product_id = ?1 AND segment = ?2 "
                             "AND stock >= ?3");
    sqlite_bind(query, place->product.id, PLACE_SEGMENT, place->taken);
    status = sqlite_end_changes(query, &changed, error);
    place->taken = 0;
    if (status == STORE_OK && changed != 1)
        return failure_set(error, STORE_IO, "the stock changed meanwhile");
    return status;
}

/* Turns to the order's product; a batch mostly has one, so keep the last. */
static enum store_status turn_to(struct sqlite *db, struct place *place,
                                 struct store_order *order,
                                 struct store_error *error)
{
    enum store_status status;
    bool found;

    if (place->product.id == order->product_id)
        return STORE_OK;
    status = take_units(db, place, error);
    place->product.id = 0;
    if (status == STORE_OK)
        status = products_find(db, order->product_id, &place->product, &found,
                               error);
    if (status != STORE_OK)
        return status;
    if (found)
        return load_stock(db, place, error);
    place->product.id = 0;
    order->status = STORE_NO_PRODUCT;
    return STORE_OK;
}

/* Whether the order may be sold, as far as the product goes. */
static enum store_status look(const struct place *place,
                              const struct store_order *order)
{
    enum store_status window = products_window(&place->product, place->now_ms);

    if (window != STORE_OK)
        return window;
    return place->left >= order->quantity ? STORE_OK : STORE_SOLD_OUT;
}

/* Counts the units against the user's limit. */
static enum store_status take_limit(struct sqlite *db,
                                    const struct place *place,
                                    struct store_order *order,
                                    struct store_error *error)
{
    enum store_status status;
    bool taken;

    if (place->product.limit_per_user == 0)
        return STORE_OK;
    status =
        purchases_take(db, order, place->product.limit_per_user, &taken, error);
    if (status == STORE_OK && !taken)
        order->status = STORE_LIMIT;
    return status;
}

/* Units, limit, row: what all must happen, or nothing. */
static enum store_status sell(struct sqlite *db, struct place *place,
                              struct store_order *order,
                              struct store_error *error)
{
    struct orders_terms terms = {
        .segment = PLACE_SEGMENT,
        .price_cents = place->product.price_cents,
        .limit_per_user = place->product.limit_per_user,
    };
    enum store_status status;

    order->status = look(place, order);
    if (order->status != STORE_OK)
        return STORE_OK;
    status = take_limit(db, place, order, error);
    if (status != STORE_OK || order->status != STORE_OK)
        return status;
    order->fence = fence_token(place->fence);
    order->created_ms = place->now_ms;
    place->left -= order->quantity;
    place->taken += order->quantity;
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
    status = turn_to(db, place, order, error);
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
    if (status == STORE_OK)
        status = take_units(db, work, error);
    return status;
}

void place_fail(const struct place *place, enum store_status status)
{
    for (size_t i = 0; i < place->n; i++) {
        orders_reset(place->orders[i]);
        place->orders[i]->status = status;
    }
}
