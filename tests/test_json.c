/* JSON in and out, and which reply an outcome becomes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/parse.h"
#include "server/http/render.h"
#include "server/http/reply.h"
#include "server/http/stamp.h"

static const char openapi[] =
#include "static/openapi.json.inc"
    ;

static struct parse_error error;
static struct store_order order;

static bool order_from(const char *body)
{
    memset(&order, 0, sizeof(order));
    return parse_order(body, strlen(body), &order, &error);
}

/* Refused with PROBLEM; FIELD is the first at fault, NULL = none is named. */
static void refuses(const char *body, enum problem problem, const char *field)
{
    assert_false(order_from(body));
    assert_int_equal(error.problem, problem);
    assert_true(*error.detail);
    if (field)
        assert_string_equal(error.faults[0].field, field);
    else
        assert_int_equal(error.faults_n, 0);
}

#define ORDER(p, u, q)                                                         \
    "{\"product_id\":" p ",\"user_id\":" u ",\"quantity\":" q "}"

static void orders_are_read(void **state)
{
    (void)state;
    assert_true(order_from(" " ORDER("1", "2", "3") "\n"));
    assert_int_equal(order.product_id, 1);
    assert_int_equal(order.user_id, 2);
    assert_int_equal(order.quantity, 3);
    assert_true(order_from(ORDER("9007199254740991", "1", "1000000")));
    assert_true(order.product_id == STORE_NUMBER_MAX);
}

static void bad_orders_are_refused_by_field(void **state)
{
    (void)state;
    refuses(ORDER("0", "2", "3"), PROBLEM_FIELDS, "product_id");
    refuses(ORDER("1", "-2", "3"), PROBLEM_FIELDS, "user_id");
    refuses(ORDER("1", "2", "1000001"), PROBLEM_FIELDS, "quantity");
    refuses(ORDER("9007199254740992", "2", "3"), PROBLEM_FIELDS, "product_id");
    refuses(ORDER("\"1\"", "2", "3"), PROBLEM_FIELDS, "product_id");
    refuses(ORDER("1", "2.0", "3"), PROBLEM_FIELDS, "user_id");
    refuses(ORDER("1", "2", "null"), PROBLEM_FIELDS, "quantity");
    refuses("{}", PROBLEM_FIELDS, "product_id");
    refuses("[]", PROBLEM_FIELDS, NULL);
    refuses(ORDER("1", "2", "3,\"quantity\":3"), PROBLEM_FIELDS, NULL);
    refuses(ORDER("1", "2", "99999999999999999999"), PROBLEM_FIELDS, NULL);
    refuses(ORDER("1", "2", "3,\"x\":0"), PROBLEM_FIELDS, "x");
    assert_false(order_from("{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,"
                            "\"g\":1,\"h\":1,\"i\":1}"));
    assert_int_equal(error.faults_n, PARSE_FAULTS_MAX);
}

static void bad_json_is_refused(void **state)
{
    static char bomb[16384];

    (void)state;
    refuses("", PROBLEM_BAD_JSON, NULL);
    refuses("{", PROBLEM_BAD_JSON, NULL);
    refuses("{} x", PROBLEM_BAD_JSON, NULL);
    refuses("{\"a\":\"\\u0000\"}", PROBLEM_BAD_JSON, NULL);
    refuses("{\"a\":\"\xff\"}", PROBLEM_BAD_JSON, NULL);
    for (const char *c = error.detail; *c; c++)
        assert_true(*c >= ' ' && *c <= '~');
    assert_false(parse_order(ORDER("1", "2", "3") "\0", 42, &order, &error));
    memset(bomb, '[', sizeof(bomb) - 1);
    refuses(bomb, PROBLEM_BAD_JSON, NULL);
    assert_non_null(strstr(error.detail, "nested"));
    /* Brackets in a string are not depth. */
    memset(bomb, 0, sizeof(bomb));
    strcpy(bomb, "{\"[[[[[[[[[[\\\"[[[[\":1}");
    refuses(bomb, PROBLEM_FIELDS, "product_id");
}

static bool product_from(const char *body, struct store_product *product,
                         bool *has_stock)
{
    memset(product, 0, sizeof(*product));
    return parse_product(body, strlen(body), product, has_stock, &error);
}

