/*
 * jansson keeps the order in which members were set, so the same order always
 * becomes the same bytes. A text that is not UTF-8 is missing from the result:
 * what is there is never wrong.
 */
#include "server/http/reply.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STAMP_BYTES 40 /* of the latest time */

/* json_pack() reads the store's numbers as this type. */
static_assert(sizeof(json_int_t) == sizeof(int64_t), "json_pack: I");

/* The text, a line, or NULL; consumes JSON. */
static char *dump_take(json_t *json)
{
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    size_t size = text ? strlen(text) : 0;
    char *line = text ? realloc(text, size + 2) : NULL;

    if (line)
        memcpy(line + size, "\n", 2);
    else
        free(text);
    json_decref(json);
    return line;
}

/* stpcpy() for a literal, whose length the compiler knows. Without bounds:
 * RENDER_ORDER_BYTES is room for the longest of everything. */
#define PUT(at, literal)                                                       \
    ((char *)memcpy((at), (literal), sizeof(literal) - 1) + sizeof(literal) - 1)

static char *put_integer(char *at, int64_t value)
{
    /* The minus is taken of the unsigned number, because the smallest integer
     * has no positive one. */
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    char digits[20], *first = digits + sizeof(digits);

    do
        *--first = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0)
        *at++ = '-';
    return mempcpy(at, first, (size_t)(digits + sizeof(digits) - first));
}

/* RFC 3339 in UTC, "2030-01-01T12:00:00.000Z", and a NUL. Most orders were placed in
 * the same second as the one before: each thread keeps its text. */
static char *put_stamp(char *at, int64_t ms)
{
    static _Thread_local struct {
        int64_t second;
        char text[STAMP_BYTES];
    } last = {.second = -1};
    time_t second = (time_t)(ms / 1000);
    struct tm utc;

    if (second != last.second)
        strftime(last.text, sizeof(last.text), "%Y-%m-%dT%H:%M:%S.",
                 gmtime_r(&second, &utc));
    last.second = second;
    at = stpcpy(at, last.text);
    for (int unit = 100; unit > 0; unit /= 10)
        *at++ = (char)('0' + ms / unit % 10);
    return stpcpy(at, "Z");
}

/* 0 means that there is no such time. */
static char *put_time(char *at, int64_t ms)
{
    return ms <= 0 ? PUT(at, "null") : PUT(put_stamp(PUT(at, "\""), ms), "\"");
}

/* null stands for a number that JSON's readers would round. */
static char *put_exact(char *at, bool exact, int64_t value)
{
    return exact ? put_integer(at, value) : PUT(at, "null");
}

static char *put_text(char *at, const char *text)
{
    return *text ? PUT(stpcpy(PUT(at, "\""), text), "\"") : PUT(at, "null");
}

/* The reply to the order itself says how it was then, also when it is repeated
 * after a cancel: the same bytes. */
static const char *state_text(const struct store_order *order,
                              enum render_view view)
{
    static const char *const texts[] = {
        [STORE_PLACED] = "placed",   [STORE_AWAITING] = "awaiting-payment",
        [STORE_PAID] = "paid",       [STORE_CANCELLED] = "cancelled",
        [STORE_EXPIRED] = "expired",
    };

    if (view != RENDER_PLACED)
        return texts[order->state];
    return texts[order->pay_until_ms ? STORE_AWAITING : STORE_PLACED];
}

/* The id is made of letters, digits and "-", and a payment has no quotes: nothing to
 * escape. */
