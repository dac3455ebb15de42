/*
 * The nodes of a session: making sure of them, holding, deleting them.
 *
 * A delete needs no question "is it still mine?" before it: it is sent in the
 * session that made the node. As long as that lives, the node is ours; once it has
 * ended, the server refuses all commands in its name. A pause between question and
 * delete can do no harm, because there is no question. But a delete without an
 * answer may have let somebody else in, who has the same path if it is shared: so
 * the node is looked for, and as long as it is there, nobody but us deletes it.
 */
#include "lock/zookeeper/zk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/clock.h"
#include "lock/core/error.h"
#include "lock/core/session.h"

enum { TRIES_MAX = 3 }; /* to delete a node */

void dlock_zk_node_tag(const struct dlock_session *session, uint64_t attempt,
                       char tag[DLOCK_ZK_TAG_BYTES_MAX + 1])
{
    (void)snprintf(tag, DLOCK_ZK_TAG_BYTES_MAX + 1, "%s:%" PRIu64 ":",
                   session->owner, attempt);
}

void dlock_zk_node_owner(const char *tag, char owner[DLOCK_OWNER_BYTES_MAX + 1])
{
    (void)snprintf(owner, DLOCK_OWNER_BYTES_MAX + 1, "%.*s",
                   (int)strcspn(tag, ":"), tag);
}

/* The list ------------------------------------------------------------------- */

/* With the mutex. */
static struct dlock_zk_node *node_of(const struct dlock_zk *zk,
                                     const char *name,
                                     enum dlock_zk_node_state state)
{
    struct dlock_zk_node *node = LIST_FIRST(&zk->nodes);

    while (node != NULL && (node->state != state ||
                            (name != NULL && strcmp(node->name, name) != 0)))
        node = LIST_NEXT(node, link);
    return node;
}

struct dlock_zk_node *dlock_zk_node_of(const struct dlock_session *session,
                                       const char *name,
                                       enum dlock_zk_node_state state)
{
    const struct dlock_zk *zk = session->own;
    struct dlock_zk_node *node;

    (void)pthread_mutex_lock(&zk->client->mutex);
    node = node_of(zk, name, state);
    (void)pthread_mutex_unlock(&zk->client->mutex);
    return node;
}

void dlock_zk_node_forget(struct dlock_session *session,
                          struct dlock_zk_node *node)
{
    struct dlock_zk *zk = session->own;

    (void)pthread_mutex_lock(&zk->client->mutex);
    LIST_REMOVE(node, link);
    (void)pthread_cond_broadcast(&zk->changed);
    (void)pthread_mutex_unlock(&zk->client->mutex);
    free(node);
}

/* Waits until no node is left for NAME, or else DLOCK_UNKNOWN at UNTIL_MS of lease
 * time. */
static enum dlock_status await_cleared(struct dlock_session *session,
                                       const char *name, uint64_t until_ms)
{
    struct dlock_zk *zk = session->own;
    bool time_left = true;
    bool left;

    (void)pthread_mutex_lock(&zk->client->mutex);
    while ((left = node_of(zk, name, DLOCK_ZK_NODE_LEFT) != NULL) && time_left)
        time_left = dlock_clock_wait(session->client->clock, &zk->changed,
                                     &zk->client->mutex, until_ms);
    (void)pthread_mutex_unlock(&zk->client->mutex);
    if (!left)
        return DLOCK_OK;
    return dlock_error_set(DLOCK_UNKNOWN,
                           "zookeeper: an old node is not known to be deleted");
}

/* Making and holding ---------------------------------------------------------- */

/* The keeper's, from here on. */
static void leave_behind(struct dlock_session *session,
                         struct dlock_zk_node *node)
{
    struct dlock_zk_client *client = session->client->own;

    (void)pthread_mutex_lock(&client->mutex);
    node->state = DLOCK_ZK_NODE_LEFT;
    dlock_zk_nudge_workers(client);
    (void)pthread_mutex_unlock(&client->mutex);
}

/* A request that got no answer is either done by now, or never will be. */
static enum dlock_status look_for(const struct dlock_attempt *attempt,
                                  struct dlock_zk_node *node)
{
    const struct dlock_zk_kind *kind =
        attempt->session->client->strategy->variant;
    struct dlock_zk_command sync = {.verb = DLOCK_ZK_SYNC,
                                    .step = "sync",
                                    .path = kind->root,
                                    .session = node->session};
    struct dlock_zk_reply reply;
    enum dlock_status status = dlock_zk_do(attempt, &sync, &reply);

