/*
 * The only file that knows libmicrohttpd (0.9.75), and where its sharp edges
 * are kept:
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
#include "server/http/http.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/app.h"
#include "server/config.h"
#include "server/http/admit.h"
#include "server/http/deadline.h"
#include "server/http/door.h"
#include "server/http/gate.h"
#include "server/http/listen.h"
#include "server/http/parse.h"
#include "server/http/peer.h"
#include "server/http/request.h"
#include "server/metrics.h"

/* A connection's memory: 8 KiB of head, what libmicrohttpd keeps about its
 * fields, the reply's head. Wiped after every request: more would cost. */
#define HTTP_CONNECTION_BYTES 13312

struct http {
    const struct app *app;
    struct MHD_Daemon *daemon;
    struct deadline *deadline;
    struct admit *admit;
    struct door door;
    int listener;
    char address[LISTEN_ADDRESS_BYTES];
};

const char *http_address(const struct http *http)
{
    return http->address;
}

bool http_is_open(struct http *http)
{
    return door_is_open(&http->door);
}

/* ---- one connection ------------------------------------------------------ */

static struct deadline_watch *watch_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection,
                                   MHD_CONNECTION_INFO_SOCKET_CONTEXT)
        ->socket_context;
}

/* Called when a connection begins, and before its socket is closed. */
static void on_connection(void *cls, struct MHD_Connection *connection,
                          void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    const union MHD_ConnectionInfo *info;
    struct http *http = cls;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        info = MHD_get_connection_info(connection,
                                       MHD_CONNECTION_INFO_CONNECTION_FD);
        /* Without memory for it, libmicrohttpd's own timeout is left. */
        *context = calloc(1, sizeof(struct deadline_watch));
        deadline_watch(http->deadline, *context, info->connect_fd);
    } else {
        deadline_forget(http->deadline, *context);
        free(*context);
        *context = NULL;
    }
}

