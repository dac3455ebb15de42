/*
 * The nodes of a session: making sure of them, holding, deleting, losing them.
 *
 * Why a delete needs no question "is it still mine?" before it: it is sent in
 * the session that made the node. As long as that lives, the node is ours; once
 * it has ended, the server refuses whatever comes in its name. A pause between
 * question and delete can do no harm, because there is no question. But two
 * things let somebody else in, who of a shared path has the same: a delete that
 * got no answer, and force. After the one, the node is looked for, and as long
 * as it is there, nobody but us deletes it; against the other there is a guard,
 * see lock_zk.c.
 */
#include "lock/zk_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/error.h"
#include "lock/zk_left.h"

enum { SENDS_MAX = 3 }; /* of one delete */

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
    node->forces = own->forces;
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

static bool holds_any(const struct dlock_session *session)
{
    struct dlock_zk_own *own = own_of(session);
    const struct dlock_zk_node *node;

    (void)pthread_mutex_lock(&own->mutex);
    node = own->nodes;
    while (node != NULL && (node->state != DLOCK_ZK_NODE_HELD || node->lost ||
                            !dlock_zk_node_is_live(session, node)))
        node = node->next;
    (void)pthread_mutex_unlock(&own->mutex);
    return node != NULL;
}

/* A node stays behind. Where nothing is held, the session can go with it. */
static void leave_behind(struct dlock_session *session,
                         struct dlock_zk_node *node)
{
    set_state(session, node, DLOCK_ZK_NODE_GIVEN);
    take_off(session, node);
    if (holds_any(session)) {
        dlock_zk_left_add(session, node);
        return;
    }
    free(node);
    dlock_zk_drop(own_of(session)->zk);
}

/* What was sent and not answered is either done by now, or never will be. */
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

/* DLOCK_OK: it is there. DLOCK_LOST: there is none any more. */
static enum dlock_status make_sure(struct dlock_session *session,
                                   const struct dlock_attempt *attempt,
                                   struct dlock_zk_node *node,
                                   struct dlock_error *error)
{
    enum dlock_status status = DLOCK_OK;

    if (!node->found)
        status = look_for(session, attempt, node, error);
    return status == DLOCK_OK && !node->found ? DLOCK_LOST : status;
}

/*
 * A delete without an answer may have worked, and the path be somebody else's
 * by now. So the node is looked for before the delete is sent again, while there
 * is time; that it is gone then is no loss. The same if the guard says that
 * force was used, on this name or on another.
 */
enum dlock_status dlock_zk_node_delete(struct dlock_session *session,
                                       const struct dlock_attempt *attempt,
                                       struct dlock_zk_node *node,
                                       struct dlock_error *error)
{
    struct dlock_zk_command command = {
        .verb = DLOCK_ZK_DELETE,
        .step = "delete",
        .path = node->path,
        .guard = kind_of(session)->shared ? kind_of(session)->root : NULL,
        .session = node->session};
    struct dlock_zk_reply reply = {.answer = DLOCK_ZK_DONE};
    enum dlock_status status = DLOCK_OK;
    bool doubtful = false;

    for (int sends = 0; sends < SENDS_MAX; sends++) {
        status = make_sure(session, attempt, node, error);
        if (status != DLOCK_OK)
            break;
        command.version = node->forces;
        status = dlock_zk_run(session, attempt, &command, &reply, error);
        doubtful = doubtful || status == DLOCK_UNKNOWN;
        node->found =
            status != DLOCK_UNKNOWN && reply.answer != DLOCK_ZK_CHANGED;
        if (node->found)
            break;
    }
    if (status == DLOCK_OK && reply.answer == DLOCK_ZK_NONE)
        status = DLOCK_LOST;
    if (status == DLOCK_OK && !node->found)
        status = DLOCK_UNREACHABLE;
    if (doubtful && status == DLOCK_LOST)
        return DLOCK_OK;
    return doubtful && status == DLOCK_UNREACHABLE ? DLOCK_UNKNOWN : status;
}

enum dlock_status dlock_zk_node_give(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     struct dlock_zk_node *node,
                                     struct dlock_error *error)
{
    enum dlock_status status;

    set_state(session, node, DLOCK_ZK_NODE_GIVEN);
    status = dlock_zk_node_delete(session, attempt, node, error);
    dlock_zk_bury(own_of(session)->zk);
    own_of(session)->forces = node->forces;
    if (status == DLOCK_OK || status == DLOCK_LOST)
        dlock_zk_node_forget(session, node);
    else
        leave_behind(session, node);
    return status;
}

/* A release in doubt is done when its node has gone, one way or the other. */
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
    else if (attempt->number == own->unknown_release)
        status = dlock_zk_left_await(session, attempt->name, attempt->limit_ms,
                                     error);
    own->unknown_release =
        status == DLOCK_UNKNOWN || status == DLOCK_UNREACHABLE ? attempt->number
                                                               : 0;
    return status;
}
