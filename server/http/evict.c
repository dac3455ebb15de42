/* Which connection gives way if there are too many; the rule is in connection.h. */
#include <errno.h>
#include <sys/socket.h>

#include "server/http/connection.h"

#define GRACE_US 1000000 /* for a head to come */

/*
 * A connection that is cut is shut down and not closed: the socket belongs to
 * libmicrohttpd, which finds it ended by the peer and cleans up as usual.
 */
void connection_cut(struct connection *connection)
{
    connection_busy(connection); /* is not looked at again */
    if (!connection->is_cut)
        connection->request.loop->connections_n--;
    connection->is_cut = true;
    shutdown(connection->fd, SHUT_RDWR);
}

/*
 * Its client has sent nothing that libmicrohttpd has not read yet. What it has
 * read shows once the request line is whole: on_request_line() then grants a new
 * grace. It does not show half a request line; a client that loses that gets no
 * reply, and may ask again, as nothing has begun.
 */
static bool is_silent(const struct connection *connection)
{
    char byte;

    return recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           errno == EAGAIN;
}

/* The first of LIST that may be cut by THEN, of CLIENT or, if that is NULL, of
 * anybody. NULL: there is none. */
static struct connection *find(const struct idle *list,
                               const struct client *client, uint64_t then_us)
{
    struct connection *connection;

    TAILQ_FOREACH(connection, list, place)
    {
        if (connection->spare_us > then_us)
            break;
        if ((!client || connection->request.client == client) &&
            is_silent(connection))
            return connection;
    }
    return NULL;
}

/* Cuts the one that could be cut for longest. False: there is none. */
static bool cut_idle(struct loop *loop, const struct client *client,
                     uint64_t then_us)
{
    struct connection *answered = find(&loop->answered_idle, client, then_us);
    struct connection *fresh = find(&loop->fresh, client, then_us);

    if (answered && (!fresh || answered->spare_us <= fresh->spare_us))
        connection_cut(answered);
    else if (fresh)
        connection_cut(fresh);
    return answered || fresh;
}

bool connection_cut_own(struct loop *loop, const struct client *client)
{
    return cut_idle(loop, client, loop->now_us) ||
           cut_idle(loop, client, UINT64_MAX);
}

void connection_make_room(struct loop *loop)
{
    struct connection *first = TAILQ_FIRST(&loop->fresh);

    if (loop->connections_n <= loop->connections_max ||
        cut_idle(loop, NULL, loop->now_us))
        return;
    /* When its timer fires, too early for itself, there is another pass. */
    if (first && first->spare_us > loop->now_us)
        (void)timers_set(&loop->timers, &first->timer, first->spare_us);
}

void connection_busy(struct connection *connection)
{
    if (connection->list)
        TAILQ_REMOVE(connection->list, connection, place);
    connection->list = NULL;
}

static void stand_in(struct connection *connection, struct idle *list,
                     uint64_t spare_us)
{
    connection_busy(connection);
    if (connection->is_cut)
        return;
    connection->spare_us = spare_us;
    connection->list = list;
    TAILQ_INSERT_TAIL(list, connection, place);
}

void connection_fresh(struct connection *connection)
{
    struct loop *loop = connection->request.loop;

    stand_in(connection, &loop->fresh, loop->now_us + GRACE_US);
}

void connection_idle(struct connection *connection)
{
    struct loop *loop = connection->request.loop;

    stand_in(connection, &loop->answered_idle, loop->now_us);
}
