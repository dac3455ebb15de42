/*
 * Two tables, and the replies built on them: the problems that a client may hear, and
 * which of them a status of the store is. An order's outcomes are the first problems, by
 * the same numbers, so that one is cast to the other.
 */
#include "server/http/reply.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/request.h"

#define PROBLEM_ROW(name, status, retry_s, slug, title)                        \
    {PROBLEM_TYPE_PREFIX slug, title, #retry_s, retry_s, status},

static const struct problem_row rows[] = {
#define ROW PROBLEM_ROW
#include "server/base/order_outcomes.inc"
#define ROW PROBLEM_ROW
#include "server/http/problems.inc"
};

const struct problem_row *problem_row(enum problem problem)
{
    assert((unsigned)problem < PROBLEM_N);
    return &rows[problem];
}

static const char problem_json[] = "application/problem+json";

#define PROBLEM_DETAIL_BYTES 256

/* Sent when there is no memory for anything better, be it a yes: an order may be
 * placed by then. */
static const char last_resort[] =
    "{\"type\":\"" PROBLEM_TYPE_PREFIX "overloaded\","
    "\"title\":\"Too much to do\",\"status\":503,"
    "\"detail\":\"no memory for the reply: what was asked may have been done\","
    "\"retry_after_seconds\":1,\"" ORDER_OPEN_MEMBER "\":true}\n";

/* Those that no order has; all others are as an order's outcome: what could not be looked
 * up is a 503, never a no. */
enum problem reply_of_status(enum store_status status)
{
    static const enum problem problems[STORE_STATUS_N] = {
        [STORE_SHORT] = PROBLEM_INTERNAL,
        [STORE_NEEDS_LOCK] = PROBLEM_INTERNAL,
        [STORE_NO_ORDER] = PROBLEM_NO_ORDER,
        [STORE_ORDER_EXPIRED] = PROBLEM_ORDER_EXPIRED,
        [STORE_ORDER_CANCELLED] = PROBLEM_ORDER_CANCELLED,
        [STORE_ALREADY_PAID] = PROBLEM_ALREADY_PAID,
        [STORE_PAYMENT_REUSED] = PROBLEM_PAYMENT_REUSED,
        [STORE_PAYMENTS_FULL] = PROBLEM_PAYMENTS_FULL,
        [STORE_STOCK_FIXED] = PROBLEM_STOCK_FIXED,
        [STORE_INCOMPLETE] = PROBLEM_INCOMPLETE_PUT,
        [STORE_CONDITION] = PROBLEM_CONDITION,
        [STORE_WINDOW] = PROBLEM_FIELDS,
        [STORE_RANGE] = PROBLEM_RANGE,
        [STORE_CLOSED] = PROBLEM_SHUTTING_DOWN,
        [STORE_MISUSE] = PROBLEM_INTERNAL,
    };

    /* A status without a row reads as 0, PROBLEM_NONE, which no row has: then
     * the outcome of an order decides. */
    return problems[status] ? problems[status]
                            : (enum problem)order_outcome_of(status);
}

/* Caches must not keep it: it was true a moment ago. */
void reply_document(struct request *request, unsigned status, const char *type,
                    const char *body, size_t size)
{
    if (!body) {
        status = 503;
        type = problem_json;
        body = last_resort;
        size = strlen(last_resort);
        request->headers_n = 0; /* those of the reply that it replaces */
        request_header(request, "Retry-After", "1");
    }
    request_header(request, "Content-Type", type);
    /* Caches keep replies to other methods only if they are told to; and each
     * header costs the library several malloc()s. */
    if (request->is_read)
        request_header(request, "Cache-Control", "no-store");
    request_reply(request, status, body, size);
}

/* TEXT is from malloc(). */
static void reply_take(struct request *request, unsigned status,
                       const char *type, char *text)
{
    const char *body = request_take(request, text);

    reply_document(request, status, type, body, body ? strlen(body) : 0);
}

void reply_json_take(struct request *request, unsigned status, char *json)
{
    reply_take(request, status, "application/json", json);
}

/* When a product is sold out, thousands get the same reply: so each thread keeps the
 * last problem that it has rendered. */
static void send_problem(struct request *request, enum problem problem,
                         bool is_open, const char *detail)
{
    static _Thread_local struct {
        enum problem problem;
        bool is_open;
        char detail[PROBLEM_DETAIL_BYTES];
        char document[2048]; /* room for a detail of nothing but \u00ff's */
        size_t size;         /* 0 = nothing yet */
    } last;
    const struct problem_row *row = problem_row(problem);
    char *body;

    if (!last.size || last.problem != problem || last.is_open != is_open ||
        strcmp(last.detail, detail) != 0) {
        body = render_problem(problem, is_open, detail, NULL, 0);
        last.problem = problem;
        last.is_open = is_open;
        (void)stpcpy(last.detail, detail);
        last.size = body ? strlen(body) : 0;
        assert(last.size < sizeof(last.document));
        memcpy(last.document, body ? body : "", last.size);
        free(body);
    }
    if (row->retry_s)
        request_header(request, "Retry-After", row->retry);
    /* The text is copied for each request: the next problem overwrites it,
     * maybe before this reply is sent. */
    body = last.size ? request_alloc(request, last.size) : NULL;
    if (body)
        memcpy(body, last.document, last.size);
    reply_document(request, row->status, problem_json, body, last.size);
}

void reply_problem(struct request *request, enum problem problem,
                   const char *format, ...)
{
    char detail[PROBLEM_DETAIL_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(detail, sizeof(detail), format, args);
    va_end(args);
    send_problem(request, problem, false, detail);
}

void reply_outcome(struct request *request)
{
    const struct order *order = &request->order;

    send_problem(request, (enum problem)order->outcome,
                 order->record.status == STORE_UNKNOWN, order->detail);
}

void reply_faults(struct request *request, const struct parse_error *error)
{
    reply_take(request, problem_row(error->problem)->status, problem_json,
               render_problem(error->problem, false, error->detail,
                              error->faults, error->faults_n));
}

void reply_status(struct request *request, enum store_status status,
                  const struct store_error *error)
{
    enum problem problem = reply_of_status(status);
    const char *detail = store_status_text(status);

    /* The operator needs details of a failure, a client those of a wrong number. */
    if ((problem_row(problem)->status >= 500 || status == STORE_RANGE) &&
        *error->text)
        detail = error->text;
    reply_problem(request, problem, "%s%s", detail,
                  status == STORE_UNKNOWN
                      ? "; it may have been done: look before you repeat it"
                      : "");
}

void reply_order(struct request *request, unsigned status,
                 const struct store_order *order, enum render_view view)
{
    char *text = request_alloc(request, RENDER_ORDER_BYTES);
    size_t size = text ? render_order(order, view, text) : 0;

    reply_document(request, status, "application/json", text, size);
}
