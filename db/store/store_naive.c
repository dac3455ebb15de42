/*
 * The textbook's way to sell: read, think, write. It is here for the laboratory.
 *
 * It is naive only because its steps are separate transactions and
 * because the UPDATE writes an absolute number: it is right only if no other buyer
 * does the same in between, that is, under a lock that works. Each step alone
 * is as careful as a textbook's: stock >= quantity and not stock > 0, the
 * limit, the window.
 *
 * The one guard that helps it is the fence: a write is taken only from the
 * holder that announced itself last, and it did so before it read.
 */
#include "db/store/committer.h"

#include <inttypes.h>
#include <stdio.h>

/* The textbook's checks, on the rows that it reads. */
static void select_all(struct sql *db, struct store_order *order,
                       int64_t *stock)
{
    struct store_product product = {0};

    if (orders_replay(db, order))
        return;
    if (products_get(db, order->product_id, &product) == STORE_NO_PRODUCT) {
        order->status = sql_clear(db);
        return;
    }
    /* One row at the most: the segment's stock, and beside it the richest one,
     * for an order that has to go elsewhere. */
    sql_first(sql_query(db,
                        "SELECT (SELECT stock FROM segments "
                        "WHERE product_id = ?1 AND segment = ?2), "
                        "segment FROM segments WHERE product_id = ?1 AND "
                        "active ORDER BY stock DESC, segment LIMIT 1",
                        order->product_id, order->segment),
              stock, &order->richest);
    order->price_cents = product.price_cents;
    order->segments = product.segments;
    order->status = place_window(product.opens_ms, product.ends_ms, now_ms());
    if (order->status == STORE_OK && *stock < order->quantity)
        order->status =
            product.stock < order->quantity ? STORE_SOLD_OUT : STORE_SHORT;
    if (order->status == STORE_OK && product.limit_per_user > 0 &&
        purchases_read(db, order) + order->quantity > product.limit_per_user)
        order->status = STORE_LIMIT;
}

enum store_status store_naive_select(struct store_reader *reader,
                                     struct store_order *order, int64_t *stock,
                                     struct store_error *error)
{
    const char *step = "naive-select";
    int64_t product_id = order->product_id;
    struct sql *db = reader->db;
    char reply[64];

    if (step_begin(reader->step, step, product_id) == STORE_FAIL) {
        order->status = STORE_IO;
        return failure_set(error, STORE_IO, "%s failed on purpose", step);
    }
    *stock = 0;
    if (orders_reset(order)) {
        /* One transaction, so that all is read of one moment; and when it ends,
         * others may write: that is the naive way's hole. */
        sql_begin_reading(db);
        select_all(db, order, stock);
        sql_rollback(db);
        if (db->status != STORE_OK)
            order->status = db->status;
    }
    (void)snprintf(reply, sizeof(reply), "stock %" PRId64, *stock);
    (void)step_end(reader->step, step, product_id,
                   db->status == STORE_OK ? reply
                                          : store_status_text(db->status));
    return read_end(reader, error);
}

struct naive_write {
    const struct store_fence *fence;
    int64_t product_id, segment, stock; /* update */
    struct store_order *order;          /* insert */
};

/* The number it writes may be more than there was. */
static enum store_status run_update(struct store *store,
                                    struct store_write *write)
{
    const struct naive_write *update = write->what;

    /* A stale fence stays in db->status: then the UPDATE does nothing. */
    fence_check(store->db, update->fence);
    if (sql_run(store->db,
                "UPDATE segments SET stock = ?3 "
                "WHERE product_id = ?1 AND segment = ?2",
                update->product_id, update->segment, update->stock) != STORE_OK)
        return store->db->status;
    return soldout_forget(&store->soldout, sql_error(store->db));
}

enum store_status store_naive_update(struct store *store, int64_t product_id,
                                     int64_t segment, int64_t stock,
                                     const struct store_fence *fence,
                                     struct store_error *error)
{
    struct naive_write update = {.fence = fence,
                                 .product_id = product_id,
                                 .segment = segment,
                                 .stock = stock};

    if (!fence_valid(fence, error))
        return STORE_MISUSE;
    return write_step(store, run_update, &update, "naive-update", product_id,
                      error);
}

/* A key can still meet its like here, though the SELECT had not seen it. The row that
 * is there is the order then; that the stock was taken twice is the naive way's own
 * fault, and the audit will say so. The units are counted for the limit, with no regard
 * to it. */
static enum store_status run_insert(struct store *store,
                                    struct store_write *write)
{
    const struct naive_write *insert = write->what;
    struct store_order *order = insert->order;
    struct sql *db = store->db;
    struct store_product product;
    int64_t clock_ms = 0;

    fence_check(db, insert->fence);
    if (orders_replay(db, order))
        return order->status;
    if (products_get(db, order->product_id, &product) != STORE_OK)
        return db->status;
    /* The units are counted before filter_sold() takes a number: their row
     * stands in the bucket of the next one, which is this order's. */
    if (product.limit_per_user > 0)
        (void)purchases_take(db, order, STORE_NUMBER_MAX);
    order->price_cents = product.price_cents;
    order->fence = fence_token(insert->fence);
    order->created_ms = now_ms();
    filter_sold(&store->place.keys.filter, order);
    order->limit_per_user = product.limit_per_user;
    store->place.held |= product.pay_within_s > 0;
    if (product.pay_within_s > 0)
        holds_promise(db, product.pay_within_s, &clock_ms, order);
    return orders_insert(db, &order, 1, &store->place.proof);
}

enum store_status store_naive_insert(struct store *store,
                                     struct store_order *order,
                                     const struct store_fence *fence,
                                     struct store_error *error)
{
    struct store_order copy;
    /* The committer fills in a copy: after a failure the caller's order must
     * have no id and no number. */
    struct naive_write insert = {.fence = fence, .order = &copy};
    enum store_status status = STORE_MISUSE;

    if (!orders_reset(order))
        return failure_set(error, STORE_RANGE, "an order's number is wrong");
    copy = *order;
    if (fence_valid(fence, error))
        status = write_step(store, run_insert, &insert, "naive-insert",
                            order->product_id, error);
    if (status == STORE_OK)
        *order = copy;
    order->status = status;
    return status;
}
