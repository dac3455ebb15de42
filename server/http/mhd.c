/*
 * With connection.c the only file that knows libmicrohttpd (0.9.75), and where its
 * sharp edges are kept:
 *
 * - A reply queued in the first call of the access handler closes the
 *   connection afterwards; one queued in the last call keeps it. So refusals
 *   that need a close are given in the first, all others in the last.
 * - A request that waits is not suspended, which would cost it system calls:
 *   its connection stays in the library's list of those that are ready, and
 *   the handler is asked in every pass. loop.c knows when to sleep. Only a
 *   viewer's is, because it waits most of the time; while suspended it is not
 *   seen to break, and must be resumed before the library ends.
 * - Its epoll loop waits again, for ever, before it serves exactly 128 ready
 *   sockets. So it is told never to wait.
 * - If a connection breaks while its request waits, the library forgets it at
 *   once; we keep it until the request came back.
 * - Its timeouts are not used: those of connection.c do all that they do, and
 *   the library asks the clock on each step.
 * - Escapes are left alone, since its decoding turns "%00" into the end of the
 *   string; check.c decodes.
 * - Each argument of a query takes its memory, and it forgets to reply when
 *   there is no more of that. So it sees no arguments.
 *
 * 0.9.75 parses a head in its read buffer. The library that runs may be a later one
 * than the headers: its version is looked up at the start, and a later one is left
 * to see to heads and arguments itself.
 */
#include "server/http/connection.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/route.h"

/* A connection's memory: 8 KiB of head, what libmicrohttpd keeps about its
 * fields, the reply's head. Wiped after every request: more would cost. */
#define MHD_CONNECTION_BYTES 13312

struct mhd {
    struct loop *loop;
    struct MHD_Daemon *daemon;
    bool quiet;           /* accepts no more connections */
    bool parses_in_place; /* a head, in its read buffer */
};

/* ---- one connection ------------------------------------------------------ */

/* Called when a connection begins, and before its socket is closed. *CONTEXT is
 * NULL if there is no memory; then its first request ends it. */
