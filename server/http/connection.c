/*
 * A connection and its request may end in either order: usually the request is
 * first, but a client may leave while its order waits. The second to end frees
 * both. The loop's thread hears of both ends, so it needs no count.
 */
#include "server/http/connection.h"

#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "server/base/app.h"
#include "server/base/config.h"
#include "server/base/metrics.h"
#include "server/http/client_limit.h"
#include "server/http/reply.h"

#define NEVER     UINT64_MAX
#define LINGER_US 1000000 /* for a client to read why it is cut */

#define NEWS_BYTES 4096 /* at a time, of a reply without an end */

static uint64_t limit_us(const struct connection *connection)
{
    const struct config *config = connection->request.app->config;

    return (uint64_t)config->request_deadline_ms * 1000;
}

/* Without memory for the timer there is no limit, as long as that lasts. */
static void set_due(struct connection *connection, uint64_t due_us)
{
    struct timer *timer = &connection->timer;

    connection->due_us = due_us;
    if (due_us != NEVER && !(timer->place && timer->due_us <= due_us))
        (void)timers_set(&connection->request.loop->timers, timer, due_us);
}

struct connection *connection_begin(struct loop *loop, int fd,
                                    const struct sockaddr *peer)
{
    struct connection *connection = malloc(sizeof(*connection));
    struct request *request;

    if (!connection)
        return NULL;
    request = &connection->request;
    /* But for the request's last part, which is large. */
    memset(connection, 0, offsetof(struct connection, request.fields));
    request->app = loop->app;
    request->loop = loop;
    connection->fd = fd;
    connection_restart(connection);
    if (!connection->timer.place) {
        free(connection);
        return NULL;
    }
    request->peer = address_of(peer);
    request->loopback = address_is_loopback(&request->peer);
    request->proxy =
        address_is_listed(loop->app->config->trusted_proxy, &request->peer);
    request->client = client_limit_meet(loop->limit, &request->peer);
    atomic_fetch_add(&loop->group->connections_n, 1);
    return connection;
}

void connection_restart(struct connection *connection)
{
    set_due(connection,
            connection->request.loop->now_us + limit_us(connection));
}

/* Half of the limit is left to the task itself and to the reply. */
void connection_wait(struct connection *connection)
{
    const struct request *request = &connection->request;

    set_due(connection, request->waits_for == REQUEST_FOR_TASK
                            ? request->loop->now_us + limit_us(connection) / 2
                            : NEVER);
}

void connection_finish(struct connection *connection)
{
    struct request *request = &connection->request;

    if (request->limited)
        client_limit_leave(request->limited);
    if (request->limited && request->proxy)
        client_limit_part(request->loop->limit, request->limited);
    if (request->counted)
        atomic_fetch_sub(&request->loop->requests, 1);
    request->limited = NULL;
    request->counted = false;
    feed_leave(&request->viewer);
    request_end(request);
}

static void connection_free(struct connection *connection)
{
    connection_finish(connection);
    client_limit_part(connection->request.loop->limit,
                      connection->request.client);
    free(connection);
}

void connection_end(struct connection *connection)
{
    struct request *request;

    if (!connection)
        return;
    request = &connection->request;
    timers_cancel(&request->loop->timers, &connection->timer);
    atomic_fetch_sub(&request->loop->group->connections_n, 1);
    loop_heard(request->loop, &connection->mark);
    connection->handle = NULL;
    if (request->stage != REQUEST_WAITING || suspend_withdraw(request))
        connection_free(connection);
}

/* ---- replies --------------------------------------------------------------- */

/* A suspended connection is not seen to break by the library. */
static bool has_left(const struct connection *connection)
{
    char byte;
    ssize_t n = recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/*
 * More for one who watches. Its connection is suspended while there is nothing,
 * because the library would ask in every pass; and looks again by its timer, so no
 * other thread has to know of it. Each piece has a time limit, as a request has: who
 * does not read is cut.
 */
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
    if (!size && (!connection->timer.place || has_left(connection))) {
        shutdown(connection->fd, SHUT_RDWR);
        bytes[size++] = '\n';
    }
    if (size) {
        loop_again(loop);
        return (ssize_t)size;
    }
    viewer->is_asleep = true;
    loop->suspended++;
    MHD_suspend_connection(connection->handle);
    return 0;
}

/* The pause of one who watches is over. */
static void watch(struct connection *connection)
{
    struct viewer *viewer = &connection->request.viewer;
    struct loop *loop = connection->request.loop;

    set_due(connection, loop->now_us + feed_pause_us(viewer->feed));
    if (!loop->draining && !feed_look(viewer) && !has_left(connection) &&
        connection->timer.place)
        return;
    viewer->is_asleep = false;
    loop->suspended--;
    MHD_resume_connection(connection->handle);
    loop_again(loop);
}

/* The bytes are the request's, which outlives the reply. While the service drains,
 * each reply says that its connection ends. */
bool connection_reply(struct connection *connection)
{
    struct request *request = &connection->request;
    const struct request_header *header = request->headers;
    struct MHD_Response *response;
    bool good;

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
    good = response;
    for (; header < request->headers + request->headers_n; header++)
        good = good &&
               MHD_add_response_header(response, header->name, header->value);
    if (request->loop->draining)
        good = good && MHD_add_response_header(response, "Connection", "close");
    good = good && MHD_queue_response(connection->handle, request->status,
                                      response) == MHD_YES;
    if (response)
        MHD_destroy_response(response);
    return good;
}

/*
 * The reply is queued here and not by the access handler, which would cost a
 * pass more: one to queue it, another to send it. Without threads of its own
 * the library allows this at any time, though its manual only says so in later
 * versions.
 */
static void resume(struct connection *connection)
{
    struct request *request = &connection->request;

    if (!request->status)
        request->answer(request);
    connection_restart(connection);
    if (!connection_reply(connection))
        request->stage = REQUEST_FAILED;
}

void connection_resume(struct completion *completion)
{
    struct connection *connection =
        CONTAINER_OF(completion, struct connection, request.completion);
    struct request *request = &connection->request;

    if (request->waits_for == REQUEST_FOR_ORDER)
        request->loop->awaited--;
    if (connection->handle)
        resume(connection);
    else
        connection_free(connection);
}

/*
 * The body did not come in time. libmicrohttpd takes no reply before its end; so
 * this one is written past it, which works as long as nothing else is being
 * sent. What comes of the body after that ends the connection.
 */
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
    shutdown(connection->fd, SHUT_WR);
    set_due(connection, request->loop->now_us + LINGER_US);
}

void connection_due(struct timer *timer)
{
    struct connection *connection =
        CONTAINER_OF(timer, struct connection, timer);
    struct request *request = &connection->request;

    if (connection->due_us > request->loop->now_us)
        set_due(connection, connection->due_us);
    else if (request->viewer.is_asleep)
        watch(connection);
    else if (request->stage == REQUEST_READING)
        reply_late(connection);
    else if (request->stage != REQUEST_WAITING)
        /* The socket is the library's to close: it finds it ended by the peer. */
        shutdown(connection->fd, SHUT_RDWR);
    else if (suspend_withdraw(request))
        resume(connection);
}