static void products_are_read(void **state)
{
    struct store_product product;
    bool has_stock;

    (void)state;
    assert_true(product_from("{\"name\":\"\xc3\xa4\",\"stock\":0,"
                             "\"opens_at\":\"2030-01-01T00:00:00Z\","
                             "\"ends_at\":null}",
                             &product, &has_stock));
    assert_true(has_stock);
    assert_string_equal(product.name, "\xc3\xa4");
    assert_true(product.opens_ms == 1893456000000);
    assert_true(product_from("{\"name\":\"a\"}", &product, &has_stock));
    assert_false(has_stock);
    assert_false(product_from("{\"name\":\"\"}", &product, &has_stock));
    assert_false(product_from("{\"name\":\"a\\n\"}", &product, &has_stock));
    assert_false(
        product_from("{\"name\":\"a\",\"stock\":-1}", &product, &has_stock));
    assert_string_equal(error.faults[0].field, "stock");
    assert_false(product_from("{\"name\":\"a\","
                              "\"opens_at\":\"2030-01-01T00:00:00Z\","
                              "\"ends_at\":\"2030-01-01T00:00:00Z\"}",
                              &product, &has_stock));
    assert_string_equal(error.faults[0].field, "ends_at");
}

static void segments_are_1_to_256(void **state)
{
    static const char *const bad[] = {"0", "257", "-1", "9007199254740991"};
    struct store_product product;
    char body[64];
    bool has_stock;

    (void)state;
    assert_true(product_from("{\"name\":\"a\"}", &product, &has_stock));
    assert_int_equal(product.segments, 0); /* as it is */
    assert_true(product_from("{\"name\":\"a\",\"segments\":256}", &product,
                             &has_stock));
    assert_int_equal(product.segments, 256);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        snprintf(body, sizeof(body), "{\"name\":\"a\",\"segments\":%s}",
                 bad[i]);
        assert_false(product_from(body, &product, &has_stock));
        assert_string_equal(error.detail, "segments: has to be 1 to 256");
    }
}

static void keys_are_read(void **state)
{
    char key[STORE_KEY_BYTES_MAX + 1], text[STORE_KEY_BYTES_MAX + 3];

    (void)state;
    assert_true(parse_key("a-b", key));
    assert_string_equal(key, "a-b");
    assert_true(parse_key("\"a\\\"\\\\b\"", key));
    assert_string_equal(key, "a\"\\b");
    assert_false(parse_key("", key));
    assert_false(parse_key("\"\"", key));
    assert_false(parse_key("\"a", key));
    assert_false(parse_key("\"a\"b", key));
    assert_false(parse_key("\"a\\", key));
    assert_false(parse_key("\"a\\b\"", key));
    assert_false(parse_key("a b", key));
    assert_false(parse_key("\xc3\xa4", key));
    memset(text, 'x', sizeof(text));
    text[STORE_KEY_BYTES_MAX] = '\0';
    assert_true(parse_key(text, key));
    text[STORE_KEY_BYTES_MAX] = 'x';
    text[STORE_KEY_BYTES_MAX + 1] = '\0';
    assert_false(parse_key(text, key));
}

static void numbers_are_read(void **state)
{
    static const char *const bad[] = {"",
                                      "0",
                                      "01",
                                      "-1",
                                      "+1",
                                      "1 ",
                                      " 1",
                                      "1a",
                                      "9007199254740992",
                                      "99999999999999999999"};
    int64_t number;

    (void)state;
    assert_true(parse_number("1", &number));
    assert_true(parse_number("9007199254740991", &number));
    assert_true(number == STORE_NUMBER_MAX);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_false(parse_number(bad[i], &number));
}