static void on_connection(void *cls, struct MHD_Connection *handle,
                          void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    const union MHD_ConnectionInfo *fd, *peer;
    struct connection *connection;
    struct mhd *mhd = cls;

    if (code != MHD_CONNECTION_NOTIFY_STARTED) {
        connection_end(*context);
        *context = NULL;
        /* There may be room for the next now. */
        loop_again(mhd->loop);
        return;
    }
    fd = MHD_get_connection_info(handle, MHD_CONNECTION_INFO_CONNECTION_FD);
    peer = MHD_get_connection_info(handle, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    *context = connection = connection_begin(mhd->loop, fd->connect_fd,
                                             peer ? peer->client_addr : NULL);
    if (connection)
        connection->handle = handle;
}

/* ---- one request --------------------------------------------------------- */

/* The request line has arrived. What is returned becomes *context below. */
static void *on_request_line(void *cls, const char *target,
                             struct MHD_Connection *handle)
{
    const union MHD_ConnectionInfo *info;
    struct connection *connection;
    const struct mhd *mhd = cls;
    char *mark;

    info = MHD_get_connection_info(handle, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    connection = info->socket_context;
    if (!connection)
        return NULL;
    connection_restart(connection);
    loop_heard(connection->request.loop, &connection->mark);
    if (!request_begin(&connection->request, target ? target : ""))
        return NULL;
    connection->request.target_at = target;
    mark = mhd->parses_in_place && target ? strchr(target, '?') : NULL;
    if (mark && mark[1])
        mark[1] = '\0'; /* the request has a copy */
    return connection;
}

static enum MHD_Result on_field(void *cls, enum MHD_ValueKind kind,
                                const char *name, size_t name_size,
                                const char *value, size_t value_size)
{
    struct request *request = cls;
    size_t size = value ? value_size : 0;

    (void)kind;
    /* One more than the check allows: it has to see that there are more. */
    if (request->fields_n > CHECK_FIELDS_MAX)
        return MHD_NO;
    /* Blanks after a value are not part of it. */
    while (size > 0 && strchr(" \t", value[size - 1]))
        ((char *)value)[--size] = '\0';
    request->fields[request->fields_n++] = (struct check_field){
        name, value ? value : "", name_size, size, value_size - size};
    return MHD_YES;
}

/* The head is complete. */
static void begin(const struct mhd *mhd, struct connection *connection,
                  const char *method, const char *version)
{
    struct request *request = &connection->request;
    struct check_view view = {.method = method,
                              .version = version,
                              .target = request->target,
                              .target_size = request->target_size,
                              .fields = request->fields};
    const union MHD_ConnectionInfo *info;

    request->stage = REQUEST_READING;
    request->is_read = !strcmp(method, "GET") || !strcmp(method, "HEAD");
    request->counted = true;
    atomic_fetch_add(&request->loop->requests, 1);
    MHD_get_connection_values_n(connection->handle, MHD_HEADER_KIND, on_field,
                                request);
    view.fields_n = request->fields_n;
    info = MHD_get_connection_info(connection->handle,
                                   MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (mhd->parses_in_place && info) {
        view.head = method;
        view.head_size = info->header_size;
        view.target_at = request->target_at;
    }
    check_head(&view, &request->verdict);
}

/* All of the request is here. */
static enum MHD_Result dispatch(struct connection *connection,
                                const char *method)
{
    struct request *request = &connection->request;

    loop_done(request->loop, &connection->mark);
    route_dispatch(request, method);
    if (request->stage != REQUEST_WAITING)
        return connection_reply(connection) ? MHD_YES : MHD_NO;
    connection_wait(connection);
    return MHD_YES;
}

/*
 * Called for a request at least twice: with its head, with each part of its
 * body, at its end; and then in every pass until there is a reply.
 */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *handle,
                                  const char *url, const char *method,
                                  const char *version, const char *data,
                                  size_t *data_size, void **context)
{
    struct connection *connection = *context;
    struct request *request;
    size_t size = *data_size;

    (void)handle, (void)url;
    if (!connection)
        return MHD_NO;
    request = &connection->request;
    switch (request->stage) {
    case REQUEST_NEW:
        loop_begun(request->loop, &connection->mark);
        begin(cls, connection, method, version);
        return request->verdict.close ? dispatch(connection, method) : MHD_YES;
    case REQUEST_READING:
        *data_size = 0;
        if (!size)
            return dispatch(connection, method);
        loop_begun(request->loop, &connection->mark);
        return request_read(request, data, size) ? MHD_YES : MHD_NO;
    case REQUEST_WAITING:
    case REQUEST_REPLIED:
        break;
    case REQUEST_FAILED:
        return MHD_NO;
    }
    return MHD_YES;
}

/* The reply was sent, or the connection broke; then the request may still be
 * with another thread. */
static void on_completed(void *cls, struct MHD_Connection *handle,
                         void **context, enum MHD_RequestTerminationCode code)
{
    struct connection *connection = *context;
    struct request *request;

    (void)cls, (void)handle, (void)code;
    *context = NULL;
    if (!connection || connection->request.stage == REQUEST_WAITING)
        return;
    request = &connection->request;
    loop_done(request->loop, &connection->mark);
    /* While it waited the next request may have come. */
    if (request->waits_for != REQUEST_FOR_NOTHING)
        loop_again(request->loop);
    if (request->waits_for == REQUEST_FOR_ORDER)
        loop_answered(request->loop, &connection->mark);
    connection_restart(connection);
    connection_finish(connection);
}

/* ---- the daemon ---------------------------------------------------------- */

static size_t leave_escaped(void *cls, struct MHD_Connection *mhd, char *text)
{
    (void)cls, (void)mhd;
    return strlen(text);
}

struct mhd *mhd_start(struct loop *loop, int listener, unsigned connections_max,
                      unsigned address_max)
{
    struct mhd *mhd = calloc(1, sizeof(*mhd));
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_LISTEN_SOCKET, listener, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, MHD_CONNECTION_BYTES, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)connections_max, NULL},
        {MHD_OPTION_PER_IP_CONNECTION_LIMIT, (intptr_t)address_max, NULL},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, mhd},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_completed, mhd},
        {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)on_request_line, mhd},
        {MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)leave_escaped, NULL},
        /* Not strict: its own refusal of a request without Host is broken. */
        {MHD_OPTION_STRICT_FOR_CLIENT, 0, NULL},
        {MHD_OPTION_END, 0, NULL},
    };

    if (!mhd)
        return NULL;
    mhd->loop = loop;
    mhd->parses_in_place = strverscmp(MHD_get_version(), "0.9.76") < 0;
    mhd->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0,
                                   NULL, NULL, on_request, mhd,
                                   MHD_OPTION_ARRAY, options, MHD_OPTION_END);
    if (mhd->daemon &&
        loop_watch(loop,
                   MHD_get_daemon_info(mhd->daemon, MHD_DAEMON_INFO_EPOLL_FD)
                       ->epoll_fd))
        return mhd;
    mhd_stop(mhd);
    return NULL;
}

void mhd_pass(struct mhd *mhd)
{
    if (mhd->loop->draining && !mhd->quiet) {
        MHD_quiesce_daemon(mhd->daemon);
        mhd->quiet = true;
    }
    MHD_run_wait(mhd->daemon, 0);
}

/* While requests wait, the library always says yes, so it is not asked. */
bool mhd_has_more(struct mhd *mhd)
{
    MHD_UNSIGNED_LONG_LONG ms;

    if (mhd->loop->begun > 0 || mhd->loop->expected > 0)
        return mhd->loop->begun > 0;
    return MHD_get_timeout(mhd->daemon, &ms) == MHD_YES && ms == 0;
}

/* Quiesced, it leaves the listener alone. */
void mhd_stop(struct mhd *mhd)
{
    if (!mhd)
        return;
    if (mhd->daemon) {
        MHD_quiesce_daemon(mhd->daemon);
        MHD_stop_daemon(mhd->daemon);
    }
    free(mhd);
}
