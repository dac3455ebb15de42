/*
 * Private to zk.c: a handle of the client library, and calls on it that are
 * answered later. The only place that knows the library.
 */
#ifndef DLOCK_ZK_HANDLE_H
#define DLOCK_ZK_HANDLE_H

#include "lock/zookeeper/zk.h"

struct dlock_zk_handle;
struct dlock_zk_call;

enum dlock_zk_event {
    DLOCK_ZK_CONNECTED, /* the session stands */
    DLOCK_ZK_DISCONNECTED,
    DLOCK_ZK_ENDED, /* the session has expired */
    DLOCK_ZK_FIRED, /* a watched node has gone, or changed */
};

/* Both are called on the library's threads, until the handle is closed. */
struct dlock_zk_listener {
    /* SESSION_MS is its timeout as the server sees it; of CONNECTED. */
    void (*event)(void *ctx, enum dlock_zk_event event, unsigned session_ms);
    void (*answer)(void *ctx, struct dlock_zk_call *call);
    void *ctx;
};

/* A command under way. */
struct dlock_zk_call {
    const struct dlock_zk_listener *listener;
    bool done;      /* guarded by the listener */
    bool abandoned; /* the same: nobody waits for the answer */
    enum dlock_status status;
    struct dlock_zk_reply reply;
    struct dlock_error error;
};

/* LISTENER has to live as long. NULL: no memory, or malformed servers. */
struct dlock_zk_handle *
dlock_zk_handle_open(const char *servers, unsigned session_ms,
                     const struct dlock_zk_listener *listener);

/* Answers all that is under way, and waits for the threads. NULL is fine. */
void dlock_zk_handle_close(struct dlock_zk_handle *handle);

/*
 * Hands a command to the library, which sends it. DLOCK_OK: the listener is
 * told the answer, sooner or later. Else it was not sent, and call->error says
 * why.
 */
enum dlock_status dlock_zk_handle_post(struct dlock_zk_handle *handle,
                                       const struct dlock_zk_command *command,
                                       struct dlock_zk_call *call);

/* For the step hook: what a person wants to see of a reply. */
void dlock_zk_describe(enum dlock_status status,
                       const struct dlock_zk_reply *reply, char *text,
                       size_t size);

#endif
