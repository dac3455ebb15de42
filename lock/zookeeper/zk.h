/*
 * Private to lock/zookeeper/: the sessions of a client, the nodes that each of them
 * has made, and commands, each a step with a name and a deadline.
 *
 * Ephemeral nodes live by a session of ZooKeeper. It survives the loss of the
 * connection, which the library makes anew by itself, and ends when the server has heard
 * nothing for the session's timeout. There is one for each session of ours; a command
 * after its end makes a new one, which has another number.
 *
 * One mutex per client guards its sessions, against each other, the library's
 * threads, and two of ours (zk_node.c). Nobody holds it while waiting for a server,
 * nor in the program's hook.
 */
#ifndef DLOCK_ZK_H
#define DLOCK_ZK_H

#include <pthread.h>
#include <sys/queue.h>

#include "lock/core/client.h"

#define DLOCK_ZK_PORT "2181"

/* A root, a name of which each byte may take three, a tag, a number. */
enum { DLOCK_ZK_PATH_BYTES_MAX = 3 * DLOCK_NAME_BYTES_MAX + 128 };

/* The workers look so often in a session: before one without a connection is over (a third
 * of the timeout, see zk.c). */
enum { DLOCK_ZK_LOOKS = 6 };

enum dlock_zk_node_state {
    DLOCK_ZK_NODE_WANTED, /* in a queue */
    DLOCK_ZK_NODE_HELD,
    DLOCK_ZK_NODE_GIVEN, /* being deleted by the session's thread */
    DLOCK_ZK_NODE_LEFT,  /* to be deleted by the keeper, and its own */
};

/* A node that a session has made, or may have. The mutex guards link, state, untold
 * and why; the rest belongs to the thread that the state names. */
struct dlock_zk_node {
    LIST_ENTRY(dlock_zk_node) link; /* of its session, the youngest first */
    enum dlock_zk_node_state state;
    bool untold; /* lost, and its holder has not been told why */
    enum dlock_loss why;
    bool found;                           /* path and zxid are known */
    uint64_t session;                     /* that it was made in */
    uint64_t zxid;                        /* of its creation */
    uint64_t attempt;                     /* that made it */
    char tag[DLOCK_OWNER_BYTES_MAX + 24]; /* "OWNER:ATTEMPT:", its data, or the
                                             beginning of its name */
    char name[DLOCK_NAME_BYTES_MAX + 1];
    char path[DLOCK_ZK_PATH_BYTES_MAX + 1];
};

/* client->own. The mutex guards what is below it, and in each session the same. */
struct dlock_zk_client {
    const struct dlock *client;
    char hosts[512]; /* "HOST:PORT,HOST:PORT" */
    pthread_t workers[2];
    pthread_mutex_t mutex;
    uint64_t period_ms;     /* the workers look so often */
    pthread_cond_t changed; /* there is news, or served has changed */
    unsigned workers_n;     /* that run */
    unsigned news;          /* a count: there is something to do */
    bool closing;
    LIST_HEAD(dlock_zks, dlock_zk) sessions;
    struct dlock_zk *served; /* the keeper is at this one, without the mutex */
};

/* session->own. */
struct dlock_zk {
    LIST_ENTRY(dlock_zk) link; /* of the client's */
    struct dlock_session *session;
    struct dlock_zk_client *client;
    /* Guarded by the client's mutex: */
    pthread_cond_t changed;
    struct dlock_zk_handle *handle; /* the library's; NULL = none */
    uint64_t number;                /* of this session of ZooKeeper, from 1 */
    bool connected;
    bool ended;
    bool woken; /* a look is due, and its waiter told */
    struct dlock_wake_call call;
    uint64_t expires_ms; /* real time; later by each look; 0: never connected */
    unsigned session_ms; /* the timeout, as the server sees it */
    LIST_HEAD(dlock_zk_nodes, dlock_zk_node) nodes;
};

