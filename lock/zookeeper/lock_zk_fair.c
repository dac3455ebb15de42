/*
 * zk-fair: a queue in ZooKeeper, one ephemeral sequential node per waiter.
 *
 * Everybody puts a node into the lock's directory, and the server numbers them.
 * The lowest number has the lock; every other watches the one before it, and
 * only that one. So a release wakes one waiter, and the right one.
 *
 * Guarantees: what zk does (X2 C P R W); first come, first served (F); with an
 * ensemble of servers, the loss of some (M); and a fencing token (S).
 *
 * Does not guarantee: re-entry (N); anything to a holder that does not hand its
 * token to the resource: two can meet as with any lease, see lock_zk.c.
 *
 * Faults that are easily made:
 *
 *   The lost reply. A create that got no answer may have made a node; another
 *   one would queue up behind it, and the first would block everybody until
 *   the session ends. So the name carries owner and attempt, "OWNER:17:", and
 *   whoever got no answer looks for it.
 *
 *   The wake-up after death. A session may expire while its waiter sleeps; its
 *   node is gone, and what it saw last says nothing. After each wake-up the
 *   queue is read anew, and who is not in it any more has to queue up again.
 *
 *   The token. The numbers begin at 0 again when an empty directory has been
 *   removed. A node's creation has a number of its own, its czxid, which rises
 *   as long as ZooKeeper keeps its data. Where that is behind the resource's
 *   last token, a counter in the directory goes on from there (zk_fence.c).
 */
#include "lock/zookeeper/zk_node.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/error.h"
#include "lock/zookeeper/zk_fence.h"
#include "lock/zookeeper/zk_left.h"
#include "lock/zookeeper/zk_queue.h"

/* In session IN of ZooKeeper, or with 0 in any. */
static enum dlock_status read_queue(struct dlock_session *session,
                                    const struct dlock_attempt *attempt,
                                    uint64_t in, struct dlock_zk_reply *reply,
                                    struct dlock_error *error)
{
    return dlock_zk_ask(session, attempt, DLOCK_ZK_CHILDREN, "children", in,
                        reply, error);
}

/* "/dlock-fair/NAME/CHILD" */
static void path_of(const struct dlock_session *session, const char *name,
                    const char *child, char path[DLOCK_ZK_PATH_BYTES_MAX + 1])
{
    size_t len;

    dlock_zk_path(session, name, path);
    len = strlen(path);
    (void)snprintf(path + len, DLOCK_ZK_PATH_BYTES_MAX + 1 - len, "/%s", child);
}

/* Queueing up ----------------------------------------------------------------- */

/* The number of its creation comes with the node, not with its name. */
static enum dlock_status stat_node(struct dlock_session *session,
                                   const struct dlock_attempt *attempt,
                                   struct dlock_zk_node *node,
                                   struct dlock_error *error)
{
    struct dlock_zk_command command = {.verb = DLOCK_ZK_GET,
                                       .step = "get",
                                       .path = node->path,
                                       .session = node->session};
    struct dlock_zk_reply reply;
    enum dlock_status status =
        dlock_zk_run(session, attempt, &command, &reply, error);

    node->found = status == DLOCK_OK && reply.answer == DLOCK_ZK_DONE;
    node->zxid = reply.zxid;
    return status;
}

static enum dlock_status find(struct dlock_session *session,
                              const struct dlock_attempt *attempt,
                              struct dlock_zk_node *node,
                              struct dlock_error *error)
{
    char tag[DLOCK_ZK_TAG_BYTES_MAX + 1];
    struct dlock_zk_reply queue;
    enum dlock_status status =
        read_queue(session, attempt, node->session, &queue, error);

    if (status != DLOCK_OK)
        return status;
    dlock_zk_tag(session, node->attempt, tag);
    node->path[0] = '\0';
    for (size_t i = 0; i < queue.children_n; i++)
        if (strncmp(queue.children[i], tag, strlen(tag)) == 0)
            path_of(session, attempt->name, queue.children[i], node->path);
    dlock_zk_reply_release(&queue);
    if (node->path[0] == '\0')
        return DLOCK_OK;
    return stat_node(session, attempt, node, error);
}

/* A container: when its last node has gone, the server removes it. */
static enum dlock_status make_queue(struct dlock_session *session,
                                    const struct dlock_attempt *attempt,
                                    struct dlock_error *error)
{
    char path[DLOCK_ZK_PATH_BYTES_MAX + 1];
    struct dlock_zk_command command = {
        .verb = DLOCK_ZK_CREATE_CONTAINER, .step = "make-queue", .path = path};
    struct dlock_zk_reply reply;

    dlock_zk_path(session, attempt->name, path);
    return dlock_zk_run_rooted(session, attempt, &command, &reply, error);
}

static enum dlock_status create(struct dlock_session *session,
                                const struct dlock_attempt *attempt,
                                struct dlock_zk_reply *reply,
                                struct dlock_error *error)
{
    char path[DLOCK_ZK_PATH_BYTES_MAX + 1];
    char tag[DLOCK_ZK_TAG_BYTES_MAX + 1];
    struct dlock_zk_command command = {
        .verb = DLOCK_ZK_CREATE_SEQUENTIAL, .step = "create", .path = path};

