/*
 * /api/products: what is on sale, for everybody, and by /api/events as it changes; to
 * put products on sale and to change them, for the administrator.
 *
 * Reading is a task. Changes go to the store's committer, which decides in the
 * transaction itself: two puts at once cannot both be the first, two restocks
 * at once are the sum of both.
 */
#include "server/http/route.h"

#include <string.h>

#include "server/base/app.h"
#include "server/base/config.h"
#include "server/http/reply.h"
#include "server/order/hints.h"

/* Products in a page of a list. With names of 100 bytes the largest is about
 * 60 KiB of JSON. */
#define LIST_LIMIT_DEFAULT 50
#define LIST_LIMIT_MAX     200

/* LOCK is the server's strategy, the same for all products. */
static void reply_product(struct request *request, unsigned status,
                          const struct store_product *product,
                          const struct store_segments *segments)
{
    reply_json_take(
        request, status,
        render_product(product, segments, request->app->config->lock));
}

/* One more than asked for tells whether there is another page. */
static enum store_status list_run(struct request *request,
                                  struct worker *worker,
                                  struct store_error *error)
{
    size_t room = (size_t)request->page.limit + 1, n = 0;
    struct store_product *products;
    enum store_status status;
    int64_t next = 0;

    products = request_alloc(request, room * sizeof(*products));
    if (!products) {
        reply_json_take(request, 200, NULL);
        return STORE_OK;
    }
    status = store_product_list(worker->reader, request->page.after, room,
                                products, &n, error);
    /* The one too many only tells that there is more: it is not shown, and the
     * next page begins with it. */
    if (n == room)
        next = products[--n - 1].id;
    if (status == STORE_OK)
        reply_json_take(
            request, 200,
            render_products(products, n, request->app->config->lock, next));
    return status;
}

void handle_products_list(struct request *request)
{
    if (route_page(request, LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX, "a product id"))
        suspend_for_task(request, list_run);
}

/* 200 also if Redis is away: the reply says so, and orders do without hints. */
enum store_status handle_products_look(struct request *request,
                                       struct worker *worker,
                                       struct store_error *error)
{
    struct store_product product = {0};
    struct store_segments segments;
    enum store_status status;
    bool in_redis;

    status = store_product_segments(worker->reader, request->match.product_id,
                                    &product, &segments, error);
    if (status == STORE_OK && !request->is_read) {
        in_redis = hints_publish(request->app->hints, product.id, &segments);
        reply_json_take(request, 200,
                        render_warmup(product.id, &segments, in_redis));
    } else if (status == STORE_OK) {
        reply_product(request, 200, &product, &segments);
    }
    return status;
}

/* FIELDS of a product, of enum store_given, have all the same fault. */
static void reply_fields(struct request *request, enum problem problem,
                         unsigned fields, const char *detail)
{
    struct parse_error error = {0};

    parse_add_faults(&error, fields, detail);
    error.problem = problem;
    reply_faults(request, &error);
}

/* The stock can be missing of a new product only. A window that is wrong has one end
 * from the request at least: the fault is told of that one. */
static void change_answer(struct request *request)
{
    const struct store_change *change = &request->change;
    enum store_status status = change->write.status;
    bool is_new = change->missing & (STORE_GIVEN_NAME | STORE_GIVEN_STOCK);

    if (status == STORE_INCOMPLETE && is_new) {
        reply_fields(request, PROBLEM_FIELDS, change->missing,
                     "a new product needs it");
    } else if (status == STORE_INCOMPLETE) {
        reply_fields(request, PROBLEM_INCOMPLETE_PUT, change->missing,
                     "is set: name it as well, or send a PATCH");
    } else if (status == STORE_WINDOW && (change->given & STORE_GIVEN_ENDS)) {
        reply_fields(request, PROBLEM_FIELDS, STORE_GIVEN_ENDS,
                     "has to be after opens_at");
    } else if (status == STORE_WINDOW) {
        reply_fields(request, PROBLEM_FIELDS, STORE_GIVEN_OPENS,
                     "has to be before ends_at");
    } else if (status != STORE_OK) {
        reply_status(request, status, &change->write.error);
    } else {
        if (change->created)
            request_header(request, "Location", request->path);
        reply_product(request, change->created ? 201 : 200, &change->product,
                      NULL);
    }
}

/* The path says which product it is; the body has no id that could differ. */
void handle_products_change(struct request *request)
{
    const char *none = request_field(request, "If-None-Match", NULL);
    struct store_change *change = &request->change;

    change->product.id = request->match.product_id;
    change->patch = !strcmp(request->method, "PATCH");
    /* "*" is the only tag, because a product has none. */
    change->only_there = request_field(request, "If-Match", NULL) != NULL;
    change->only_new = none && !strcmp(none, "*");
    if (route_body(request, change->patch ? PARSE_PATCH : PARSE_PRODUCT,
                   &change->product, &change->given))
        suspend_for_write(request, STORE_CHANGE, &change->write, change_answer);
}

static void restock_answer(struct request *request)
{
    const struct store_restock *restock = &request->restock;

    if (restock->write.status != STORE_OK) {
        reply_status(request, restock->write.status, &restock->write.error);
        return;
    }
    if (restock->replayed)
        request_header(request, "Idempotent-Replayed", "true");
    reply_product(request, 200, &restock->product, NULL);
}

/* To repeat one must not sell units that are not there: so an Idempotency-Key
 * counts here as it does for orders. */
void handle_products_restock(struct request *request)
{
    struct store_restock *restock = &request->restock;

    restock->product_id = request->match.product_id;
    if (route_key(request, restock->key) &&
        route_body(request, PARSE_RESTOCK, &restock->quantity, NULL))
        suspend_for_write(request, STORE_RESTOCK, &restock->write,
                          restock_answer);
}

/* The reply begins here and goes on in mhd.c, until the client leaves or the
 * service drains. */
void handle_products_watch(struct request *request)
{
    const char *last_id = request_field(request, "Last-Event-ID", NULL);

    if (request->loop->draining) {
        reply_problem(request, PROBLEM_SHUTTING_DOWN, "try another instance");
    } else if (!feed_enter(request->loop->group->feed, &request->viewer,
                           last_id)) {
        reply_problem(request, PROBLEM_VIEWERS,
                      "ask for /api/products from time to time");
    } else {
        /* nginx would keep events back until it has some KiB. */
        request_header(request, "X-Accel-Buffering", "no");
        reply_document(request, 200, "text/event-stream", "", 0);
    }
}
