/*
 * Two switches without a default, so that the compiler asks for a decision
 * about every new outcome and status, and the replies built on them.
 */
#include "server/http/reply.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/render.h"
#include "server/http/request.h"

/* Sent when there is no memory for anything better. */
static const char last_resort[] =
    "{\"type\":\"" PROBLEM_TYPE_PREFIX "overloaded\","
    "\"title\":\"Too much to do\",\"status\":503}";

/*
 * Orders. The slugs of the problems are the outcomes' own names, so that a
 * client, a metric and a log line call it the same; a test compares them.
 */
enum problem reply_of_outcome(enum order_outcome outcome)
{
    switch (outcome) {
    case ORDER_PLACED:
    case ORDER_REPLAYED:
        return PROBLEM_NONE;
    case ORDER_SOLD_OUT:
        return PROBLEM_SOLD_OUT;
    case ORDER_PURCHASE_LIMIT:
        return PROBLEM_LIMIT;
    case ORDER_SALE_NOT_OPEN:
        return PROBLEM_NOT_OPEN;
    case ORDER_SALE_ENDED:
        return PROBLEM_ENDED;
    case ORDER_NO_PRODUCT:
        return PROBLEM_NO_PRODUCT;
    case ORDER_KEY_REUSED:
        return PROBLEM_KEY_REUSED;
    case ORDER_LOCK_TIMEOUT:
        return PROBLEM_LOCK_TIMEOUT;
    case ORDER_LOCK_UNREACHABLE:
        return PROBLEM_LOCK_UNREACHABLE;
    case ORDER_STORE_UNAVAILABLE:
        return PROBLEM_STORE;
    case ORDER_WARMING_UP:
        return PROBLEM_WARMING_UP;
    case ORDER_OVERLOADED:
        return PROBLEM_OVERLOADED;
    case ORDER_SHUTTING_DOWN:
        return PROBLEM_SHUTTING_DOWN;
    case ORDER_OUTCOME_N:
        break;
    }
    return PROBLEM_INTERNAL;
}

/*
 * The store's errands. Whatever says that nobody could look is a 503: "sold
 * out" must only be said by someone who has seen the shelf.
 */
enum problem reply_of_status(enum store_status status)
{
    switch (status) {
    case STORE_OK:
        return PROBLEM_NONE;
    case STORE_SOLD_OUT:
    case STORE_SHORT:
        return PROBLEM_SOLD_OUT;
    case STORE_LIMIT:
        return PROBLEM_LIMIT;
    case STORE_NOT_OPEN:
        return PROBLEM_NOT_OPEN;
    case STORE_ENDED:
        return PROBLEM_ENDED;
    case STORE_NO_PRODUCT:
        return PROBLEM_NO_PRODUCT;
    case STORE_NO_ORDER:
        return PROBLEM_NO_ORDER;
    case STORE_KEY_REUSED:
        return PROBLEM_KEY_REUSED;
    case STORE_STOCK_FIXED:
        return PROBLEM_STOCK_FIXED;
    case STORE_RANGE:
        return PROBLEM_RANGE;
    case STORE_CLOSED:
        return PROBLEM_SHUTTING_DOWN;
    case STORE_STALE_FENCE:
    case STORE_BUSY:
    case STORE_NO_SPACE:
    case STORE_IO:
    case STORE_IN_USE:
        return PROBLEM_STORE;
    case STORE_MISUSE:
    case STORE_STATUS_N:
        break;
    }
    return PROBLEM_INTERNAL;
}

/*
 * A document that was true a moment ago is not to be kept. BODY is the
 * request's; NULL, no memory for it, is no reason to say nothing.
 */
static void reply_document(struct request *request, unsigned status,
                           const char *type, const char *body, size_t size)
{
    if (!body) {
        status = 503;
        type = "application/problem+json";
        body = last_resort;
        size = strlen(last_resort);
    }
    request_header(request, "Content-Type", type);
    /* What answers another method caches only keep if they are told to; and
     * each header costs the library several malloc()s. */
    if (request->is_read)
        request_header(request, "Cache-Control", "no-store");
    request_reply(request, status, body, size);
}

/* The same for what comes from malloc(). */
static void reply_document_take(struct request *request, unsigned status,
                                const char *type, char *document)
{
    const char *body = request_take(request, document);

    reply_document(request, status, type, body, body ? strlen(body) : 0);
}

/*
 * When a product is sold out, the same is said to thousands: what this thread
 * has said last is kept, and copied if it is to be said again.
 */
struct said {
    enum problem problem;
    char detail[256];
    char document[2048]; /* room for a detail of nothing but \u00ff's */
    size_t size;         /* 0 = nothing yet */
};

static bool is_same(const struct said *said, enum problem problem,
                    const char *detail)
{
    return said->size > 0 && said->problem == problem &&
           strcmp(said->detail, detail) == 0;
}

static void remember(struct said *said, enum problem problem,
                     const char *detail)
{
    char *document = render_problem(problem, detail, NULL, 0);

    said->problem = problem;
    snprintf(said->detail, sizeof(said->detail), "%s", detail);
    said->size = document ? strlen(document) : 0;
    assert(said->size < sizeof(said->document));
    memcpy(said->document, document ? document : "", said->size);
    free(document);
}

/* The row's headers; the document follows. */
static const struct problem_row *reply_head(struct request *request,
                                            enum problem problem)
{
    const struct problem_row *row = problem_row(problem);

    if (row->retry_s)
        request_header(request, "Retry-After", row->retry);
    return row;
}

/* A problem, with everything that its row in the table knows. */
static void reply_row(struct request *request, enum problem problem,
                      const char *detail)
{
    static _Thread_local struct said said;
    bool common = request->headers_n == 0; /* all that follow are constants */
    const struct problem_row *row = reply_head(request, problem);
    char *body;

    if (!is_same(&said, problem, detail))
        remember(&said, problem, detail);
    body = said.size > 0 ? request_alloc(request, said.size) : NULL;
    if (body)
        memcpy(body, said.document, said.size);
    reply_document(request, row->status, "application/problem+json", body,
                   said.size);
    request->common = common;
}

void reply_problem(struct request *request, enum problem problem,
                   const char *format, ...)
{
    char detail[256];
    va_list args;

    va_start(args, format);
    vsnprintf(detail, sizeof(detail), format, args);
    va_end(args);
    reply_row(request, problem, detail);
}

void reply_faults(struct request *request, const struct parse_error *error)
{
    const struct problem_row *row = reply_head(request, error->problem);

    reply_document_take(request, row->status, "application/problem+json",
                        render_problem(error->problem, error->detail,
                                       error->faults, error->faults_n));
}

void reply_status(struct request *request, enum store_status status,
                  const struct store_error *error)
{
    enum problem problem = reply_of_status(status);
    const char *detail = store_status_text(status);

    /* A refusal explains itself; of a failure the operator wants details. */
    if (problem_row(problem)->status >= 500 && *error->text)
        detail = error->text;
    reply_problem(request, problem, "%s", detail);
}

void reply_json_take(struct request *request, unsigned status, char *json)
{
    reply_document_take(request, status, "application/json", json);
}

void reply_order(struct request *request, unsigned status,
                 const struct store_order *order, bool as_placed)
{
    char *text = request_alloc(request, RENDER_ORDER_BYTES);
    size_t size = text ? render_order(order, as_placed, text) : 0;

    reply_document(request, status, "application/json", text, size);
}
