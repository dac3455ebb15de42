/*
 * The connections of an HTTP thread, each with its time limit and its one request; and
 * libmicrohttpd, which reads the requests and writes the replies. All of it belongs to
 * the thread of its loop.
 *
 * The number of connections is limited by the library: in all, beyond which
 * newcomers wait in the kernel, and for each address, beyond which they are closed
 * at once. An idle connection makes room by its time limit.
 *
 * A connection lives from its accept to its close, and longer if it breaks while its
 * request waits for another thread: until that request comes back.
 *
 * The time limit
 * --------------
 * A client that sends one byte a second is never inactive, nor is one that reads
 * one. So there is a limit for the whole request: it begins with the connection,
 * again with each request line and again with each reply that is queued or sent.
 * A connection that is over its limit is cut. While its request waits for us,
 * the limit is the one of the task that it waits for, or there is none.
 *
 * To begin anew is to store a number: the timer is set when there is none, and
 * looks at the number when it fires.
 *
 * libmicrohttpd
 * -------------
 * No other file knows libmicrohttpd (0.9.75), and here its sharp edges are kept:
 *
 * - A reply queued in the first call of the access handler closes the
 *   connection afterwards; one queued in the last call keeps it. So refusals
 *   that need a close are given in the first, all others in the last.
 * - A request that waits is not suspended, which would cost it one or two system
 *   calls, more than all else that the library does for an order: its connection
 *   stays in the library's list of those that are ready, and the handler is asked
 *   in every pass, some ten nanoseconds. http.c knows when to sleep. Only a
 *   viewer's is, because it waits most of the time; while suspended it is not
 *   seen to break, and must be resumed before the library ends.
 * - Its epoll loop waits again, for ever, before it serves exactly 128 ready
 *   sockets. So it is told never to wait.
 * - If a connection breaks while its request waits, the library forgets it at
 *   once; we keep it until the request came back. The second of the two to end frees
 *   both; the loop's thread hears of both ends.
 * - Its timeouts are not used: the limit above does all that they do, and
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
#include "server/http/loop.h"

#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#include "server/base/app.h"
#include "server/base/config.h"
#include "server/base/metrics.h"
#include "server/http/reply.h"
#include "server/http/route.h"

#define NEVER     UINT64_MAX
#define LINGER_US 1000000 /* for a client to read why it is cut */

#define NEWS_BYTES 4096 /* at a time, of a reply without an end */

/* A connection's memory: 8 KiB of head, what libmicrohttpd keeps about its
 * fields, the reply's head. Wiped after every request: more would cost. */
#define MHD_CONNECTION_BYTES 13312

struct connection {
    struct MHD_Connection *handle; /* NULL: it is closed */
    int fd;
    struct loop_mark mark;
    struct timer timer;
    uint64_t due_us; /* NEVER = no limit now */
    struct request request;
};

/* ---- the time limit -------------------------------------------------------- */

static uint64_t limit_us(const struct connection *connection)
{
    const struct config *config = connection->request.app->config;

    return (uint64_t)config->request_deadline_ms * 1000;
}

static void set_due(struct connection *connection, uint64_t due_us)
{
    struct timer *timer = &connection->timer;

    /* A timer that fires too early sets itself anew in come_due(); to move it
     * at each request would cost a step in the heap. */
    connection->due_us = due_us;
    if (due_us != NEVER && !(timer->place && timer->due_us <= due_us))
        timers_set(&connection->request.loop->timers, timer, due_us);
}

/* The limit of its client begins anew. */
static void restart(struct connection *connection)
{
    set_due(connection,
            connection->request.loop->now_us + limit_us(connection));
}

/* ---- the end ----------------------------------------------------------------- */