size_t render_order(const struct store_order *order, enum render_view view,
                    char text[RENDER_ORDER_BYTES])
{
    bool cancelled = order->state == STORE_CANCELLED && view != RENDER_PLACED;
    int64_t total;
    /* JSON's readers take numbers for doubles: above 2^53 - 1 they would show
     * another sum. */
    bool exact =
        !__builtin_mul_overflow(order->price_cents, order->quantity, &total) &&
        total <= STORE_NUMBER_MAX;
    /* 0 is how the store says that there was no fence. */
    bool fenced = order->fence && order->fence <= STORE_NUMBER_MAX;
    char *at = text;

    at = stpcpy(PUT(at, "{\"id\":\""), order->id);
    at = put_integer(PUT(at, "\",\"product_id\":"), order->product_id);
    at = put_integer(PUT(at, ",\"user_id\":"), order->user_id);
    at = put_integer(PUT(at, ",\"quantity\":"), order->quantity);
    at = put_integer(PUT(at, ",\"price_cents\":"), order->price_cents);
    at = put_exact(PUT(at, ",\"total_cents\":"), exact, total);
    at = stpcpy(PUT(at, ",\"state\":\""), state_text(order, view));
    at = put_time(PUT(at, "\",\"created_at\":"), order->created_ms);
    at = put_time(PUT(at, ",\"cancelled_at\":"),
                  cancelled ? order->cancelled_ms : 0);
    at = put_exact(PUT(at, ",\"fence\":"), fenced, (int64_t)order->fence);
    if (view == RENDER_NOW_WITH_SEGMENT)
        at = put_integer(PUT(at, ",\"segment\":"), order->segment);
    /* A member that most orders would have as null is left out: clients of
     * products that are paid at once never see it. */
    if (order->pay_until_ms)
        at = put_time(PUT(at, ",\"pay_until\":"), order->pay_until_ms);
    /* Also one that is paid at once may have been paid once more. */
    if (view != RENDER_PLACED && (order->pay_until_ms || order->late)) {
        at = put_text(PUT(at, ",\"payment\":"), order->payment);
        at = put_time(PUT(at, ",\"paid_at\":"), order->paid_ms);
        at = put_integer(PUT(at, ",\"late_payments\":"), order->late);
        at = put_text(PUT(at, ",\"late_payment\":"), order->late_payment);
    }
    at = stpcpy(at, "}\n"); /* and a NUL */
    assert(at < text + RENDER_ORDER_BYTES);
    return (size_t)(at - text);
}

const char render_csv_head[] =
    "id,product_id,user_id,quantity,price_cents,total_cents,state,created_at,"
    "cancelled_at,idempotency_key,payment,late_payments,late_payment\r\n";

