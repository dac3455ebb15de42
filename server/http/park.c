/*
 * Errands are handed over one by one, and the pool says at once whether it has
 * room. Orders are gathered until the end of the loop's pass: the desk's lock
 * is taken once for all of them, and its store woken once, which on a busy
 * machine is dearer than all else that we do for an order.
 */
#include "server/http/park.h"

#include "server/app.h"
#include "server/http/connection.h"
#include "server/http/http.h"
#include "server/http/mhd.h"
#include "server/order/desk.h"

bool http_admit(struct request *request)
{
    const struct connection *connection = request->connection;

    request->admitted = admit_enter(request->http->admit, connection->client);
    return request->admitted;
}

/* A letter will come. From now on its client is not too slow, but we may be. */
static void wait_for_letter(struct connection *connection)
{
    deadline_pause(connection->request.http->deadline, &connection->watch);
    loop_expect(connection->loop);
}

/* What the loop's thread has about the request nobody else touches: so it may
 * be noted down when the letter has come already. */
bool http_park(struct request *request, bool (*hand_over)(struct request *))
{
    struct http *http = request->http;
    bool taken = false;

    if (door_hand(&http->door)) {
        request->stage = REQUEST_WAITING;
        taken = hand_over(request);
    }
    door_handed(&http->door);
    if (taken)
        wait_for_letter(request->connection);
    else
        request->stage = REQUEST_READING;
    return taken;
}

void http_order(struct request *request)
{
    struct connection *connection = request->connection;

    request->stage = REQUEST_WAITING;
    wait_for_letter(connection);
    loop_order(connection->loop, &request->ticket);
}

void park_orders(struct http *http, struct ticket *list)
{
    struct ticket *next;

    if (door_hand(&http->door))
        list = desk_submit(http->app->desk, list);
    door_handed(&http->door);
    /* Those that are left have their outcome, and go the usual way back. */
    for (; list; list = next) {
        next = list->next;
        http_wake(list->owner);
    }
}

void http_wake(struct request *request)
{
    struct connection *connection = request->connection;

    loop_send(connection->loop, &connection->letter);
}