static void times_go_out_as_they_came_in(void **state)
{
    static const char *const bad[] = {
        "",
        "2030-01-01",
        "2030-01-01T00:00:00",
        "2030-01-01t00:00:00Z",
        "2030-02-29T00:00:00Z",
        "2030-13-01T00:00:00Z",
        "2030-01-01T24:00:00Z",
        "2030-01-01T00:60:00Z",
        "2030-01-01T00:00:60Z",
        "2030-01-01T00:00:00.Z",
        "2030-01-01T00:00:00.1234Z",
        "2030-01-01T00:00:00+00:00",
        "2030-01-01T00:00:00Z ",
        "1960-01-01T00:00:00Z",
    };
    char text[STAMP_BYTES];
    int64_t ms;

    (void)state;
    assert_true(stamp_read("2032-02-29T23:59:59.5Z", &ms));
    stamp_write(ms, text);
    assert_string_equal(text, "2032-02-29T23:59:59.500Z");
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_false(stamp_read(bad[i], &ms));
}

static void expect_text(char *text, const char *expected)
{
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

static void orders_are_written(void **state)
{
    struct store_order placed = {.product_id = 1,
                                 .user_id = 2,
                                 .quantity = 3,
                                 .id = "9-x",
                                 .price_cents = 5,
                                 .created_ms = 1893456000001,
                                 .cancelled_ms = 1893456000002,
                                 .state = STORE_CANCELLED,
                                 .fence = 7};

    char text[RENDER_ORDER_BYTES];
    size_t size;

    (void)state;
#define COMMON                                                                 \
    "{\"id\":\"9-x\",\"product_id\":1,\"user_id\":2,\"quantity\":3,"           \
    "\"price_cents\":5,\"total_cents\":15,"
#define TIMES(state, cancelled)                                                \
    "\"state\":\"" state "\",\"created_at\":\"2030-01-01T00:00:00.001Z\","     \
    "\"cancelled_at\":" cancelled ",\"fence\":7}"
    size = render_order(&placed, false, text);
    assert_int_equal(size, strlen(text));
    assert_string_equal(
        text, COMMON TIMES("cancelled", "\"2030-01-01T00:00:00.002Z\""));
    size = render_order(&placed, true, text);
    assert_int_equal(size, strlen(text));
    assert_string_equal(text, COMMON TIMES("placed", "null"));
    /* A total beyond what JSON's readers hold exactly is not told. */
    placed.price_cents = STORE_NUMBER_MAX;
    render_order(&placed, true, text);
    assert_non_null(strstr(text, "\"total_cents\":null"));
}

/* What was written by a library once is written by hand: no order is longer. */
static void the_longest_order_has_room(void **state)
{
    struct store_order longest = {.product_id = INT64_MIN,
                                  .user_id = INT64_MIN,
                                  .quantity = 1,
                                  .price_cents = INT64_MIN,
                                  .created_ms = INT64_MAX,
                                  .cancelled_ms = INT64_MAX,
                                  .state = STORE_CANCELLED,
                                  .fence = STORE_NUMBER_MAX};
    char text[RENDER_ORDER_BYTES];

    (void)state;
    memset(longest.id, 'x', STORE_ID_BYTES_MAX);
    assert_in_range(render_order(&longest, false, text), 1, sizeof(text) - 1);
    assert_non_null(strstr(text, "\"user_id\":-9223372036854775808,"));
    assert_non_null(strstr(text, "\"fence\":9007199254740991}"));
}

static void what_was_taken_from_where_is_written(void **state)
{
    static struct store_parts parts;
    struct store_order placed = {.id = "9-x", .quantity = 1};
    char *text;

    (void)state;
    parts.n = 2;
    parts.parts[0] = (struct store_part){0, 3};
    parts.parts[1] = (struct store_part){7, 1};
    text = render_order_from(&placed, &parts);
    assert_string_equal(strstr(text, ",\"fence\""),
                        ",\"fence\":null,\"from\":[{\"segment\":0,\"units\":3},"
                        "{\"segment\":7,\"units\":1}]}");
    free(text);
    /* From all there can be, as much as there can be: what is written beyond
       its memory a sanitizer sees. */
    parts.n = STORE_SEGMENTS_MAX;
    for (size_t i = 0; i < parts.n; i++)
        parts.parts[i] = (struct store_part){INT64_MIN, INT64_MIN};
    memset(placed.id, 'x', STORE_ID_BYTES_MAX);
    text = render_order_from(&placed, &parts);
    assert_string_equal(text + strlen(text) - 3, "}]}");
    free(text);
}

static void cells_are_written(void **state)
{
    struct store_product product = {
        .id = 1, .name = "a", .initial = 5, .stock = 4, .segments = 3};
    struct store_cells cells = {
        .epoch = 6, .n = 2, .cells = {{0, 3, 2}, {1, 2, 2}}};
    char *text;

    (void)state;
    text = render_product_cells(&product, &cells, "fenced");
    assert_string_equal(
        strstr(text, ",\"segments\""),
        ",\"segments\":3,\"lock\":\"fenced\",\"epoch\":6,\"cells\":["
        "{\"segment\":0,\"initial\":3,\"stock\":2},"
        "{\"segment\":1,\"initial\":2,\"stock\":2}]}");
    free(text);
}

static void problems_are_written(void **state)
{
    const struct parse_fault faults[] = {{"a\"b", "is missing"}};

    (void)state;
    expect_text(render_problem(PROBLEM_SOLD_OUT, "", NULL, 0),
                "{\"type\":\"urn:stockade:problem:sold-out\",\"title\":"
                "\"Fewer units are left than were asked for\",\"status\":409}");
    expect_text(render_problem(PROBLEM_FIELDS, "d", faults, 1),
                "{\"type\":\"urn:stockade:problem:invalid-fields\",\"title\":"
                "\"Fields of the body are missing or wrong\",\"status\":422,"
                "\"detail\":\"d\",\"errors\":[{\"field\":\"a\\\"b\",\"detail\":"
                "\"is missing\"}]}");
}

static void problems_are_described(void **state)
{
    char quoted[96];

    (void)state;
    for (int i = PROBLEM_NONE + 1; i < PROBLEM_N; i++) {
        snprintf(quoted, sizeof(quoted), "\"%s\"",
                 problem_row((enum problem)i)->type);
        assert_non_null(strstr(openapi, quoted));
    }
}

/* Every outcome has a reply, of its own name, and says when to come back. */
static void outcomes_become_problems(void **state)
{
    const struct problem_row *row;

    (void)state;
    assert_int_equal(reply_of_outcome(ORDER_PLACED), PROBLEM_NONE);
    assert_int_equal(reply_of_outcome(ORDER_REPLAYED), PROBLEM_NONE);
    for (int i = ORDER_SOLD_OUT; i < ORDER_OUTCOME_N; i++) {
        row = problem_row(reply_of_outcome((enum order_outcome)i));
        assert_string_equal(row->slug,
                            order_outcome_slug((enum order_outcome)i));
        if (i >= ORDER_LOCK_TIMEOUT) {
            assert_int_equal(row->status, 503);
            assert_true(row->retry_s > 0);
        } else {
            assert_in_range(row->status, 404, 422);
        }
    }
}

static void statuses_become_problems(void **state)
{
    enum problem problem;

    (void)state;
    assert_int_equal(reply_of_status(STORE_OK), PROBLEM_NONE);
    for (int i = STORE_OK + 1; i < STORE_STATUS_N; i++) {
        problem = reply_of_status((enum store_status)i);
        assert_in_range(problem_row(problem)->status, 404, 503);
    }
    /* "Don't know" must not look like "no". */
    assert_int_equal(problem_row(reply_of_status(STORE_BUSY))->status, 503);
    assert_int_equal(problem_row(reply_of_status(STORE_IO))->status, 503);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_are_read),
        cmocka_unit_test(bad_orders_are_refused_by_field),
        cmocka_unit_test(bad_json_is_refused),
        cmocka_unit_test(products_are_read),
        cmocka_unit_test(segments_are_1_to_256),
        cmocka_unit_test(keys_are_read),
        cmocka_unit_test(numbers_are_read),
        cmocka_unit_test(times_go_out_as_they_came_in),
        cmocka_unit_test(orders_are_written),
        cmocka_unit_test(the_longest_order_has_room),
        cmocka_unit_test(what_was_taken_from_where_is_written),
        cmocka_unit_test(cells_are_written),
        cmocka_unit_test(problems_are_written),
        cmocka_unit_test(problems_are_described),
        cmocka_unit_test(outcomes_become_problems),
        cmocka_unit_test(statuses_become_problems),
    };

    parse_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
