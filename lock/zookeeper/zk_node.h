/*
 * Private to lock/: what zk and zk-fair have in common: a session of ZooKeeper
 * for each session of ours, and a list of its nodes.
 *
 * A node that we do not want any more has to go, whatever happens: as long as
 * the session lives, nobody else would ever remove it, and nobody else get the
 * lock. If a delete gets no answer, the node is left to the keeper, see
 * zk_left.h.
 */
#ifndef DLOCK_ZK_NODE_H
#define DLOCK_ZK_NODE_H

#include <pthread.h>

#include "lock/zookeeper/zk_name.h"

enum dlock_zk_node_state {
    DLOCK_ZK_NODE_WANTED, /* being made, or in a queue */
    DLOCK_ZK_NODE_HELD,
    DLOCK_ZK_NODE_GIVEN, /* being deleted */
};

/* A node of this session's. */
struct dlock_zk_node {
    struct dlock_zk_node *next;
    enum dlock_zk_node_state state;
    bool lost;           /* its session ended: it is gone ... */
    bool untold;         /* ... and its holder has not been told ... */
    enum dlock_loss why; /* ... of this */
    bool found;          /* path, session and zxid are known */
    uint64_t session;    /* that it was made in */
    uint64_t zxid;       /* of its creation */
    uint64_t attempt;    /* that made it */
    char name[DLOCK_NAME_BYTES_MAX + 1];
    char path[DLOCK_ZK_PATH_BYTES_MAX + 1];
};

/* session->own. The mutex guards the lists' links, states and what is lost. */
struct dlock_zk_own {
    struct dlock_zk_own *next; /* of the client's sessions */
    struct dlock_session *session;
    struct dlock_zk_config config;
    struct dlock_zk *zk;
    uint64_t unknown_release; /* attempt that got no answer; 0 = none */
    pthread_mutex_t mutex;
    pthread_cond_t cleared;      /* one of those left has gone */
    struct dlock_zk_node *nodes; /* only the session's thread changes it */
    struct dlock_zk_node *left;  /* it puts on, only the keeper takes off */
};

/* A strategy's variant. */
struct dlock_zk_kind {
    const char *root; /* "/dlock" */

    /*
     * Looks for the node that NODE->attempt made, as a create that got no
     * answer may have, in that session. DLOCK_OK: node->found says whether it
     * is there; DLOCK_LOST: the session has ended. Also on the keeper's thread.
     */
    enum dlock_status (*find)(struct dlock_session *session,
                              const struct dlock_attempt *attempt,
                              struct dlock_zk_node *node,
                              struct dlock_error *error);
};

/* The strategies' functions; see strategy.h. */
enum dlock_status dlock_zk_client_open(struct dlock *client,
                                       struct dlock_error *error);
void dlock_zk_client_close(struct dlock *client);
enum dlock_status dlock_zk_session_open(struct dlock_session *session,
                                        struct dlock_error *error);
void dlock_zk_session_close(struct dlock_session *session);
enum dlock_status dlock_zk_release(struct dlock_session *session,
                                   const struct dlock_attempt *attempt,
                                   struct dlock_error *error);
uint64_t dlock_zk_remaining(const struct dlock_session *session,
                            const struct dlock_grant *grant);
void *dlock_zk_watch(struct dlock_session *session, const char *name);
uint64_t dlock_zk_arm(struct dlock_session *session, void *watch,
                      uint64_t until_ms, const struct dlock_wake_call *call);
void dlock_zk_disarm(struct dlock_session *session, void *watch);
void dlock_zk_unwatch(struct dlock_session *session, void *watch, bool unused);
void dlock_zk_wake_all(struct dlock *client);

#define DLOCK_ZK_FUNCTIONS                                                     \
    .open = dlock_zk_client_open, .close = dlock_zk_client_close,              \
    .session_open = dlock_zk_session_open,                                     \
    .session_close = dlock_zk_session_close, .release = dlock_zk_release,      \
    .remaining = dlock_zk_remaining, .watch = dlock_zk_watch,                  \
    .arm = dlock_zk_arm, .disarm = dlock_zk_disarm,                            \
    .unwatch = dlock_zk_unwatch, .wake_all = dlock_zk_wake_all

/* For dlock_zk_config: notes what is lost; CTX is the dlock_zk_own. */
void dlock_zk_nodes_lost(void *ctx, uint64_t session, enum dlock_loss why);

/* On the keeper's thread: looks after the nodes that are held, and notes if one
 * has been deleted by somebody else. */
void dlock_zk_look_after(struct dlock_zk_own *own);

/* The loss that a holder is to be told. */
struct dlock_zk_loss {
    char name[DLOCK_NAME_BYTES_MAX + 1];
    char owner[DLOCK_OWNER_BYTES_MAX + 1];
    enum dlock_loss why;
};

/* Takes one that is noted, for the guard. False: there is none. */
bool dlock_zk_next_untold(struct dlock_zk_own *own, struct dlock_zk_loss *loss);

/* The keeper has something to do; the guard has something to tell. */
void dlock_zk_nudge(struct dlock_session *session);
void dlock_zk_nudge_guard(struct dlock_session *session);

/* A node that is wanted; NULL: no memory. _forget takes it off the list. */
struct dlock_zk_node *dlock_zk_node_new(struct dlock_session *session,
                                        const struct dlock_attempt *attempt);
void dlock_zk_node_forget(struct dlock_session *session,
                          struct dlock_zk_node *node);

/* The node in STATE for NAME, or NULL. */
struct dlock_zk_node *dlock_zk_node_of(const struct dlock_session *session,
                                       const char *name,
                                       enum dlock_zk_node_state state);

/* Whether it is there still, as far as we can know without asking. */
bool dlock_zk_node_is_live(const struct dlock_session *session,
                           const struct dlock_zk_node *node);

/*
 * The lock is ours by this node. DLOCK_UNREACHABLE if its session has ended in
 * between: then the node is forgotten.
 */
enum dlock_status dlock_zk_node_hold(struct dlock_session *session,
                                     struct dlock_zk_node *node,
                                     struct dlock_error *error);

/*
 * Deletes it, wherever it is listed. DLOCK_OK: there was one. DLOCK_LOST: there
 * was none any more. Also on the keeper's thread.
 */
enum dlock_status dlock_zk_node_delete(struct dlock_session *session,
                                       const struct dlock_attempt *attempt,
                                       struct dlock_zk_node *node,
                                       struct dlock_error *error);

/*
 * The same, and takes it off the list: it is gone, or is left to the keeper.
 */
enum dlock_status dlock_zk_node_give(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     struct dlock_zk_node *node,
                                     struct dlock_error *error);

/*
 * After a create: puts what the reply says into NODE. If there was none, looks
 * for it. DLOCK_OK, or the node is off the list.
 */
enum dlock_status dlock_zk_node_made(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     struct dlock_zk_node *node,
                                     enum dlock_status status,
                                     const struct dlock_zk_reply *reply,
                                     struct dlock_error *error);

#endif
