/*
 * Sessions of ZooKeeper and the commands in them, on the client library zookeeper_mt, which
 * is known to this file alone. The library's blocking calls take as long as the session's
 * timeout to find that nobody answers. So each command is an asynchronous call, and its
 * answer is waited for until its deadline; a later one is thrown away.
 *
 * Every handle has two threads of the library's, which run with all signals blocked.
 */
#include "lock/zookeeper/zk.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zookeeper/zookeeper.h>

#include "lock/dial/dial.h"
#include "lock/dial/lookup.h"

enum { SERVERS_BYTES_MAX = 2047 }; /* in numbers; more are left out */

struct dlock_zk_handle {
    struct dlock_zk *zk;
    uint64_t number;
    zhandle_t *library;
    char servers[SERVERS_BYTES_MAX + 1]; /* that it was told */
};

/* A command under way. The last one to need it frees it: its caller, or its answer. */
struct call {
    struct dlock_zk *zk;
    bool done;      /* guarded by the mutex */
    bool abandoned; /* the same: nobody waits for the answer */
    int code;
    struct dlock_zk_reply reply;
};

/* The session ---------------------------------------------------------------- */

void dlock_zk_wake(struct dlock_zk *zk)
{
    /* The mark stays until the waiter's next disarm: an arm that comes after this event is
     * told at once. */
    zk->woken = true;
    dlock_wake_call(&zk->call);
}

bool dlock_zk_is_live(const struct dlock_zk *zk, uint64_t number)
{
    return zk->handle != NULL && zk->number == number && !zk->ended;
}

/* With the mutex. The nodes that are held are lost with the session; the guard tells
 * of that, because the hook is the program's and may want any mutex. */
static void end(struct dlock_zk *zk, enum dlock_loss why)
{
    struct dlock_zk_node *node;

    /* The flag comes first: from here on no command goes out in this session, and
     * make_ready() makes a new one. */
    zk->ended = true;
    LIST_FOREACH(node, &zk->nodes, link)
        /* Nodes of an older session were told of at its end; those that wait or are given
         * back hear of it by their own command. */
        if (node->state == DLOCK_ZK_NODE_HELD && node->session == zk->number) {
            node->untold = true;
            node->why = why;
        }
    dlock_zk_wake(zk);
    (void)pthread_cond_broadcast(&zk->changed);
    dlock_zk_nudge_workers(zk->client);
}

/* A session that cannot be kept alive is over when the server may think so, because a
 * client that is not connected hears nothing. It ends for the first that finds it so: a
 * holder that was told 0 must not find its lock again. */
uint64_t dlock_zk_left_ms(struct dlock_zk *zk, uint64_t number)
{
    uint64_t now = dlock_clock_real_now();

    if (zk->number != number || zk->ended)
        return 0;
    /* A session that was never connected has no node yet that it could lose. */
    if (zk->expires_ms == 0)
        return UINT64_MAX;
    if (now >= zk->expires_ms) {
        end(zk, zk->connected ? DLOCK_LOSS_EXPIRED : DLOCK_LOSS_UNREACHABLE);
        return 0;
    }
    /* The library tells the server each third of the timeout that it is there; but not in a
     * process that is stopped, and so does not look again. */
    if (zk->connected)
        zk->expires_ms = now + 2 * (uint64_t)zk->session_ms / 3;
    return zk->connected ? UINT64_MAX : zk->expires_ms - now;
}

/* On the library's thread. A watch that fires and a session that ends are worth a look
 * for a waiter. A connection that comes and goes is not: watches outlive it. Watches hear
 * of the session as well; they say nothing new of it. A handle that is being closed must
 * not speak for the next one. */
