/*
 * The orders table. See orders.h.
 *
 * An order is a small state machine, placed -> cancelled, and every move is a
 * compare-and-set: "UPDATE ... WHERE state = <from>" and a look at how many
 * rows changed. Of two who cancel at once one changes a row and returns the
 * units; the other changes none and only reports what it finds.
 */
#include "db/orders.h"
#include "db/cells.h"
#include "db/failure.h"
#include "db/now.h"
#include "db/order_id.h"
#include "db/parts.h"
#include "db/purchases.h"

#include <string.h>

/* One list for every SELECT, in the order in which read_row takes them. */
#define ORDERS_COLUMNS                                                         \
    "number, secret, product_id, user_id, quantity, price_cents, "             \
    "created_ms, cancelled_ms, fence, state, key, segment, "                   \
    "EXISTS (SELECT * FROM parts WHERE parts.number = orders.number)"

bool orders_valid(const struct store_order *order)
{
    return order->product_id >= 1 && order->product_id <= STORE_NUMBER_MAX &&
           order->user_id >= 1 && order->user_id <= STORE_NUMBER_MAX &&
           order->quantity >= 1 && order->quantity <= STORE_NUMBER_MAX &&
           order->segment >= STORE_SEGMENT_ANY &&
           order->segment < STORE_SEGMENTS_MAX &&
           memchr(order->key, '\0', sizeof(order->key)) != NULL;
}

void orders_reset(struct store_order *order)
{
    order->status = STORE_OK;
    order->replayed = false;
    order->id[0] = '\0';
    order->from_segment = 0;
    order->segments = 0;
    order->number = 0;
    order->price_cents = 0;
    order->created_ms = 0;
    order->cancelled_ms = 0;
    order->fence = 0;
    order->state = STORE_PLACED;
}

/* What a row says, with the parts that the public struct does not show. */
struct row {
    struct store_order order;
    int64_t secret;
    int64_t segment; /* the first it drew from */
};

static void read_row(const struct sqlite_query *query, struct row *row)
{
    struct store_order *order = &row->order;

    memset(row, 0, sizeof(*row));
    order->number = sqlite_int(query, 0);
    row->secret = sqlite_int(query, 1);
    order->product_id = sqlite_int(query, 2);
    order->user_id = sqlite_int(query, 3);
    order->quantity = sqlite_int(query, 4);
    order->price_cents = sqlite_int(query, 5);
    order->created_ms = sqlite_int(query, 6);
    order->cancelled_ms = sqlite_int(query, 7);
    order->fence = (uint64_t)sqlite_int(query, 8);
    order->state = sqlite_int(query, 9) ? STORE_CANCELLED : STORE_PLACED;
    sqlite_text(query, 10, order->key, sizeof(order->key));
    row->segment = sqlite_int(query, 11);
    order->segment = sqlite_int(query, 12) ? STORE_SEGMENT_ANY : row->segment;
    order->from_segment = order->segment;
    order->status = STORE_OK;
    order_id_format(order->number, row->secret, order->id);
}

/* ---- by key ------------------------------------------------------------- */

static enum store_status find_key(struct sqlite *db, const char *key,
                                  struct row *row, bool *found,
                                  struct store_error *error)
{
    struct sqlite_query *query;

    query = sqlite_query(db, "SELECT " ORDERS_COLUMNS
                             " FROM orders WHERE key = ?1");
    sqlite_bind_text(query, 1, key);
    *found = sqlite_next(query);
    if (*found)
        read_row(query, row);
    return sqlite_end(query, error);
}

enum store_status orders_by_key(struct sqlite *db, const char *key,
                                struct store_order *order,
                                struct store_error *error)
{
    struct row row;
    bool found = false;
    enum store_status status = find_key(db, key, &row, &found, error);

    if (status != STORE_OK)
        return status;
    if (!found)
        return failure_set(error, STORE_NO_ORDER, "no order has this key");
    *order = row.order;
    return STORE_OK;
}

enum store_status orders_replay(struct sqlite *db, struct store_order *order,
                                bool *decided, struct store_error *error)
{
    struct row row;
    enum store_status status;

    *decided = false;
    if (order->key[0] == '\0')
        return STORE_OK;
    status = find_key(db, order->key, &row, decided, error);
    if (status != STORE_OK || !*decided)
        return status;
    if (row.order.product_id == order->product_id &&
        row.order.user_id == order->user_id &&
        row.order.quantity == order->quantity) {
        *order = row.order;
        order->replayed = true;
    } else {
        order->status = STORE_KEY_REUSED;
    }
    return STORE_OK;
}

/* ---- by id -------------------------------------------------------------- */

/*
 * By the number, and then the secret: compared as two machine words, which
 * takes the same time wherever they differ.
 */
static enum store_status find_id(struct sqlite *db, const char *id,
                                 struct row *row, struct store_error *error)
{
    struct sqlite_query *query;
    enum store_status status;
    int64_t number, secret;
    bool found;

