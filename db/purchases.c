/*
 * Units bought per user. See purchases.h.
 */
#include "db/purchases.h"

enum store_status purchases_take(struct sqlite *db,
                                 const struct store_order *order, int64_t limit,
                                 bool *taken, struct store_error *error)
{
    struct sqlite_query *query;
    enum store_status status;
    int64_t changed;

    *taken = false;
    if (order->quantity > limit)
        return STORE_OK;
    /* Not "SELECT ... WHERE": SQLite would get ready to undo this statement
     * alone, and copy each page that it changes. */
    query = sqlite_query(db, "INSERT INTO purchases (product_id, user_id, "
                             "units) VALUES (?1, ?2, ?3) "
                             "ON CONFLICT DO UPDATE SET units = units + ?3 "
                             "WHERE units + ?3 <= ?4");
    sqlite_bind(query, order->product_id, order->user_id, order->quantity,
                limit);
    status = sqlite_end_changes(query, &changed, error);
    *taken = changed == 1;
    return status;
}

/* While a product has no limit nobody keeps its rows, nor looks at them. */
enum store_status purchases_give_back(struct sqlite *db,
                                      const struct store_order *order,
                                      struct store_error *error)
{
    struct sqlite_query *query;

    query = sqlite_query(db, "UPDATE purchases SET units = units - ?3 "
                             "WHERE product_id = ?1 AND user_id = ?2 "
                             "AND (SELECT limit_per_user FROM products "
                             "WHERE id = ?1) > 0");
    sqlite_bind(query, order->product_id, order->user_id, order->quantity);
    sqlite_next(query);
    return sqlite_end(query, error);
}

enum store_status purchases_read(struct sqlite *db, int64_t product_id,
                                 int64_t user_id, int64_t *units,
                                 struct store_error *error)
{
    struct sqlite_query *query;

    query = sqlite_query(db, "SELECT units FROM purchases "
                             "WHERE product_id = ?1 AND user_id = ?2");
    sqlite_bind(query, product_id, user_id);
    *units = sqlite_next(query) ? sqlite_int(query, 0) : 0;
    return sqlite_end(query, error);
}

enum store_status purchases_backfill(struct sqlite *db, int64_t product_id,
                                     struct store_error *error)
{
    struct sqlite_query *query;
    enum store_status status;

    /* Left over from an earlier limit, and out of date since. */
    query = sqlite_query(db, "DELETE FROM purchases WHERE product_id = ?1");
    sqlite_bind(query, product_id);
    sqlite_next(query);
    status = sqlite_end(query, error);
    if (status != STORE_OK)
        return status;
    query = sqlite_query(db, "INSERT INTO purchases (product_id, user_id, "
                             "units) SELECT product_id, user_id, "
                             "SUM(quantity) FROM orders WHERE product_id = ?1 "
                             "AND state = 0 GROUP BY user_id");
    sqlite_bind(query, product_id);
    sqlite_next(query);
    return sqlite_end(query, error);
}
