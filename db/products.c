/*
 * Products and their stock cells. See products.h.
 *
 * Stock never changes by overwriting. A product is put with its first units
 * and after that only a restock adds some, in a ledger of its own: so the
 * audit can say what every cell must have had, and two admins who save a form
 * at once cannot undo each other's units, nor a sale's.
 */
#include "db/products.h"
#include "db/cells.h"
#include "db/failure.h"
#include "db/now.h"
#include "db/purchases.h"

#include <inttypes.h>
#include <string.h>

#define PRODUCTS_SELECT                                                        \
    "SELECT id, name, price_cents, limit_per_user, opens_ms, ends_ms, "        \
    "segments, epoch, "                                                        \
    "(SELECT SUM(initial) FROM cells WHERE product_id = id), "                 \
    "(SELECT SUM(stock) FROM cells WHERE product_id = id) "                    \
    "FROM products "

static bool in_range(int64_t number, int64_t least)
{
    return number >= least && number <= STORE_NUMBER_MAX;
}

/* ---- reading ------------------------------------------------------------ */

static void read_row(const struct sqlite_query *query,
                     struct store_product *product)
{
    memset(product, 0, sizeof(*product));
    product->id = sqlite_int(query, 0);
    sqlite_text(query, 1, product->name, sizeof(product->name));
    product->price_cents = sqlite_int(query, 2);
    product->limit_per_user = sqlite_int(query, 3);
    product->opens_ms = sqlite_int(query, 4);
    product->ends_ms = sqlite_int(query, 5);
    product->segments = sqlite_int(query, 6);
    product->epoch = sqlite_int(query, 7);
    product->initial = sqlite_int(query, 8);
    product->stock = sqlite_int(query, 9);
}

enum store_status products_find(struct sqlite *db, int64_t id,
                                struct store_product *product, bool *found,
                                struct store_error *error)
{
    struct sqlite_query *query =
        sqlite_query(db, PRODUCTS_SELECT "WHERE id = ?1");

    sqlite_bind(query, id);
    *found = sqlite_next(query);
    if (*found)
        read_row(query, product);
    return sqlite_end(query, error);
}

enum store_status products_get(struct sqlite *db, int64_t id,
                               struct store_product *product,
                               struct store_error *error)
{
    bool found;
    enum store_status status = products_find(db, id, product, &found, error);

    if (status == STORE_OK && !found)
        return failure_set(error, STORE_NO_PRODUCT,
                           "there is no product %" PRId64, id);
    return status;
}

enum store_status products_list(struct sqlite *db, int64_t after, size_t n,
                                struct store_product products[],
                                size_t *n_found, struct store_error *error)
{
    struct sqlite_query *query;
    size_t found = 0;

    query = sqlite_query(db, PRODUCTS_SELECT "WHERE id > ?1 ORDER BY id");
    sqlite_bind(query, after);
    while (found < n && sqlite_next(query))
        read_row(query, &products[found++]);
    *n_found = found;
    return sqlite_end(query, error);
}

enum store_status products_window(const struct store_product *product,
                                  int64_t at_ms)
{
    if (at_ms < product->opens_ms)
        return STORE_NOT_OPEN;
    if (product->ends_ms != 0 && at_ms >= product->ends_ms)
        return STORE_ENDED;
    return STORE_OK;
}

/* ---- put ---------------------------------------------------------------- */

static bool put_valid(const struct store_product *product)
{
    return in_range(product->id, 1) && in_range(product->price_cents, 0) &&
           in_range(product->limit_per_user, 0) &&
           in_range(product->opens_ms, 0) && in_range(product->ends_ms, 0) &&
           in_range(product->initial, 0) && product->segments >= 0 &&
           product->segments <= STORE_SEGMENTS_MAX &&
           product->name[0] != '\0' &&
           memchr(product->name, '\0', sizeof(product->name)) != NULL;
}

static enum store_status create(struct sqlite *db,
                                const struct store_product *product,
                                struct store_error *error)
{
    int64_t segments = product->segments ? product->segments : 1;
    struct sqlite_query *query;
    enum store_status status;

    query = sqlite_query(
        db, "INSERT INTO products (id, price_cents, limit_per_user, opens_ms, "
            "ends_ms, first_units, segments, created_ms, name) "
            "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
    sqlite_bind(query, product->id, product->price_cents,
                product->limit_per_user, product->opens_ms, product->ends_ms,
                product->initial, segments, now_ms());
    sqlite_bind_text(query, 9, product->name);
    sqlite_next(query);
    status = sqlite_end(query, error);
    if (status == STORE_OK)
        status = cells_make(db, product->id, segments, error);
    if (status == STORE_OK)
        status = cells_add(db, product->id, product->initial, error);
    if (status == STORE_OK)
        status = cells_deal(db, product->id, segments, error);
    return status;
}

/* More cells or fewer. The epoch rises even if no unit has to move. */
static enum store_status resize(struct sqlite *db, int64_t id, int64_t segments,
                                struct store_error *error)
{
    struct sqlite_query *query;
    enum store_status status;