    if (!order_id_parse(id, &number, &secret))
        return failure_set(error, STORE_NO_ORDER, "this is no order id");
    query = sqlite_query(db, "SELECT " ORDERS_COLUMNS
                             " FROM orders WHERE number = ?1");
    sqlite_bind(query, number);
    found = sqlite_next(query);
    if (found)
        read_row(query, row);
    status = sqlite_end(query, error);
    if (status != STORE_OK)
        return status;
    if (!found || (row->secret ^ secret) != 0)
        return failure_set(error, STORE_NO_ORDER, "no order has this id");
    return STORE_OK;
}

enum store_status orders_get(struct sqlite *db, const char *id,
                             struct store_order *order,
                             struct store_error *error)
{
    struct row row;
    enum store_status status = find_id(db, id, &row, error);

    if (status == STORE_OK)
        *order = row.order;
    return status;
}

static enum store_status parts_of(struct sqlite *db, const struct row *row,
                                  struct store_parts *parts,
                                  struct store_error *error)
{
    return parts_read(db, row->order.number, row->segment, row->order.quantity,
                      parts, error);
}

enum store_status orders_parts(struct sqlite *db, const char *id,
                               struct store_parts *parts,
                               struct store_error *error)
{
    struct row row;
    enum store_status status = find_id(db, id, &row, error);

    return status == STORE_OK ? parts_of(db, &row, parts, error) : status;
}

/* ---- writing ------------------------------------------------------------ */

/*
 * Opening a table, and the one that a foreign key looks into, costs as much as
 * a quarter of a row: several rows go with one statement.
 */
#define MANY 8
#define INSERT                                                                 \
    "INSERT INTO orders (product_id, price_cents, limit_per_user, "            \
    "created_ms, secret, segment, user_id, quantity, fence, key, state, "      \
    "cancelled_ms) VALUES "
#define ROW       "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0)"
#define ROW_BINDS 10
#define ROWS_4    ROW ", " ROW ", " ROW ", " ROW

static const char insert_one[] = INSERT ROW;
static const char insert_many[] = INSERT ROWS_4 ", " ROWS_4;

static void bind_row(struct sqlite_query *query, int at,
                     const struct orders_row *row)
{
    const struct store_order *order = row->order;
    const int64_t values[] = {
        order->product_id, order->price_cents, row->limit_per_user,
        order->created_ms, row->secret,        row->segment,
        order->user_id,    order->quantity,    (int64_t)order->fence};

    sqlite_bind_ints(query, at, values, ROW_BINDS - 1);
    sqlite_bind_text(query, at + ROW_BINDS - 1, order->key);
}

/* N is 1 or MANY. */
static enum store_status insert(struct sqlite *db, struct orders_row rows[],
                                size_t n, struct store_error *error)
{
    struct sqlite_query *query;
    enum store_status status;
    int64_t number;

    query = sqlite_query(db, n == MANY ? insert_many : insert_one);
    for (size_t i = 0; i < n; i++)
        bind_row(query, 1 + (int)i * ROW_BINDS, &rows[i]);
    sqlite_next(query);
    status = sqlite_end(query, error);
    if (status != STORE_OK)
        return status;
    number = sqlite_last_rowid(db) - (int64_t)n;
    for (size_t i = 0; i < n; i++) {
        rows[i].order->number = ++number;
        order_id_format(number, rows[i].secret, rows[i].order->id);
    }
    return status;
}

enum store_status orders_insert(struct sqlite *db, struct orders_row rows[],
                                size_t n, struct store_error *error)
{
    enum store_status status = STORE_OK;
    size_t some;

    for (size_t i = 0; i < n; i++)
        if (!order_id_secret(&rows[i].secret))
            return failure_set(error, STORE_IO,
                               "the kernel gives no randomness");
    for (size_t i = 0; i < n && status == STORE_OK; i += some) {
        some = n - i < MANY ? 1 : MANY;
        status = insert(db, rows + i, some, error);
    }
    return status;
}

/* The units go back to where they came from. */
static enum store_status return_units(struct sqlite *db, const struct row *row,
                                      struct store_error *error)
{
    enum store_status status;
    struct store_parts parts;

    status = parts_of(db, row, &parts, error);
    for (size_t i = 0; i < parts.n && status == STORE_OK; i++)
        status =
            cells_give_back(db, row->order.product_id, &parts.parts[i], error);
    if (status != STORE_OK)
        return status;
    return purchases_give_back(db, &row->order, error);
}

enum store_status orders_cancel_run(struct sqlite *db, void *cancel,
                                    struct store_error *error)
{
    struct orders_cancel *work = cancel;
    struct sqlite_query *query;
    enum store_status status;
    struct row row;
    int64_t changed, now;

    status = find_id(db, work->id, &row, error);
    if (status != STORE_OK)
        return status;
    now = now_ms();
    query = sqlite_query(db, "UPDATE orders SET state = 1, cancelled_ms = ?2 "
                             "WHERE number = ?1 AND state = 0");
    sqlite_bind(query, row.order.number, now);
    status = sqlite_end_changes(query, &changed, error);
    if (status == STORE_OK && changed == 1) {
        row.order.state = STORE_CANCELLED;
        row.order.cancelled_ms = now;
        status = return_units(db, &row, error);
    } else {
        row.order.replayed = true;
    }
    work->order = row.order;
    return status;
}