    dlock_zk_tag(session, attempt->number, tag);
    path_of(session, attempt->name, tag, path);
    return dlock_zk_run(session, attempt, &command, reply, error);
}

/* The directory may be missing, or be removed just before we come. */
static enum dlock_status enqueue(struct dlock_session *session,
                                 const struct dlock_attempt *attempt,
                                 struct dlock_zk_node **node,
                                 struct dlock_error *error)
{
    struct dlock_zk_reply reply;
    enum dlock_status status;

    *node = dlock_zk_node_new(session, attempt);
    if (*node == NULL)
        return dlock_error_set(error, DLOCK_UNREACHABLE, "out of memory");
    status = create(session, attempt, &reply, error);
    if (status == DLOCK_OK && reply.answer == DLOCK_ZK_NONE) {
        status = make_queue(session, attempt, error);
        /* To make a directory is not to queue up. */
        status = status == DLOCK_UNKNOWN ? DLOCK_UNREACHABLE : status;
        if (status == DLOCK_OK)
            status = create(session, attempt, &reply, error);
    }
    if (status == DLOCK_OK && reply.answer != DLOCK_ZK_DONE)
        status = dlock_error_set(error, DLOCK_UNREACHABLE,
                                 "zookeeper: the queue goes away");
    return dlock_zk_node_made(session, attempt, *node, status, &reply, error);
}

/* Our turn? -------------------------------------------------------------------- */

enum turn {
    TURN_OURS,
    TURN_LATER, /* somebody is before us; if we wait, we shall hear */
    TURN_AGAIN, /* somebody was before us, and is gone */
    TURN_NONE,  /* we are not in the queue any more */
};

struct view {
    enum turn turn;
    bool counted; /* tokens come from the counter, see zk_fence.h */
};

static enum dlock_status watch_place(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     const char *child, enum turn *turn,
                                     struct dlock_error *error)
{
    char path[DLOCK_ZK_PATH_BYTES_MAX + 1];
    struct dlock_zk_command command = {
        .verb = DLOCK_ZK_WATCH, .step = "watch", .path = path};
    struct dlock_zk_reply reply;
    enum dlock_status status;

    path_of(session, attempt->name, child, path);
    status = dlock_zk_run(session, attempt, &command, &reply, error);
    *turn = status == DLOCK_OK && reply.answer == DLOCK_ZK_NONE ? TURN_AGAIN
                                                                : TURN_LATER;
    return status;
}

static enum dlock_status look(struct dlock_session *session,
                              const struct dlock_attempt *attempt,
                              const struct dlock_zk_node *node,
                              struct view *view, struct dlock_error *error)
{
    uint64_t mine = dlock_zk_queue_number(node->path);
    struct dlock_zk_reply queue;
    struct dlock_zk_place before;
    struct dlock_zk_place at;
    enum dlock_status status = read_queue(session, attempt, 0, &queue, error);

    if (status != DLOCK_OK)
        return status;
    before = dlock_zk_queue_before(&queue, mine);
    at = dlock_zk_queue_before(&queue, mine + 1);
    view->turn = TURN_LATER;
    view->counted = dlock_zk_fence_counts(&queue);
    if (at.number != mine || !dlock_zk_node_is_live(session, node))
        view->turn = TURN_NONE;
    else if (before.child == NULL)
        view->turn = TURN_OURS;
    else if (attempt->waits)
        status =
            watch_place(session, attempt, before.child, &view->turn, error);
    dlock_zk_reply_release(&queue);
    return status;
}

/* DLOCK_OK: ours, by NODE. DLOCK_BUSY: in the queue, by NODE. */
static enum dlock_status await_turn(struct dlock_session *session,
                                    const struct dlock_attempt *attempt,
                                    struct dlock_zk_node **node,
                                    struct view *view,
                                    struct dlock_error *error)
{
    enum dlock_status status = DLOCK_OK;

    view->turn = TURN_AGAIN;
    while (status == DLOCK_OK && view->turn != TURN_OURS &&
           view->turn != TURN_LATER) {
        if (*node == NULL)
            status = enqueue(session, attempt, node, error);
        if (status == DLOCK_OK)
            status = look(session, attempt, *node, view, error);
        else
            *node = NULL;
        if (status == DLOCK_OK && view->turn == TURN_NONE) {
            dlock_zk_node_forget(session, *node);
            *node = NULL;
        }
    }
    return status == DLOCK_OK && view->turn == TURN_LATER ? DLOCK_BUSY : status;
}

/* A try that came to nothing must not stay in the queue. */
static enum dlock_status leave(struct dlock_session *session,
                               const struct dlock_attempt *attempt,
                               struct dlock_zk_node *node,
                               enum dlock_status status)
{
    (void)dlock_zk_node_give(session, attempt, node, NULL);
    return status == DLOCK_UNKNOWN ? DLOCK_UNREACHABLE : status;
}

