/*
 * The list of nodes left behind. The session's thread puts one on, the keeper
 * alone takes it off: so it may walk the list, and wait for answers on the way,
 * without the mutex.
 */
#include "lock/zookeeper/zk_left.h"

#include <stdlib.h>
#include <string.h>

#include "lock/core/clock.h"
#include "lock/core/error.h"
#include "lock/core/session.h"

void dlock_zk_left_add(struct dlock_session *session,
                       struct dlock_zk_node *node)
{
    struct dlock_zk_own *own = session->own;

    (void)pthread_mutex_lock(&own->mutex);
    node->next = own->left;
    own->left = node;
    (void)pthread_mutex_unlock(&own->mutex);
    dlock_zk_nudge(session);
}

/* With the mutex. */
static bool is_left(const struct dlock_zk_own *own, const char *name)
{
    const struct dlock_zk_node *node = own->left;

    while (node != NULL && strcmp(node->name, name) != 0)
        node = node->next;
    return node != NULL;
}

enum dlock_status dlock_zk_left_await(struct dlock_session *session,
                                      const char *name, uint64_t until_ms,
                                      struct dlock_error *error)
{
    struct dlock_zk_own *own = session->own;
    bool time_left = true;
    bool left;

    (void)pthread_mutex_lock(&own->mutex);
    while ((left = is_left(own, name)) && time_left)
        time_left = dlock_clock_wait(session->client->clock, &own->cleared,
                                     &own->mutex, until_ms);
    (void)pthread_mutex_unlock(&own->mutex);
    if (!left)
        return DLOCK_OK;
    return dlock_error_set(error, DLOCK_UNKNOWN,
                           "zookeeper: an old node is not known to be deleted");
}

enum dlock_status dlock_zk_left_none(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     struct dlock_error *error)
{
    uint64_t until_ms = dlock_session_limit(session, 1, 0);

    if (attempt->limit_ms < until_ms)
        until_ms = attempt->limit_ms;
    if (dlock_zk_left_await(session, attempt->name, until_ms, error) ==
        DLOCK_OK)
        return DLOCK_OK;
    return DLOCK_UNREACHABLE;
}

static void take_off(struct dlock_zk_own *own, struct dlock_zk_node *node)
{
    struct dlock_zk_node **link = &own->left;

    (void)pthread_mutex_lock(&own->mutex);
    while (*link != node)
        link = &(*link)->next;
    *link = node->next;
    (void)pthread_cond_broadcast(&own->cleared);
    (void)pthread_mutex_unlock(&own->mutex);
    free(node);
}

static bool is_gone(struct dlock_zk_own *own, struct dlock_zk_node *node)
{
    struct dlock_attempt attempt = {
        .name = node->name,
        .limit_ms = dlock_session_limit(own->session, 1, 0)};
    enum dlock_status status =
        dlock_zk_node_delete(own->session, &attempt, node, NULL);

    return status == DLOCK_OK || status == DLOCK_LOST;
}

bool dlock_zk_left_clear(struct dlock_zk_own *own)
{
    struct dlock_zk_node *node;
    struct dlock_zk_node *next;
    bool all = true;

    (void)pthread_mutex_lock(&own->mutex);
    node = own->left;
    (void)pthread_mutex_unlock(&own->mutex);
    for (; node != NULL; node = next) {
        next = node->next;
        if (is_gone(own, node))
            take_off(own, node);
        else
            all = false;
    }
    return all;
}

void dlock_zk_left_forget(struct dlock_zk_own *own)
{
    while (own->left != NULL)
        take_off(own, own->left);
}
