/*
 * The cells that a product's stock is split over. See cells.h.
 *
 * There is one way to deal units out, whatever the reason: look at all cells,
 * compute what each should have, and move the difference from those that have
 * too much to those that have too little. A cell beyond the width should have
 * nothing, which is all that retiring one takes.
 */
#include "db/cells.h"
#include "db/failure.h"
#include "db/products.h"
#include "db/transfer.h"

#include <inttypes.h>

/* What the cells have, and how many of them are to share it. */
struct deal {
    int64_t product_id;
    int64_t stock[STORE_SEGMENTS_MAX];
    size_t n; /* rows that there are: cells 0 .. n-1 */
    int64_t total;
    int64_t width;
    bool changed;
};

enum store_status cells_make(struct sqlite *db, int64_t product_id,
                             int64_t segments, struct store_error *error)
{
    enum store_status status = STORE_OK;
    struct sqlite_query *query;

    for (int64_t i = 0; i < segments && status == STORE_OK; i++) {
        query = sqlite_query(db, "INSERT INTO cells (product_id, segment, "
                                 "initial, stock, active) "
                                 "VALUES (?1, ?2, 0, 0, 0) "
                                 "ON CONFLICT DO NOTHING");
        sqlite_bind(query, product_id, i);
        sqlite_next(query);
        status = sqlite_end(query, error);
    }
    return status;
}

enum store_status cells_add(struct sqlite *db, int64_t product_id,
                            int64_t units, struct store_error *error)
{
    struct sqlite_query *query;

    query = sqlite_query(db, "UPDATE cells SET initial = initial + ?2, "
                             "stock = stock + ?2 "
                             "WHERE product_id = ?1 AND segment = 0");
    sqlite_bind(query, product_id, units);
    sqlite_next(query);
    return sqlite_end(query, error);
}

enum store_status cells_raise_epoch(struct sqlite *db, int64_t product_id,
                                    int64_t above, struct store_error *error)
{
    struct sqlite_query *query;

    query = sqlite_query(db, "UPDATE products SET epoch = max(epoch, ?2) + 1 "
                             "WHERE id = ?1");
    sqlite_bind(query, product_id, above);
    sqlite_next(query);
    return sqlite_end(query, error);
}

/* ---- dealing out -------------------------------------------------------- */

static enum store_status look(struct sqlite *db, struct deal *deal,
                              int64_t segments, struct store_error *error)
{
    struct sqlite_query *query;

    query = sqlite_query(db, "SELECT stock FROM cells WHERE product_id = ?1 "
                             "ORDER BY segment");
    sqlite_bind(query, deal->product_id);
    while (deal->n < STORE_SEGMENTS_MAX && sqlite_next(query)) {
        deal->stock[deal->n] = sqlite_int(query, 0);
        deal->total += deal->stock[deal->n++];
    }
    deal->width = deal->total < segments ? deal->total : segments;
    if (deal->width < 1)
        deal->width = 1;
    return sqlite_end(query, error);
}

static enum store_status retire(struct sqlite *db, struct deal *deal,
                                struct store_error *error)
{
    struct sqlite_query *query;
    enum store_status status;
    int64_t changed;

    query = sqlite_query(db, "UPDATE cells SET active = (segment < ?2) "
                             "WHERE product_id = ?1 "
                             "AND active <> (segment < ?2)");
    sqlite_bind(query, deal->product_id, deal->width);
    status = sqlite_end_changes(query, &changed, error);
    deal->changed |= changed > 0;
    return status;
}

/* What a cell has too much of; below 0: too little. */
static int64_t surplus(const struct deal *deal, size_t cell)
{
    int64_t at = (int64_t)cell;
    int64_t share =
        deal->total / deal->width + (at < deal->total % deal->width);

    return deal->stock[cell] - (at < deal->width ? share : 0);
}

static enum store_status even_out(struct sqlite *db, struct deal *deal,
                                  struct store_error *error)
{
    enum store_status status = STORE_OK;
    struct transfer_move move;
    size_t from = 0, to = 0;
    int64_t more, less;

    while (status == STORE_OK) {
        while (from < deal->n && surplus(deal, from) <= 0)
            from++;
        while (to < deal->n && surplus(deal, to) >= 0)
            to++;
        /* What one has too much another has too little of: both end at once. */
        if (from == deal->n || to == deal->n)
            break;
        more = surplus(deal, from);
        less = -surplus(deal, to);
        move = (struct transfer_move){.product_id = deal->product_id,
                                      .from = (int64_t)from,
                                      .to = (int64_t)to,
                                      .units = more < less ? more : less,
                                      .key = ""};
        status = transfer_move(db, &move, error);
        deal->stock[from] -= move.units;
        deal->stock[to] += move.units;
        deal->changed = true;
    }
    return status;
}

static enum store_status deal_out(struct sqlite *db, struct deal *deal,
                                  int64_t segments, struct store_error *error)
{
    enum store_status status;

    status = look(db, deal, segments, error);
    if (status == STORE_OK)
        status = retire(db, deal, error);
    if (status == STORE_OK)
        status = even_out(db, deal, error);
    if (status == STORE_OK && deal->changed)
        status = cells_raise_epoch(db, deal->product_id, 0, error);
    return status;
}

enum store_status cells_deal(struct sqlite *db, int64_t product_id,
                             int64_t segments, struct store_error *error)
{
    struct deal deal = {.product_id = product_id};

    return deal_out(db, &deal, segments, error);
}

