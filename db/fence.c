/*
 * Fencing tokens. See fence.h for why they are stamped before the read.
 */
#include "db/fence.h"
#include "db/failure.h"

#include <inttypes.h>
#include <string.h>

bool fence_given(const struct store_fence *fence)
{
    return fence && fence->token > 0;
}

uint64_t fence_token(const struct store_fence *fence)
{
    return fence ? fence->token : 0;
}

bool fence_valid(const struct store_fence *fence, struct store_error *error)
{
    size_t length;

    if (!fence_given(fence))
        return true;
    length = fence->name ? strlen(fence->name) : 0;
    if (length > 0 && length <= STORE_FENCE_NAME_BYTES_MAX &&
        fence->token <= INT64_MAX)
        return true;
    failure_text(error,
                 "a fence needs a name of 1 to %d bytes and a token below 2^63",
                 STORE_FENCE_NAME_BYTES_MAX);
    return false;
}

enum store_status fence_read(struct sqlite *db, const char *name,
                             uint64_t *token, struct store_error *error)
{
    struct sqlite_query *query;

    query = sqlite_query(db, "SELECT token FROM fences WHERE name = ?1");
    sqlite_bind_text(query, 1, name);
    *token = sqlite_next(query) ? (uint64_t)sqlite_int(query, 0) : 0;
    return sqlite_end(query, error);
}

static enum store_status stale(const struct store_fence *fence, uint64_t stored,
                               struct store_error *error)
{
    return failure_set(error, STORE_STALE_FENCE,
                       "token %" PRIu64 " came, %" PRIu64 " was announced last",
                       fence->token, stored);
}

enum store_status fence_stamp(struct sqlite *db,
                              const struct store_fence *fence,
                              struct store_error *error)
{
    struct sqlite_query *query;
    enum store_status status;
    uint64_t stored = 0;
    int64_t changed;

    /* Who keeps a lock over many batches comes with the same token: a look
     * costs less than a page in the log each time. */
    status = fence_read(db, fence->name, &stored, error);
    if (status != STORE_OK || stored == fence->token)
        return status;
    query = sqlite_query(db, "INSERT INTO fences (token, name) VALUES (?1, ?2) "
                             "ON CONFLICT (name) DO UPDATE "
                             "SET token = excluded.token "
                             "WHERE excluded.token > fences.token");
    sqlite_bind(query, (int64_t)fence->token);
    sqlite_bind_text(query, 2, fence->name);
    status = sqlite_end_changes(query, &changed, error);
    if (status == STORE_OK && changed == 0)
        return stale(fence, stored, error);
    return status;
}

enum store_status fence_check(struct sqlite *db,
                              const struct store_fence *fence,
                              struct store_error *error)
{
    enum store_status status;
    uint64_t stored = 0;

    if (!fence_given(fence))
        return STORE_OK;
    status = fence_read(db, fence->name, &stored, error);
    if (status == STORE_OK && stored != fence->token)
        return stale(fence, stored, error);
    return status;
}
