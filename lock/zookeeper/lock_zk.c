/*
 * zk: an ephemeral node of one name in ZooKeeper. To make the node is to take the lock. It
 * lives by its maker's session, so that there is no lease to renew.
 *
 * Guarantees: one holder at a time on any number of hosts (X2), as long as it is heard of;
 * a dead holder is got rid of within the session's timeout (C); only the owner releases (P,
 * R); waiters are told by a watch (W).
 *
 * Does not guarantee: that the hand-over is cheap. All who wait watch the same node, and
 * when it goes, all are woken and ask, and all but one in vain: N waiters cost N*N/2
 * commands to serve. That herd is the failure it is here to show, beside zk-fair. The
 * quickest waiter is first (F). It gives no tokens (S), and a session comes in once only (N).
 *
 * The session's timeout is watchdog_lease_ms. Two holders can meet as with any lease: the
 * server ends a session that it does not hear of, while the holder works on. Neither this
 * lock nor zk-fair can be released by force, so a holder needs not look after its node.
 */
#include "lock/zookeeper/zk.h"

#include <string.h>

#include "lock/dlock_more.h"

/* The node's data says who made it, and by which attempt. */
static enum dlock_status find(const struct dlock_attempt *attempt,
                              struct dlock_zk_node *node)
{
    const struct dlock_zk_command get = {
        .verb = DLOCK_ZK_GET, .step = "get", .session = node->session};
    struct dlock_zk_reply reply;
    enum dlock_status status = dlock_zk_do(attempt, &get, &reply);

    /* A node of that path may be another holder's, or of an earlier attempt of this
     * session. */
    node->found = status == DLOCK_OK && reply.answer == DLOCK_ZK_DONE &&
                  strcmp(reply.text, node->tag) == 0;
    dlock_zk_path(attempt->session, attempt->name, NULL, node->path);
    return status;
}

static enum dlock_status acquire(const struct dlock_attempt *attempt)
{
    struct dlock_zk_node *node;
    enum dlock_status status = dlock_zk_node_make(attempt, false, &node);

    /* The watch is set by the try itself, so that arm() has nothing to ask a server for. */
    if (status == DLOCK_BUSY && attempt->waits)
        return dlock_zk_node_watch(attempt, NULL);
    return status == DLOCK_OK ? dlock_zk_node_hold(attempt->session, node)
                              : status;
}

static enum dlock_status inspect(const struct dlock_attempt *attempt,
                                 struct dlock_holder *holder)
{
    const struct dlock_zk_command get = {.verb = DLOCK_ZK_GET, .step = "get"};
    struct dlock_zk_reply reply;
    enum dlock_status status = dlock_zk_do(attempt, &get, &reply);

    if (status != DLOCK_OK || reply.answer != DLOCK_ZK_DONE)
        return status;
    holder->held = true;
    dlock_zk_node_owner(reply.text, holder->owner);
    return DLOCK_OK;
}

const struct dlock_strategy dlock_strategy_zk = {
    .info = {.name = "zk",
             .claim = "One holder while its ZooKeeper session lives; all who "
                      "wait are woken at once.",
             .capabilities = DLOCK_CAP_REMOTE | DLOCK_CAP_ZK | DLOCK_CAP_OWNER |
                             DLOCK_CAP_WAKE},
    .variant = &(const struct dlock_zk_kind){.root = "/dlock", .find = find},
    .acquire = acquire,
    .inspect = inspect,
    DLOCK_ZK_FUNCTIONS,
};

DLOCK_STRATEGIES(dlock_zk_strategies, zk)
