/*
 * A connection and its request may end in either order: usually the request is
 * first, but a client may leave while its order waits. The second to end frees
 * both. The loop's thread hears of both ends, so it needs no count.
 */
#include "server/http/connection.h"

#include <stdlib.h>
#include <string.h>

#include "server/app.h"
#include "server/config.h"
#include "server/http/client_limit.h"
#include "server/http/request/access.h"

#define NEVER UINT64_MAX

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

struct connection *connection_begin(const struct app *app, struct loop *loop,
                                    struct client_limit *limit, int fd,
                                    const struct sockaddr *peer)
{
    struct connection *connection = malloc(sizeof(*connection));
    struct request *request;

    if (!connection)
        return NULL;
    request = &connection->request;
    memset(request, 0, offsetof(struct request, fields));
    request->app = app;
    request->loop = loop;
    connection->fd = fd;
    connection->mark = (struct loop_mark){0};
    connection->timer = (struct timer){0};
    connection->kept = (struct response){0};
    connection_restart(connection);
    if (!connection->timer.place) {
        free(connection);
        return NULL;
    }
    request->loopback = peer && access_is_local(peer);
    request->limit = limit;
    request->client = client_limit_meet(limit, peer);
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

bool connection_is_due(struct connection *connection)
{
    uint64_t due_us = connection->due_us;

    if (due_us <= connection->request.loop->now_us)
        return true;
    set_due(connection, due_us);
    return false;
}

void connection_finish(struct connection *connection)
{
    struct request *request = &connection->request;

    if (request->limited)
        client_limit_leave(request->client);
    if (request->counted)
        atomic_fetch_sub(&request->loop->requests, 1);
    request->limited = request->counted = false;
    request_end(request);
}

void connection_free(struct connection *connection)
{
    connection_finish(connection);
    client_limit_part(connection->request.limit, connection->request.client);
    response_forget(&connection->kept);
    free(connection);
}

void connection_end(struct connection *connection)
{
    struct request *request;

    if (!connection)
        return;
    request = &connection->request;
    timers_cancel(&request->loop->timers, &connection->timer);
    loop_heard(request->loop, &connection->mark);
    connection->handle = NULL;
    if (request->stage != REQUEST_WAITING || suspend_withdraw(request))
        connection_free(connection);
}
