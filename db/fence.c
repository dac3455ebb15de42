/*
 * Fencing tokens. See fence.h for why they are stamped before the read.
 */
#include "db/fence.h"
#include "db/failure.h"

#include <inttypes.h>
#include <string.h>

/* The first in the list that is under a lock that counts. */
static const struct store_fence *first_given(const struct store_fence *fence)
{
    while (fence && fence->token == 0)
        fence = fence->also;
    return fence;
}

bool fence_given(const struct store_fence *fence)
{
    return first_given(fence) != NULL;
}

uint64_t fence_token(const struct store_fence *fence)
{
    return fence && !fence->also ? fence->token : 0;
}

static const char *owner_of(const struct store_fence *fence)
{
    return fence->owner ? fence->owner : "";
}

static bool is_valid(const struct store_fence *fence)
{
    size_t length = fence->name ? strlen(fence->name) : 0;

    return length > 0 && length <= STORE_FENCE_NAME_BYTES_MAX &&
           strlen(owner_of(fence)) <= STORE_FENCE_NAME_BYTES_MAX &&
           fence->token <= INT64_MAX;
}

bool fence_valid(const struct store_fence *fence, struct store_error *error)
{
    for (fence = first_given(fence); fence; fence = first_given(fence->also)) {
        if (is_valid(fence))
            continue;
        failure_text(error,
                     "a fence needs a name of 1 to %d bytes and a token below "
                     "2^63",
                     STORE_FENCE_NAME_BYTES_MAX);
        return false;
    }
    return true;
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

/* What was announced last: the token, and whether by the same owner. */
struct stamp {
    uint64_t token;
    bool ours;
};

static enum store_status read_stamp(struct sqlite *db,
                                    const struct store_fence *fence,
                                    struct stamp *stamp,
                                    struct store_error *error)
{
    struct sqlite_query *query;

    query = sqlite_query(db, "SELECT token, owner IS ?2 FROM fences "
                             "WHERE name = ?1");
    sqlite_bind_text(query, 1, fence->name);
    sqlite_bind_text(query, 2, owner_of(fence));
    *stamp = (struct stamp){0};
    if (sqlite_next(query))
        *stamp = (struct stamp){(uint64_t)sqlite_int(query, 0),
                                sqlite_int(query, 1) != 0};
    return sqlite_end(query, error);
}

static enum store_status stale(const struct store_fence *fence,
                               const struct stamp *last,
                               struct store_error *error)
{
    return failure_set(error, STORE_STALE_FENCE,
                       "token %" PRIu64 " came, %" PRIu64
                       " was announced last%s",
                       fence->token, last->token,
                       last->token == fence->token ? " by another" : "");
}

static bool is_announced(const struct stamp *stamp,
                         const struct store_fence *fence)
{
    return stamp->token == fence->token && stamp->ours;
}

static enum store_status write_stamp(struct sqlite *db,
                                     const struct store_fence *fence,
                                     const struct stamp *last,
                                     struct store_error *error)
{
    struct sqlite_query *query;
    enum store_status status;
    int64_t changed;

    query = sqlite_query(db, "INSERT INTO fences (token, name, owner) "
                             "VALUES (?1, ?2, ?3) "
                             "ON CONFLICT (name) DO UPDATE "
                             "SET token = excluded.token, "
                             "owner = excluded.owner "
                             "WHERE excluded.token > fences.token");
    sqlite_bind(query, (int64_t)fence->token);
    sqlite_bind_text(query, 2, fence->name);
    sqlite_bind_text(query, 3, owner_of(fence));
    status = sqlite_end_changes(query, &changed, error);
    if (status == STORE_OK && changed == 0)
        return stale(fence, last, error);
    return status;
}

/* Who keeps a lock over many batches comes with the same token: a look costs
 * less than a page in the log each time. */
static enum store_status stamp_one(struct sqlite *db,
                                   const struct store_fence *fence,
                                   struct store_error *error)
{
    enum store_status status;
    struct stamp last;

    status = read_stamp(db, fence, &last, error);
    if (status != STORE_OK || is_announced(&last, fence))
        return status;
    return write_stamp(db, fence, &last, error);
}

enum store_status fence_stamp(struct sqlite *db, struct recall *recall,
                              const struct store_fence *fence,
                              struct store_error *error)
{
    enum store_status status = STORE_OK;

    for (fence = first_given(fence); fence && status == STORE_OK;
         fence = first_given(fence->also)) {
        if (recall_is_announced(recall, fence))
            continue;
        status = stamp_one(db, fence, error);
        if (status == STORE_OK)
            recall_keep_fence(recall, fence);
    }
    return status;
}

static enum store_status check_one(struct sqlite *db,
                                   const struct store_fence *fence,
                                   struct store_error *error)
{
    enum store_status status;
    struct stamp last;

    if (fence->late)
        return stamp_one(db, fence, error);
    status = read_stamp(db, fence, &last, error);
    if (status == STORE_OK && !is_announced(&last, fence))
        return stale(fence, &last, error);
    return status;
}

enum store_status fence_check(struct sqlite *db,
                              const struct store_fence *fence,
                              struct store_error *error)
{
    enum store_status status = STORE_OK;

    for (fence = first_given(fence); fence && status == STORE_OK;
         fence = first_given(fence->also))
        status = check_one(db, fence, error);
    return status;
}