static void on_event(zhandle_t *library, int type, int state, const char *path,
                     void *ctx)
{
    const struct dlock_zk_handle *handle = ctx;
    struct dlock_zk *zk = handle->zk;
    bool connected = state == ZOO_CONNECTED_STATE;
    bool over =
        state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE;
    DLOCK_LOCKED(&zk->client->mutex);

    (void)path;
    /* An event that is not of the session is a watch's: a node has gone, or changed, and
     * the waiter looks for itself. */
    if (handle->number == zk->number && type == ZOO_SESSION_EVENT) {
        if (connected) {
            /* The server may grant another timeout than was asked for: the granted one
             * counts, also for the guard, which looks now. */
            zk->session_ms = (unsigned)zoo_recv_timeout(library);
            zk->client->period_ms = zk->session_ms / DLOCK_ZK_LOOKS + 1;
            zk->expires_ms = UINT64_MAX;
            dlock_zk_nudge_workers(zk->client);
        } else if (zk->connected)
            /* The library hangs up when it has heard nothing for two thirds of the
             * timeout: a third of it is left for sure. */
            zk->expires_ms =
                dlock_clock_real_until(zk->session_ms / 3, zk->expires_ms);
        zk->connected = connected;
        if (over && !zk->ended)
            end(zk, DLOCK_LOSS_EXPIRED);
    } else if (handle->number == zk->number) {
        dlock_zk_wake(zk);
    }
    (void)pthread_cond_broadcast(&zk->changed);
}

/* Every call under way is answered on the way, and the library's threads end. */
void dlock_zk_drop(struct dlock_zk *zk, bool only_ended)
{
    struct dlock_zk_handle *handle = NULL;

    (void)pthread_mutex_lock(&zk->client->mutex);
    if (zk->ended || !only_ended) {
        /* The handle leaves the session with the mutex held, so of the session's thread and
         * the keeper one closes it. */
        handle = zk->handle;
        zk->handle = NULL;
        zk->ended = true;
        (void)pthread_cond_broadcast(&zk->changed);
    }
    (void)pthread_mutex_unlock(&zk->client->mutex);
    if (handle == NULL)
        return;
    /* zookeeper_close() is called without the mutex, because the library answers the calls
     * under way from there, and finish() takes it. */
    (void)zookeeper_close(handle->library);
    free(handle);
}

static enum dlock_status no_connection(const struct dlock_zk *zk)
{
    return dlock_error_set(DLOCK_UNREACHABLE,
                           "zookeeper: no connection to %.80s",
                           zk->client->hosts);
}

/* A library does not print. */
static void say_nothing(const char *message)
{
    (void)message;
}

/* The servers with numbers in place of names: the library would ask the resolver without a
 * bound, on the thread that keeps the session alive. Each name has its share of the time,
 * and is left out if it is not found. DLOCK_UNREACHABLE: none is. */
static enum dlock_status find_servers(const struct dlock_zk_client *client,
                                      uint64_t until_ms,
                                      char list[SERVERS_BYTES_MAX + 1])
{
    char host[DLOCK_PLACE_BYTES_MAX + 1], port[DLOCK_PORT_BYTES_MAX + 1];
    const char *next = client->hosts;
    struct dlock_address server;
    struct dlock_places places;
    size_t left_n = 1, used = 0;

    for (const char *at = next; *at != '\0'; at++)
        left_n += *at == ',';
    for (; *next != '\0'; left_n--) {
        next = dlock_address_next(next, DLOCK_ZK_PORT, &server);
        if (dlock_lookup(server.host, server.port,
                         dlock_clock_real_part(until_ms, left_n),
                         &places) != DLOCK_OK)
            continue;
        /* The room that is left is half of it, more than the longest place takes: so
         * sprintf() below cannot run over. */
        for (size_t i = 0; i < places.n && used < SERVERS_BYTES_MAX / 2; i++) {
            dlock_place_text(&places.list[i], host, port);
            used += (size_t)sprintf(list + used, "%s%s:%s", used > 0 ? "," : "",
                                    host, port);
        }
    }
    return used > 0 ? DLOCK_OK : DLOCK_UNREACHABLE;
}