static enum dlock_status acquire(struct dlock_session *session,
                                 const struct dlock_attempt *attempt,
                                 struct dlock_grant *grant, uint64_t *busy_ms,
                                 struct dlock_error *error)
{
    struct dlock_zk_node *node =
        dlock_zk_node_of(session, attempt->name, DLOCK_ZK_NODE_WANTED);
    enum dlock_status status = DLOCK_OK;
    struct view view;

    (void)busy_ms;
    if (node == NULL)
        status = dlock_zk_left_none(session, attempt, error);
    if (status != DLOCK_OK)
        return status;
    status = await_turn(session, attempt, &node, &view, error);
    if (status == DLOCK_BUSY && attempt->waits)
        return DLOCK_BUSY;
    grant->holds = 1;
    grant->token = status == DLOCK_OK ? node->zxid : 0;
    if (status == DLOCK_OK && attempt->fenced &&
        (view.counted || node->zxid <= attempt->fence_floor))
        status = dlock_zk_fence_count(session, attempt, &grant->token, error);
    if (status == DLOCK_OK)
        return dlock_zk_node_hold(session, node, error);
    return node == NULL ? status : leave(session, attempt, node, status);
}

static void give_up(struct dlock_session *session,
                    const struct dlock_attempt *attempt)
{
    struct dlock_zk_node *node =
        dlock_zk_node_of(session, attempt->name, DLOCK_ZK_NODE_WANTED);

    if (node != NULL)
        (void)dlock_zk_node_give(session, attempt, node, NULL);
}

/* Looking ---------------------------------------------------------------------- */

static enum dlock_status inspect(struct dlock_session *session,
                                 const struct dlock_attempt *attempt,
                                 struct dlock_holder *holder,
                                 struct dlock_error *error)
{
    struct dlock_zk_reply queue;
    struct dlock_zk_place first;
    enum dlock_status status = read_queue(session, attempt, 0, &queue, error);

    if (status != DLOCK_OK)
        return status;
    first = dlock_zk_queue_after(&queue, NULL);
    if (first.child != NULL) {
        holder->held = true;
        holder->holds = 1;
        holder->remaining_ms = UINT64_MAX;
        dlock_zk_tag_owner(first.child, holder->owner);
    }
    dlock_zk_reply_release(&queue);
    return DLOCK_OK;
}

static enum dlock_status waiters(struct dlock_session *session,
                                 const struct dlock_attempt *attempt,
                                 struct dlock_waiting waiting[], size_t n_max,
                                 size_t *n, struct dlock_error *error)
{
    struct dlock_zk_reply queue;
    struct dlock_zk_place at;
    enum dlock_status status = read_queue(session, attempt, 0, &queue, error);

    if (status != DLOCK_OK)
        return status;
    *n = 0;
    at = dlock_zk_queue_after(&queue, NULL);
    if (at.child != NULL)
        at = dlock_zk_queue_after(&queue, &at);
    for (; at.child != NULL; at = dlock_zk_queue_after(&queue, &at)) {
        if (*n < n_max)
            dlock_zk_tag_owner(at.child, waiting[*n].owner);
        (*n)++;
    }
    dlock_zk_reply_release(&queue);
    return DLOCK_OK;
}

/* The first in the queue; DLOCK_BUSY: it went by itself, and there is a next. */
static enum dlock_status force_first(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     struct dlock_error *error)
{
    char path[DLOCK_ZK_PATH_BYTES_MAX + 1];
    struct dlock_zk_command command = {
        .verb = DLOCK_ZK_DELETE, .step = "force", .path = path};
    struct dlock_zk_reply reply;
    struct dlock_zk_place first;
    enum dlock_status status = read_queue(session, attempt, 0, &reply, error);

    if (status != DLOCK_OK)
        return status;
    first = dlock_zk_queue_after(&reply, NULL);
    if (first.child != NULL)
        path_of(session, attempt->name, first.child, path);
    else
        status = DLOCK_LOST;
    dlock_zk_reply_release(&reply);
    if (status != DLOCK_OK)
        return status;
    status = dlock_zk_run(session, attempt, &command, &reply, error);
    return status == DLOCK_OK && reply.answer == DLOCK_ZK_NONE ? DLOCK_BUSY
                                                               : status;
}

static enum dlock_status force(struct dlock_session *session,
                               const struct dlock_attempt *attempt,
                               struct dlock_error *error)
{
    enum dlock_status status;

    do
        status = force_first(session, attempt, error);
    while (status == DLOCK_BUSY);
    return status;
}

const struct dlock_strategy dlock_strategy_zk_fair = {
    .info = {.name = "zk-fair",
             .claim = "As zk, first come, first served: a release wakes one "
                      "waiter; grants have a rising token.",
             .capabilities = DLOCK_CAP_REMOTE | DLOCK_CAP_ZK | DLOCK_CAP_OWNER |
                             DLOCK_CAP_WAKE | DLOCK_CAP_FENCED},
    .variant =
        &(const struct dlock_zk_kind){.root = "/dlock-fair", .find = find},
    .acquire = acquire,
    .give_up = give_up,
    .inspect = inspect,
    .waiters = waiters,
    .force = force,
    DLOCK_ZK_FUNCTIONS,
};
