/*
 * zk-fair: a queue in ZooKeeper, one ephemeral sequential node per waiter. The lowest number
 * has the lock; every other watches the one before it, and only that one. So a release wakes
 * one waiter, and the right one.
 *
 * Guarantees: what zk does (X2 C P R W); first come, first served (F); with an ensemble of
 * servers, the loss of some (M); and a fencing token (S).
 *
 * Does not guarantee: re-entry (N); anything to a holder that does not hand its token to the
 * resource: two can meet as with any lease, see lock_zk.c.
 *
 * Faults that are easily made:
 *
 *   The lost reply. A create that got no answer may have made a node; another one would
 *   queue up behind it, and the first would block everybody until the session ends. So the
 *   name carries owner and attempt, "OWNER:17:", and a caller without an answer looks for it.
 *
 *   The wake-up after death. A session may expire while its waiter sleeps; its node is gone.
 *   After each wake-up the queue is read anew, and a waiter that has gone from it queues up
 *   again.
 *
 *   The token. The numbers begin at 0 again when an empty directory has been removed. A
 *   node's creation has a number of its own, its czxid, which rises as long as ZooKeeper
 *   keeps its data. Where that is behind the resource's last token, a counter in the
 *   directory goes on from there.
 */
#include "lock/zookeeper/zk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char counter[] = "fence";

/* Rounds in which somebody else may have counted in between. */
enum { TRIES_MAX = 4 };

/* The queue ------------------------------------------------------------------- */

/* The directory's children in their order, the holder first. A child is called
 * "OWNER:ATTEMPT:NUMBER"; the counter has no colon, and no place. */
struct queue {
    struct dlock_zk_reply reply; /* to be released */
    size_t places_n;
    bool counted; /* tokens come from the counter */
};

static uint64_t number_of(const char *child)
{
    const char *colon = strrchr(child, ':');

    return colon == NULL ? UINT64_MAX : strtoull(colon + 1, NULL, 10);
}

static int by_number(const void *a, const void *b)
{
    uint64_t first = number_of(*(char *const *)a);
    uint64_t second = number_of(*(char *const *)b);

    return (first > second) - (first < second);
}

/* In session IN of ZooKeeper, or with 0 in any. The server lists them in no order; it
 * is in the numbers that it has put behind the names. */
static enum dlock_status read_queue(const struct dlock_attempt *attempt,
                                    uint64_t in, struct queue *queue)
{
    const struct dlock_zk_command list = {
        .verb = DLOCK_ZK_CHILDREN, .step = "children", .session = in};
    enum dlock_status status = dlock_zk_do(attempt, &list, &queue->reply);
    char **children = queue->reply.children;
    size_t n = queue->reply.children_n;

    if (n > 1)
        qsort(children, n, sizeof(*children), by_number);
    queue->counted = false;
    /* Children without a number are at the end now: the counter, and what strangers may
     * have put there. */
    for (; n > 0 && number_of(children[n - 1]) == UINT64_MAX; n--)
        queue->counted |= strcmp(children[n - 1], counter) == 0;
    queue->places_n = n;
    return status;
}

static enum dlock_status find(const struct dlock_attempt *attempt,
                              struct dlock_zk_node *node)
{
    struct dlock_zk_command get = {.verb = DLOCK_ZK_GET,
                                   .step = "get",
                                   .path = node->path,
                                   .session = node->session};
    struct queue queue;
    struct dlock_zk_reply reply;
    /* GET points to node->path, which is filled from the queue below. */
    enum dlock_status status = read_queue(attempt, node->session, &queue);

    if (status != DLOCK_OK)
        return status;
    /* An empty path says that the name was not in the list. */
    node->path[0] = '\0';
    for (size_t i = 0; i < queue.places_n; i++)
        if (strncmp(queue.reply.children[i], node->tag, strlen(node->tag)) == 0)
            dlock_zk_path(attempt->session, attempt->name,
                          queue.reply.children[i], node->path);
    dlock_zk_reply_release(&queue.reply);
    if (node->path[0] == '\0')
        return DLOCK_OK;
    /* The number of its creation comes with the node, not with its name. */
    status = dlock_zk_do(attempt, &get, &reply);
    node->found = status == DLOCK_OK && reply.answer == DLOCK_ZK_DONE;
    node->zxid = reply.zxid;
    return status;
}

/* DLOCK_OK: it is our turn. DLOCK_BUSY: somebody is before us; if we wait, we shall hear.
 * DLOCK_LOST: we are not in the queue any more. COUNTED: tokens come from the counter. */
static enum dlock_status look(const struct dlock_attempt *attempt,
                              const struct dlock_zk_node *node, bool *counted)
{
    const char *mine = strrchr(node->path, '/') + 1;
    const struct dlock_zk *zk = attempt->session->own;
    struct queue queue;
    enum dlock_status status = read_queue(attempt, 0, &queue);
    size_t at = 0;
    bool live;

    /* The session is looked at after the queue was read: a list that was read in a later
     * session may still show the node of an ended one. */
    (void)pthread_mutex_lock(&zk->client->mutex);
    live = dlock_zk_is_live(zk, node->session);
    (void)pthread_mutex_unlock(&zk->client->mutex);
    while (at < queue.places_n && strcmp(queue.reply.children[at], mine) != 0)
        at++;
    *counted = queue.counted;
    /* A node that is gone, or will be, is no place: the caller queues up again. */
    if (status == DLOCK_OK && (at == queue.places_n || !live))
        status = DLOCK_LOST;
    else if (status == DLOCK_OK && at > 0)
        status =
            attempt->waits
                ? dlock_zk_node_watch(attempt, queue.reply.children[at - 1])
                : DLOCK_BUSY;
    dlock_zk_reply_release(&queue.reply);
    return status;
}

