/*
 * zk: an ephemeral node of one name in ZooKeeper.
 *
 * To make the node is to take the lock; the server lets one of several do it.
 * The node lives by its maker's session, so that there is no lease to renew and
 * none to set too short.
 *
 * Guarantees: one holder at a time on any number of hosts (X2), as long as it
 * is heard of; a dead holder is got rid of within the session's timeout (C);
 * only the owner releases (P, R); waiters are told by a watch (W).
 *
 * Does not guarantee: that the hand-over is cheap. All who wait watch the same
 * node, and when it goes, all are woken and ask, and all but one in vain: N
 * waiters cost N*N/2 commands to serve. That herd is the failure it is here to
 * show, beside zk-fair. Who is first is who is quickest (F). It gives no tokens
 * (S), and a session comes in once only (N).
 *
 * It cannot be released by force: all holders use the same path, one after the other,
 * so its maker, who does not know, would delete the next one's.
 *
 * The session's timeout is watchdog_lease_ms. Two holders can meet as with any
 * lease: the server ends a session that it does not hear of, while the holder
 * works on and hears of it when it reaches the server again.
 */
#include "lock/zookeeper/zk_node.h"

#include <stdio.h>
#include <string.h>

#include "lock/core/error.h"
#include "lock/dlock_zk.h"
#include "lock/zookeeper/zk_left.h"

/* How often the node may come and go under our hands in one try. */
enum { ROUNDS_MAX = 3 };

/* The node's data says who made it, and by which attempt. */
static enum dlock_status find(struct dlock_session *session,
                              const struct dlock_attempt *attempt,
                              struct dlock_zk_node *node,
                              struct dlock_error *error)
{
    char tag[DLOCK_ZK_TAG_BYTES_MAX + 1];
    struct dlock_zk_reply reply;
    enum dlock_status status = dlock_zk_ask(
        session, attempt, DLOCK_ZK_GET, "get", node->session, &reply, error);

    dlock_zk_tag(session, node->attempt, tag);
    node->found = status == DLOCK_OK && reply.answer == DLOCK_ZK_DONE &&
                  strcmp(reply.text, tag) == 0;
    if (node->found) {
        node->zxid = reply.zxid;
        dlock_zk_path(session, attempt->name, node->path);
    }
    return status;
}

/* DLOCK_OK: *answer is DONE, and NODE is ours, or EXISTS. */
static enum dlock_status create(struct dlock_session *session,
                                const struct dlock_attempt *attempt,
                                struct dlock_zk_node *node,
                                enum dlock_zk_answer *answer,
                                struct dlock_error *error)
{
    char path[DLOCK_ZK_PATH_BYTES_MAX + 1];
    char tag[DLOCK_ZK_TAG_BYTES_MAX + 1];
    struct dlock_zk_command command = {
        .verb = DLOCK_ZK_CREATE, .step = "create", .path = path, .data = tag};
    struct dlock_zk_reply reply;
    enum dlock_status status;

    dlock_zk_path(session, attempt->name, path);
    dlock_zk_tag(session, attempt->number, tag);
    status = dlock_zk_run_rooted(session, attempt, &command, &reply, error);
    *answer = DLOCK_ZK_EXISTS;
    if (status == DLOCK_OK && reply.answer != DLOCK_ZK_DONE)
        return DLOCK_OK;
    *answer = DLOCK_ZK_DONE;
    return dlock_zk_node_made(session, attempt, node, status, &reply, error);
}

/* DLOCK_BUSY: it is there, and we shall hear when it goes. DLOCK_OK: gone. */
static enum dlock_status watch_holder(struct dlock_session *session,
                                      const struct dlock_attempt *attempt,
                                      struct dlock_error *error)
{
    struct dlock_zk_reply reply;
    enum dlock_status status = dlock_zk_ask(session, attempt, DLOCK_ZK_WATCH,
                                            "watch", 0, &reply, error);

    if (status == DLOCK_UNKNOWN)
        return DLOCK_UNREACHABLE; /* nothing is held for it */
    if (status == DLOCK_OK && reply.answer == DLOCK_ZK_DONE)
        return DLOCK_BUSY;
    return status;
}

/* One try, with a node on the list that is ours if it comes to DLOCK_OK. */
static enum dlock_status take(struct dlock_session *session,
                              const struct dlock_attempt *attempt,
                              struct dlock_zk_node *node,
                              struct dlock_error *error)
{
    enum dlock_status status = DLOCK_OK;

    for (int i = 0; status == DLOCK_OK && i < ROUNDS_MAX; i++) {
        enum dlock_zk_answer answer;

        status = create(session, attempt, node, &answer, error);
        if (status != DLOCK_OK)
            return status;
        if (answer == DLOCK_ZK_DONE)
            return dlock_zk_node_hold(session, node, error);
        status =
            attempt->waits ? watch_holder(session, attempt, error) : DLOCK_BUSY;
    }
    dlock_zk_node_forget(session, node);
    if (status != DLOCK_OK)
        return status;
    /* Free a moment ago, and again somebody was quicker: look once more. */
    dlock_zk_wake(((struct dlock_zk_own *)session->own)->zk);
    return DLOCK_BUSY;
}

static enum dlock_status acquire(struct dlock_session *session,
                                 const struct dlock_attempt *attempt,
                                 struct dlock_grant *grant, uint64_t *busy_ms,
                                 struct dlock_error *error)
{
    enum dlock_status status = dlock_zk_left_none(session, attempt, error);
    struct dlock_zk_node *node;

    (void)busy_ms;
    grant->token = 0;
    grant->holds = 1;
    if (status != DLOCK_OK)
        return status;
    node = dlock_zk_node_new(session, attempt);
    if (node == NULL)
        return dlock_error_set(error, DLOCK_UNREACHABLE, "out of memory");
    return take(session, attempt, node, error);
}

static enum dlock_status inspect(struct dlock_session *session,
                                 const struct dlock_attempt *attempt,
                                 struct dlock_holder *holder,
                                 struct dlock_error *error)
{
    struct dlock_zk_reply reply;
    enum dlock_status status =
        dlock_zk_ask(session, attempt, DLOCK_ZK_GET, "get", 0, &reply, error);

    if (status != DLOCK_OK || reply.answer != DLOCK_ZK_DONE)
        return status;
    holder->held = true;
    holder->holds = 1;
    holder->remaining_ms = UINT64_MAX;
    dlock_zk_tag_owner(reply.text, holder->owner);
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

#define STRATEGIES(X) X(zk) X(zk_fair)

STRATEGIES(DLOCK_STRATEGY_DECLARE)
DLOCK_STRATEGIES(dlock_zk_strategies, STRATEGIES)
