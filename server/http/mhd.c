/*
 * Connections and the requests on them. With response.c the only file that
 * knows libmicrohttpd (0.9.75), and where its sharp edges are kept:
 *
 * - A reply queued in the first call of the access handler closes the
 *   connection afterwards; one queued in the last call keeps it. So the gate's
 *   refusals that need a close are given in the first, all others in the last.
 * - A request that waits is not suspended, which would cost it system calls:
 *   its connection stays in the library's list of those that are ready, and
 *   the handler is asked in every pass. loop.c knows when to sleep.
 * - Its epoll loop waits again, for ever, before it serves exactly 128 ready
 *   sockets. So it is told never to wait.
 * - If a connection breaks while its request waits, the library forgets it at
 *   once; we do not until the request's letter is back.
 * - Its timeouts are not used: deadline.c's do all that they do, and asking
 *   the clock on each step is dear.
 * - Escapes are left alone, since its decoding turns "%00" into the end of the
 *   string; target.c decodes.
 */
#include "server/http/mhd.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "server/app.h"
#include "server/http/connection.h"
#include "server/http/gate.h"
#include "server/http/http.h"
#include "server/http/response.h"
#include "server/metrics.h"

/* A connection's memory: 8 KiB of head, what libmicrohttpd keeps about its
 * fields, the reply's head. Wiped after every request: more would cost. */
#define HTTP_CONNECTION_BYTES 13312

/* A loop's. */
struct mhd {
    struct MHD_Daemon *daemon;
    struct response echo; /* what many get in a row, such as "sold out" */
};

static struct mhd *mhd_of(const struct connection *connection)
{
    return loop_mhd(connection->loop);
}

/* ---- one connection ------------------------------------------------------ */

static struct connection *connection_of(struct MHD_Connection *mhd)
{
    return MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
        ->socket_context;
}

/* NULL if there is no memory; its first request will then be its end. */
static struct connection *meet(struct loop *loop, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *fd, *peer;

    fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    peer = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    return connection_begin(loop, mhd, fd->connect_fd,
                            peer ? peer->client_addr : NULL);
}

/* Called when a connection begins, and before its socket is closed. */
static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = meet(cls, mhd);
    } else {
        connection_end(*context);
        *context = NULL;
        /* There may be room for the next now. */
        loop_again(cls);
    }
}

/* ---- one request --------------------------------------------------------- */

/* The request line has arrived. What is returned becomes *context below. */
static void *on_request_line(void *cls, const char *target,
                             struct MHD_Connection *mhd)
{
    struct connection *connection = connection_of(mhd);

    (void)cls;
    if (!connection)
        return NULL;
    deadline_restart(connection->request.http->deadline, &connection->watch);
    if (!request_begin(&connection->request, target ? target : ""))
        return NULL;
    connection->request.target_at = target;
    return connection;
}

/* What is common is the loop's, all else the connection's. */
static enum MHD_Result queue(struct connection *connection)
{
    const struct request *request = &connection->request;
    struct MHD_Response *response;

    response = request->common
                   ? response_common(&mhd_of(connection)->echo, request)
                   : response_own(&connection->kept, request);
    return response
               ? MHD_queue_response(connection->mhd, request->status, response)
               : MHD_NO;
}

static enum MHD_Result send_reply(struct connection *connection)
{
    struct request *request = &connection->request;

    request->stage = REQUEST_REPLIED;
    loop_begun(connection->loop, &connection->mark);
    metrics_http(request->app->metrics, request->status);
    return queue(connection);
}

static enum MHD_Result on_field(void *cls, enum MHD_ValueKind kind,
                                const char *name, size_t name_size,
                                const char *value, size_t value_size)
{
    struct request *request = cls;
    struct gate_field *field;

    (void)kind;
    /* One more than the gate lets through: it shall see that there are more. */
    if (request->fields_n > GATE_FIELDS_MAX)
        return MHD_NO;
    field = &request->fields[request->fields_n++];
    *field = (struct gate_field){name, value ? value : "", name_size,
                                 value ? value_size : 0};
    return MHD_YES;
}