    query = sqlite_query(db, "UPDATE products SET segments = ?2, "
                             "epoch = epoch + 1 WHERE id = ?1");
    sqlite_bind(query, id, segments);
    sqlite_next(query);
    status = sqlite_end(query, error);
    if (status == STORE_OK)
        status = cells_make(db, id, segments, error);
    if (status == STORE_OK)
        status = cells_deal(db, id, segments, error);
    return status;
}

static enum store_status change(struct sqlite *db,
                                const struct store_product *product,
                                const struct store_product *old,
                                struct store_error *error)
{
    struct sqlite_query *query;
    enum store_status status;

    if (product->initial != old->initial)
        return failure_set(error, STORE_STOCK_FIXED,
                           "product %" PRId64 " has had %" PRId64
                           " units: add to them by a restock",
                           old->id, old->initial);
    query = sqlite_query(db, "UPDATE products SET price_cents = ?2, "
                             "limit_per_user = ?3, opens_ms = ?4, "
                             "ends_ms = ?5, name = ?6 WHERE id = ?1");
    sqlite_bind(query, product->id, product->price_cents,
                product->limit_per_user, product->opens_ms, product->ends_ms);
    sqlite_bind_text(query, 6, product->name);
    sqlite_next(query);
    status = sqlite_end(query, error);
    if (status == STORE_OK && old->limit_per_user == 0 &&
        product->limit_per_user > 0)
        status = purchases_backfill(db, product->id, error);
    if (status == STORE_OK && product->segments != 0 &&
        product->segments != old->segments)
        status = resize(db, product->id, product->segments, error);
    return status;
}

enum store_status products_put_run(struct sqlite *db, void *put,
                                   struct store_error *error)
{
    struct products_put *work = put;
    struct store_product old;
    enum store_status status;
    bool found;

    if (!put_valid(&work->product))
        return failure_set(error, STORE_RANGE,
                           "a product needs an id, a name of 1 to %d bytes, "
                           "up to %d segments and numbers from 0 to 2^53-1",
                           STORE_NAME_BYTES_MAX, STORE_SEGMENTS_MAX);
    status = products_find(db, work->product.id, &old, &found, error);
    if (status != STORE_OK)
        return status;
    work->created = !found;
    if (found)
        status = change(db, &work->product, &old, error);
    else
        status = create(db, &work->product, error);
    if (status != STORE_OK)
        return status;
    return products_get(db, work->product.id, &work->product, error);
}

/* ---- restock ------------------------------------------------------------ */

/* *decided: the key was used before. STORE_KEY_REUSED: for something else. */
static enum store_status replay(struct sqlite *db,
                                const struct products_restock *work,
                                bool *decided, struct store_error *error)
{
    struct sqlite_query *query;
    enum store_status status;
    bool same = false;

    *decided = false;
    if (work->key[0] == '\0')
        return STORE_OK;
    query = sqlite_query(db, "SELECT product_id, quantity FROM restocks "
                             "WHERE key = ?1");
    sqlite_bind_text(query, 1, work->key);
    *decided = sqlite_next(query);
    if (*decided)
        same = sqlite_int(query, 0) == work->product_id &&
               sqlite_int(query, 1) == work->quantity;
    status = sqlite_end(query, error);
    if (status == STORE_OK && *decided && !same)
        return failure_set(error, STORE_KEY_REUSED,
                           "the key belongs to another restock");
    return status;
}

static enum store_status add(struct sqlite *db,
                             const struct products_restock *work,
                             struct store_error *error)
{
    struct sqlite_query *query;
    enum store_status status;

    query = sqlite_query(db, "INSERT INTO restocks (product_id, quantity, "
                             "created_ms, key) VALUES (?1, ?2, ?3, ?4)");
    sqlite_bind(query, work->product_id, work->quantity, now_ms());
    sqlite_bind_text(query, 4, work->key);
    sqlite_next(query);
    status = sqlite_end(query, error);
    if (status != STORE_OK)
        return status;
    status = cells_add(db, work->product_id, work->quantity, error);
    if (status == STORE_OK)
        status =
            cells_deal(db, work->product_id, work->product.segments, error);
    return status;
}

enum store_status products_restock_run(struct sqlite *db, void *restock,
                                       struct store_error *error)
{
    struct products_restock *work = restock;
    struct store_product *product = &work->product;
    enum store_status status;
    bool decided = false;

    if (!in_range(work->quantity, 1) || strlen(work->key) > STORE_KEY_BYTES_MAX)
        return failure_set(error, STORE_RANGE,
                           "a restock adds 1 to 2^53-1 units, under a key of "
                           "up to %d bytes",
                           STORE_KEY_BYTES_MAX);
    status = products_get(db, work->product_id, product, error);
    if (status == STORE_OK)
        status = replay(db, work, &decided, error);
    if (status != STORE_OK || decided)
        return status;
    if (work->quantity > STORE_NUMBER_MAX - product->initial ||
        work->quantity > STORE_NUMBER_MAX - product->stock)
        return failure_set(error, STORE_RANGE,
                           "product %" PRId64 " would have had over 2^53-1 "
                           "units",
                           work->product_id);
    status = add(db, work, error);
    if (status != STORE_OK)
        return status;
    return products_get(db, work->product_id, product, error);
}
