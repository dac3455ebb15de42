/*
 * A connection and the request on it may end in either order: usually the
 * request, but a client may leave while its order waits. Whichever is the last
 * frees both; since both ends are told to the loop's thread, it needs no count.
 */
#include "server/http/connection.h"

#include <stdlib.h>

#include "server/http/mhd.h"
#include "server/http/peer.h"

static void meet_peer(struct connection *connection, struct admit *admit,
                      const struct sockaddr *peer)
{
    unsigned char key[PEER_BYTES] = {0};

    if (peer) {
        peer_key(peer, key);
        connection->request.loopback = peer_is_local(peer);
    }
    connection->client = admit_meet(admit, key);
}

struct connection *connection_begin(struct loop *loop,
                                    struct MHD_Connection *mhd, int fd,
                                    const struct sockaddr *peer)
{
    struct connection *connection = malloc(sizeof(*connection));
    struct http *http = loop_http(loop);

    if (!connection)
        return NULL;
    connection->mhd = mhd;
    connection->loop = loop;
    connection->mark = (struct loop_mark){0};
    connection->kept = (struct response){0};
    request_init(&connection->request);
    connection->request.http = http;
    connection->request.app = http->app;
    connection->request.connection = connection;
    meet_peer(connection, http->admit, peer);
    deadline_watch(http->deadline, &connection->watch, fd);
    return connection;
}

static void connection_free(struct connection *connection)
{
    admit_part(connection->request.http->admit, connection->client);
    response_forget(&connection->kept);
    free(connection);
}

void connection_finish(struct connection *connection)
{
    struct request *request = &connection->request;

    if (request->admitted)
        admit_leave(connection->client);
    if (request->counted)
        door_leave(&request->http->door);
    request_end(request);
}

void connection_end(struct connection *connection)
{
    if (!connection)
        return;
    deadline_forget(connection->request.http->deadline, &connection->watch);
    connection->mhd = NULL;
    if (connection->request.stage != REQUEST_WAITING)
        connection_free(connection);
}

struct connection *connection_back(struct loop_letter *letter)
{
    struct connection *connection =
        (struct connection *)((char *)letter -
                              offsetof(struct connection, letter));

    if (connection->mhd) {
        deadline_restart(connection->request.http->deadline,
                         &connection->watch);
        return connection;
    }
    connection_finish(connection);
    connection_free(connection);
    return NULL;
}