/* Its request ends; the next may begin. */
static void finish(struct connection *connection)
{
    struct request *request = &connection->request;

    /* The place of the client's order is free only now, when the reply was sent
     * or its connection has gone: so a client that does not read its answers
     * gets no more places. */
    if (request->limited)
        atomic_fetch_sub(request->limited, 1);
    request->limited = NULL;
    if (request->stage != REQUEST_NEW)
        atomic_fetch_sub(&request->loop->requests, 1);
    request->stage = REQUEST_NEW;
    if (request->viewer.feed)
        feed_leave(&request->viewer);
    request_end(request);
}

static void free_it(struct connection *connection)
{
    finish(connection);
    free(connection);
}

/* ---- replies --------------------------------------------------------------- */

/* A suspended connection is not seen to break by the library. */
static bool has_left(const struct connection *connection)
{
    char byte;
    ssize_t n = recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* More for one who watches. Its connection is suspended while there is nothing, because
 * the library would ask in every pass; and looks again by its timer, so no other thread
 * has to know of it. Each piece has a time limit, as a request has: who does not read
 * is cut. */
static ssize_t read_news(void *cls, uint64_t at, char *bytes, size_t size)
{
    struct connection *connection = cls;
    struct request *request = &connection->request;
    struct loop *loop = request->loop;
    struct viewer *viewer = &request->viewer;

    (void)at;
    if (loop->draining)
        return MHD_CONTENT_READER_END_OF_STREAM;
    size = feed_read(viewer, bytes, size);
    set_due(connection, loop->now_us + (size ? limit_us(connection)
                                             : feed_pause_us(viewer->feed)));
    /* Told of an error the library might keep the connection: a write that fails
     * is what it always ends one for. */
    if (!size && has_left(connection)) {
        shutdown(connection->fd, SHUT_RDWR);
        bytes[size++] = '\n';
    }
    if (size) {
        loop->begun++;
        return (ssize_t)size;
    }
    viewer->is_asleep = true;
    loop->suspended++;
    MHD_suspend_connection(connection->handle);
    return 0;
}

/* The bytes are the request's, which outlives the reply. While the service drains,
 * each reply says that its connection ends. */
static bool reply(struct connection *connection)
{
    struct request *request = &connection->request;
    const struct request_header *header = request->headers;
    struct MHD_Response *response;
    bool good;

    /* The stage comes first: the library may call back while the reply is
     * queued. */
    request->stage = REQUEST_REPLIED;
    loop_begun(request->loop, &connection->mark);
    metrics_http(request->app->metrics, request->status);
    if (request->viewer.feed)
        response = MHD_create_response_from_callback(
            MHD_SIZE_UNKNOWN, NEWS_BYTES, read_news, connection, NULL);
    else
        response = MHD_create_response_from_buffer(request->reply_size,
                                                   (void *)request->reply_body,
                                                   MHD_RESPMEM_PERSISTENT);
    /* The library ends with a chunk what has no length, a HEAD's reply as well. */
    good =
        response &&
        (!request->viewer.feed || !request->is_head ||
         MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT,
                                  MHD_RO_END) == MHD_YES);
    for (; header < request->headers + request->headers_n; header++)
        good = good &&
               MHD_add_response_header(response, header->name, header->value);
    if (request->loop->draining)
        good = good && MHD_add_response_header(response, "Connection", "close");
    good = good && MHD_queue_response(connection->handle, request->status,
                                      response) == MHD_YES;
    /* The response is counted by its users: the library keeps it as long as it
     * needs it. */
    if (response)
        MHD_destroy_response(response);
    return good;
}

/* The reply is queued here and not by the access handler, which would cost a pass more:
 * one to queue it, another to send it. Without threads of its own the library allows
 * this at any time, though its manual only says so in later versions. */
static void resume(struct connection *connection)
{
    struct request *request = &connection->request;

    /* A task has made its reply on its own thread; what others have served is
     * rendered here. */
    if (!request->status)
        request->answer(request);
    restart(connection);
    if (!reply(connection))
        request->stage = REQUEST_FAILED;
}