/* With the mutex. */
static inline void dlock_zk_nudge_workers(struct dlock_zk_client *client)
{
    client->news++;
    (void)pthread_cond_broadcast(&client->changed);
}

/* A strategy's variant. */
struct dlock_zk_kind {
    const char *root; /* "/dlock" */

    /* Looks for the NODE that a create without an answer may have made, in its session.
     * DLOCK_OK: node->found says whether it is there; DLOCK_LOST: the session has ended.
     * Also on the keeper's thread. */
    enum dlock_status (*find)(const struct dlock_attempt *attempt,
                              struct dlock_zk_node *node);
};

enum dlock_zk_verb {
    DLOCK_ZK_CREATE,            /* a node that ends with the session */
    DLOCK_ZK_CREATE_SEQUENTIAL, /* the same; the server adds a number */
    DLOCK_ZK_CREATE_LASTING,
    DLOCK_ZK_CREATE_CONTAINER, /* removed by the server when it is empty */
    DLOCK_ZK_DELETE,
    DLOCK_ZK_GET,
    DLOCK_ZK_SET, /* if VERSION is still the version */
    DLOCK_ZK_CHILDREN,
    DLOCK_ZK_SYNC,  /* what comes next sees all that was done before */
    DLOCK_ZK_WATCH, /* is it there? then ends a wait when it goes */
};

/* About the node of the lock's name, which is the lock or its directory; about a CHILD of
 * that; or about another PATH. */
struct dlock_zk_command {
    enum dlock_zk_verb verb;
    const char *step;
    const char *child;
    const char *path;
    const char *data;
    int32_t version;  /* set: of the node */
    uint64_t session; /* only in this one; 0 = in any, if need be a new one */
};

enum dlock_zk_answer {
    DLOCK_ZK_DONE,
    DLOCK_ZK_EXISTS, /* create: there is one already */
    DLOCK_ZK_NONE,   /* there is no such node; create: no parent */
    DLOCK_ZK_CHANGED,
};

struct dlock_zk_reply {
    enum dlock_zk_answer answer;
    uint64_t session; /* that it was done in */
    uint64_t zxid;    /* create, get, watch: of the node's creation */
    int32_t version;
    char text[DLOCK_ZK_PATH_BYTES_MAX + 1]; /* the path made, the data */
    size_t children_n;
    char **children;
};

/*
 * Sends a command about the lock of ATTEMPT and waits for the answer: at most the
 * command timeout, and not beyond the attempt's limit; connecting may take as long again.
 * On the session's thread; if command->session is not 0, on any.
 *   DLOCK_OK           the server has answered (it may have said no); a reply with
 *                      children has to be released
 *   DLOCK_UNREACHABLE  not sent, refused, or of no effect
 *   DLOCK_UNKNOWN      sent, and no answer came: it may yet be carried out
 *   DLOCK_LOST         it was for a session that has ended
 */
enum dlock_status dlock_zk_do(const struct dlock_attempt *attempt,
                              const struct dlock_zk_command *command,
                              struct dlock_zk_reply *reply);
void dlock_zk_reply_release(struct dlock_zk_reply *reply);

/* A create that also makes the root, and the directory of a child. */
enum dlock_status dlock_zk_create(const struct dlock_attempt *attempt,
                                  const struct dlock_zk_command *command,
                                  struct dlock_zk_reply *reply);

/* The path of the node that has the lock's name, "/dlock/stock:42"; or of its CHILD,
 * unless NULL. */
void dlock_zk_path(const struct dlock_session *session, const char *name,
                   const char *child, char path[DLOCK_ZK_PATH_BYTES_MAX + 1]);

/* Ends the session, and with it all its nodes: at once, or by its timeout if the server is
 * not there to be told. ONLY_ENDED: if it has ended for us, because the library would keep
 * it alive. */
void dlock_zk_drop(struct dlock_zk *zk, bool only_ended);

/* With the mutex: whether session NUMBER is the one there is, and has not ended; how long
 * it is there for sure, UINT64_MAX = it has a connection, 0 = it has ended. This call ends
 * one that has been without a connection, or without such a call, for too long. */
