/*
 * /api/orders: placing an order, and what can be done with one afterwards.
 *
 * An order's id cannot be guessed. It is the only key to the order: a client that
 * has it may read and cancel the order, and say that it is paid.
 */
#include "server/http/route.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/app.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/http/reply.h"

/* Orders in a page of the export: some 600 KiB. */
#define EXPORT_LIMIT_MAX 5000

static void post_answer(struct request *request)
{
    static const char folder[] = "/api/orders/";
    const struct order *order = &request->order;
    char *location;

    if (order->outcome > ORDER_REPLAYED) {
        reply_outcome(request);
        return;
    }
    /* Without memory the reply does without it: the id is in the body as well. */
    location =
        request_alloc(request, sizeof(folder) + strlen(order->record.id));
    if (location) {
        stpcpy(stpcpy(location, folder), order->record.id);
        request_header(request, "Location", location);
    }
    if (order->outcome == ORDER_REPLAYED)
        request_header(request, "Idempotent-Replayed", "true");
    /* A replay has the status of the first reply too: a client that repeats
     * itself need not know a second yes. */
    reply_order(request, 201, &order->record, RENDER_PLACED);
}

/* From the cheapest check to the dearest. The limit of the client comes before the
 * dispatcher: an order over it must not take up a place in the queue. */
void handle_orders_post(struct request *request)
{
    struct store_order *order = &request->order.record;
    struct in6_addr client; /* of what a proxy forwards, whom the proxy names */

    if (!route_key(request, order->key) ||
        !route_body(request, PARSE_ORDER, order, NULL))
        return;
    client = access_client(request);
    request->limited = access_enter(&request->loop->group->limit, &client);
    if (!request->limited) {
        metrics_order(request->app->metrics, ORDER_CLIENT_BUSY);
        reply_problem(request, PROBLEM_CLIENT_BUSY,
                      "nothing was ordered: wait for some of your "
                      "orders to be answered");
    } else if (request->app->inventory) {
        handle_inventory_order(request);
    } else {
        suspend_for_order(request, post_answer);
    }
}

/* By its key, or else by its id; one of another shape than ours is simply not
 * found. */
enum store_status handle_orders_get(struct request *request,
                                    struct worker *worker,
                                    struct store_error *error)
{
    const char *key = request->order.record.key;
    struct store_order order = {0};
    enum store_status status;

    /* The key is there only on the way through handle_orders_find(): of the
     * table's other row it is empty. */
    status = *key ? store_order_by_key(worker->reader, key, &order, error)
                  : store_order_get(worker->reader, request->match.param,
                                    &order, error);
    if (status == STORE_OK)
        reply_order(request, 200, &order, RENDER_NOW_WITH_SEGMENT);
    return status;
}

/* ?key=K: a client whose reply was lost finds out what became of the order. */
void handle_orders_find(struct request *request)
{
    char given[2 * STORE_KEY_BYTES_MAX + 3];
    enum target_found found;

    found = target_query(request->query, "key", given, sizeof(given));
    if (found == TARGET_ABSENT)
        reply_problem(request, PROBLEM_BAD_TARGET,
                      "say which order: /api/orders?key=IDEMPOTENCY-KEY");
    else if (found == TARGET_BAD ||
             !parse_key(given, request->order.record.key))
        reply_problem(request, PROBLEM_BAD_KEY,
                      "the key in the query is malformed");
    else
        suspend_for_task(request, handle_orders_get);
}

static void cancel_answer(struct request *request)
{
    const struct store_cancel *cancel = &request->cancel;

    if (cancel->write.status == STORE_OK)
        reply_order(request, 200, &cancel->order, RENDER_NOW);
    else
        reply_status(request, cancel->write.status, &cancel->write.error);
}

/* An id is shorter, so that one which is cut is none. */
static void take_id(const struct request *request,
                    char id[STORE_ID_BYTES_MAX + 1])
{
    snprintf(id, STORE_ID_BYTES_MAX + 1, "%.*s", STORE_ID_BYTES_MAX,
             request->match.param);
}

/* The store returns the units once, however often it is asked. So a repeated cancel
 * gets the same answer as the first. */
void handle_orders_cancel(struct request *request)
{
    take_id(request, request->cancel.id);
    suspend_for_write(request, STORE_CANCEL, &request->cancel.write,
                      cancel_answer);
}

/* Money that is not on record must leave a trace all the same: in the log. */
static void pay_answer(struct request *request)
{
    const struct store_pay *pay = &request->pay;

    switch (pay->write.status) {
    case STORE_OK:
        if (pay->replayed)
            request_header(request, "Idempotent-Replayed", "true");
        reply_order(request, 200, &pay->order, RENDER_NOW);
        return;
    case STORE_ORDER_EXPIRED:
    case STORE_ORDER_CANCELLED:
    case STORE_ALREADY_PAID:
        /* A payment that is repeated was counted at its first time. */
        metrics_count(request->app->metrics, METRICS_LATE_PAYMENTS,
                      !pay->replayed);
        break;
    case STORE_PAYMENTS_FULL:
        metrics_count(request->app->metrics, METRICS_LATE_PAYMENTS, 1);
        log_warn("payment", "order=%" PRId64 " payment=%s error=\"%s\"",
                 pay->order.number, pay->payment,
                 store_status_text(STORE_PAYMENTS_FULL));
        break;
    default:
        break;
    }
    reply_status(request, pay->write.status, &pay->write.error);
}

/* The payment's reference is its idempotency key. */
void handle_orders_pay(struct request *request)
{
    struct store_pay *pay = &request->pay;

    take_id(request, pay->id);
    if (route_body(request, PARSE_PAYMENT, pay->payment, NULL))
        suspend_for_write(request, STORE_PAY, &pay->write, pay_answer);
}

/* ---- export ----------------------------------------------------------------- */

struct page {
    FILE *out;
    int64_t n, last; /* orders, and the number of the last one */
};

static void put_line(void *ctx, const struct store_order *order)
{
    struct page *page = ctx;

    render_csv_order(order, page->out);
    page->n++;
    page->last = order->number;
}

static enum store_status export_run(struct request *request,
                                    struct worker *worker,
                                    struct store_error *error)
{
    struct page page = {0};
    enum store_status status;
    char *text = NULL, *link;
    size_t size;

    page.out = open_memstream(&text, &size);
    if (!page.out) {
        reply_document(request, 200, "text/csv", NULL, 0);
        return STORE_OK;
    }
    if (!request->page.after)
        fputs(render_csv_head, page.out);
    status =
        store_order_list(worker->reader, request->page.after,
                         (size_t)request->page.limit, put_line, &page, error);
    if (fclose(page.out)) {
        free(text);
        text = NULL;
    }
    /* The text is the request's before anything may return: from here on it is
     * freed with it. */
    text = request_take(request, text);
    if (status != STORE_OK)
        return status;
    /* A full page may be the last: then the next one is empty, which is simpler
     * than a look ahead. */
    if (page.n == request->page.limit &&
        asprintf(&link,
                 "</api/orders.csv?after=%" PRId64 "&limit=%" PRId64
                 ">; rel=\"next\"",
                 page.last, request->page.limit) > 0 &&
        (link = request_take(request, link)))
        request_header(request, "Link", link);
    reply_document(request, 200, "text/csv", text, size);
    return STORE_OK;
}

/* A page and not all, because it is made in memory: the pages one after the other are
 * the whole file, and the first one has its head. */
void handle_orders_export(struct request *request)
{
    if (route_page(request, EXPORT_LIMIT_MAX, EXPORT_LIMIT_MAX,
                   "an order's number"))
        suspend_for_task(request, export_run);
}