/* Tokens ----------------------------------------------------------------------- */

/*
 * The next token of the counter, for a holder in session IN of ZooKeeper: above its last,
 * and the floor. The counter is a node that is read, and written if it has not changed
 * since. A directory with a counter in it stays, as it is not empty.
 *
 * Only the holder counts, so that there is hardly ever a second one; one that is late is
 * refused by the server, as its session has ended by then. Nor can a token from here be
 * one that was a node's number before: those were all below the floor when the counting
 * began. A write whose answer is lost may have been done: that token is skipped.
 */
static enum dlock_status count(const struct dlock_attempt *attempt, uint64_t in,
                               uint64_t *token)
{
    const struct dlock_zk_command get = {.verb = DLOCK_ZK_GET,
                                         .step = "fence-get",
                                         .child = counter,
                                         .session = in};
    char text[24];
    struct dlock_zk_command set = {
        .step = "fence-set", .child = counter, .data = text, .session = in};
    struct dlock_zk_reply reply;

    for (int i = 0; i < TRIES_MAX; i++) {
        uint64_t last;

        /* A failure here is DLOCK_UNREACHABLE, because nobody has the token: acquire() then
         * leaves the queue. */
        if (dlock_zk_do(attempt, &get, &reply) != DLOCK_OK)
            return DLOCK_UNREACHABLE;
        last = strtoull(reply.text, NULL, 10);
        set.verb = reply.answer == DLOCK_ZK_NONE ? DLOCK_ZK_CREATE_LASTING
                                                 : DLOCK_ZK_SET;
        /* The version makes the write fail if somebody has counted since the read. */
        set.version = reply.version;
        *token =
            (last > attempt->fence_floor ? last : attempt->fence_floor) + 1;
        (void)snprintf(text, sizeof(text), "%" PRIu64, *token);
        if (dlock_zk_do(attempt, &set, &reply) != DLOCK_OK)
            return DLOCK_UNREACHABLE;
        if (reply.answer == DLOCK_ZK_DONE)
            return DLOCK_OK;
    }
    return dlock_error_set(DLOCK_UNREACHABLE,
                           "zookeeper: no token, others count");
}

/* The strategy ------------------------------------------------------------------ */

static enum dlock_status acquire(const struct dlock_attempt *attempt)
{
    struct dlock_session *session = attempt->session;
    struct dlock_zk_node *node =
        /* The node of an earlier try of this wait keeps its place in the queue. */
        dlock_zk_node_of(session, attempt->name, DLOCK_ZK_NODE_WANTED);
    enum dlock_status status = DLOCK_LOST;
    struct dlock_error kept;
    bool counted = false;

    while (status == DLOCK_LOST) {
        if (node == NULL)
            status = dlock_zk_node_make(attempt, true, &node);
        if (node == NULL)
            return status;
        status = look(attempt, node, &counted);
        if (status == DLOCK_LOST) {
            dlock_zk_node_forget(session, node);
            node = NULL;
        }
    }
    /* The node stays in the queue, with a watch on the one before it. */
    if (status == DLOCK_BUSY && attempt->waits)
        return DLOCK_BUSY;
    attempt->grant->token = node->zxid;
    if (status == DLOCK_OK && attempt->fenced &&
        /* Once a counter is there, all tokens come from it: a node's own number may be
         * below the last that was counted. */
        (counted || node->zxid <= attempt->fence_floor))
        status = count(attempt, node->session, &attempt->grant->token);
    if (status == DLOCK_OK)
        return dlock_zk_node_hold(session, node);
    /* A try that came to nothing must not stay in the queue. */
    kept = dlock_error_take();
    (void)dlock_zk_node_give(attempt, node);
    dlock_error_put(&kept);
    return status == DLOCK_UNKNOWN ? DLOCK_UNREACHABLE : status;
}

static void give_up(const struct dlock_attempt *attempt)
{
    struct dlock_zk_node *node =
        dlock_zk_node_of(attempt->session, attempt->name, DLOCK_ZK_NODE_WANTED);

    if (node != NULL)
        (void)dlock_zk_node_give(attempt, node);
}

static enum dlock_status inspect(const struct dlock_attempt *attempt,
                                 struct dlock_holder *holder)
{
    struct queue queue;
    enum dlock_status status = read_queue(attempt, 0, &queue);

    if (queue.places_n > 0) {
        holder->held = true;
        dlock_zk_node_owner(queue.reply.children[0], holder->owner);
    }
    dlock_zk_reply_release(&queue.reply);
    return status;
}

static enum dlock_status waiters(const struct dlock_attempt *attempt,
                                 struct dlock_waiting waiting[], size_t n_max,
                                 size_t *n)
{
    struct queue queue;
    enum dlock_status status = read_queue(attempt, 0, &queue);

    /* The first place is the holder's. */
    *n = queue.places_n > 0 ? queue.places_n - 1 : 0;
    for (size_t i = 0; i < *n && i < n_max; i++)
        dlock_zk_node_owner(queue.reply.children[i + 1], waiting[i].owner);
    dlock_zk_reply_release(&queue.reply);
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
    DLOCK_ZK_FUNCTIONS,
};