/* It has a handle, which has not found a server yet, and was told others than SERVERS. */
static bool seeks_elsewhere(const struct dlock_zk *zk, const char *servers)
{
    DLOCK_LOCKED(&zk->client->mutex);

    return zk->handle != NULL && !zk->connected && !zk->ended &&
           zk->expires_ms == 0 && strcmp(zk->handle->servers, servers) != 0;
}

/* Makes way for a new handle: a session that has ended goes; and a handle that has not
 * found a server yet, if the names stand for other places by now. (The library could be
 * told of those, but its threads may be at the old list, which it frees then.) */
static void drop_useless(struct dlock_zk *zk, uint64_t until_ms)
{
    char list[SERVERS_BYTES_MAX + 1] = "";
    /* seeks_elsewhere() with "" asks only whether the handle seeks at all: else the names
     * need not be looked up. */
    bool has_moved = seeks_elsewhere(zk, "") &&
                     find_servers(zk->client, until_ms, list) == DLOCK_OK &&
                     seeks_elsewhere(zk, list);

    dlock_zk_drop(zk, !has_moved);
}

/* The library's threads inherit the mask: a signal of the host's is not for them. */
static enum dlock_status open_handle(struct dlock_zk *zk, uint64_t until_ms)
{
    struct dlock_zk_handle *handle = calloc(1, sizeof(*handle));
    sigset_t all, before;

    if (handle == NULL)
        return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    if (find_servers(zk->client, until_ms, handle->servers) != DLOCK_OK) {
        free(handle);
        return DLOCK_UNREACHABLE;
    }
    (void)pthread_mutex_lock(&zk->client->mutex);
    /* The state is set for the new session before the library has its handle, because its
     * threads may call on_event() at once. */
    zk->connected = false;
    zk->ended = false;
    zk->expires_ms = 0;
    handle->zk = zk;
    handle->number = ++zk->number;
    (void)pthread_mutex_unlock(&zk->client->mutex);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    handle->library = zookeeper_init2(
        handle->servers, on_event, (int)zk->client->client->watchdog_lease_ms,
        NULL, handle, 0, say_nothing);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (handle->library == NULL) {
        free(handle);
        return no_connection(zk);
    }
    (void)pthread_mutex_lock(&zk->client->mutex);
    zk->handle = handle;
    (void)pthread_mutex_unlock(&zk->client->mutex);
    return DLOCK_OK;
}

/* A connection, and session NUMBER, or else DLOCK_LOST; with 0, whichever there is, or a
 * new one. DLOCK_UNREACHABLE at UNTIL_MS of real time. */
static enum dlock_status make_ready(struct dlock_zk *zk, uint64_t number,
                                    uint64_t until_ms)
{
    for (;;) {
        bool there, time_left = dlock_clock_real_now() < until_ms;

        /* The session's own thread alone asks with 0 and makes handles; the keeper works in
         * the session of its node. */
        if (number == 0)
            drop_useless(zk, until_ms);
        {
            DLOCK_LOCKED(&zk->client->mutex);

            there =
                number == 0 ? zk->handle != NULL : dlock_zk_is_live(zk, number);
            while (there && time_left && !zk->connected && !zk->ended)
                time_left =
                    dlock_clock_wait(dlock_clock_default(), &zk->changed,
                                     &zk->client->mutex, until_ms);
            if (there && zk->connected && !zk->ended)
                return DLOCK_OK;
        }
        /* The nodes of that session are gone with it: nothing is left to be done in it. */
        if (number != 0 && !there)
            return DLOCK_LOST;
        if (!time_left)
            return no_connection(zk);
        if (!there && open_handle(zk, until_ms) != DLOCK_OK)
            return DLOCK_UNREACHABLE;
    }
}

/* Answers, on the library's thread ------------------------------------------- */

void dlock_zk_reply_release(struct dlock_zk_reply *reply)
{
    for (size_t i = 0; i < reply->children_n; i++)
        free(reply->children[i]);
    free(reply->children);
    reply->children_n = 0;
    reply->children = NULL;
}

