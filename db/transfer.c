/*
 * Moving units between cells. See transfer.h.
 */
#include "db/transfer.h"
#include "db/cells.h"
#include "db/failure.h"
#include "db/now.h"
#include "db/products.h"

#include <inttypes.h>
#include <string.h>

/* ---- a move ------------------------------------------------------------- */

/* UNITS below 0: takes them off, if they are there. */
static enum store_status change_cell(struct sqlite *db, int64_t product_id,
                                     int64_t segment, int64_t units,
                                     struct store_error *error)
{
    struct sqlite_query *query;
    enum store_status status;
    int64_t changed;

    query = sqlite_query(db, "UPDATE cells SET initial = initial + ?3, "
                             "stock = stock + ?3 "
                             "WHERE product_id = ?1 AND segment = ?2 "
                             "AND stock + ?3 >= 0");
    sqlite_bind(query, product_id, segment, units);
    status = sqlite_end_changes(query, &changed, error);
    if (status == STORE_OK && changed != 1)
        return failure_set(error, STORE_MISUSE,
                           "segment %" PRId64 " cannot be changed by %" PRId64
                           " units",
                           segment, units);
    return status;
}

enum store_status transfer_move(struct sqlite *db,
                                const struct transfer_move *move,
                                struct store_error *error)
{
    struct sqlite_query *query;
    enum store_status status;

    status = change_cell(db, move->product_id, move->from, -move->units, error);
    if (status == STORE_OK)
        status =
            change_cell(db, move->product_id, move->to, move->units, error);
    if (status != STORE_OK)
        return status;
    query = sqlite_query(db, "INSERT INTO transfers (product_id, "
                             "from_segment, to_segment, units, created_ms, "
                             "key) VALUES (?1, ?2, ?3, ?4, ?5, ?6)");
    sqlite_bind(query, move->product_id, move->from, move->to, move->units,
                now_ms());
    sqlite_bind_text(query, 6, move->key);
    sqlite_next(query);
    return sqlite_end(query, error);
}

/* ---- by hand ------------------------------------------------------------ */

static bool valid(const struct store_transfer *transfer)
{
    return transfer->units >= 1 && transfer->units <= STORE_NUMBER_MAX &&
           transfer->from != transfer->to && transfer->id[0] != '\0' &&
           memchr(transfer->id, '\0', sizeof(transfer->id)) != NULL;
}

/* Has it been done before? The id of another transfer is refused. */
static enum store_status replay(struct sqlite *db,
                                struct store_transfer *transfer,
                                struct store_error *error)
{
    struct sqlite_query *query;
    enum store_status status;
    bool same = true;

    query = sqlite_query(db, "SELECT units, product_id = ?1 AND "
                             "from_segment = ?2 AND to_segment = ?3 "
                             "FROM transfers WHERE key = ?4");
    sqlite_bind(query, transfer->product_id, transfer->from, transfer->to);
    sqlite_bind_text(query, 4, transfer->id);
    transfer->replayed = sqlite_next(query);
    if (transfer->replayed) {
        transfer->moved = sqlite_int(query, 0);
        same = sqlite_int(query, 1) != 0;
    }
    status = sqlite_end(query, error);
    if (status == STORE_OK && !same)
        return failure_set(error, STORE_KEY_REUSED,
                           "the id belongs to another transfer");
    return status;
}

/* What of UNITS the one cell has, if the other is in use. */
static enum store_status look(struct sqlite *db,
                              struct store_transfer *transfer,
                              struct store_error *error)
{
    struct sqlite_query *query;
    enum store_status status;
    bool found;

    query = sqlite_query(db, "SELECT MIN(a.stock, ?4) FROM cells AS a "
                             "JOIN cells AS b USING (product_id) "
                             "WHERE a.product_id = ?1 AND a.segment = ?2 "
                             "AND b.segment = ?3 AND b.active");
    sqlite_bind(query, transfer->product_id, transfer->from, transfer->to,
                transfer->units);
    found = sqlite_next(query);
    transfer->moved = found ? sqlite_int(query, 0) : 0;
    status = sqlite_end(query, error);
    if (status == STORE_OK && !found)
        return failure_set(error, STORE_RANGE,
                           "product %" PRId64 " has no segment %" PRId64
                           ", or %" PRId64 " is not in use",
                           transfer->product_id, transfer->from, transfer->to);
    return status;
}

static enum store_status carry_out(struct sqlite *db,
                                   const struct store_transfer *transfer,
                                   struct store_error *error)
{
    const struct transfer_move move = {.product_id = transfer->product_id,
                                       .from = transfer->from,
                                       .to = transfer->to,
                                       .units = transfer->moved,
                                       .key = transfer->id};
    enum store_status status = transfer_move(db, &move, error);

    /* One that found nothing is on record too: a late copy of it must not find
     * more. */
    if (status == STORE_OK && move.units > 0)
        status = cells_raise_epoch(db, move.product_id, 0, error);
    return status;
}

enum store_status transfer_run(struct sqlite *db, void *transfer,
                               struct store_error *error)
{
    struct store_transfer *work = transfer;
    struct store_product product;
    enum store_status status;

    if (!valid(work))
        return failure_set(error, STORE_RANGE,
                           "a transfer needs an id of 1 to %d bytes, 1 to "
                           "2^53-1 units and two segments",
                           STORE_KEY_BYTES_MAX);
    status = products_get(db, work->product_id, &product, error);
    if (status == STORE_OK)
        status = replay(db, work, error);
    if (status != STORE_OK || work->replayed)
        return status;
    status = look(db, work, error);
    return status == STORE_OK ? carry_out(db, work, error) : status;
}