/* The body did not come in time. libmicrohttpd takes no reply before its end; so this
 * one is written past it, which works as long as nothing else is being sent. A part
 * of the body that comes later ends the connection. */
static void reply_late(struct connection *connection)
{
    struct request *request = &connection->request;
    time_t now = time(NULL);
    char date[32], text[1024];
    struct tm utc;
    int size;

    reply_problem(request, PROBLEM_LATE,
                  "the body did not come in time; nothing was changed");
    strftime(date, sizeof(date), "%a, %d %b %Y %T GMT", gmtime_r(&now, &utc));
    size = snprintf(text, sizeof(text),
                    "HTTP/1.1 408 Request Timeout\r\nDate: %s\r\n"
                    "Content-Type: application/problem+json\r\n"
                    "Content-Length: %zu\r\nConnection: close\r\n\r\n%.*s",
                    date, request->reply_size, (int)request->reply_size,
                    request->reply_body);
    assert(size > 0 && (size_t)size < sizeof(text));
    request->stage = REQUEST_FAILED;
    metrics_http(request->app->metrics, request->status);
    (void)send(connection->fd, text, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);
    /* Only our direction is closed: a client that still sends would get a
     * reset, and lose the reply, if both were. */
    shutdown(connection->fd, SHUT_WR);
    set_due(connection, request->loop->now_us + LINGER_US);
}

static void come_due(struct timer *timer)
{
    struct connection *connection =
        CONTAINER_OF(timer, struct connection, timer);
    struct request *request = &connection->request;
    struct viewer *viewer = &request->viewer;
    struct loop *loop = request->loop;

    /* The limit was moved since the timer was set. */
    if (connection->due_us > loop->now_us) {
        set_due(connection, connection->due_us);
    } else if (viewer->is_asleep) {
        set_due(connection, loop->now_us + feed_pause_us(viewer->feed));
        if (!loop->draining && !feed_look(viewer) && !has_left(connection))
            return;
        viewer->is_asleep = false;
        loop->suspended--;
        MHD_resume_connection(connection->handle);
        loop->begun++;
    } else if (request->stage == REQUEST_READING) {
        reply_late(connection);
    } else if (request->stage != REQUEST_WAITING) {
        /* The socket is the library's to close: it finds it ended by the peer. */
        shutdown(connection->fd, SHUT_RDWR);
    } else if (suspend_withdraw(request)) {
        /* A task that has begun is waited for: it has the request, and its own
         * end is bound. */
        resume(connection);
    }
}

/* ---- the beginning --------------------------------------------------------- */

/* NULL if there is no memory. */
static struct connection *begin_connection(struct loop *loop,
                                           struct MHD_Connection *handle)
{
    const union MHD_ConnectionInfo *info;
    struct connection *connection = malloc(sizeof(*connection));
    struct request *request;

    if (!connection)
        return NULL;
    request = &connection->request;
    /* But for the request's last part, which is large. */
    memset(connection, 0, offsetof(struct connection, request.head.fields));
    request->app = loop->app;
    request->loop = loop;
    restart(connection);
    connection->handle = handle;
    info = MHD_get_connection_info(handle, MHD_CONNECTION_INFO_CONNECTION_FD);
    connection->fd = info->connect_fd;
    info = MHD_get_connection_info(handle, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    request->peer = address_of(info ? info->client_addr : NULL);
    atomic_fetch_add(&loop->group->connections_n, 1);
    return connection;
}

/* Called when a connection begins, and before its socket is closed. *CONTEXT is
 * NULL if there is no memory; then its first request ends it. If its request waits, it
 * is freed when that came back. */
static void on_connection(void *cls, struct MHD_Connection *handle,
                          void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct connection *connection = *context;
    struct loop *loop = cls;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = begin_connection(loop, handle);
        return;
    }
    *context = NULL;
    loop->begun++; /* there may be room for the next now */
    if (!connection)
        return;
    timers_cancel(&loop->timers, &connection->timer);
    atomic_fetch_sub(&loop->group->connections_n, 1);
    loop_heard(loop, &connection->mark);
    /* The library frees the handle after this call: a request that comes back
     * must find that there is nobody to answer. */
    connection->handle = NULL;
    /* A request that another thread has keeps its connection; mhd_serve() frees
     * it when it comes back. */
    if (connection->request.stage != REQUEST_WAITING ||
        suspend_withdraw(&connection->request))
        free_it(connection);
}

