/*
 * The nodes of a session: making sure of them, holding, deleting, losing them.
 *
 * Why a delete needs no question "is it still mine?" before it: it is sent in
 * the session that made the node. As long as that lives, the node is ours; once
 * it has ended, the server refuses whatever comes in its name. A pause between
 * question and delete can do no harm, because there is no question. But a delete that
 * got no answer may have let somebody else in, who has the same path if it is shared:
 * so the node is looked for, and as long as it is there, nobody but us deletes it.
 */
#include "lock/zookeeper/zk_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/error.h"
#include "lock/zookeeper/zk_left.h"

enum { TRIES_MAX = 3 }; /* to delete a node */

static const struct dlock_zk_kind *kind_of(const struct dlock_session *session)
{
    return session->client->strategy->variant;
}

static struct dlock_zk_own *own_of(const struct dlock_session *session)
{
    return session->own;
}

/* The list ------------------------------------------------------------------- */

struct dlock_zk_node *dlock_zk_node_new(struct dlock_session *session,
                                        const struct dlock_attempt *attempt)
{
    struct dlock_zk_own *own = own_of(session);
    struct dlock_zk_node *node = calloc(1, sizeof(*node));

    if (node == NULL)
        return NULL;
    node->attempt = attempt->number;
    (void)snprintf(node->name, sizeof(node->name), "%s", attempt->name);
    (void)pthread_mutex_lock(&own->mutex);
    node->next = own->nodes;
    own->nodes = node;
    (void)pthread_mutex_unlock(&own->mutex);
    return node;
}

static void take_off(struct dlock_session *session, struct dlock_zk_node *node)
{
    struct dlock_zk_own *own = own_of(session);
    struct dlock_zk_node **link = &own->nodes;

    (void)pthread_mutex_lock(&own->mutex);
    while (*link != node)
        link = &(*link)->next;
    *link = node->next;
    (void)pthread_mutex_unlock(&own->mutex);
}

void dlock_zk_node_forget(struct dlock_session *session,
                          struct dlock_zk_node *node)
{
    take_off(session, node);
    free(node);
}

/* Only this thread changes the list: reading it needs no mutex. */
struct dlock_zk_node *dlock_zk_node_of(const struct dlock_session *session,
                                       const char *name,
                                       enum dlock_zk_node_state state)
{
    struct dlock_zk_node *node = own_of(session)->nodes;

    while (node != NULL &&
           (node->state != state || strcmp(node->name, name) != 0))
        node = node->next;
    return node;
}

bool dlock_zk_node_is_live(const struct dlock_session *session,
                           const struct dlock_zk_node *node)
{
    return dlock_zk_is_live(own_of(session)->zk, node->session);
}

/* Holding and giving ---------------------------------------------------------- */

static void set_state(struct dlock_session *session, struct dlock_zk_node *node,
                      enum dlock_zk_node_state state)
{
    struct dlock_zk_own *own = own_of(session);

    (void)pthread_mutex_lock(&own->mutex);
    node->state = state;
    (void)pthread_mutex_unlock(&own->mutex);
}

/* With the mutex, the end of the session is told either here or to the holder,
 * not to nobody. */
enum dlock_status dlock_zk_node_hold(struct dlock_session *session,
                                     struct dlock_zk_node *node,
                                     struct dlock_error *error)
{
    struct dlock_zk_own *own = own_of(session);
    bool live;

    (void)pthread_mutex_lock(&own->mutex);
    live = dlock_zk_node_is_live(session, node);
    if (live)
        node->state = DLOCK_ZK_NODE_HELD;
    (void)pthread_mutex_unlock(&own->mutex);
    if (live)
        return DLOCK_OK;
    dlock_zk_node_forget(session, node);
    return dlock_error_set(error, DLOCK_UNREACHABLE,
                           "zookeeper: the session has expired");
}

/*
 * A node stays behind. To end the session would take it along, but only if the
 * server is there to be told: while an ensemble elects, it would stay until the
 * session times out.
 */
static void leave_behind(struct dlock_session *session,
                         struct dlock_zk_node *node)
{
    set_state(session, node, DLOCK_ZK_NODE_GIVEN);
    take_off(session, node);
    dlock_zk_left_add(session, node);
}

/* A request that got no answer is either done by now, or never will be. */
static enum dlock_status look_for(struct dlock_session *session,
                                  const struct dlock_attempt *attempt,
                                  struct dlock_zk_node *node,
                                  struct dlock_error *error)
{
    struct dlock_zk_command command = {.verb = DLOCK_ZK_SYNC,
                                       .step = "sync",
                                       .path = kind_of(session)->root,
                                       .session = node->session};
    struct dlock_zk_reply reply;
    enum dlock_status status =
        dlock_zk_run(session, attempt, &command, &reply, error);

