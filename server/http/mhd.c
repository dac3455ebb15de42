/*
 * Connections and the requests on them. The only file that knows libmicrohttpd
 * (0.9.75), and where its sharp edges are kept:
 *
 * - A reply queued in the first call of the access handler closes the
 *   connection afterwards; one queued in the last call keeps it. So the gate's
 *   refusals that need a close are given in the first, all others in the last.
 * - Suspending comes before handing over: a resume may then come at any time,
 *   from any thread, even before the handler has returned, because
 *   libmicrohttpd only takes note of it until its loop comes around.
 * - poll, not epoll: with one thread and exactly 128 ready sockets its epoll
 *   loop waits again, for ever, before it serves them.
 * - Escapes are left alone, since its decoding turns "%00" into the end of the
 *   string; target.c decodes.
 * - Nothing may be suspended when the daemon is stopped: see http_drain().
 */
#include "server/http/mhd.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "server/app.h"
#include "server/config.h"
#include "server/http/gate.h"
#include "server/http/http.h"
#include "server/http/peer.h"
#include "server/http/request.h"
#include "server/metrics.h"

/* A connection's memory: 8 KiB of head, what libmicrohttpd keeps about its
 * fields, the reply's head. Wiped after every request: more would cost. */
#define HTTP_CONNECTION_BYTES 13312

/* ---- one connection ------------------------------------------------------ */

/*
 * What a connection has, from its accept to its close. It has one request at a
 * time, whose place is made once and used again and again.
 */
struct connection {
    struct MHD_Connection *mhd;
    struct deadline_watch watch;
    struct admit_client *client;
    struct request request;
};

static struct connection *connection_of(struct MHD_Connection *mhd)
{
    return MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
        ->socket_context;
}

static void meet_peer(struct connection *connection, struct http *http)
{
    const union MHD_ConnectionInfo *info;
    unsigned char key[PEER_BYTES] = {0};

    info = MHD_get_connection_info(connection->mhd,
                                   MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (info && info->client_addr) {
        peer_key(info->client_addr, key);
        connection->request.loopback = peer_is_local(info->client_addr);
    }
    connection->client = admit_meet(http->admit, key);
}

/* NULL if there is no memory; its first request will then be its end. */
static struct connection *connection_begin(struct http *http,
                                           struct MHD_Connection *mhd)
{
    struct connection *connection = malloc(sizeof(*connection));
    const union MHD_ConnectionInfo *info;

    if (!connection)
        return NULL;
    request_init(&connection->request);
    connection->request.http = http;
    connection->request.app = http->app;
    connection->request.connection = connection;
    connection->mhd = mhd;
    meet_peer(connection, http);
    info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    deadline_watch(http->deadline, &connection->watch, info->connect_fd);
    return connection;
}

static void connection_end(struct http *http, struct connection *connection)
{
    if (!connection)
        return;
    deadline_forget(http->deadline, &connection->watch);
    admit_part(http->admit, connection->client);
    free(connection);
}

/* Called when a connection begins, and before its socket is closed. */
static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = connection_begin(cls, mhd);
    } else {
        connection_end(cls, *context);
        *context = NULL;
    }
}

/* ---- one request --------------------------------------------------------- */

/* The request line has arrived. What is returned becomes *context below. */
static void *on_request_line(void *cls, const char *target,
                             struct MHD_Connection *mhd)
{
    struct connection *connection = connection_of(mhd);
    struct http *http = cls;

    if (!connection)
        return NULL;
    deadline_restart(http->deadline, &connection->watch);
    if (!request_begin(&connection->request, target ? target : ""))
        return NULL;
    connection->request.target_at = target;
    return connection;
}

static enum MHD_Result send_reply(struct connection *connection)
{
    struct request *request = &connection->request;
    struct MHD_Response *response;
    enum MHD_Result result;
    size_t i;

