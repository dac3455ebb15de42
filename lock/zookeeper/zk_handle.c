/*
 * The client library of ZooKeeper, zookeeper_mt, behind functions of ours.
 *
 * Every handle has two threads of the library's. They run with all signals
 * blocked, and what they call is in this file: it turns the library's codes
 * into statuses and answers, and passes them on.
 */
#include "lock/zookeeper/zk_handle.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zookeeper/zookeeper.h>

#include "lock/core/error.h"

struct dlock_zk_handle {
    const struct dlock_zk_listener *listener;
    zhandle_t *library;
};

/* Called by the library ----------------------------------------------------- */

/* Watches hear of the session as well; they say nothing new of it. */
static void on_event(zhandle_t *library, int type, int state, const char *path,
                     void *ctx)
{
    const struct dlock_zk_listener *listener = ctx;
    enum dlock_zk_event event = DLOCK_ZK_DISCONNECTED;

    (void)path;
    if (type != ZOO_SESSION_EVENT)
        event = DLOCK_ZK_FIRED;
    else if (state == ZOO_CONNECTED_STATE)
        event = DLOCK_ZK_CONNECTED;
    else if (state == ZOO_EXPIRED_SESSION_STATE ||
             state == ZOO_AUTH_FAILED_STATE)
        event = DLOCK_ZK_ENDED;
    listener->event(
        listener->ctx, event,
        event == DLOCK_ZK_CONNECTED ? (unsigned)zoo_recv_timeout(library) : 0);
}

/* A session that has expired took its nodes along: no effect is left. */
static enum dlock_status judge(int code, struct dlock_zk_call *call)
{
    switch (code) {
    case ZOK:
        call->reply.answer = DLOCK_ZK_DONE;
        return DLOCK_OK;
    case ZNODEEXISTS:
        call->reply.answer = DLOCK_ZK_EXISTS;
        return DLOCK_OK;
    case ZNONODE:
        call->reply.answer = DLOCK_ZK_NONE;
        return DLOCK_OK;
    case ZBADVERSION:
        call->reply.answer = DLOCK_ZK_CHANGED;
        return DLOCK_OK;
    case ZCONNECTIONLOSS:
    case ZOPERATIONTIMEOUT:
    case ZCLOSING:
    case ZSYSTEMERROR:
        return dlock_error_set(&call->error, DLOCK_UNKNOWN, "zookeeper: %s",
                               zerror(code));
    default:
        return dlock_error_set(&call->error, DLOCK_UNREACHABLE, "zookeeper: %s",
                               zerror(code));
    }
}

/* The end of every answer. The call is not ours any more after that. */
static void finish(struct dlock_zk_call *call, int code)
{
    call->status = judge(code, call);
    call->listener->answer(call->listener->ctx, call);
}

static void put_stat(struct dlock_zk_call *call, const struct Stat *stat)
{
    if (stat == NULL)
        return;
    call->reply.zxid = (uint64_t)stat->czxid;
    call->reply.version = stat->version;
}

static void on_void(int code, const void *ctx)
{
    finish((struct dlock_zk_call *)ctx, code);
}

static void on_stat(int code, const struct Stat *stat, const void *ctx)
{
    struct dlock_zk_call *call = (struct dlock_zk_call *)ctx;

    put_stat(call, stat);
    finish(call, code);
}

static void on_created(int code, const char *path, const struct Stat *stat,
                       const void *ctx)
{
    struct dlock_zk_call *call = (struct dlock_zk_call *)ctx;

    put_stat(call, stat);
    if (path != NULL)
        (void)snprintf(call->reply.text, sizeof(call->reply.text), "%s", path);
    finish(call, code);
}

static void on_data(int code, const char *value, int len,
                    const struct Stat *stat, const void *ctx)
{
    struct dlock_zk_call *call = (struct dlock_zk_call *)ctx;

    put_stat(call, stat);
    if (value != NULL && len > 0)
        (void)snprintf(call->reply.text, sizeof(call->reply.text), "%.*s", len,
                       value);
    finish(call, code);
}

static void on_synced(int code, const char *path, const void *ctx)
{
    (void)path;
    finish((struct dlock_zk_call *)ctx, code);
}

/* Out of memory is no answer. */
static void on_children(int code, const struct String_vector *names,
                        const void *ctx)
{
    struct dlock_zk_call *call = (struct dlock_zk_call *)ctx;
    size_t n = names != NULL && names->count > 0 ? (size_t)names->count : 0;

    if (n > 0)
        call->reply.children = calloc(n, sizeof(*call->reply.children));
    for (size_t i = 0; call->reply.children != NULL && i < n; i++) {
        char *name = strdup(names->data[i]);

        if (name == NULL)
            break;
        call->reply.children[call->reply.children_n++] = name;
    }
    finish(call, call->reply.children_n == n ? code : ZSYSTEMERROR);
}

