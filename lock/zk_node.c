/*
 * The nodes of a session: making sure of them, holding, deleting, losing them.
 *
 * Why a delete needs no question "is it still mine?" before it: it is sent in
 * the session that made the node. As long as that lives, the node is ours; once
 * it has ended, the server refuses whatever comes in its name. A pause between
 * question and delete can do no harm, because there is no question.
 */
#include "lock/zk_node.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/error.h"

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

void dlock_zk_node_forget(struct dlock_session *session,
                          struct dlock_zk_node *node)
{
    struct dlock_zk_own *own = own_of(session);
    struct dlock_zk_node **link = &own->nodes;

    (void)pthread_mutex_lock(&own->mutex);
    while (*link != node)
        link = &(*link)->next;
    *link = node->next;
    (void)pthread_mutex_unlock(&own->mutex);
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

/* Where a node stays behind and nothing is held, the session has to go. */
static void end_if_idle(struct dlock_session *session)
{
    const struct dlock_zk_node *node = own_of(session)->nodes;

    while (node != NULL && !(node->state == DLOCK_ZK_NODE_HELD &&
                             dlock_zk_node_is_live(session, node)))
        node = node->next;
    if (node == NULL)
        dlock_zk_drop(own_of(session)->zk);
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
    if (kind_of(session)->find(session, attempt, node, error) == DLOCK_OK &&
        node->found)
        return DLOCK_OK;
    set_state(session, node, DLOCK_ZK_NODE_GIVEN);
    end_if_idle(session);
    return DLOCK_UNKNOWN;
}

/*
 * DLOCK_OK: there was one, and it is deleted. DLOCK_LOST: there is none. To ask
 * twice is safe, so a delete without an answer is sent again, while there is
 * time; that the node is gone then is no loss.
 */
static enum dlock_status delete_node(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     struct dlock_zk_node *node,
                                     struct dlock_error *error)
{
    struct dlock_zk_command command = {.verb = DLOCK_ZK_DELETE,
                                       .step = "delete",
                                       .path = node->path,
                                       .session = node->session};
    enum dlock_status status = DLOCK_OK;
    struct dlock_zk_reply reply;
    int sends = 0;

    reply.answer = DLOCK_ZK_DONE;
    if (!node->found)
        status = kind_of(session)->find(session, attempt, node, error);
    if (status != DLOCK_OK || !node->found)
        return status == DLOCK_OK ? DLOCK_LOST : status;
    do {
        status = dlock_zk_run(session, attempt, &command, &reply, error);
        sends++;
    } while (status == DLOCK_UNKNOWN && sends < SENDS_MAX);
    if (status == DLOCK_OK && reply.answer == DLOCK_ZK_NONE && sends == 1)
        return DLOCK_LOST;
    return status == DLOCK_UNREACHABLE && sends > 1 ? DLOCK_UNKNOWN : status;
}

enum dlock_status dlock_zk_node_give(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     struct dlock_zk_node *node,
                                     struct dlock_error *error)
{
    bool again = node->state == DLOCK_ZK_NODE_GIVEN;
    enum dlock_status status = DLOCK_LOST;

    set_state(session, node, DLOCK_ZK_NODE_GIVEN);
    if (dlock_zk_node_is_live(session, node))
        status = delete_node(session, attempt, node, error);
    else
        dlock_zk_bury(own_of(session)->zk);
    if (status == DLOCK_OK || status == DLOCK_LOST) {
        dlock_zk_node_forget(session, node);
        return again ? DLOCK_OK : status;
    }
    end_if_idle(session);
    return status;
}

/* A release in doubt finds its node as given, and says done when it is gone. */
enum dlock_status dlock_zk_release(struct dlock_session *session,
                                   const struct dlock_attempt *attempt,
                                   struct dlock_error *error)
{
    struct dlock_zk_node *node =
        dlock_zk_node_of(session, attempt->name, DLOCK_ZK_NODE_HELD);

    if (node == NULL)
        node = dlock_zk_node_of(session, attempt->name, DLOCK_ZK_NODE_GIVEN);
    if (node == NULL)
        return DLOCK_LOST;
    return dlock_zk_node_give(session, attempt, node, error);
}

void dlock_zk_sweep(struct dlock_session *session,
                    const struct dlock_attempt *attempt)
{
    struct dlock_zk_node *node = own_of(session)->nodes;

    while (node != NULL) {
        struct dlock_zk_node *next = node->next;
        struct dlock_attempt old = {.name = node->name,
                                    .limit_ms = attempt->limit_ms};

        if (node->state == DLOCK_ZK_NODE_GIVEN)
            (void)dlock_zk_node_give(session, &old, node, NULL);
        node = next;
    }
}