/* ---- one request --------------------------------------------------------- */

/* The request line has arrived. The pointer that is returned becomes *context below. */
static void *on_request_line(void *cls, const char *target,
                             struct MHD_Connection *handle)
{
    const union MHD_ConnectionInfo *info;
    struct connection *connection;
    const struct loop *loop = cls;
    char *mark;

    info = MHD_get_connection_info(handle, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    connection = info->socket_context;
    if (!connection)
        return NULL;
    restart(connection);
    loop_heard(connection->request.loop, &connection->mark);
    if (!request_begin(&connection->request, target ? target : ""))
        return NULL;
    /* The query is cut off before the library parses it into arguments, each of
     * which would take its memory. */
    mark = loop->parses_in_place && target ? strchr(target, '?') : NULL;
    if (mark && mark[1])
        mark[1] = '\0'; /* the request has a copy */
    return connection;
}

static enum MHD_Result on_field(void *cls, enum MHD_ValueKind kind,
                                const char *name, size_t name_size,
                                const char *value, size_t value_size)
{
    struct check_head *head = cls;
    size_t size = value ? value_size : 0;

    (void)kind;
    /* One more than the check allows: it has to see that there are more. */
    if (head->fields_n > CHECK_FIELDS_MAX)
        return MHD_NO;
    /* Blanks after a value are not part of it. */
    while (size > 0 && strchr(" \t", value[size - 1]))
        ((char *)value)[--size] = '\0';
    head->fields[head->fields_n++] = (struct check_field){
        name, value ? value : "", name_size, size, value_size - size};
    return MHD_YES;
}

/* All of the request is here. */
static enum MHD_Result dispatch(struct connection *connection,
                                const char *method)
{
    struct request *request = &connection->request;

    loop_done(request->loop, &connection->mark);
    route_dispatch(request, method);
    if (request->stage != REQUEST_WAITING)
        return reply(connection) ? MHD_YES : MHD_NO;
    /* Half of the limit is left to a task itself and to the reply. */
    set_due(connection, request->waits_for == REQUEST_FOR_TASK
                            ? request->loop->now_us + limit_us(connection) / 2
                            : NEVER);
    return MHD_YES;
}

/* Called for a request at least twice: with its head, with each part of its body, at
 * its end; and then in every pass until there is a reply. */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *handle,
                                  const char *url, const char *method,
                                  const char *version, const char *data,
                                  size_t *data_size, void **context)
{
    struct connection *connection = *context;
    const union MHD_ConnectionInfo *info;
    struct request *request;
    struct check_head *head;
    size_t size = *data_size;

    (void)cls, (void)url;
    if (!connection)
        return MHD_NO;
    request = &connection->request;
    head = &request->head;
    if (request->stage == REQUEST_NEW) { /* the head is complete */
        loop_begun(request->loop, &connection->mark);
        request->stage = REQUEST_READING;
        head->method = method;
        head->version = version;
        request->is_head = !strcmp(method, "HEAD");
        request->is_read = request->is_head || !strcmp(method, "GET");
        atomic_fetch_add(&request->loop->requests, 1);
        MHD_get_connection_values_n(handle, MHD_HEADER_KIND, on_field, head);
        info = MHD_get_connection_info(handle,
                                       MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
        if (request->loop->parses_in_place && info) {
            head->bytes = method;
            head->size = info->header_size;
        }
        check_head(head, &request->verdict);
        /* A verdict that closes is replied in the first call, after which the
         * library closes; a body is not read then. */
        return request->verdict.close ? dispatch(connection, method) : MHD_YES;
    }
    if (request->stage != REQUEST_READING)
        return request->stage == REQUEST_FAILED ? MHD_NO : MHD_YES;
    /* All of the bytes are taken: the library would bring what is left once
     * more. */
    *data_size = 0;
    if (!size)
        return dispatch(connection, method);
    loop_begun(request->loop, &connection->mark);
    return request_read(request, data, size) ? MHD_YES : MHD_NO;
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
        request->loop->begun++;
    /* The customer of an order has the answer, and may send the next: the loop
     * gathers that together with others'. */
    if (request->waits_for == REQUEST_FOR_ORDER)
        loop_answered(request->loop, &connection->mark);
    restart(connection);
    finish(connection);
}

/* ---- the daemon ---------------------------------------------------------- */

static size_t leave_escaped(void *cls, struct MHD_Connection *handle,
                            char *text)
{
    (void)cls, (void)handle;
    return strlen(text);
}

bool mhd_start(struct loop *loop, int listener, unsigned connections_max,
               unsigned address_max)
{
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_LISTEN_SOCKET, listener, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, MHD_CONNECTION_BYTES, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)connections_max, NULL},
        {MHD_OPTION_PER_IP_CONNECTION_LIMIT, (intptr_t)address_max, NULL},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, loop},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_completed, NULL},
        {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)on_request_line, loop},
        {MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)leave_escaped, NULL},
        /* Not strict: its own refusal of a request without Host is broken. */
        {MHD_OPTION_STRICT_FOR_CLIENT, 0, NULL},
        {MHD_OPTION_END, 0, NULL},
    };

    loop->parses_in_place = strverscmp(MHD_get_version(), "0.9.76") < 0;
    loop->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0,
                                    NULL, NULL, on_request, NULL,
                                    MHD_OPTION_ARRAY, options, MHD_OPTION_END);
    return loop->daemon &&
           loop_watch(
               loop, MHD_get_daemon_info(loop->daemon, MHD_DAEMON_INFO_EPOLL_FD)
                         ->epoll_fd);
}