/* For a person --------------------------------------------------------------- */

void dlock_zk_describe(enum dlock_status status,
                       const struct dlock_zk_reply *reply, char *text,
                       size_t size)
{
    static const char *const answers[] = {"done", "exists", "no node",
                                          "changed"};

    if (status == DLOCK_UNKNOWN)
        (void)snprintf(text, size, "(no reply)");
    else if (status != DLOCK_OK)
        (void)snprintf(text, size, "(unreachable)");
    else if (reply->children_n > 0)
        (void)snprintf(text, size, "%zu nodes", reply->children_n);
    else if (reply->answer == DLOCK_ZK_DONE && reply->text[0] != '\0')
        (void)snprintf(text, size, "%.150s", reply->text);
    else
        (void)snprintf(text, size, "%s", answers[reply->answer]);
}

/* Handles -------------------------------------------------------------------- */

/* A library does not print. */
static void say_nothing(const char *message)
{
    (void)message;
}

/* The threads inherit the mask: a signal of the host's is not for them. */
struct dlock_zk_handle *
dlock_zk_handle_open(const char *servers, unsigned session_ms,
                     const struct dlock_zk_listener *listener)
{
    struct dlock_zk_handle *handle = calloc(1, sizeof(*handle));
    sigset_t all;
    sigset_t before;

    if (handle == NULL)
        return NULL;
    handle->listener = listener;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    handle->library = zookeeper_init2(servers, on_event, (int)session_ms, NULL,
                                      (void *)listener, 0, say_nothing);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (handle->library == NULL) {
        free(handle);
        return NULL;
    }
    return handle;
}

void dlock_zk_handle_close(struct dlock_zk_handle *handle)
{
    if (handle == NULL)
        return;
    (void)zookeeper_close(handle->library);
    free(handle);
}

/* Commands ------------------------------------------------------------------- */

static int create(zhandle_t *library, const struct dlock_zk_command *command,
                  int mode, struct dlock_zk_call *call)
{
    int len = command->data == NULL ? -1 : (int)strlen(command->data);

    return zoo_acreate2(library, command->path, command->data, len,
                        &ZOO_OPEN_ACL_UNSAFE, mode, on_created, call);
}

/* Hands it to the library, which sends it; ZOK or why not. */
static int post(struct dlock_zk_handle *to,
                const struct dlock_zk_command *command,
                struct dlock_zk_call *call)
{
    zhandle_t *library = to->library;
    const char *path = command->path;

    switch (command->verb) {
    case DLOCK_ZK_CREATE:
        return create(library, command, ZOO_EPHEMERAL, call);
    case DLOCK_ZK_CREATE_SEQUENTIAL:
        return create(library, command, ZOO_EPHEMERAL_SEQUENTIAL, call);
    case DLOCK_ZK_CREATE_LASTING:
        return create(library, command, ZOO_PERSISTENT, call);
    case DLOCK_ZK_CREATE_CONTAINER:
        return create(library, command, ZOO_CONTAINER, call);
    case DLOCK_ZK_DELETE:
        return zoo_adelete(library, path, -1, on_void, call);
    case DLOCK_ZK_GET:
        return zoo_aget(library, path, 0, on_data, call);
    case DLOCK_ZK_SET:
        return zoo_aset(library, path, command->data,
                        (int)strlen(command->data), command->version, on_stat,
                        call);
    case DLOCK_ZK_CHILDREN:
        return zoo_aget_children(library, path, 0, on_children, call);
    case DLOCK_ZK_SYNC:
        return zoo_async(library, path, on_synced, call);
    case DLOCK_ZK_WATCH:
        return zoo_awexists(library, path, on_event, (void *)to->listener,
                            on_stat, call);
    }
    return ZBADARGUMENTS;
}

enum dlock_status dlock_zk_handle_post(struct dlock_zk_handle *handle,
                                       const struct dlock_zk_command *command,
                                       struct dlock_zk_call *call)
{
    int code;

    call->listener = handle->listener;
    code = post(handle, command, call);
    if (code == ZOK)
        return DLOCK_OK;
    return dlock_error_set(&call->error, DLOCK_UNREACHABLE, "zookeeper: %s",
                           zerror(code));
}
