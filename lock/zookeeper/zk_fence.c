/*
 * The counter of fencing tokens: a node that is read, and written if it has not
 * changed since.
 *
 * Only the holder counts, so that there is hardly ever a second one; one that
 * is late is refused by the server, as its session has ended by then. Nor can a
 * token from here be one that was a node's number before: those were all below
 * the floor when the counting began.
 */
#include "lock/zookeeper/zk_fence.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/error.h"
#include "lock/zookeeper/zk_node.h"

static const char counter[] = "fence";

enum { TRIES_MAX = 4 };

bool dlock_zk_fence_counts(const struct dlock_zk_reply *directory)
{
    for (size_t i = 0; i < directory->children_n; i++)
        if (strcmp(directory->children[i], counter) == 0)
            return true;
    return false;
}

/* One round: DLOCK_BUSY if somebody else has written in between. */
static enum dlock_status count(struct dlock_session *session,
                               const struct dlock_attempt *attempt,
                               const char *path, uint64_t *token,
                               struct dlock_error *error)
{
    struct dlock_zk_command get = {
        .verb = DLOCK_ZK_GET, .step = "fence-get", .path = path};
    struct dlock_zk_command set = {
        .verb = DLOCK_ZK_SET, .step = "fence-set", .path = path};
    struct dlock_zk_reply reply;
    enum dlock_status status =
        dlock_zk_run(session, attempt, &get, &reply, error);
    uint64_t last = attempt->fence_floor;
    char text[24];

    if (status != DLOCK_OK)
        return status;
    if (reply.answer == DLOCK_ZK_NONE)
        set.verb = DLOCK_ZK_CREATE_LASTING;
    else if (strtoull(reply.text, NULL, 10) > last)
        last = strtoull(reply.text, NULL, 10);
    set.version = reply.version;
    set.data = text;
    *token = last + 1;
    (void)snprintf(text, sizeof(text), "%" PRIu64, *token);
    status = dlock_zk_run(session, attempt, &set, &reply, error);
    return status == DLOCK_OK && reply.answer != DLOCK_ZK_DONE ? DLOCK_BUSY
                                                               : status;
}

/* A write whose answer is lost may have been done: that token is skipped. */
enum dlock_status dlock_zk_fence_count(struct dlock_session *session,
                                       const struct dlock_attempt *attempt,
                                       uint64_t *token,
                                       struct dlock_error *error)
{
    char path[DLOCK_ZK_PATH_BYTES_MAX + 1];
    enum dlock_status status = DLOCK_BUSY;
    size_t len;

    dlock_zk_path(session, attempt->name, path);
    len = strlen(path);
    (void)snprintf(path + len, sizeof(path) - len, "/%s", counter);
    for (int i = 0; status == DLOCK_BUSY && i < TRIES_MAX; i++)
        status = count(session, attempt, path, token, error);
    if (status == DLOCK_OK)
        return DLOCK_OK;
    if (status == DLOCK_BUSY)
        (void)dlock_error_set(error, status,
                              "zookeeper: no token, others count");
    return DLOCK_UNREACHABLE;
}
