/*
 * Which connection gives way if there are too many; the rule is in connection.h.
 *
 * Only a loop's own thread can tell whether a connection is idle, at the end of a
 * pass. So each says when its idlest may be cut, in `spare_us`, and whoever finds
 * too many wakes the loop on which that is soonest. Which loop has one of a client
 * is not known: all are asked.
 */
#include <errno.h>
#include <sys/socket.h>

#include "server/base/app.h"
#include "server/base/config.h"
#include "server/http/client_limit.h"
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
        atomic_fetch_sub(&connection->request.loop->group->connections_n, 1);
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

/* The one that could be cut for longest; NULL: there is none. */
static struct connection *pick(const struct loop *loop,
                               const struct client *client, uint64_t then_us)
{
    struct connection *answered = find(&loop->answered_idle, client, then_us);
    struct connection *fresh = find(&loop->fresh, client, then_us);

    if (answered && (!fresh || answered->spare_us <= fresh->spare_us))
        return answered;
    return fresh;
}

/* ---- a client has too many --------------------------------------------------- */

/* False: there is none. */
static bool cut_own(const struct loop *loop, struct client *client,
                    uint64_t then_us)
{
    struct connection *connection = pick(loop, client, then_us);

    if (!connection)
        return false;
    if (client_limit_take(loop->limit, client)) {
        connection->request.client = NULL;
        connection_cut(connection);
    }
    return true;
}

bool connection_cut_own(struct loop *loop, struct client *client)
{
    size_t others = (size_t)loop->app->config->http_threads - 1;
    struct loop *other = atomic_load(&loop->group->first);

    if (cut_own(loop, client, UINT64_MAX))
        return true;
    for (; other; other = other->next)
        if (other != loop && !atomic_exchange(&other->wants_own, true))
            loop_wake(other);
    return !client_limit_is_over(loop->limit, client, others);
}

/* One on LIST that has too many; NULL: there is none. */
static struct client *find_over(const struct idle *list)
{
    const struct connection *connection;

    TAILQ_FOREACH(connection, list, place)
    {
        if (!connection->request.proxy &&
            client_limit_is_over(connection->request.loop->limit,
                                 connection->request.client, 0))
            return connection->request.client;
    }
    return NULL;
}

/* Not one of this pass: it was asked for those before. */
static void cut_over(const struct loop *loop)
{
    struct client *client;

    while (((client = find_over(&loop->answered_idle)) ||
            (client = find_over(&loop->fresh))) &&
           cut_own(loop, client, loop->now_us + GRACE_US - 1))
        ;
}

/* ---- there are too many in all ----------------------------------------------- */

static uint64_t first_us(const struct idle *list)
{
    return TAILQ_EMPTY(list) ? UINT64_MAX : TAILQ_FIRST(list)->spare_us;
}

static void tell_idlest(struct loop *loop)
{
    uint64_t answered_us = first_us(&loop->answered_idle);
    uint64_t fresh_us = first_us(&loop->fresh);

    atomic_store(&loop->spare_us,
                 answered_us < fresh_us ? answered_us : fresh_us);
}

/* Which loop has to cut one; NULL: none, or all connections are busy. */
static struct loop *find_loop(const struct loop_group *group)
{
    struct loop *loop = atomic_load(&group->first), *found = NULL;
    uint64_t spare_us, soonest_us = UINT64_MAX;

    if (atomic_load(&group->connections_n) <= group->connections_max)
        return NULL;
    for (; loop; loop = loop->next) {
        spare_us = atomic_load(&loop->spare_us);
        if (spare_us < soonest_us) {
            soonest_us = spare_us;
            found = loop;
        }
    }
    return found;
}

/* Two loops may each find that it has the idlest: one of them cuts it. */
static void cut(struct connection *connection)
{
    struct request *request = &connection->request;
    struct loop_group *group = request->loop->group;
    size_t n = atomic_load(&group->connections_n);

    do
        if (n <= group->connections_max)
            return;
    while (!atomic_compare_exchange_weak(&group->connections_n, &n, n - 1));
    connection->is_cut = true; /* is counted already */
    client_limit_part(request->loop->limit, request->client);
    request->client = NULL;
    connection_cut(connection);
}

/*
 * What wakes a loop is cleared before it looks: who asks later wakes it again. It
 * stays set while the idlest is in its second. When the timer of that fires, too
 * early for itself, there is another pass, so nobody needs to ask.
 */
void connection_make_room(struct loop *loop)
{
    struct connection *idlest, *first;
    struct loop *found;

    atomic_store(&loop->wants_room, false);
    if (atomic_exchange(&loop->wants_own, false))
        cut_over(loop);
    tell_idlest(loop);
    while ((found = find_loop(loop->group)) == loop) {
        idlest = pick(loop, NULL, loop->now_us);
        if (!idlest) {
            first = TAILQ_FIRST(&loop->fresh);
            if (first && first->spare_us > loop->now_us)
                (void)timers_set(&loop->timers, &first->timer, first->spare_us);
            atomic_store(&loop->wants_room, true);
            return;
        }
        cut(idlest);
        tell_idlest(loop);
    }
    if (found && !atomic_exchange(&found->wants_room, true))
        loop_wake(found);
}

/* ---- standing in the lists ---------------------------------------------------- */

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
