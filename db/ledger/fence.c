/*
 * Fencing tokens. See ledger.h for why they are stamped before the read.
 */
#include "db/ledger/ledger.h"

#include <inttypes.h>
#include <string.h>

static const char *owner_of(const struct store_fence *fence)
{
    return fence->owner ? fence->owner : "";
}

bool fence_valid(const struct store_fence *fence, struct store_error *error)
{
    size_t length;

    if (fence_token(fence) == 0)
        return true;
    length = fence->name ? strlen(fence->name) : 0;
    if (length > 0 && length <= STORE_FENCE_NAME_BYTES_MAX &&
        strlen(owner_of(fence)) <= STORE_FENCE_NAME_BYTES_MAX &&
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
    struct sqlite_query *query;
    enum store_status status;
    int64_t last = -1;

    query = sqlite_query(reader->db,
                         "SELECT IFNULL(token, 0) FROM products "
                         "LEFT JOIN fences ON fences.name = ?2 WHERE id = ?1",
                         product_id);
    sqlite_bind_text(query, 2, name);
    status = sqlite_first(query, &last);
    *token = last > 0 ? (uint64_t)last : 0;
    if (status == STORE_OK && last < 0)
        status = products_none(reader->db, product_id);
    return read_end(reader, status, error);
}

/* The token announced last, and whether that is FENCE, of the same owner. */
static enum store_status look(struct sqlite *db,
                              const struct store_fence *fence, uint64_t *last,
                              bool *announced)
{
    struct sqlite_query *query;
    enum store_status status;
    int64_t token = 0, same_owner = 0;

    query = sqlite_query(db, "SELECT token, owner IS ?2 FROM fences "
                             "WHERE name = ?1");
    sqlite_bind_text(query, 1, fence->name);
    sqlite_bind_text(query, 2, owner_of(fence));
    status = sqlite_first(query, &token, &same_owner);
    *last = (uint64_t)token;
    *announced = *last == fence->token && same_owner;
    return status;
}

static enum store_status stale(struct sqlite *db,
                               const struct store_fence *fence, uint64_t last)
{
    return sqlite_fail(
        db, STORE_STALE_FENCE,
        "token %" PRIu64 " came, %" PRIu64 " was announced last%s",
        fence->token, last, last == fence->token ? " by another" : "");
}

/* A lock that is kept over many batches comes with the same token: a look costs
 * less than a page in the log each time. */
enum store_status fence_stamp(struct sqlite *db, struct rows *rows,
                              const struct store_fence *fence)
{
    struct sqlite_query *query;
    enum store_status status;
    uint64_t last;
    bool announced;

    if (fence_token(fence) == 0 || (rows && rows_announced(rows, fence)))
        return STORE_OK;
    status = look(db, fence, &last, &announced);
    if (status == STORE_OK && !announced) {
        query = sqlite_query(db,
                             "INSERT INTO fences (token, name, owner) "
                             "VALUES (?1, ?2, ?3) ON CONFLICT (name) "
                             "DO UPDATE SET token = excluded.token, "
                             "owner = excluded.owner "
                             "WHERE excluded.token > fences.token",
                             (int64_t)fence->token);
        sqlite_bind_text(query, 2, fence->name);
        sqlite_bind_text(query, 3, owner_of(fence));
        status = sqlite_finish(query);
        if (status == STORE_OK && sqlite_changed(db) == 0)
            return stale(db, fence, last);
    }
    if (status == STORE_OK && rows)
        rows_keep_fence(rows, fence);
    return status;
}

enum store_status fence_check(struct sqlite *db,
                              const struct store_fence *fence)
{
    enum store_status status;
    uint64_t last;
    bool announced;

    if (fence_token(fence) == 0)
        return STORE_OK;
    if (fence->late)
        return fence_stamp(db, NULL, fence);
    status = look(db, fence, &last, &announced);
    return status == STORE_OK && !announced ? stale(db, fence, last) : status;
}