static void put_field(const char *text, FILE *out)
{
    /* A spreadsheet takes these signs for the beginning of a formula, and a key
     * may be anybody's text. */
    fprintf(out, ",\"%s", *text && strchr("=+-@", *text) ? "'" : "");
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

void render_csv_order(const struct store_order *order, FILE *out)
{
    char created[STAMP_BYTES], cancelled[STAMP_BYTES] = "", sum[24] = "";
    int64_t total;

    put_stamp(created, order->created_ms);
    if (order->state == STORE_CANCELLED)
        put_stamp(cancelled, order->cancelled_ms);
    if (!__builtin_mul_overflow(order->price_cents, order->quantity, &total))
        *put_integer(sum, total) = '\0';
    fprintf(out,
            "%s,%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%s,%s,%s,%s",
            order->id, order->product_id, order->user_id, order->quantity,
            order->price_cents, sum, state_text(order, RENDER_NOW), created,
            cancelled);
    put_field(order->key, out);
    put_field(order->payment, out);
    fprintf(out, ",%" PRId64, order->late);
    put_field(order->late_payment, out);
    fputs("\r\n", out);
}

static json_t *time_json(int64_t ms)
{
    char text[STAMP_BYTES];

    put_stamp(text, ms);
    return ms <= 0 ? json_null() : json_string(text);
}

/* An element of the list, and the whole of GET /api/products/{id}. */
static json_t *product_json(const struct store_product *product,
                            const char *lock)
{
    return json_pack(
        "{s:I,s:o*,s:I,s:I,s:o,s:o,s:I,s:I,s:I,s:I,s:I,s:s}", "id", product->id,
        "name", json_string(product->name), "price_cents", product->price_cents,
        "limit_per_user", product->limit_per_user, "opens_at",
        time_json(product->opens_ms), "ends_at", time_json(product->ends_ms),
        "pay_within_s", product->pay_within_s, "initial", product->initial,
        "stock", product->stock, "sold", product->initial - product->stock,
        "segments", product->segments, "lock", lock);
}

static json_t *segments_json(const struct store_segments *segments)
{
    const struct store_segment *at = segments->at;
    json_t *list = json_array();

    for (size_t i = 0; i < segments->n; i++)
        json_array_append_new(
            list, json_pack("{s:I,s:I,s:I}", "segment", at[i].segment,
                            "initial", at[i].initial, "stock", at[i].stock));
    return list;
}

char *render_product(const struct store_product *product,
                     const struct store_segments *segments, const char *lock)
{
    json_t *json = product_json(product, lock);

    if (segments) {
        json_object_set_new(json, "epoch", json_integer(product->epoch));
        json_object_set_new(json, "stock_by_segment", segments_json(segments));
    }
    return dump_take(json);
}

char *render_warmup(int64_t product_id, const struct store_segments *segments,
                    bool in_redis)
{
    return dump_take(json_pack("{s:I,s:b,s:o}", "product_id", product_id,
                               "in_redis", (int)in_redis, "stock_by_segment",
                               segments_json(segments)));
}

/* NEXT is an id and not a page number: products that come and go between two calls do
 * not make others be skipped or seen twice. */
char *render_products(const struct store_product products[], size_t n,
                      const char *lock, int64_t next)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, product_json(&products[i], lock));
    return dump_take(json_pack("{s:o,s:o}", "products", list, "next",
                               next ? json_integer(next) : json_null()));
}

char *render_beat(int64_t now_ms)
{
    return dump_take(json_pack("{s:o}", "time", time_json(now_ms)));
}

/* In the order of the struct: the sums that are never zero first, then those that
 * always should be. Each line is one segment against the orders that drew from it. The
 * command line prints the same text. */
char *render_audit(const struct store_audit *audit,
                   const struct store_audit_line lines[], size_t lines_n)
{
    json_t *list = json_array(), *all;
    const struct store_audit_line *line;

    for (line = lines; line < lines + lines_n; line++)
        json_array_append_new(
            list, json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:b}", "product_id",
                            line->product_id, "segment", line->segment,
                            "initial", line->initial, "stock", line->stock,
                            "sold", line->sold, "orders", line->orders, "drift",
                            line->drift, "retired", (int)line->retired));
    all = json_pack("{s:b}", "balanced", (int)audit->balanced);
#define ROW(member, name, ...)                                                 \
    json_object_set_new(all, name, json_integer(audit->member));
#include "db/audit.inc"
    json_object_set_new(all, "lines", list);
    return dump_take(all);
}

/* The seconds are also in the body: page scripts see headers only if they ask for them.
 * RFC 9457 shows "errors" with a JSON pointer each; our documents are flat, and a
 * field's name is all that a pointer could say. */
char *render_problem(enum problem problem, bool is_open, const char *detail,
                     const struct parse_fault faults[], size_t faults_n)
{
    const struct problem_row *row = problem_row(problem);
    json_t *list = faults_n ? json_array() : NULL;

    for (size_t i = 0; i < faults_n; i++)
        json_array_append_new(list,
                              json_pack("{s:s,s:s}", "field", faults[i].field,
                                        "detail", faults[i].detail));
    return dump_take(json_pack(
        "{s:s,s:s,s:i,s:o*,s:o*,s:o*,s:o*}", "type", row->type, "title",
        row->title, "status", (int)row->status, "detail",
        detail && *detail ? json_string(detail) : NULL, "retry_after_seconds",
        row->retry_s ? json_integer(row->retry_s) : NULL, ORDER_OPEN_MEMBER,
        is_open ? json_true() : NULL, "errors", list));
}