/* The end of every answer. The call is its caller's after that. */
static void finish(struct call *call, int code)
{
    struct dlock_zk *zk = call->zk;
    bool abandoned;

    (void)pthread_mutex_lock(&zk->client->mutex);
    call->code = code;
    call->done = true;
    abandoned = call->abandoned;
    (void)pthread_cond_broadcast(&zk->changed);
    (void)pthread_mutex_unlock(&zk->client->mutex);
    /* The caller may have read and freed the call by now: only ABANDONED, read with the
     * mutex, says who frees it. */
    if (!abandoned)
        return;
    dlock_zk_reply_release(&call->reply);
    free(call);
}

static void on_void(int code, const void *ctx)
{
    finish((struct call *)ctx, code);
}

static void on_synced(int code, const char *path, const void *ctx)
{
    (void)path;
    finish((struct call *)ctx, code);
}

static void on_data(int code, const char *value, int len,
                    const struct Stat *stat, const void *ctx)
{
    struct call *call = (struct call *)ctx;

    if (stat != NULL) {
        call->reply.zxid = (uint64_t)stat->czxid;
        call->reply.version = stat->version;
    }
    /* The data is somebody else's perhaps, of any length and without an end: it is cut. */
    if (value != NULL && len > 0)
        (void)snprintf(call->reply.text, sizeof(call->reply.text), "%.*s", len,
                       value);
    finish(call, code);
}

static void on_stat(int code, const struct Stat *stat, const void *ctx)
{
    on_data(code, NULL, 0, stat, ctx);
}

static void on_created(int code, const char *path, const struct Stat *stat,
                       const void *ctx)
{
    on_data(code, path, path != NULL ? (int)strlen(path) : 0, stat, ctx);
}

/* Out of memory is no answer. */
static void on_children(int code, const struct String_vector *names,
                        const void *ctx)
{
    struct dlock_zk_reply *reply = &((struct call *)ctx)->reply;
    size_t n = names != NULL && names->count > 0 ? (size_t)names->count : 0;

    if (n > 0)
        reply->children = calloc(n, sizeof(*reply->children));
    while (reply->children != NULL && reply->children_n < n) {
        /* The library frees its list when this call returns. */
        char *name = strdup(names->data[reply->children_n]);

        if (name == NULL)
            break;
        reply->children[reply->children_n++] = name;
    }
    finish((struct call *)ctx, reply->children_n == n ? code : ZSYSTEMERROR);
}

/* Commands ------------------------------------------------------------------- */

/* Hands it to the library, which sends it; ZOK or why not. */
static int post(struct dlock_zk_handle *handle,
                const struct dlock_zk_command *command, const char *path,
                struct call *call)
{
    const int modes[] = {[DLOCK_ZK_CREATE] = ZOO_EPHEMERAL,
                         [DLOCK_ZK_CREATE_SEQUENTIAL] =
                             ZOO_EPHEMERAL_SEQUENTIAL,
                         [DLOCK_ZK_CREATE_LASTING] = ZOO_PERSISTENT,
                         [DLOCK_ZK_CREATE_CONTAINER] = ZOO_CONTAINER};
    int len = command->data == NULL ? -1 : (int)strlen(command->data);
    zhandle_t *library = handle->library;

    switch (command->verb) {
    case DLOCK_ZK_CREATE:
    case DLOCK_ZK_CREATE_SEQUENTIAL:
    case DLOCK_ZK_CREATE_LASTING:
    case DLOCK_ZK_CREATE_CONTAINER:
        return zoo_acreate2(library, path, command->data, len,
                            &ZOO_OPEN_ACL_UNSAFE, modes[command->verb],
                            on_created, call);
    case DLOCK_ZK_DELETE:
        return zoo_adelete(library, path, -1, on_void, call);
    case DLOCK_ZK_GET:
        return zoo_aget(library, path, 0, on_data, call);
    case DLOCK_ZK_WATCH:
        /* A watch is set only on a node that is there; of one that is not, the answer says
         * so. */
        return zoo_awget(library, path, on_event, handle, on_data, call);
    case DLOCK_ZK_SET:
        return zoo_aset(library, path, command->data, len, command->version,
                        on_stat, call);
    case DLOCK_ZK_CHILDREN:
        return zoo_aget_children(library, path, 0, on_children, call);
    case DLOCK_ZK_SYNC:
        return zoo_async(library, path, on_synced, call);
    }
    return ZBADARGUMENTS;
}