    return status == DLOCK_OK ? kind->find(attempt, node) : status;
}

/*
 * A node that cannot be looked for stays behind. To end the session would take it
 * along, but only if the server is there to be told: while an ensemble elects, it
 * would stay until the session times out.
 */
enum dlock_status dlock_zk_node_make(const struct dlock_attempt *attempt,
                                     bool in_queue, struct dlock_zk_node **node)
{
    struct dlock_session *session = attempt->session;
    char tag[DLOCK_ZK_TAG_BYTES_MAX + 1];
    const struct dlock_zk_command create = {
        .verb = in_queue ? DLOCK_ZK_CREATE_SEQUENTIAL : DLOCK_ZK_CREATE,
        .step = "create",
        .child = in_queue ? tag : NULL,
        .data = tag};
    uint64_t until_ms = dlock_session_limit(session, 1, 0);
    struct dlock_zk *zk = session->own;
    struct dlock_zk_reply reply;
    struct dlock_zk_node *made;
    enum dlock_status status;

    *node = NULL;
    if (attempt->limit_ms < until_ms)
        until_ms = attempt->limit_ms;
    if (await_cleared(session, attempt->name, until_ms) != DLOCK_OK)
        return DLOCK_UNREACHABLE;
    made = calloc(1, sizeof(*made));
    if (made == NULL)
        return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    made->attempt = attempt->number;
    (void)snprintf(made->name, sizeof(made->name), "%s", attempt->name);
    (void)pthread_mutex_lock(&zk->client->mutex);
    LIST_INSERT_HEAD(&zk->nodes, made, link);
    (void)pthread_mutex_unlock(&zk->client->mutex);
    dlock_zk_node_tag(session, attempt->number, tag);
    status = dlock_zk_create(attempt, &create, &reply);
    made->session = reply.session;
    if (status == DLOCK_UNKNOWN && look_for(attempt, made) == DLOCK_OK &&
        made->found) {
        status = DLOCK_OK;
    } else if (status == DLOCK_OK && reply.answer == DLOCK_ZK_DONE) {
        made->found = true;
        made->zxid = reply.zxid;
        (void)snprintf(made->path, sizeof(made->path), "%s", reply.text);
    } else if (status == DLOCK_OK) {
        status = DLOCK_BUSY;
    }
    if (status == DLOCK_OK)
        *node = made;
    else if (status == DLOCK_UNKNOWN)
        leave_behind(session, made);
    else
        dlock_zk_node_forget(session, made);
    return status;
}

enum dlock_status dlock_zk_node_watch(const struct dlock_attempt *attempt,
                                      const char *child)
{
    const struct dlock_zk_command watch = {
        .verb = DLOCK_ZK_WATCH, .step = "watch", .child = child};
    struct dlock_zk *zk = attempt->session->own;
    struct dlock_zk_reply reply;
    enum dlock_status status = dlock_zk_do(attempt, &watch, &reply);

    if (status == DLOCK_UNKNOWN)
        return DLOCK_UNREACHABLE; /* nothing is held for it */
    if (status == DLOCK_OK && reply.answer == DLOCK_ZK_NONE) {
        (void)pthread_mutex_lock(&zk->client->mutex);
        dlock_zk_wake(zk);
        (void)pthread_mutex_unlock(&zk->client->mutex);
    }
    return status == DLOCK_OK ? DLOCK_BUSY : status;
}

/* With the mutex, the end of the session is told either here or to the holder,
 * not to nobody. */
enum dlock_status dlock_zk_node_hold(struct dlock_session *session,
                                     struct dlock_zk_node *node)
{
    const struct dlock_zk *zk = session->own;
    bool live;

    (void)pthread_mutex_lock(&zk->client->mutex);
    live = dlock_zk_is_live(zk, node->session);
    if (live)
        node->state = DLOCK_ZK_NODE_HELD;
    (void)pthread_mutex_unlock(&zk->client->mutex);
    if (live)
        return DLOCK_OK;
    dlock_zk_node_forget(session, node);
    return dlock_error_set(DLOCK_UNREACHABLE,
                           "zookeeper: the session has expired");
}

