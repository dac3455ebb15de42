/*
 * Fencing tokens. See ledger.h for why they are stamped before the read.
 *
 * A lock has one row, with the token that was announced last and its owner. To stamp is
 * to write a higher token there; to check is to look whether the row still says the
 * same. Both take the row's lock, so that of two holders one sees what the other did.
 */
#include "db/ledger/ledger.h"

#include <inttypes.h>
#include <string.h>

bool fence_valid(const struct store_fence *fence, struct store_error *error)
{
    size_t length;

    if (fence_token(fence) == 0)
        return true;
    length = fence->name ? strlen(fence->name) : 0;
    if (length > 0 && length <= STORE_FENCE_NAME_BYTES_MAX &&
        strlen(fence_owner(fence)) <= STORE_FENCE_NAME_BYTES_MAX &&
        /* The database's integers are signed: a larger token would be stored as
         * one below zero, and every later one would pass. */
        fence->token <= INT64_MAX)
        return true;
    failure_text(error,
                 "a fence needs a name of 1 to %d bytes and a token below "
                 "2^63",
                 STORE_FENCE_NAME_BYTES_MAX);
    return false;
}

enum store_status store_fence_floor(struct store_reader *reader,
                                    int64_t product_id, const char *name,
                                    uint64_t *token, struct store_error *error)
{
    struct sql_query *query;
    int64_t last = -1;

    /* The join tells two things in one round trip: no row, there is no such
     * product; token 0, its lock was never announced. */
    query = sql_query(reader->db,
                      "SELECT IFNULL(token, 0) FROM products "
                      "LEFT JOIN fences ON fences.name = ?2 WHERE id = ?1",
                      product_id);
    sql_first(sql_bind_text(query, 2, name), &last);
    *token = last > 0 ? (uint64_t)last : 0;
    if (reader->db->status == STORE_OK && last < 0)
        products_none(reader->db, product_id);
    return read_end(reader, error);
}

#define IS_ANNOUNCED                                                           \
    "token = ?1 AND name = ?2 AND (owner = ?3 OR (owner IS NULL AND ?3 IS "    \
    "NULL))"

/* Whether FENCE is the token that was announced last, by the same owner. Two nodes of a
 * cluster know nothing of each other's locks, so the row is written there; elsewhere a
 * look costs less than a page in the log for each batch. */
static bool is_announced(struct sql *db, const struct store_fence *fence)
{
    struct sql_query *query;
    int64_t found = 0;

    /* The row is locked by either text: a later holder's stamp waits until this
     * transaction is over. */
    query = sql_query(db,
                      db->cluster ? "UPDATE fences SET writes = writes + 1 "
                                    "WHERE " IS_ANNOUNCED
                                  : "SELECT 1 FROM fences "
                                    "WHERE " IS_ANNOUNCED " " SQL_FOR_UPDATE,
                      (int64_t)fence->token);
    sql_bind_text(query, 2, fence->name);
    sql_bind_text(query, 3, fence_owner(fence));
    sql_first(query, &found);
    return found || (db->cluster && db->changed > 0);
}

static enum store_status stale(struct sql *db, const struct store_fence *fence)
{
    struct sql_query *query =
        sql_query(db, "SELECT token FROM fences WHERE name = ?1");
    int64_t last = 0;

    /* The token of now is asked for only for the text: the refusal stands
     * already. */
    if (sql_first(sql_bind_text(query, 1, fence->name), &last) != STORE_OK)
        return db->status;
    return sql_fail(db, STORE_STALE_FENCE,
                    "token %" PRIu64 " came, %" PRId64 " was announced last%s",
                    fence->token, last,
                    (uint64_t)last == fence->token ? " by another" : "");
}

enum store_status fence_stamp(struct sql *db, const struct store_fence *fence)
{
    struct sql_query *query;

    /* A holder that keeps its lock stamps once, and is only looked up from then
     * on. */
    if (fence_token(fence) == 0 || is_announced(db, fence))
        return db->status;
    query = sql_query(db, db->engine->words.announce, (int64_t)fence->token);
    sql_bind_text(query, 2, fence->name);
    sql_bind_text(query, 3, fence_owner(fence));
    sql_finish(query);
    /* The word writes only a higher token: if no row has changed, a later
     * holder's stands there. */
    return db->changed == 0 ? stale(db, fence) : db->status;
}

enum store_status fence_check(struct sql *db, const struct store_fence *fence)
{
    if (fence_token(fence) == 0)
        return db->status;
    /* The wrong way of the lab: the token is announced by the write itself,
     * after the read that it should have guarded. */
    if (fence->late)
        return fence_stamp(db, fence);
    return is_announced(db, fence) ? db->status : stale(db, fence);
}