/* Where the parser found the pieces, as long as it works in place. */
static void fill_seams(struct gate_view *view,
                       const struct connection *connection)
{
    const union MHD_ConnectionInfo *info;

    info = MHD_get_connection_info(connection->mhd,
                                   MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (MHD_VERSION >= 0x00097600 || !info)
        return; /* later ones see to it themselves */
    view->head = view->method;
    view->head_size = info->header_size;
    view->target_at = connection->request.target_at;
}

/* The head is complete: collect it and let the gate look at it. */
static void begin(struct connection *connection, const char *method,
                  const char *version)
{
    struct request *request = &connection->request;
    struct gate_view view = {.method = method,
                             .version = version,
                             .target = request->target,
                             .target_size = request->target_size,
                             .fields = request->fields};

    request->stage = REQUEST_READING;
    request->method = method;
    request->is_read = !strcmp(method, "GET") || !strcmp(method, "HEAD");
    request->counted = true;
    door_enter(&request->http->door);
    MHD_get_connection_values_n(connection->mhd, MHD_HEADER_KIND, on_field,
                                request);
    view.fields_n = request->fields_n;
    fill_seams(&view, connection);
    gate_check(&view, &request->verdict);
}

/* All of the request is here. */
static enum MHD_Result dispatch(struct connection *connection)
{
    loop_done(connection->loop, &connection->mark);
    request_dispatch(&connection->request);
    return connection->request.stage == REQUEST_WAITING
               ? MHD_YES
               : send_reply(connection);
}

/*
 * Called for a request at least twice: with its head, with each part of its
 * body, at its end; and then in every pass until there is a reply.
 */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd,
                                  const char *url, const char *method,
                                  const char *version, const char *data,
                                  size_t *data_size, void **context)
{
    struct connection *connection = *context;
    struct request *request;
    size_t size = *data_size;

    (void)cls, (void)mhd, (void)url;
    if (!connection)
        return MHD_NO;
    request = &connection->request;
    switch (request->stage) {
    case REQUEST_NEW:
        loop_begun(connection->loop, &connection->mark);
        begin(connection, method, version);
        return request->verdict.close ? dispatch(connection) : MHD_YES;
    case REQUEST_READING:
        *data_size = 0;
        if (!size)
            return dispatch(connection);
        loop_begun(connection->loop, &connection->mark);
        return request_read(request, data, size) ? MHD_YES : MHD_NO;
    case REQUEST_WAITING:
    case REQUEST_REPLIED:
        break;
    case REQUEST_FAILED:
        return MHD_NO;
    }
    return MHD_YES;
}

/* The reply was sent, or the connection broke: then the request may still be
 * with the desk or the pool. */
static void on_completed(void *cls, struct MHD_Connection *mhd, void **context,
                         enum MHD_RequestTerminationCode code)
{
    struct connection *connection = *context;

    (void)cls, (void)mhd, (void)code;
    *context = NULL;
    if (!connection || connection->request.stage == REQUEST_WAITING)
        return;
    loop_done(connection->loop, &connection->mark);
    /* While it waited the next request may have come. */
    if (connection->request.waited)
        loop_again(connection->loop);
    deadline_restart(connection->request.http->deadline, &connection->watch);
    connection_finish(connection);
}

/*
 * The reply is queued here and not by the access handler, which would cost a
 * pass more: one to queue it, another to send it. Without threads of its own
 * the library allows this at any time, though its manual says so only later.
 */
void mhd_deliver(struct loop_letter *letter)
{
    struct connection *connection = connection_back(letter);
    struct request *request;

    if (!connection)
        return;
    request = &connection->request;
    if (!request->status)
        request->answer(request);
    request->waited = true;
    if (send_reply(connection) != MHD_YES)
        request->stage = REQUEST_FAILED;
}

/* ---- the daemon ---------------------------------------------------------- */

static size_t leave_escaped(void *cls, struct MHD_Connection *mhd, char *text)
{
    (void)cls, (void)mhd;
    return strlen(text);
}

struct mhd *mhd_start(struct loop *loop, size_t connections_max)
{
    struct mhd *mhd = calloc(1, sizeof(*mhd));
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_LISTEN_SOCKET, loop_http(loop)->listener, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, HTTP_CONNECTION_BYTES, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)connections_max, NULL},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, loop},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_completed, loop},
        {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)on_request_line, loop},
        {MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)leave_escaped, NULL},
        /* Not strict: its own refusal of a request without Host is broken. */
        {MHD_OPTION_STRICT_FOR_CLIENT, 0, NULL},
        {MHD_OPTION_END, 0, NULL},
    };

    if (!mhd)
        return NULL;
    mhd->daemon =
        MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request, loop,
                         MHD_OPTION_ARRAY, options, MHD_OPTION_END);
    if (mhd->daemon)
        return mhd;
    free(mhd);
    return NULL;
}

int mhd_fd(struct mhd *mhd)
{
    return MHD_get_daemon_info(mhd->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

/* No more connections once the door is shut; doing it again does nothing. */
void mhd_pass(struct http *http, struct mhd *mhd)
{
    if (!http_is_open(http))
        MHD_quiesce_daemon(mhd->daemon);
    MHD_run_wait(mhd->daemon, 0);
}

bool mhd_has_more(struct mhd *mhd)
{
    MHD_UNSIGNED_LONG_LONG ms;

    return MHD_get_timeout(mhd->daemon, &ms) == MHD_YES && ms == 0;
}

/* Quiesced, it leaves the listener alone. */
void mhd_stop(struct mhd *mhd)
{
    MHD_quiesce_daemon(mhd->daemon);
    MHD_stop_daemon(mhd->daemon);
    response_forget(&mhd->echo);
    free(mhd);
}