/* A grant that was given back is over, too. */
uint64_t dlock_zk_node_remaining(const struct dlock_session *session,
                                 const struct dlock_grant *grant)
{
    const struct dlock_zk *zk = session->own;
    const struct dlock_zk_node *node;
    uint64_t left_ms = 0;

    (void)pthread_mutex_lock(&zk->client->mutex);
    for (node = LIST_FIRST(&zk->nodes); node != NULL;
         node = LIST_NEXT(node, link))
        if (node->state == DLOCK_ZK_NODE_HELD &&
            node->attempt == grant->attempt)
            left_ms = dlock_zk_left_ms(zk, node->session);
    (void)pthread_mutex_unlock(&zk->client->mutex);
    return left_ms;
}

/* Deleting -------------------------------------------------------------------- */

/*
 * DLOCK_OK: there was one; DLOCK_LOST: there was none any more. After no answer the
 * path may be somebody else's: the node must be looked for before the next try. A node
 * that is gone after that is no loss; a session that has ended is one.
 */
static enum dlock_status delete_node(const struct dlock_attempt *attempt,
                                     struct dlock_zk_node *node)
{
    const struct dlock_zk_command command = {.verb = DLOCK_ZK_DELETE,
                                             .step = "delete",
                                             .path = node->path,
                                             .session = node->session};
    enum dlock_status status = DLOCK_UNKNOWN;
    enum dlock_status gone = DLOCK_LOST; /* if it is not there */
    struct dlock_zk_reply reply;

    for (int i = 0; i < TRIES_MAX && status == DLOCK_UNKNOWN; i++) {
        status = node->found ? DLOCK_OK : look_for(attempt, node);
        if (status == DLOCK_OK && !node->found)
            return gone;
        if (status != DLOCK_OK)
            continue;
        status = dlock_zk_do(attempt, &command, &reply);
        if (status == DLOCK_OK && reply.answer == DLOCK_ZK_NONE)
            return gone;
        if (status == DLOCK_UNKNOWN) {
            gone = DLOCK_OK;
            node->found = false;
        }
    }
    return status == DLOCK_UNREACHABLE && gone == DLOCK_OK ? DLOCK_UNKNOWN
                                                           : status;
}

enum dlock_status dlock_zk_node_give(const struct dlock_attempt *attempt,
                                     struct dlock_zk_node *node)
{
    struct dlock_session *session = attempt->session;
    struct dlock_zk_client *client = session->client->own;
    enum dlock_status status;

    (void)pthread_mutex_lock(&client->mutex);
    node->state = DLOCK_ZK_NODE_GIVEN;
    (void)pthread_mutex_unlock(&client->mutex);
    status = delete_node(attempt, node);
    if (status == DLOCK_OK || status == DLOCK_LOST)
        dlock_zk_node_forget(session, node);
    else
        leave_behind(session, node);
    return status;
}

/* A release without an answer is done when its node has gone, for whatever reason. */
enum dlock_status dlock_zk_node_release(const struct dlock_attempt *attempt)
{
    struct dlock_session *session = attempt->session;
    struct dlock_zk_node *node =
        dlock_zk_node_of(session, attempt->name, DLOCK_ZK_NODE_HELD);
    enum dlock_status status = DLOCK_LOST;

    if (node != NULL)
        status = dlock_zk_node_give(attempt, node);
    else if (attempt->repeats != 0)
        status = await_cleared(session, attempt->name, attempt->limit_ms);
    return status;
}

/* Only the keeper takes off what is left. Where the server does not answer, there is
 * no use in asking on. */
bool dlock_zk_node_clear(struct dlock_zk *zk)
{
    struct dlock_session *session = zk->session;
    struct dlock_zk_node *node;

    while ((node = dlock_zk_node_of(session, NULL, DLOCK_ZK_NODE_LEFT)) !=
           NULL) {
        struct dlock_attempt attempt = {.session = session,
                                        .name = node->name,
                                        .limit_ms =
                                            dlock_session_limit(session, 1, 0)};
        enum dlock_status status = delete_node(&attempt, node);

        if (status != DLOCK_OK && status != DLOCK_LOST)
            return false;
        dlock_zk_node_forget(session, node);
    }
    return true;
}