/* The server's answers, and their texts for the step hook. */
static const struct {
    int code;
    const char *text;
} answers[] = {[DLOCK_ZK_DONE] = {ZOK, "done"},
               [DLOCK_ZK_EXISTS] = {ZNODEEXISTS, "exists"},
               [DLOCK_ZK_NONE] = {ZNONODE, "no node"},
               [DLOCK_ZK_CHANGED] = {ZBADVERSION, "changed"}};

/* A session that has expired took its nodes along: no effect is left. */
static enum dlock_status judge(int code, enum dlock_zk_answer *answer)
{
    bool unknown = code == ZCONNECTIONLOSS || code == ZOPERATIONTIMEOUT ||
                   code == ZCLOSING || code == ZSYSTEMERROR;

    for (int i = DLOCK_ZK_DONE; i <= DLOCK_ZK_CHANGED; i++)
        if (answers[i].code == code) {
            *answer = (enum dlock_zk_answer)i;
            return DLOCK_OK;
        }
    return dlock_error_set(unknown ? DLOCK_UNKNOWN : DLOCK_UNREACHABLE,
                           "zookeeper: %s", zerror(code));
}

/* Takes the answer out of the call, or leaves the call to its late answer. */
static enum dlock_status carry_out(struct dlock_zk *zk,
                                   const struct dlock_zk_command *command,
                                   const char *path, uint64_t limit_ms,
                                   struct dlock_zk_reply *reply)
{
    const struct dlock_wire_config *config = &zk->session->client->wire;
    enum dlock_status status = make_ready(
        zk, command->session,
        dlock_clock_real_until(config->connect_timeout_ms, limit_ms));
    uint64_t until_ms;
    bool done, time_left = true;
    struct call *call;
    int code;

    if (status != DLOCK_OK)
        return status;
    call = calloc(1, sizeof(*call));
    if (call == NULL)
        return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    call->zk = zk;
    until_ms = dlock_clock_real_until(config->command_timeout_ms, limit_ms);
    (void)pthread_mutex_lock(&zk->client->mutex);
    /* The number is told also without an answer: a node that may have been made is looked
     * for in this session. */
    reply->session = call->reply.session = zk->number;
    /* Another thread may have dropped it since make_ready(). */
    if (command->session != 0 && !dlock_zk_is_live(zk, command->session))
        status = DLOCK_LOST;
    else if (zk->handle == NULL)
        status = DLOCK_UNREACHABLE;
    /* The mutex is held while it is posted, so that no other thread closes the handle
     * meanwhile; the library only puts it into a queue here. */
    else if ((code = post(zk->handle, command, path, call)) != ZOK)
        status =
            dlock_error_set(DLOCK_UNREACHABLE, "zookeeper: %s", zerror(code));
    while (status == DLOCK_OK && !call->done && time_left)
        time_left = dlock_clock_wait(dlock_clock_default(), &zk->changed,
                                     &zk->client->mutex, until_ms);
    done = status != DLOCK_OK || call->done;
    /* An abandoned call belongs to its late answer from here on, which comes at the latest
     * when the handle is closed. */
    call->abandoned = !done;
    (void)pthread_mutex_unlock(&zk->client->mutex);
    if (!done)
        return dlock_error_set(DLOCK_UNKNOWN, "zookeeper: timed out");
    if (status == DLOCK_OK) {
        /* The list of children goes to the caller along with the rest. */
        *reply = call->reply;
        status = judge(call->code, &reply->answer);
    }
    free(call);
    if (status != DLOCK_OK)
        dlock_zk_reply_release(reply);
    return status;
}

