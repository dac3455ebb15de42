/*
 * The nodes of a session: making sure of them, holding, deleting, losing them.
 *
 * Why a delete needs no question "is it still mine?" before it: it is sent in
 * the session that made the node. As long as that lives, the node is ours; once
 * it has ended, the server refuses whatever comes in its name. A pause between
 * question and delete can do no harm, because there is no question. Only after a
 * delete without an answer the node has to be looked for: it may be gone, and
 * somebody else have taken the lock. If it is still there, nobody but us will
 * delete it.
 */
#include "lock/zk_node.h"

#include <inttypes.h>
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

/* Paths and tags ------------------------------------------------------------- */

/* A name is one piece of the path, whatever is in it. */
void dlock_zk_path(const struct dlock_session *session, const char *name,
                   char path[DLOCK_ZK_PATH_BYTES_MAX + 1])
{
    bool only_dots = strspn(name, ".") == strlen(name);
    size_t len = strlen(kind_of(session)->root);

    memcpy(path, kind_of(session)->root, len);
    path[len++] = '/';
    for (; *name != '\0'; name++) {
        if (*name == '/' || *name == '%' || only_dots)
            len += (size_t)sprintf(path + len, "%%%02X", (unsigned)*name);
        else
            path[len++] = *name;
    }
    path[len] = '\0';
}

void dlock_zk_tag(const struct dlock_session *session, uint64_t attempt,
                  char tag[DLOCK_ZK_TAG_BYTES_MAX + 1])
{
    (void)snprintf(tag, DLOCK_ZK_TAG_BYTES_MAX + 1, "%s:%" PRIu64 ":",
                   session->owner, attempt);
}

void dlock_zk_tag_owner(const char *tag, char owner[DLOCK_OWNER_BYTES_MAX + 1])
{
    (void)snprintf(owner, DLOCK_OWNER_BYTES_MAX + 1, "%.*s",
                   (int)strcspn(tag, ":"), tag);
}

/* Commands ------------------------------------------------------------------- */

static struct dlock_zk_own *own_of(const struct dlock_session *session)
{
    return session->own;
}

enum dlock_status dlock_zk_run(struct dlock_session *session,
                               const struct dlock_attempt *attempt,
                               struct dlock_zk_command *command,
                               struct dlock_zk_reply *reply,
                               struct dlock_error *error)
{
    command->name = attempt->name;
    return dlock_zk_do(own_of(session)->zk, command, attempt->limit_ms, reply,
                       error);
}

enum dlock_status dlock_zk_make_root(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     struct dlock_error *error)
{
    struct dlock_zk_command command = {.verb = DLOCK_ZK_CREATE_LASTING,
                                       .step = "make-root",
                                       .path = kind_of(session)->root};
    struct dlock_zk_reply reply;

    return dlock_zk_run(session, attempt, &command, &reply, error);
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

/* What was given back is over, too. A grant is told by its name: a session has
 * but one of each. */
uint64_t dlock_zk_remaining(const struct dlock_session *session,
                            const struct dlock_grant *grant)
{
    struct dlock_zk_own *own = own_of(session);
    const struct dlock_zk_node *node;
    uint64_t left_ms = 0;

    (void)pthread_mutex_lock(&own->mutex);
    node = dlock_zk_node_of(session, grant->name, DLOCK_ZK_NODE_HELD);
    if (node != NULL && !node->lost)
        left_ms = dlock_zk_left_ms(own->zk, node->session);
    (void)pthread_mutex_unlock(&own->mutex);
    return left_ms;
}

/* On any thread: the session is over, and all that it held; the next one may
 * hold something already. */
void dlock_zk_nodes_lost(void *ctx, uint64_t session, enum dlock_loss why)
{
    struct dlock_zk_own *own = ctx;
    struct dlock *client = own->session->client;
    char name[DLOCK_NAME_BYTES_MAX + 1];
    struct dlock_zk_node *node;

    do {
        (void)pthread_mutex_lock(&own->mutex);
        node = own->nodes;
        while (node != NULL && (node->state != DLOCK_ZK_NODE_HELD ||
                                node->lost || node->session != session))
            node = node->next;
        if (node != NULL) {
            node->lost = true;
            memcpy(name, node->name, sizeof(name));
        }
        (void)pthread_mutex_unlock(&own->mutex);
        if (node != NULL && client->on_lost != NULL)
            client->on_lost(client->on_lost_ctx, name, own->session->owner,
                            why);
    } while (node != NULL);
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
    const struct dlock_zk_node *node = own_of(session)->nodes;

    while (node != NULL && !(node->state == DLOCK_ZK_NODE_HELD &&
                             dlock_zk_node_is_live(session, node)))
        node = node->next;
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
 * is time; that it is gone then is no loss.
 */
enum dlock_status dlock_zk_node_delete(struct dlock_session *session,
                                       const struct dlock_attempt *attempt,
                                       struct dlock_zk_node *node,
                                       struct dlock_error *error)
{
    struct dlock_zk_command command = {.verb = DLOCK_ZK_DELETE,
                                       .step = "delete",
                                       .path = node->path,
                                       .session = node->session};
    enum dlock_status status;
    struct dlock_zk_reply reply;
    int sends = 0;

    do {
        status = make_sure(session, attempt, node, error);
        if (status != DLOCK_OK)
            break;
        status = dlock_zk_run(session, attempt, &command, &reply, error);
        node->found = status != DLOCK_UNKNOWN;
        if (status == DLOCK_OK && reply.answer == DLOCK_ZK_NONE)
            status = DLOCK_LOST;
        sends++;
    } while (status == DLOCK_UNKNOWN && sends < SENDS_MAX);
    if (sends == 0 || (sends == 1 && node->found))
        return status;
    if (status == DLOCK_LOST)
        return DLOCK_OK;
    return status == DLOCK_UNREACHABLE ? DLOCK_UNKNOWN : status;
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
