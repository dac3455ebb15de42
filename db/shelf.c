/*
 * What is left while a batch is decided. See shelf.h.
 *
 * One segment and any are the same here: a range of cells, which may have one
 * in it.
 */
#include "db/shelf.h"
#include "db/failure.h"

#include <assert.h>

static int64_t first_of(const struct shelf *shelf)
{
    return shelf->segment == STORE_SEGMENT_ANY ? 0 : shelf->segment;
}

static int64_t last_of(const struct shelf *shelf)
{
    return shelf->segment == STORE_SEGMENT_ANY ? STORE_SEGMENTS_MAX - 1
                                               : shelf->segment;
}

static void clear(struct shelf *shelf)
{
    shelf->product.id = 0;
    shelf->cells_n = 0;
    shelf->left = 0;
    shelf->elsewhere = -1;
}

void shelf_init(struct shelf *shelf, struct recall *recall)
{
    shelf->recall = recall;
    clear(shelf);
}

/* ---- reading ------------------------------------------------------------ */

static void read_terms(const struct sqlite_query *query,
                       struct store_product *product)
{
    product->price_cents = sqlite_int(query, 2);
    product->limit_per_user = sqlite_int(query, 3);
    product->opens_ms = sqlite_int(query, 4);
    product->ends_ms = sqlite_int(query, 5);
    product->segments = sqlite_int(query, 6);
}

/*
 * The terms with each cell: one statement, for that is what a lot of a single
 * order pays for. A product without such a cell is there all the same.
 */
static enum store_status load(struct sqlite *db, struct shelf *shelf,
                              int64_t product_id, struct store_error *error)
{
    struct sqlite_query *query;
    int64_t stock;

    query =
        sqlite_query(db, "SELECT coalesce(segment, -1), stock, price_cents, "
                         "limit_per_user, opens_ms, ends_ms, segments "
                         "FROM products LEFT JOIN cells "
                         "ON product_id = id AND active "
                         "AND segment BETWEEN ?2 AND ?3 "
                         "WHERE id = ?1 ORDER BY segment");
    sqlite_bind(query, product_id, first_of(shelf), last_of(shelf));
    while (shelf->cells_n < STORE_SEGMENTS_MAX && sqlite_next(query)) {
        shelf->product.id = product_id;
        read_terms(query, &shelf->product);
        if (sqlite_int(query, 0) < 0)
            break;
        stock = sqlite_int(query, 1);
        shelf->cells[shelf->cells_n++] =
            (struct shelf_cell){.segment = sqlite_int(query, 0), .left = stock};
        shelf->left += stock;
    }
    return sqlite_end(query, error);
}

/* Only single cells are kept: of any, all would have to be known. */
static void keep(const struct shelf *shelf)
{
    const struct store_product *product = &shelf->product;

    if (shelf->segment == STORE_SEGMENT_ANY || shelf->cells_n == 0)
        return;
    recall_keep_cell(shelf->recall,
                     &(struct recall_cell){
                         .product_id = product->id,
                         .segment = shelf->segment,
                         .stock = shelf->left,
                         .price_cents = product->price_cents,
                         .limit_per_user = product->limit_per_user,
                         .opens_ms = product->opens_ms,
                         .ends_ms = product->ends_ms,
                         .segments = product->segments,
                     });
}

static bool remember(struct shelf *shelf, int64_t product_id)
{
    struct recall_cell cell;

    if (shelf->segment == STORE_SEGMENT_ANY ||
        !recall_find_cell(shelf->recall, product_id, shelf->segment, &cell))
        return false;
    shelf->product = (struct store_product){
        .id = product_id,
        .price_cents = cell.price_cents,
        .limit_per_user = cell.limit_per_user,
        .opens_ms = cell.opens_ms,
        .ends_ms = cell.ends_ms,
        .segments = cell.segments,
    };
    shelf->left = cell.stock;
    shelf->cells[0] =
        (struct shelf_cell){.segment = cell.segment, .left = cell.stock};
    shelf->cells_n = 1;
    return true;
}

enum store_status shelf_turn(struct sqlite *db, struct shelf *shelf,
                             int64_t product_id, int64_t segment, bool *found,
                             struct store_error *error)
{
    enum store_status status;

    *found = true;
    if (shelf->product.id == product_id && shelf->segment == segment)
        return STORE_OK;
    status = shelf_flush(db, shelf, error);
    clear(shelf);
    shelf->segment = segment;
    if (status == STORE_OK && !remember(shelf, product_id)) {
        status = load(db, shelf, product_id, error);
        if (status == STORE_OK)
            keep(shelf);
    }
    *found = shelf->product.id != 0;
    return status;
}

/* Nobody touches the other cells while this lasts: one look is enough. */
enum store_status shelf_refusal(struct sqlite *db, struct shelf *shelf,
                                int64_t quantity, enum store_status *answer,
                                struct store_error *error)
{
    enum store_status status = STORE_OK;
    struct sqlite_query *query;

    if (shelf->elsewhere < 0) {
        query = sqlite_query(db, "SELECT SUM(stock) FROM cells "
                                 "WHERE product_id = ?1 AND active "
                                 "AND segment NOT BETWEEN ?2 AND ?3");
        sqlite_bind(query, shelf->product.id, first_of(shelf), last_of(shelf));
        shelf->elsewhere = sqlite_next(query) ? sqlite_int(query, 0) : 0;
        status = sqlite_end(query, error);
    }
    *answer = shelf->left + shelf->elsewhere < quantity ? STORE_SOLD_OUT
                                                        : STORE_SHORT;
    return status;
}

/* ---- taking ------------------------------------------------------------- */

void shelf_take(struct shelf *shelf, int64_t quantity,
                struct store_parts *parts)
{
    struct shelf_cell *cell;
    int64_t units;

    parts->n = 0;
    shelf->left -= quantity;
    for (size_t i = 0; quantity > 0; i++) {
        assert(i < shelf->cells_n);
        cell = &shelf->cells[i];
        units = cell->left < quantity ? cell->left : quantity;
        if (units == 0)
            continue;
        cell->left -= units;
        cell->taken += units;
        quantity -= units;
        parts->parts[parts->n++] =
            (struct store_part){.segment = cell->segment, .units = units};
    }
}

static enum store_status take_units(struct sqlite *db,
                                    const struct shelf *shelf,
                                    struct shelf_cell *cell,
                                    struct store_error *error)
{
    struct sqlite_query *query;
    enum store_status status;
    int64_t changed;

    if (cell->taken == 0)
        return STORE_OK;
    query = sqlite_query(db, "UPDATE cells SET stock = stock - ?3 "
                             "WHERE product_id = ?1 AND segment = ?2 "
                             "AND stock >= ?3");
    sqlite_bind(query, shelf->product.id, cell->segment, cell->taken);
    status = sqlite_end_changes(query, &changed, error);
    cell->taken = 0;
    recall_set_stock(shelf->recall, shelf->product.id, cell->segment,
                     cell->left);
    if (status == STORE_OK && changed != 1)
        return failure_set(error, STORE_IO, "the stock changed meanwhile");
    return status;
}

enum store_status shelf_flush(struct sqlite *db, struct shelf *shelf,
                              struct store_error *error)
{
    enum store_status status = STORE_OK;

    for (size_t i = 0; i < shelf->cells_n && status == STORE_OK; i++)
        status = take_units(db, shelf, &shelf->cells[i], error);
    return status;
}
