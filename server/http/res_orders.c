/*
 * /api/orders: placing an order, and what can be done with one afterwards.
 *
 * Placing goes through the desk: the handler fills the request's ticket and
 * leaves. The rest are errands in the pool. An order's id cannot be guessed
 * and is the only key to it: whoever has it may read and cancel the order.
 */
#include "server/http/res.h"

#include <string.h>

#include "server/app.h"
#include "server/http/http.h"
#include "server/http/parse.h"
#include "server/http/render.h"
#include "server/http/reply.h"
#include "server/http/request.h"
#include "server/warm/warm.h"

/* Without memory the reply does without it: the id is in the body as well. */
static void add_location(struct request *request, const char *id)
{
    static const char folder[] = "/api/orders/";
    char *location = request_alloc(request, sizeof(folder) + strlen(id));

    if (!location)
        return;
    stpcpy(stpcpy(location, folder), id);
    request_header(request, "Location", location);
}

/* The desk has answered: the ticket says how. */
static void post_answer(struct request *request)
{
    const struct ticket *ticket = &request->ticket;
    enum problem problem = reply_of_outcome(ticket->outcome);
    const char *detail = ticket->detail;

    if (problem != PROBLEM_NONE) {
        reply_problem(request, problem, "%s", detail);
        return;
    }
    add_location(request, ticket->order.id);
    if (ticket->outcome == ORDER_REPLAYED)
        request_header(request, "Idempotent-Replayed", "true");
    reply_order(request, 201, &ticket->order, true);
}

/*
 * From the cheapest check to the dearest. The client's own count comes before
 * the desk: a client over its limit must not take up a place in everybody's
 * queue.
 */
void res_orders_post(struct request *request)
{
    struct store_order *order = &request->ticket.order;
    struct parse_error error;

    if (!request_key(request, order->key))
        return;
    if (!parse_order(request->body, request->body_size, order, &error))
        reply_faults(request, &error);
    else if (!http_admit(request))
        reply_problem(request, PROBLEM_CLIENT_BUSY,
                      "wait for some of your orders to be answered");
    else
        request_order(request, post_answer);
}

/*
 * On a thread of the pool, as all that follows with a reader. What an order took
 * from where stays as it is, whatever becomes of the order: so it does not
 * matter that it is looked up later.
 */
static void reply_found(struct request *request, struct store_reader *reader,
                        enum store_status status,
                        const struct store_order *order,
                        struct store_error *error)
{
    struct store_parts parts;

    if (status == STORE_OK)
        status = store_order_parts(reader, order->id, &parts, error);
    if (status == STORE_OK)
        reply_json_take(request, 200, render_order_from(order, &parts));
    else
        reply_status(request, status, error);
}

/*
 * GET /api/orders/{id}. An id of another shape than ours is simply not found.
 */
static void get_run(struct request *request, struct store_reader *reader)
{
    struct store_error error = {0};
    struct store_order order = {0};
    enum store_status status;

    status = store_order_get(reader, request->match.param, &order, &error);
    reply_found(request, reader, status, &order, &error);
}

void res_orders_get(struct request *request)
{
    request_errand(request, get_run);
}

static void find_run(struct request *request, struct store_reader *reader)
{
    struct store_error error = {0};
    struct store_order order = {0};
    enum store_status status;

    status =
        store_order_by_key(reader, request->ticket.order.key, &order, &error);
    reply_found(request, reader, status, &order, &error);
}

/* ?key=K: how a client whose reply was lost finds out what became of it. */
void res_orders_find(struct request *request)
{
    char given[2 * STORE_KEY_BYTES_MAX + 3];
    enum target_found found;

    found = request_query(request, "key", given, sizeof(given));
    if (found == TARGET_ABSENT)
        reply_problem(request, PROBLEM_BAD_TARGET,
                      "say which order: /api/orders?key=IDEMPOTENCY-KEY");
    else if (found == TARGET_BAD ||
             !parse_key(given, request->ticket.order.key))
        reply_problem(request, PROBLEM_BAD_KEY,
                      "the key in the query is malformed");
    else
        request_errand(request, find_run);
}

/*
 * DELETE /api/orders/{id}. The store returns the units once, however often it
 * is asked, so a repeated cancel can be answered like the first.
 */
static void cancel_run(struct request *request, struct store_reader *reader)
{
    struct store_error error = {0};
    struct store_order order = {0};
    enum store_status status;

    (void)reader; /* a write: it goes to the committer */
    status =
        store_cancel(request->app->store, request->match.param, &order, &error);
    if (status != STORE_OK) {
        reply_status(request, status, &error);
        return;
    }
    warm_moved(request->app->warm, order.product_id);
    reply_order(request, 200, &order, false);
}

void res_orders_cancel(struct request *request)
{
    request_errand(request, cancel_run);
}
