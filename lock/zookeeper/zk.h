/*
 * Private to lock/: a ZooKeeper session, and the commands sent in it, each a
 * step with a name and a deadline.
 *
 * Statuses, as everywhere:
 *   DLOCK_OK           the server has answered (it may have said no)
 *   DLOCK_UNREACHABLE  not sent, refused, or of no effect
 *   DLOCK_UNKNOWN      sent, and no answer came: it may yet be carried out
 *   DLOCK_LOST         it was for a session that has ended
 *
 * A session of ZooKeeper is what its ephemeral nodes live by. It survives the
 * loss of the connection, which the library makes anew by itself; it ends when
 * the server has heard nothing for the session's timeout. There is one for each
 * session of ours, so that they are owners of their nodes in the same sense. A
 * command after the end makes a new one, which has another number.
 *
 * It belongs to the session's thread. Any other may ask about a session by its
 * number, _wake, and _do a command in a session that there is: one that names
 * it. Beginning new ones is not for them.
 */
#ifndef DLOCK_ZK_H
#define DLOCK_ZK_H

#include "lock/core/client.h"

/* A root, a name of which each byte may take three, a tag, a number. */
enum { DLOCK_ZK_PATH_BYTES_MAX = 3 * DLOCK_NAME_BYTES_MAX + 128 };

struct dlock_zk;

struct dlock_zk_config {
    const char *servers; /* "HOST:PORT,HOST:PORT/ROOT" */
    unsigned session_ms; /* its timeout; the server may know better */
    /* Session NUMBER is over. On the library's thread, or in _check. By then
     * there may be a next one. */
    void (*on_ended)(void *ctx, uint64_t number, enum dlock_loss why);
    void *ctx;
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

struct dlock_zk_command {
    enum dlock_zk_verb verb;
    const char *step;
    const char *name; /* the lock, for the step hook */
    const char *by;   /* who does it, for the same; NULL = the session */
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

/* Does not connect. What it is given is borrowed. NULL if out of memory. */
struct dlock_zk *dlock_zk_open(const struct dlock_session *session,
                               const struct dlock_zk_config *config);
void dlock_zk_close(struct dlock_zk *zk);

/* Ends the session, and with it all its nodes: at once, or by its timeout if
 * the server is not there to be told. */
void dlock_zk_drop(struct dlock_zk *zk);

/* The same, if it has ended for us: the server may not know yet. */
void dlock_zk_drop_ended(struct dlock_zk *zk);

/*
 * The same from any thread, and only if there is a connection again: the library
 * has made it, and would keep alive for ever what has ended for us.
 */
void dlock_zk_drop_reconnected(struct dlock_zk *zk);

/* Whether session NUMBER is the one there is, and has not ended. From any
 * thread. */
bool dlock_zk_is_live(struct dlock_zk *zk, uint64_t number);

/*
 * How long session NUMBER is there for sure, if nothing is heard of the server;
 * UINT64_MAX = it has a connection, 0 = it has ended. From any thread.
 */
uint64_t dlock_zk_left_ms(struct dlock_zk *zk, uint64_t number);

/*
 * To be called now and then, from any thread: ends a session that has been
 * without a connection for too long. Gives the milliseconds after which to look
 * again; UINT64_MAX = it has a connection, or is over.
 */
uint64_t dlock_zk_check(struct dlock_zk *zk);

/*
 * Sends it and waits for the answer: at most the command timeout, and not
 * beyond LIMIT_MS of lease time. If DLOCK_OK, the reply has to be released.
 */
enum dlock_status dlock_zk_do(struct dlock_zk *zk,
                              const struct dlock_zk_command *command,
                              uint64_t limit_ms, struct dlock_zk_reply *reply,
                              struct dlock_error *error);
void dlock_zk_reply_release(struct dlock_zk_reply *reply);

/*
 * *CALL is called when a watched node goes, the session ends, or somebody wakes
 * it; at once if that has come since the last _unlisten.
 */
void dlock_zk_listen(struct dlock_zk *zk, const struct dlock_wake_call *call);
void dlock_zk_unlisten(struct dlock_zk *zk);

/* From any thread. */
void dlock_zk_wake(struct dlock_zk *zk);

#endif