enum store_status cells_even_out_run(struct sqlite *db, void *even_out,
                                     struct store_error *error)
{
    struct cells_even_out *work = even_out;
    struct deal deal = {.product_id = work->product_id};
    struct store_product product;
    enum store_status status;

    status = products_get(db, work->product_id, &product, error);
    if (status == STORE_OK)
        status = deal_out(db, &deal, product.segments, error);
    work->moved = deal.changed;
    return status;
}

/* ---- giving back -------------------------------------------------------- */

static enum store_status move_on(struct sqlite *db, int64_t product_id,
                                 const struct store_part *part,
                                 struct store_error *error)
{
    struct transfer_move move = {.product_id = product_id,
                                 .from = part->segment,
                                 .units = part->units,
                                 .key = ""};
    struct sqlite_query *query;
    enum store_status status;

    query = sqlite_query(db, "SELECT segment FROM cells "
                             "WHERE product_id = ?1 AND active "
                             "ORDER BY stock, segment LIMIT 1");
    sqlite_bind(query, product_id);
    move.to = sqlite_next(query) ? sqlite_int(query, 0) : move.from;
    status = sqlite_end(query, error);
    return status == STORE_OK ? transfer_move(db, &move, error) : status;
}

enum store_status cells_give_back(struct sqlite *db, int64_t product_id,
                                  const struct store_part *part,
                                  struct store_error *error)
{
    struct sqlite_query *query;
    enum store_status status;
    bool found, active;

    query = sqlite_query(db, "UPDATE cells SET stock = stock + ?3 "
                             "WHERE product_id = ?1 AND segment = ?2 "
                             "RETURNING active");
    sqlite_bind(query, product_id, part->segment, part->units);
    found = sqlite_next(query);
    active = found && sqlite_int(query, 0) != 0;
    status = sqlite_end(query, error);
    if (status != STORE_OK)
        return status;
    if (!found)
        return failure_set(error, STORE_MISUSE, "the order's cell is gone");
    return active ? STORE_OK : move_on(db, product_id, part, error);
}

/* ---- reading ------------------------------------------------------------ */

/* One statement, and so one moment; a product always has a cell in use. */
enum store_status cells_get(struct sqlite *db, int64_t product_id,
                            struct store_cells *cells,
                            struct store_error *error)
{
    struct sqlite_query *query;
    enum store_status status;

    query = sqlite_query(db, "SELECT epoch, segments, "
                             "(SELECT max(number) FROM orders), "
                             "segment, initial, stock "
                             "FROM products JOIN cells ON product_id = id "
                             "WHERE id = ?1 AND active ORDER BY segment");
    sqlite_bind(query, product_id);
    cells->n = 0;
    while (cells->n < STORE_SEGMENTS_MAX && sqlite_next(query)) {
        cells->epoch = sqlite_int(query, 0);
        cells->segments = sqlite_int(query, 1);
        cells->number = sqlite_int(query, 2);
        cells->cells[cells->n++] = (struct store_cell){
            .segment = sqlite_int(query, 3),
            .initial = sqlite_int(query, 4),
            .stock = sqlite_int(query, 5),
        };
    }
    status = sqlite_end(query, error);
    if (status == STORE_OK && cells->n == 0)
        return failure_set(error, STORE_NO_PRODUCT,
                           "there is no product %" PRId64, product_id);
    return status;
}

enum store_status cells_split_list(struct sqlite *db, int64_t after, size_t n,
                                   struct store_split splits[], size_t *n_found,
                                   struct store_error *error)
{
    struct sqlite_query *query;
    size_t found = 0;

    query = sqlite_query(db, "SELECT id, epoch FROM products "
                             "WHERE id > ?1 AND segments > 1 ORDER BY id");
    sqlite_bind(query, after);
    while (found < n && sqlite_next(query))
        splits[found++] = (struct store_split){
            .product_id = sqlite_int(query, 0), .epoch = sqlite_int(query, 1)};
    *n_found = found;
    return sqlite_end(query, error);
}

/* Two statements, and so a transaction around them. */
enum store_status cells_get_all(struct sqlite *db, int64_t product_id,
                                struct store_product *product,
                                struct store_cells *cells,
                                struct store_error *error)
{
    enum store_status status = sqlite_run(db, "BEGIN", error);

    if (status != STORE_OK)
        return status;
    status = products_get(db, product_id, product, error);
    if (status == STORE_OK)
        status = cells_get(db, product_id, cells, error);
    (void)sqlite_rollback(db);
    return status;
}

enum store_status cells_stranded(struct sqlite *db, int64_t *units,
                                 struct store_error *error)
{
    return sqlite_number(db,
                         "SELECT IFNULL(SUM(stock), 0) FROM cells "
                         "WHERE NOT active",
                         units, error);
}

/* ---- a new epoch -------------------------------------------------------- */

enum store_status cells_new_epoch_run(struct sqlite *db, void *new_epoch,
                                      struct store_error *error)
{
    const struct cells_new_epoch *work = new_epoch;
    enum store_status status;

    if (work->above < 0 || work->above >= STORE_NUMBER_MAX)
        return failure_set(error, STORE_RANGE,
                           "there is no epoch above %" PRId64, work->above);
    status = cells_raise_epoch(db, work->product_id, work->above, error);
    if (status == STORE_OK)
        status = cells_get(db, work->product_id, work->cells, error);
    return status;
}
