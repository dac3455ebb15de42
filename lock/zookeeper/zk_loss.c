/*
 * How the holder of a node comes to know that it has gone: its session is over,
 * or somebody else has deleted it. Nobody tells of that; so the keeper looks,
 * as often as a watchdog renews leases.
 *
 * Losses are found on three threads: the guard's, the keeper's, the library's. They
 * are noted at the node, and the guard alone tells of them, when it is at nothing. For
 * the hook is the program's: it may want a mutex that is held by whoever closes the
 * session, and so waits for those threads.
 */
#include "lock/zookeeper/zk_node.h"

#include <stdio.h>
#include <string.h>

#include "lock/core/session.h"

static bool is_held(const struct dlock_zk_node *node)
{
    return node->state == DLOCK_ZK_NODE_HELD && !node->lost;
}

/* With the mutex: the node by which ATTEMPT holds something, or NULL. */
static struct dlock_zk_node *held_by(struct dlock_zk_own *own, uint64_t attempt)
{
    struct dlock_zk_node *node = own->nodes;

    while (node != NULL && !(is_held(node) && node->attempt == attempt))
        node = node->next;
    return node;
}

/* A grant that was given back is over, too. */
uint64_t dlock_zk_remaining(const struct dlock_session *session,
                            const struct dlock_grant *grant)
{
    struct dlock_zk_own *own = session->own;
    const struct dlock_zk_node *node;
    uint64_t left_ms = 0;

    (void)pthread_mutex_lock(&own->mutex);
    node = held_by(own, grant->attempt);
    if (node != NULL)
        left_ms = dlock_zk_left_ms(own->zk, node->session);
    (void)pthread_mutex_unlock(&own->mutex);
    return left_ms;
}

/* With the mutex: no more than once for each node. */
static void lose(struct dlock_zk_node *node, enum dlock_loss why)
{
    node->lost = true;
    node->untold = true;
    node->why = why;
}

/* On any thread: the session is over, and all that it held; the next one may
 * hold something already. */
void dlock_zk_nodes_lost(void *ctx, uint64_t session, enum dlock_loss why)
{
    struct dlock_zk_own *own = ctx;

    (void)pthread_mutex_lock(&own->mutex);
    for (struct dlock_zk_node *node = own->nodes; node != NULL;
         node = node->next)
        if (is_held(node) && node->session == session)
            lose(node, why);
    (void)pthread_mutex_unlock(&own->mutex);
    dlock_zk_nudge_guard(own->session);
}

/* A grant that was given back meanwhile is off the list: its release has said so. */
bool dlock_zk_next_untold(struct dlock_zk_own *own, struct dlock_zk_loss *loss)
{
    struct dlock_zk_node *node;

    (void)pthread_mutex_lock(&own->mutex);
    node = own->nodes;
    while (node != NULL && !node->untold)
        node = node->next;
    if (node != NULL) {
        node->untold = false;
        loss->why = node->why;
        memcpy(loss->name, node->name, sizeof(loss->name));
        memcpy(loss->owner, own->session->owner, sizeof(loss->owner));
    }
    (void)pthread_mutex_unlock(&own->mutex);
    return node != NULL;
}

/* Copies the youngest held node that is older than ATTEMPT; they are listed in
 * this order. */
static bool next_held(struct dlock_zk_own *own, uint64_t attempt,
                      struct dlock_zk_node *held)
{
    const struct dlock_zk_node *node;

    (void)pthread_mutex_lock(&own->mutex);
    node = own->nodes;
    while (node != NULL && !(is_held(node) && node->attempt < attempt))
        node = node->next;
    if (node != NULL)
        *held = *node;
    (void)pthread_mutex_unlock(&own->mutex);
    return node != NULL;
}

/* DLOCK_LOST: it is not there, or it is another one. */
static enum dlock_status look_at(struct dlock_zk_own *own,
                                 const struct dlock_zk_node *held)
{
    struct dlock_zk_command command = {.verb = DLOCK_ZK_GET,
                                       .step = "still-there",
                                       .by = "keeper",
                                       .path = held->path,
                                       .session = held->session};
    struct dlock_attempt attempt = {
        .name = held->name,
        .limit_ms = dlock_session_limit(own->session, 1, 0)};
    struct dlock_zk_reply reply;
    enum dlock_status status =
        dlock_zk_run(own->session, &attempt, &command, &reply, NULL);

    if (status != DLOCK_OK)
        return DLOCK_UNKNOWN;
    return reply.answer == DLOCK_ZK_DONE && reply.zxid == held->zxid
               ? DLOCK_OK
               : DLOCK_LOST;
}

/* If it is still held, it was not its holder who has deleted it. */
static void lose_forced(struct dlock_zk_own *own,
                        const struct dlock_zk_node *held)
{
    struct dlock_zk_node *node;

    (void)pthread_mutex_lock(&own->mutex);
    node = held_by(own, held->attempt);
    if (node != NULL)
        lose(node, DLOCK_LOSS_FORCED);
    (void)pthread_mutex_unlock(&own->mutex);
    dlock_zk_nudge_guard(own->session);
}

/* Where the server does not answer, there is no use in asking on. */
void dlock_zk_look_after(struct dlock_zk_own *own)
{
    struct dlock_zk_node held = {.attempt = UINT64_MAX};
    enum dlock_status status = DLOCK_OK;

    while (status != DLOCK_UNKNOWN && next_held(own, held.attempt, &held)) {
        status = look_at(own, &held);
        if (status == DLOCK_LOST)
            lose_forced(own, &held);
    }
}