static void fill_peer(struct request *request)
{
    const union MHD_ConnectionInfo *info;

    info = MHD_get_connection_info(request->connection,
                                   MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (!info || !info->client_addr)
        return;
    peer_key(info->client_addr, request->client);
    request->loopback = peer_is_local(info->client_addr);
}

/* ---- one request --------------------------------------------------------- */

/* The request line has arrived. What is returned becomes *context below. */
static void *on_request_line(void *cls, const char *target,
                             struct MHD_Connection *connection)
{
    struct request *request = request_new(target ? target : "");
    struct http *http = cls;

    deadline_restart(http->deadline, watch_of(connection));
    if (!request)
        return NULL;
    request->http = http;
    request->app = http->app;
    request->connection = connection;
    request->target_at = target;
    return request;
}

static enum MHD_Result send_reply(struct request *request)
{
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
    result = MHD_queue_response(request->connection, request->status, response);
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
static void fill_seams(struct gate_view *view, const struct request *request)
{
    const union MHD_ConnectionInfo *info;

    info = MHD_get_connection_info(request->connection,
                                   MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (MHD_VERSION >= 0x00097600 || !info)
        return; /* later ones see to it themselves */
    view->head = view->method;
    view->head_size = info->header_size;
    view->target_at = request->target_at;
}

/* The head is complete: collect it and let the gate look at it. */
static void begin(struct request *request, const char *method,
                  const char *version)
{
    struct gate_view view = {.method = method,
                             .version = version,
                             .target = request->target,
                             .target_size = request->target_size,
                             .fields = request->fields};

    request->stage = REQUEST_READING;
    request->method = method;
    request->counted = true;
    door_enter(&request->http->door);
    MHD_get_connection_values_n(request->connection, MHD_HEADER_KIND, on_field,
                                request);
    view.fields_n = request->fields_n;
    fill_seams(&view, request);
    gate_check(&view, &request->verdict);
    fill_peer(request);
}

/*
 * Called for a request at least twice: with its head, with each part of its
 * body, at its end; and again when it was suspended and goes on.
 */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection,
                                  const char *url, const char *method,
                                  const char *version, const char *data,
                                  size_t *data_size, void **context)
{
    struct request *request = *context;
    size_t size = *data_size;

    (void)cls, (void)url;
    if (!request)
        return MHD_NO;
    switch (request->stage) {
    case REQUEST_NEW:
        begin(request, method, version);
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
        deadline_restart(request->http->deadline, watch_of(connection));
        if (!request->status)
            request->answer(request);
        request->stage = REQUEST_READING;
        break;
    case REQUEST_REPLIED:
        return MHD_YES;
    }
    return request->stage == REQUEST_WAITING ? MHD_YES : send_reply(request);
}

/* The reply was sent, or the connection broke. Here a request ends. */
static void on_completed(void *cls, struct MHD_Connection *connection,
                         void **context, enum MHD_RequestTerminationCode code)
{
    struct request *request = *context;
    struct http *http = cls;

    (void)code;
    *context = NULL;
    if (!request)
        return;
    deadline_restart(http->deadline, watch_of(connection));
    if (request->admitted)
        admit_leave(http->admit, request->client);
    if (request->counted)
        door_leave(&http->door);
    request_free(request);
}

bool http_admit(struct request *request)
{
    request->admitted = admit_enter(request->http->admit, request->client);
    return request->admitted;
}

bool http_park(struct request *request, bool (*hand_over)(struct request *))
{
    struct http *http = request->http;
    bool taken = false;

    if (door_hand(&http->door)) {
        request->stage = REQUEST_WAITING;
        deadline_pause(http->deadline, watch_of(request->connection));
        MHD_suspend_connection(request->connection);
        taken = hand_over(request);
        /* Not wanted: be resumed, and reply when called again. */
        if (!taken)
            MHD_resume_connection(request->connection);
    }
    door_handed(&http->door);
    return taken;
}

void http_wake(struct request *request)
{
    MHD_resume_connection(request->connection);
}

/* ---- the daemon ---------------------------------------------------------- */

static size_t leave_escaped(void *cls, struct MHD_Connection *connection,
                            char *text)
{
    (void)cls, (void)connection;
    return strlen(text);
}

static struct MHD_Daemon *start(struct http *http)
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

static void release(struct http *http)
{
    deadline_close(http->deadline);
    admit_close(http->admit);
    door_release(&http->door);
    free(http);
}

static struct http *prepare(const struct app *app)
{
    const struct config *config = app->config;
    struct http *http = calloc(1, sizeof(*http));

    if (!http)
        return NULL;
    http->app = app;
    door_init(&http->door);
    http->admit = admit_open((size_t)config->connections_max,
                             (size_t)config->client_inflight_max);
    http->deadline = deadline_open((unsigned)config->request_deadline_ms);
    if (http->admit && http->deadline)
        return http;
    release(http);
    return NULL;
}

struct http *http_open(const struct app *app, char *error, size_t error_size)
{
    struct http *http;

    parse_init();
    http = prepare(app);
    if (!http) {
        snprintf(error, error_size, "http: no memory or no thread");
        return NULL;
    }
    http->listener =
        listen_open(app->config->listen, http->address, error, error_size);
    if (http->listener < 0)
        goto err_after_prepare;
    http->daemon = start(http);
    if (http->daemon)
        return http;
    snprintf(error, error_size,
             "--listen %s: libmicrohttpd did not start; are there enough file "
             "descriptors for --connections-max?",
             app->config->listen);
    /* It has closed the listener on some of its ways out: leave it. */
err_after_prepare:
    release(http);
    return NULL;
}

void http_quiesce(struct http *http)
{
    if (!door_shut(&http->door))
        return;
    MHD_quiesce_daemon(http->daemon);
    /* Ends the listening at once; the number stays ours until the daemon is
       gone, whose threads may still be polling it. */
    shutdown(http->listener, SHUT_RDWR);
}

bool http_drain(struct http *http, unsigned wait_ms)
{
    return door_wait(&http->door, wait_ms);
}

void http_close(struct http *http)
{
    if (!http)
        return;
    http_quiesce(http);
    MHD_stop_daemon(http->daemon);
    close(http->listener);
    release(http);
}