bool dlock_zk_is_live(const struct dlock_zk *zk, uint64_t number);
uint64_t dlock_zk_left_ms(struct dlock_zk *zk, uint64_t number);

/* With the mutex: the waiter in this session must look again. */
void dlock_zk_wake(struct dlock_zk *zk);

/* Nodes, zk_node.c ------------------------------------------------------------- */

/* A node that is not wanted any more has to go: as long as the session lives, nobody else
 * would get the lock. If a delete gets no answer, the node is left to the client's
 * keeper, a thread that deletes it as soon as the server lets it. A delete goes by the
 * path: so while a name has a node left, the session does not make another for it. */

/* The owner in "OWNER:ATTEMPT:...". */
void dlock_zk_node_owner(const char *tag,
                         char owner[DLOCK_OWNER_BYTES_MAX + 1]);

/* Makes the node of ATTEMPT: the lock itself, or IN_QUEUE a place in its directory.
 * Before, waits for a node of that name that is left, for one command timeout. DLOCK_OK:
 * *NODE is there, and wanted. DLOCK_BUSY: there is such a lock already. Else *NODE is
 * NULL; with DLOCK_UNKNOWN, one is left. */
enum dlock_status dlock_zk_node_make(const struct dlock_attempt *attempt,
                                     bool in_queue,
                                     struct dlock_zk_node **node);

/* Takes it off the list, and frees it. */
void dlock_zk_node_forget(struct dlock_session *session,
                          struct dlock_zk_node *node);

/* The node in STATE for NAME, or with NULL for any; NULL = none. */
struct dlock_zk_node *dlock_zk_node_of(const struct dlock_session *session,
                                       const char *name,
                                       enum dlock_zk_node_state state);

/* The lock is ours by this node; or its session has ended: DLOCK_UNREACHABLE, and the node
 * is forgotten. */
enum dlock_status dlock_zk_node_hold(struct dlock_session *session,
                                     struct dlock_zk_node *node);

/* For an acquire that waits, DLOCK_BUSY: it is woken when the node of the lock's name
 * goes, or the CHILD of that unless NULL; at once, if it has gone already. */
enum dlock_status dlock_zk_node_watch(const struct dlock_attempt *attempt,
                                      const char *child);

/* Deletes it. DLOCK_OK: there was one. DLOCK_LOST: there was none any more. Else it is
 * left. */
enum dlock_status dlock_zk_node_give(const struct dlock_attempt *attempt,
                                     struct dlock_zk_node *node);

/* The strategies' functions; see strategy.h ----------------------------------- */

enum dlock_status dlock_zk_node_release(const struct dlock_attempt *attempt);
uint64_t dlock_zk_node_remaining(const struct dlock_session *session,
                                 const struct dlock_grant *grant);
enum dlock_status dlock_zk_client_open(struct dlock *client);
void dlock_zk_client_close(struct dlock *client);
enum dlock_status dlock_zk_client_session_open(struct dlock_session *session);
void dlock_zk_client_session_close(struct dlock_session *session);
void *dlock_zk_client_watch(struct dlock_session *session, const char *name);
uint64_t dlock_zk_client_arm(void *watch, uint64_t until_ms,
                             const struct dlock_wake_call *call);
void dlock_zk_client_disarm(void *watch);
void dlock_zk_client_wake_all(struct dlock *client);

#define DLOCK_ZK_FUNCTIONS                                                     \
    .open = dlock_zk_client_open, .close = dlock_zk_client_close,              \
    .session_open = dlock_zk_client_session_open,                              \
    .session_close = dlock_zk_client_session_close,                            \
    .release = dlock_zk_node_release, .remaining = dlock_zk_node_remaining,    \
    .watch = dlock_zk_client_watch, .arm = dlock_zk_client_arm,                \
    .disarm = dlock_zk_client_disarm, .wake_all = dlock_zk_client_wake_all

#endif