/* The library is not asked for another pass while requests wait, because it always says
 * yes then. */
void *mhd_serve(void *cls)
{
    struct loop *loop = cls;
    struct connection *connection;
    struct request *request, *next;
    MHD_UNSIGNED_LONG_LONG ms = 0;
    struct timer *timer;

    /* The kernel would add 50 us to the short sleeps of gathering. */
    prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
    /* A pass: what came back from other threads, what is due, what the network
     * brought; then the gathered orders, and sleep. */
    while (loop_begin_pass(loop)) {
        /* Until none has come meanwhile: a pass of the library costs more than a look. */
        while ((request = loop_take(loop)))
            for (; request; request = next) {
                next = request->next;
                connection = CONTAINER_OF(request, struct connection, request);
                loop->awaited -= request->waits_for == REQUEST_FOR_ORDER;
                if (connection->handle)
                    resume(connection);
                else
                    free_it(connection);
            }
        while ((timer = timers_pop(&loop->timers, loop->now_us)))
            come_due(timer);
        if (loop->draining) /* from now on it accepts no more */
            MHD_quiesce_daemon(loop->daemon);
        MHD_run_wait(loop->daemon, 0);
        loop_end_pass(loop,
                      loop->begun > 0 ||
                          (loop->expected == 0 &&
                           MHD_get_timeout(loop->daemon, &ms) && ms == 0));
    }
    return NULL;
}

/* Quiesced, it leaves the listener alone. */
void mhd_stop(struct loop *loop)
{
    if (!loop->daemon)
        return;
    MHD_quiesce_daemon(loop->daemon);
    MHD_stop_daemon(loop->daemon);
}
