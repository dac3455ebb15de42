/*
 * jansson keeps the order in which members were set, so the same order always
 * becomes the same bytes. A member for which there is no memory is missing
 * from the result: what is there is never wrong.
 */
#include "server/http/render.h"

#include <jansson.h>
#include <stdio.h>
#include <time.h>

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

/* Times before 1970 are not kept anywhere, so the remainder is not negative. */
void render_time(int64_t ms, char text[RENDER_TIME_BYTES])
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm utc;
    size_t size;

    gmtime_r(&seconds, &utc);
    size = strftime(text, RENDER_TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + size, RENDER_TIME_BYTES - size, ".%03dZ", (int)(ms % 1000));
}

/* 0 means that there is no such time: null. */
static void set_time(json_t *json, const char *name, int64_t ms)
{
    char text[RENDER_TIME_BYTES];

    if (ms <= 0) {
        json_object_set_new(json, name, json_null());
        return;
    }
    render_time(ms, text);
    set_text(json, name, text);
}

char *render_order(const struct store_order *order, bool as_placed)
{
    bool cancelled = order->state == STORE_CANCELLED && !as_placed;
    json_t *json = json_object();
    int64_t total;

    set_text(json, "id", order->id);
    set_integer(json, "product_id", order->product_id);
    set_integer(json, "user_id", order->user_id);
    set_integer(json, "quantity", order->quantity);
    set_integer(json, "price_cents", order->price_cents);
    /* A number that JSON's readers would round is no price: null. */
    if (!__builtin_mul_overflow(order->price_cents, order->quantity, &total) &&
        total <= STORE_NUMBER_MAX)
        set_integer(json, "total_cents", total);
    else
        json_object_set_new(json, "total_cents", json_null());
    set_text(json, "state", cancelled ? "cancelled" : "placed");
    set_time(json, "created_at", order->created_ms);
    set_time(json, "cancelled_at", cancelled ? order->cancelled_ms : 0);
    /* 0 is how the store says that there was no fence. */
    if (order->fence && order->fence <= STORE_NUMBER_MAX)
        set_integer(json, "fence", (int64_t)order->fence);
    else
        json_object_set_new(json, "fence", json_null());
    return dump_take(json);
}

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