    /* The bytes are the request's, which outlives the response. */
    response = MHD_create_response_from_buffer(request->reply_size,
                                               (void *)request->reply_body,
                                               MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    for (i = 0; i < request->headers_n; i++)
        MHD_add_response_header(response, request->headers[i].name,
                                request->headers[i].value);
    if (!http_is_open(request->http))
        MHD_add_response_header(response, "Connection", "close");
    request->stage = REQUEST_REPLIED;
    metrics_http(request->app->metrics, request->status);
    result = MHD_queue_response(connection->mhd, request->status, response);
    MHD_destroy_response(response);
    return result;
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
    request->counted = true;
    door_enter(&request->http->door);
    MHD_get_connection_values_n(connection->mhd, MHD_HEADER_KIND, on_field,
                                request);
    view.fields_n = request->fields_n;
    fill_seams(&view, connection);
    gate_check(&view, &request->verdict);
}

/*
 * Called for a request at least twice: with its head, with each part of its
 * body, at its end; and again when it was suspended and goes on.
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
        begin(connection, method, version);
        if (!request->verdict.close)
            return MHD_YES;
        request_dispatch(request);
        break;
    case REQUEST_READING:
        *data_size = 0;
        if (size)
            return request_read(request, data, size) ? MHD_YES : MHD_NO;
        request_dispatch(request);
        break;
    case REQUEST_WAITING:
        deadline_restart(request->http->deadline, &connection->watch);
        if (!request->status)
            request->answer(request);
        request->stage = REQUEST_READING;
        break;
    case REQUEST_REPLIED:
        return MHD_YES;
    }
    return request->stage == REQUEST_WAITING ? MHD_YES : send_reply(connection);
}

/* The reply was sent, or the connection broke. Here a request ends. */
static void on_completed(void *cls, struct MHD_Connection *mhd, void **context,
                         enum MHD_RequestTerminationCode code)
{
    struct connection *connection = *context;
    struct request *request;
    struct http *http = cls;

    (void)mhd, (void)code;
    *context = NULL;
    if (!connection)
        return;
    request = &connection->request;
    deadline_restart(http->deadline, &connection->watch);
    if (request->admitted)
        admit_leave(connection->client);
    if (request->counted)
        door_leave(&http->door);
    request_end(request);
}

bool http_admit(struct request *request)
{
    const struct connection *connection = request->connection;

    request->admitted = admit_enter(request->http->admit, connection->client);
    return request->admitted;
}

bool http_park(struct request *request, bool (*hand_over)(struct request *))
{
    struct connection *connection = request->connection;
    struct http *http = request->http;
    bool taken = false;

    if (door_hand(&http->door)) {
        request->stage = REQUEST_WAITING;
        deadline_pause(http->deadline, &connection->watch);
        MHD_suspend_connection(connection->mhd);
        taken = hand_over(request);
        /* Not wanted: be resumed, and reply when called again. */
        if (!taken)
            MHD_resume_connection(connection->mhd);
    }
    door_handed(&http->door);
    return taken;
}

void http_wake(struct request *request)
{
    struct connection *connection = request->connection;

    MHD_resume_connection(connection->mhd);
}

/* ---- the daemon ---------------------------------------------------------- */

static size_t leave_escaped(void *cls, struct MHD_Connection *mhd, char *text)
{
    (void)cls, (void)mhd;
    return strlen(text);
}

struct MHD_Daemon *mhd_start(struct http *http)
{
    const struct config *config = http->app->config;
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_LISTEN_SOCKET, http->listener, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, HTTP_CONNECTION_BYTES, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)config->connections_max, NULL},
        /* A second net below our own deadline, for idle connections too. */
        {MHD_OPTION_CONNECTION_TIMEOUT,
         (intptr_t)(config->request_deadline_ms / 1000 + 5), NULL},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, http},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_completed, http},
        {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)on_request_line, http},
        {MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)leave_escaped, NULL},
        /* Not strict: its own refusal of a request without Host is broken. */
        {MHD_OPTION_STRICT_FOR_CLIENT, 0, NULL},
        {config->http_threads > 1 ? MHD_OPTION_THREAD_POOL_SIZE
                                  : MHD_OPTION_END,
         (intptr_t)config->http_threads, NULL},
        {MHD_OPTION_END, 0, NULL},
    };

    return MHD_start_daemon(
        MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
        on_request, http, MHD_OPTION_ARRAY, options, MHD_OPTION_END);
}

void mhd_quiesce(struct http *http)
{
    MHD_quiesce_daemon(http->daemon);
}

void mhd_stop(struct http *http)
{
    MHD_stop_daemon(http->daemon);
}
