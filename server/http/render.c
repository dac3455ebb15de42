/*
 * jansson keeps the order in which members were set, so the same order always
 * becomes the same bytes. A member for which there is no memory is missing
 * from the result: what is there is never wrong.
 */
#include "server/http/render.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/stamp.h"

/* The text, or NULL; consumes JSON. */
static char *dump_take(json_t *json)
{
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

    json_decref(json);
    return text;
}

/*
 * Setters that take what jansson would only take wrapped; for short lines
 * below.
 */
static void set_integer(json_t *json, const char *name, int64_t value)
{
    json_object_set_new(json, name, json_integer(value));
}

static void set_text(json_t *json, const char *name, const char *value)
{
    json_object_set_new(json, name, json_string(value));
}

/* 0 means that there is no such time: null. */
static void set_time(json_t *json, const char *name, int64_t ms)
{
    char text[STAMP_BYTES];

    if (ms <= 0) {
        json_object_set_new(json, name, json_null());
        return;
    }
    stamp_write(ms, text);
    set_text(json, name, text);
}

/* ---- an order: written by hand, for it is what is asked for most --------- */

/* Without bounds: RENDER_ORDER_BYTES is room for the longest of everything. */
static char *put(char *at, const char *text)
{
    return stpcpy(at, text);
}

/* The same for a literal, whose length the compiler knows. */
#define PUT(at, literal)                                                       \
    ((char *)memcpy((at), (literal), sizeof(literal) - 1) + sizeof(literal) - 1)

static char *put_integer(char *at, int64_t value)
{
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    char digits[20], *first = digits + sizeof(digits);

    do
        *--first = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0)
        *at++ = '-';
    return mempcpy(at, first, (size_t)(digits + sizeof(digits) - first));
}

static char *put_time(char *at, int64_t ms)
{
    if (ms <= 0)
        return PUT(at, "null");
    *at++ = '"';
    at += stamp_write(ms, at);
    *at++ = '"';
    return at;
}

/* What JSON's readers would round is not told: null. */
static char *put_exact(char *at, bool exact, int64_t value)
{
    return exact ? put_integer(at, value) : PUT(at, "null");
}

/* The id is made of letters, digits and "-": nothing to escape. */
size_t render_order(const struct store_order *order, bool as_placed,
                    char text[RENDER_ORDER_BYTES])
{
    bool cancelled = order->state == STORE_CANCELLED && !as_placed;
    int64_t total;
    bool exact =
        !__builtin_mul_overflow(order->price_cents, order->quantity, &total) &&
        total <= STORE_NUMBER_MAX;
    /* 0 is how the store says that there was no fence. */
    bool fenced = order->fence && order->fence <= STORE_NUMBER_MAX;
    char *at = text;

    at = put(PUT(at, "{\"id\":\""), order->id);
    at = put_integer(PUT(at, "\",\"product_id\":"), order->product_id);
    at = put_integer(PUT(at, ",\"user_id\":"), order->user_id);
    at = put_integer(PUT(at, ",\"quantity\":"), order->quantity);
    at = put_integer(PUT(at, ",\"price_cents\":"), order->price_cents);
    at = put_exact(PUT(at, ",\"total_cents\":"), exact, total);
    at = put(PUT(at, ",\"state\":\""), cancelled ? "cancelled" : "placed");
    at = put_time(PUT(at, "\",\"created_at\":"), order->created_ms);
    at = put_time(PUT(at, ",\"cancelled_at\":"),
                  cancelled ? order->cancelled_ms : 0);
    at = put_exact(PUT(at, ",\"fence\":"), fenced, (int64_t)order->fence);
    at = put(at, "}"); /* and a NUL */
    assert(at < text + RENDER_ORDER_BYTES);
    return (size_t)(at - text);
}

/* Each part has room for its names and the longest of numbers. */
#define PART_BYTES 80

/* As above, with a member more. */
char *render_order_from(const struct store_order *order,
                        const struct store_parts *parts)
{
    char *text = malloc(RENDER_ORDER_BYTES + parts->n * PART_BYTES);
    const char *before = ",\"from\":[{\"segment\":";
    char *at;

    if (!text)
        return NULL;
    at = text + render_order(order, false, text) - 1; /* over its "}" */
    for (size_t i = 0; i < parts->n; i++) {
        at = put_integer(put(at, before), parts->parts[i].segment);
        at = put_integer(PUT(at, ",\"units\":"), parts->parts[i].units);
        before = "},{\"segment\":";
    }
    *PUT(at, "}]}") = '\0';
    return text;
}

/* ---- everything else ----------------------------------------------------- */

/* An element of the list, and the whole of GET /api/products/{id}. */
static json_t *product_json(const struct store_product *product,
                            const char *lock)
{
    json_t *json = json_object();

    set_integer(json, "id", product->id);
    set_text(json, "name", product->name);
    set_integer(json, "price_cents", product->price_cents);
    set_integer(json, "limit_per_user", product->limit_per_user);
    set_time(json, "opens_at", product->opens_ms);
    set_time(json, "ends_at", product->ends_ms);
    set_integer(json, "initial", product->initial);
    set_integer(json, "stock", product->stock);
    set_integer(json, "sold", product->initial - product->stock);
    set_integer(json, "segments", product->segments);
    set_text(json, "lock", lock);
    return json;
}