    if (status != DLOCK_OK)
        return status;
    return kind_of(session)->find(session, attempt, node, error);
}

enum dlock_status dlock_zk_node_made(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     struct dlock_zk_node *node,
                                     enum dlock_status status,
                                     const struct dlock_zk_reply *reply,
                                     struct dlock_error *error)
{
    node->session = reply->session;
    if (status == DLOCK_OK) {
        node->found = true;
        node->zxid = reply->zxid;
        (void)snprintf(node->path, sizeof(node->path), "%s", reply->text);
        return DLOCK_OK;
    }
    if (status != DLOCK_UNKNOWN) {
        dlock_zk_node_forget(session, node);
        return status;
    }
    if (look_for(session, attempt, node, error) == DLOCK_OK && node->found)
        return DLOCK_OK;
    leave_behind(session, node);
    return DLOCK_UNKNOWN;
}

/* One try. After no answer the path may be somebody else's: the node must be looked
 * for before the next one. */
static enum dlock_status try_delete(struct dlock_session *session,
                                    const struct dlock_attempt *attempt,
                                    struct dlock_zk_node *node, bool *uncertain,
                                    struct dlock_error *error)
{
    struct dlock_zk_command command = {.verb = DLOCK_ZK_DELETE,
                                       .step = "delete",
                                       .path = node->path,
                                       .session = node->session};
    struct dlock_zk_reply reply;
    enum dlock_status status = DLOCK_OK;

    if (!node->found)
        status = look_for(session, attempt, node, error);
    if (status != DLOCK_OK || !node->found)
        return status == DLOCK_OK ? DLOCK_LOST : status;
    status = dlock_zk_run(session, attempt, &command, &reply, error);
    *uncertain = *uncertain || status == DLOCK_UNKNOWN;
    node->found = status != DLOCK_UNKNOWN;
    if (status == DLOCK_OK && reply.answer == DLOCK_ZK_NONE)
        return DLOCK_LOST;
    return status;
}

/* A node that is gone after a delete without an answer is no loss; a session that has
 * ended is one. */
enum dlock_status dlock_zk_node_delete(struct dlock_session *session,
                                       const struct dlock_attempt *attempt,
                                       struct dlock_zk_node *node,
                                       struct dlock_error *error)
{
    enum dlock_status status = DLOCK_UNKNOWN;
    bool uncertain = false;

    for (int i = 0; i < TRIES_MAX && status == DLOCK_UNKNOWN; i++)
        status = try_delete(session, attempt, node, &uncertain, error);
    if (status == DLOCK_LOST && uncertain &&
        dlock_zk_node_is_live(session, node))
        return DLOCK_OK;
    if (status == DLOCK_UNREACHABLE)
        return uncertain ? DLOCK_UNKNOWN : DLOCK_UNREACHABLE;
    return status;
}

enum dlock_status dlock_zk_node_give(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     struct dlock_zk_node *node,
                                     struct dlock_error *error)
{
    enum dlock_status status;

    set_state(session, node, DLOCK_ZK_NODE_GIVEN);
    status = dlock_zk_node_delete(session, attempt, node, error);
    dlock_zk_drop_ended(own_of(session)->zk);
    if (status == DLOCK_OK || status == DLOCK_LOST)
        dlock_zk_node_forget(session, node);
    else
        leave_behind(session, node);
    return status;
}

/* A release without an answer is done when its node has gone, for whatever reason. */
enum dlock_status dlock_zk_release(struct dlock_session *session,
                                   const struct dlock_attempt *attempt,
                                   struct dlock_error *error)
{
    struct dlock_zk_own *own = own_of(session);
    struct dlock_zk_node *node =
        dlock_zk_node_of(session, attempt->name, DLOCK_ZK_NODE_HELD);
    enum dlock_status status = DLOCK_LOST;

    if (node != NULL)
        status = dlock_zk_node_give(session, attempt, node, error);
    else if (dlock_first_number(attempt) == own->unknown_release)
        status = dlock_zk_left_await(session, attempt->name, attempt->limit_ms,
                                     error);
    own->unknown_release =
        status == DLOCK_UNKNOWN || status == DLOCK_UNREACHABLE
            ? dlock_first_number(attempt)
            : 0;
    return status;
}