/* A name is one piece of the path, whatever is in it. */
void dlock_zk_path(const struct dlock_session *session, const char *name,
                   const char *child, char path[DLOCK_ZK_PATH_BYTES_MAX + 1])
{
    bool only_dots = strspn(name, ".") == strlen(name);
    const struct dlock_zk_kind *kind = session->client->strategy->variant;
    size_t len = (size_t)sprintf(path, "%s/", kind->root);

    for (; *name != '\0'; name++) {
        /* "." and ".." are no names in ZooKeeper; '%' is written in full, or two names
         * would share a path. */
        if (*name == '/' || *name == '%' || only_dots)
            len += (size_t)sprintf(path + len, "%%%02X", (unsigned)*name);
        else
            path[len++] = *name;
    }
    path[len] = '\0';
    if (child != NULL)
        (void)snprintf(path + len, DLOCK_ZK_PATH_BYTES_MAX + 1 - len, "/%s",
                       child);
}

enum dlock_status dlock_zk_do(const struct dlock_attempt *attempt,
                              const struct dlock_zk_command *command,
                              struct dlock_zk_reply *reply)
{
    struct dlock_session *session = attempt->session;
    char path[DLOCK_ZK_PATH_BYTES_MAX + 1];
    uint64_t until_ms;
    enum dlock_status told,
        status = dlock_step_begin(attempt, command->step, &until_ms);
    char text[160];

    memset(reply, 0, sizeof(*reply));
    if (status != DLOCK_OK)
        return status;
    if (command->path == NULL)
        dlock_zk_path(session, attempt->name, command->child, path);
    status = carry_out(session->own, command,
                       command->path != NULL ? command->path : path, until_ms,
                       reply);
    /* For the step hook: a person wants to see something of the reply. */
    if (status == DLOCK_OK && reply->children_n > 0)
        (void)snprintf(text, sizeof(text), "%zu nodes", reply->children_n);
    else if (status == DLOCK_OK)
        (void)snprintf(text, sizeof(text), "%.150s",
                       reply->text[0] != '\0' ? reply->text
                                              : answers[reply->answer].text);
    told = dlock_step_end(attempt, command->step,
                          status == DLOCK_OK ? text : NULL, status);
    /* The hook may have thrown a good reply away: its children have nobody else to free
     * them. */
    if (told != DLOCK_OK)
        dlock_zk_reply_release(reply);
    return told;
}

enum dlock_status dlock_zk_create(const struct dlock_attempt *attempt,
                                  const struct dlock_zk_command *command,
                                  struct dlock_zk_reply *reply)
{
    const struct dlock_zk_kind *kind =
        attempt->session->client->strategy->variant;
    const struct dlock_zk_command queue = {.verb = DLOCK_ZK_CREATE_CONTAINER,
                                           .step = "make-queue"};
    const struct dlock_zk_command root = {.verb = DLOCK_ZK_CREATE_LASTING,
                                          .step = "make-root",
                                          .path = kind->root};
    enum dlock_status status = dlock_zk_do(attempt, command, reply);

    /* ZNONODE of a create is a parent that is missing, which is rare: so the parent is made
     * only then. */
    if (status != DLOCK_OK || reply->answer != DLOCK_ZK_NONE)
        return status;
    if (command->path == NULL) {
        /* The directory may lack the root in turn: this goes down two levels at most, as
         * the root has a path of its own. */
        status = dlock_zk_create(
            attempt, command->child != NULL ? &queue : &root, reply);
        if (status == DLOCK_OK)
            status = dlock_zk_do(attempt, command, reply);
        else if (status == DLOCK_UNKNOWN)
            return DLOCK_UNREACHABLE; /* nobody holds anything by a parent */
    }
    if (status == DLOCK_OK && reply->answer == DLOCK_ZK_NONE)
        return dlock_error_set(DLOCK_UNREACHABLE,
                               "zookeeper: no node to make it in");
    return status;
}