char *render_product(const struct store_product *product, const char *lock)
{
    return dump_take(product_json(product, lock));
}

static json_t *cells_json(const struct store_cells *cells)
{
    json_t *list = json_array(), *json;

    for (size_t i = 0; i < cells->n; i++) {
        json = json_object();
        set_integer(json, "segment", cells->cells[i].segment);
        set_integer(json, "initial", cells->cells[i].initial);
        set_integer(json, "stock", cells->cells[i].stock);
        json_array_append_new(list, json);
    }
    return list;
}

char *render_product_cells(const struct store_product *product,
                           const struct store_cells *cells, const char *lock)
{
    json_t *json = product_json(product, lock);

    set_integer(json, "epoch", cells->epoch);
    json_object_set_new(json, "cells", cells_json(cells));
    return dump_take(json);
}

char *render_warmup(int64_t product_id, const struct store_cells *cells,
                    bool in_redis)
{
    json_t *json = json_object();

    set_integer(json, "product_id", product_id);
    set_integer(json, "epoch", cells->epoch);
    json_object_set_new(json, "in_redis", json_boolean(in_redis));
    json_object_set_new(json, "cells", cells_json(cells));
    return dump_take(json);
}

/*
 * NEXT is an id and not a page number: products that come and go between two
 * calls do not make others be skipped or seen twice.
 */
char *render_products(const struct store_product products[], size_t n,
                      const char *lock, int64_t next)
{
    json_t *json = json_object(), *list = json_array();
    size_t i;

    for (i = 0; i < n; i++)
        json_array_append_new(list, product_json(&products[i], lock));
    json_object_set_new(json, "products", list);
    json_object_set_new(json, "next", next ? json_integer(next) : json_null());
    return dump_take(json);
}

/* One stock cell against the orders that drew from it. */
static json_t *audit_line_json(const struct store_audit_line *line)
{
    json_t *json = json_object();

    set_integer(json, "product_id", line->product_id);
    set_integer(json, "segment", line->segment);
    set_integer(json, "initial", line->initial);
    set_integer(json, "stock", line->stock);
    set_integer(json, "sold", line->sold);
    set_integer(json, "orders", line->orders);
    set_integer(json, "drift", line->drift);
    json_object_set_new(json, "retired", json_boolean(line->retired));
    return json;
}

/*
 * In the order of the struct: the sums that are never zero first, then those
 * that always should be. The command line prints the same text.
 */
char *render_audit(const struct store_audit *audit,
                   const struct store_audit_line lines[], size_t lines_n)
{
    json_t *json = json_object(), *list = json_array();
    size_t i;

    json_object_set_new(json, "balanced", json_boolean(audit->balanced));
    set_integer(json, "products", audit->products);
    set_integer(json, "orders", audit->orders);
    set_integer(json, "sold", audit->sold);
    set_integer(json, "cancelled", audit->cancelled);
    set_integer(json, "oversold", audit->oversold);
    set_integer(json, "undersold", audit->undersold);
    set_integer(json, "phantom", audit->phantom);
    set_integer(json, "negative", audit->negative);
    set_integer(json, "stranded", audit->stranded);
    set_integer(json, "duplicates", audit->duplicates);
    set_integer(json, "over_limit", audit->over_limit);
    set_integer(json, "fence_regressions", audit->fence_regressions);
    set_integer(json, "lost", audit->lost);
    for (i = 0; i < lines_n; i++)
        json_array_append_new(list, audit_line_json(&lines[i]));
    json_object_set_new(json, "lines", list);
    return dump_take(json);
}

char *render_problem(enum problem problem, const char *detail,
                     const struct parse_fault faults[], size_t faults_n)
{
    const struct problem_row *row = problem_row(problem);
    json_t *json = json_object(), *list, *fault;
    size_t i;

    set_text(json, "type", row->type);
    set_text(json, "title", row->title);
    set_integer(json, "status", row->status);
    if (detail && *detail)
        set_text(json, "detail", detail);
    /* Also in the body: page scripts see headers only if they ask for them. */
    if (row->retry_s)
        set_integer(json, "retry_after_seconds", row->retry_s);
    /*
     * RFC 9457 shows such a member, but with a JSON pointer; our documents are
     * flat, and a field's name is all that a pointer could say.
     */
    if (faults_n) {
        list = json_array();
        for (i = 0; i < faults_n; i++) {
            fault = json_object();
            set_text(fault, "field", faults[i].field);
            set_text(fault, "detail", faults[i].detail);
            json_array_append_new(list, fault);
        }
        json_object_set_new(json, "errors", list);
    }
    return dump_take(json);
}

char *render_ready(const char *store, const char *lock)
{
    json_t *json = json_object();

    set_text(json, "status", "ok");
    set_text(json, "store", store);
    set_text(json, "lock", lock);
    return dump_take(json);
}
