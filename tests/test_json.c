/* JSON in and out, and which reply an outcome becomes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/reply.h"
#include "server/http/parse.h"
#include "server/http/request.h"
#include "tests/support/unit_test.h"

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

/* What is refused, and which field it names, http-bad-input.t asks from outside;
 * here is what cannot be seen from there. */
static void orders_are_read(NO_STATE)
{
    static char bomb[16384];

    assert_true(order_from(" {\"product_id\":9007199254740991,\"user_id\":2,"
                           "\"quantity\":1000000}\n"));
    assert_true(order.product_id == STORE_NUMBER_MAX);
    assert_int_equal(order.user_id, 2);
    assert_int_equal(order.quantity, 1000000);
    assert_true(order_from("{\"product_id\":9007199254740991.0,"
                           "\"user_id\":2e0,\"quantity\":10.0E-1}"));
    assert_true(order.product_id == STORE_NUMBER_MAX);
    assert_int_equal(order.user_id, 2);
    assert_int_equal(order.quantity, 1);
    assert_false(order_from("{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,"
                            "\"g\":1,\"h\":1,\"i\":1}"));
    assert_int_equal(error.faults_n, PARSE_FAULTS_MAX);
    assert_false(order_from("{\"a\":\"\xff\"}"));
    for (const char *c = error.detail; *c; c++)
        assert_true(*c >= ' ' && *c <= '~');
    memset(bomb, '[', sizeof(bomb) - 1);
    assert_false(order_from(bomb));
    assert_non_null(strstr(error.detail, "depth"));
}

/* Numbers are judged by their text: a double would round them. */
static void numbers_are_not_rounded(NO_STATE)
{
    static const struct {
        const char *text;
        int64_t value; /* 0: refused */
        const char *why;
    } rows[] = {
        {"1e0", 1, NULL},
        {"1.0", 1, NULL},
        {"1E+2", 100, NULL},
        {"10.0E-1", 1, NULL},
        {"1200e-2", 12, NULL},
        {"0.00120e4", 12, NULL},
        {"100000000000000000000000000e-26", 1, NULL},
        {"1e-0000000000000000000000000000000", 1, NULL},
        {"9007199254740991.0", STORE_NUMBER_MAX, NULL},
        {"90071992547409910e-1", STORE_NUMBER_MAX, NULL},
        {"9.007199254740991e15", STORE_NUMBER_MAX, NULL},
        {"0.99999999999999999999999", 0, "has to be an integer"},
        {"1.00000000000000000000001", 0, "has to be an integer"},
        {"90071992547409911e-1", 0, "has to be an integer"},
        {"9007199254740990.999999999", 0, "has to be an integer"},
        {"1e-400", 0, "has to be an integer"},
        {"1e-99999999999999999999", 0, "has to be an integer"},
        {"9007199254740992.0", 0, "is too large"},
        {"90071992547409920001e-4", 0, "has to be an integer"},
        {"12345678901234567890.0", 0, "is too large"},
        {"1e300", 0, "is too large"},
        {"-0", 0, "has to be at least 1"},
        {"-0.0", 0, "has to be at least 1"},
        {"0e99999999999999999999", 0, "has to be at least 1"},
        {"-1e300", 0, "has to be at least 1"},
        {"-1.5", 0, "has to be an integer"},
    };
    char body[512];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        /* Names and values before it that look like it. */
        snprintf(body, sizeof(body),
                 "{ \"x\\\":1}\" : [{\"user_id\":3.0},\":\"],"
                 "\"product_id\":4.0 ,\"us\\u0065r_id\" :\n%s,"
                 "\"quantity\":1.5e1}",
                 rows[i].text);
        assert_false(order_from(body));
        assert_int_equal(error.faults_n, rows[i].value ? 1 : 2);
        if (rows[i].value) {
            assert_true(order.user_id == rows[i].value);
        } else {
            assert_string_equal(error.faults[0].field, "user_id");
            assert_string_equal(error.faults[0].detail, rows[i].why);
        }
        assert_int_equal(order.product_id, 4);
        assert_int_equal(order.quantity, 15);
    }
}

static struct store_product product;
static unsigned given;

static bool put_from(const char *body)
{
    memset(&product, 0, sizeof(product));
    return parse_product(body, strlen(body), false, &product, &given, &error);
}

static bool patch_from(const char *body)
{
    memset(&product, 0xff, sizeof(product));
    product.opens_ms = product.ends_ms = 0;
    return parse_product(body, strlen(body), true, &product, &given, &error);
}

static void puts_are_read(NO_STATE)
{
    char *text;

    assert_true(put_from("{\"name\":\"\xc3\xa4\",\"stock\":0,"
                         "\"opens_at\":\"2030-01-01T00:00:00Z\","
                         "\"ends_at\":\"2032-02-29T23:59:59.5Z\"}"));
    assert_int_equal(given, STORE_GIVEN_NAME | STORE_GIVEN_STOCK |
                                STORE_GIVEN_OPENS | STORE_GIVEN_ENDS);
    assert_string_equal(product.name, "\xc3\xa4");
    assert_true(product.opens_ms == 1893456000000);
    text = render_product(&product, NULL, "fenced");
    assert_non_null(strstr(text, "\"2032-02-29T23:59:59.500Z\""));
    free(text);
    assert_true(put_from("{\"name\":\"a\"}"));
    assert_int_equal(given, STORE_GIVEN_NAME);
    assert_true(put_from("{\"name\":\"a\",\"segments\":256}"));
    assert_int_equal(product.segments, 256);
    assert_false(put_from("{\"name\":\"a\","
                          "\"opens_at\":\"2030-01-01T00:00:00Z\","
                          "\"ends_at\":\"2030-01-01T00:00:00Z\"}"));
    assert_string_equal(error.faults[0].field, "ends_at");
}

static void patches_are_read(NO_STATE)
{
    assert_true(patch_from("{}"));
    assert_int_equal(given, 0);
    assert_true(patch_from("{\"price_cents\":null,\"limit_per_user\":null,"
                           "\"opens_at\":null,\"ends_at\":null}"));
    assert_int_equal(given, STORE_GIVEN_PRICE | STORE_GIVEN_LIMIT |
                                STORE_GIVEN_OPENS | STORE_GIVEN_ENDS);
    assert_int_equal(product.price_cents, 0);
    assert_int_equal(product.limit_per_user, 0);
    assert_true(patch_from("{\"limit_per_user\":7}"));
    assert_int_equal(product.limit_per_user, 7);
}

static void expect_text(char *text, const char *expected)
{
    size_t size = strlen(expected);

    assert_non_null(text);
    assert_memory_equal(text, expected, size);
    assert_string_equal(text + size, "\n");
    free(text);
}

static void orders_are_written(NO_STATE)
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

#define COMMON                                                                 \
    "{\"id\":\"9-x\",\"product_id\":1,\"user_id\":2,\"quantity\":3,"           \
    "\"price_cents\":5,\"total_cents\":15,"
#define TIMES(state, cancelled)                                                \
    "\"state\":\"" state "\",\"created_at\":\"2030-01-01T00:00:00.001Z\","     \
    "\"cancelled_at\":" cancelled ",\"fence\":7}\n"
    size = render_order(&placed, RENDER_NOW, text);
    assert_int_equal(size, strlen(text));
    assert_string_equal(
        text, COMMON TIMES("cancelled", "\"2030-01-01T00:00:00.002Z\""));
    size = render_order(&placed, RENDER_PLACED, text);
    assert_int_equal(size, strlen(text));
    assert_string_equal(text, COMMON TIMES("placed", "null"));
    /* A total beyond what JSON's readers hold exactly is not told. */
    placed.price_cents = STORE_NUMBER_MAX;
    render_order(&placed, RENDER_PLACED, text);
    assert_non_null(strstr(text, "\"total_cents\":null"));
}

static bool payment_from(const char *body, char *payment)
{
    return parse_payment(body, strlen(body), payment, &error);
}

/* It is shown as it came: what JSON escapes is refused. */
static void payments_are_read(NO_STATE)
{
    static const char *const bad[] = {
        "{}",
        "{\"payment\":1}",
        "{\"payment\":\"\"}",
        "{\"payment\":\"a b\"}",
        "{\"payment\":\"a\\\"b\"}",
        "{\"payment\":\"a\\\\b\"}",
        "{\"payment\":\"\xc3\xa4\"}",
    };
    char payment[STORE_PAYMENT_BYTES_MAX + 1], body[100];

    assert_true(payment_from("{\"payment\":\"pi_1!#[]~\"}", payment));
    assert_string_equal(payment, "pi_1!#[]~");
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_false(payment_from(bad[i], payment));
        assert_string_equal(error.faults[0].field, "payment");
    }
    for (int length = STORE_PAYMENT_BYTES_MAX; length < 66; length++) {
        snprintf(body, sizeof(body), "{\"payment\":\"%0*d\"}", length, 0);
        assert_int_equal(payment_from(body, payment),
                         length == STORE_PAYMENT_BYTES_MAX);
    }
}

/* Nothing of it stands in the order of a product that is paid at once. */
static void payments_are_written(NO_STATE)
{
    struct store_order held = {.id = "9-x",
                               .state = STORE_EXPIRED,
                               .pay_until_ms = 1893456000001,
                               .cancelled_ms = 1893456000002,
                               .late = 2,
                               .late_payment = "b"};
    char text[RENDER_ORDER_BYTES];

#define UNTIL "\"fence\":null,\"pay_until\":\"2030-01-01T00:00:00.001Z\""
    render_order(&held, RENDER_PLACED, text);
    assert_non_null(strstr(text, "\"state\":\"awaiting-payment\""));
    assert_non_null(strstr(text, UNTIL "}\n"));
    render_order(&held, RENDER_NOW, text);
    assert_non_null(strstr(text, "\"state\":\"expired\""));
    assert_non_null(strstr(text, "\"cancelled_at\":null"));
    assert_non_null(strstr(text, UNTIL
                           ",\"payment\":null,\"paid_at\":null,"
                           "\"late_payments\":2,\"late_payment\":\"b\"}\n"));
}

/* What was written by a library once is written by hand: no order is longer. */
static void the_longest_order_has_room(NO_STATE)
{
    struct store_order longest = {.product_id = INT64_MIN,
                                  .user_id = INT64_MIN,
                                  .quantity = 1,
                                  .price_cents = INT64_MIN,
                                  .created_ms = INT64_MAX,
                                  .cancelled_ms = INT64_MAX,
                                  .state = STORE_CANCELLED,
                                  .fence = STORE_NUMBER_MAX,
                                  .segment = INT64_MIN,
                                  .pay_until_ms = INT64_MAX,
                                  .paid_ms = INT64_MAX,
                                  .late = INT64_MIN};
    char text[RENDER_ORDER_BYTES];

    memset(longest.id, 'x', STORE_ID_BYTES_MAX);
    memset(longest.payment, 'x', STORE_PAYMENT_BYTES_MAX);
    memset(longest.late_payment, 'x', STORE_PAYMENT_BYTES_MAX);
    assert_in_range(render_order(&longest, RENDER_NOW_WITH_SEGMENT, text), 1,
                    sizeof(text) - 1);
    assert_non_null(strstr(text, "\"user_id\":-9223372036854775808,"));
    assert_non_null(strstr(text, "\"fence\":9007199254740991,\"segment\":-92"));
}

static void segments_are_written(NO_STATE)
{
    struct store_product split = {.id = 1,
                                  .name = "a",
                                  .initial = 5,
                                  .stock = 4,
                                  .segments = 3,
                                  .epoch = 6};
    struct store_segments segments = {.n = 2, .at = {{0, 3, 2}, {1, 2, 2}}};
    char *text = render_product(&split, &segments, "fenced");

    assert_string_equal(
        strstr(text, ",\"segments\""),
        ",\"segments\":3,\"lock\":\"fenced\",\"epoch\":6,"
        "\"stock_by_segment\":[{\"segment\":0,\"initial\":3,\"stock\":2},"
        "{\"segment\":1,\"initial\":2,\"stock\":2}]}\n");
    free(text);
    expect_text(
        render_warmup(7, &(struct store_segments){1, {{0, 1, 1}}}, false),
        "{\"product_id\":7,\"in_redis\":false,\"stock_by_segment\":["
        "{\"segment\":0,\"initial\":1,\"stock\":1}]}");
}

static void problems_are_written(NO_STATE)
{
    const struct parse_fault faults[] = {{"a\"b", "is missing"}};

    expect_text(render_problem(PROBLEM_SOLD_OUT, "", NULL, 0),
                "{\"type\":\"urn:stockade:problem:sold-out\",\"title\":"
                "\"Fewer units are left than were asked for\",\"status\":409}");
    expect_text(render_problem(PROBLEM_FIELDS, "d", faults, 1),
                "{\"type\":\"urn:stockade:problem:invalid-fields\",\"title\":"
                "\"Fields of the body are missing or wrong\",\"status\":422,"
                "\"detail\":\"d\",\"errors\":[{\"field\":\"a\\\"b\",\"detail\":"
                "\"is missing\"}]}");
}

static void problems_are_described(NO_STATE)
{
    char quoted[96];

    for (int i = PROBLEM_SOLD_OUT; i < PROBLEM_N; i++) {
        snprintf(quoted, sizeof(quoted), "\"%s\"",
                 problem_row((enum problem)i)->type);
        assert_non_null(strstr(openapi, quoted));
    }
}

/* Every outcome has a reply, and says when to come back. */
static void outcomes_become_problems(NO_STATE)
{
    const struct problem_row *row;

    for (int i = ORDER_SOLD_OUT; i < ORDER_OUTCOME_N; i++) {
        row = problem_row((enum problem)i);
        if (i >= ORDER_LOCK_TIMEOUT) {
            assert_int_equal(row->status, 503);
            assert_true(row->retry_s > 0);
        } else {
            assert_in_range(row->status, 404, 422);
        }
    }
}

static void statuses_become_problems(NO_STATE)
{
    enum problem problem;

    assert_int_equal(reply_of_status(STORE_OK), PROBLEM_NONE);
    for (int i = STORE_OK + 1; i < STORE_STATUS_N; i++) {
        problem = reply_of_status((enum store_status)i);
        assert_in_range(problem_row(problem)->status, 404, 503);
    }
    /* "Don't know" must not look like "no". */
    assert_int_equal(problem_row(reply_of_status(STORE_BUSY))->status, 503);
    assert_int_equal(problem_row(reply_of_status(STORE_IO))->status, 503);
}

static void without_memory_it_is_a_503_to_be_repeated(NO_STATE)
{
    struct request *request = calloc(1, sizeof(*request));

    request_header(request, "Location", "/api/orders/1");
    reply_document(request, 201, "application/json", NULL, 0);
    assert_int_equal(request->status, 503);
    assert_non_null(strstr(request->reply_body, "problem:overloaded"));
    assert_int_equal(request->headers_n, 2);
    assert_string_equal(request->headers[0].name, "Retry-After");
    assert_string_equal(request->headers[1].value, "application/problem+json");
    free(request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_are_read),
        cmocka_unit_test(numbers_are_not_rounded),
        cmocka_unit_test(puts_are_read),
        cmocka_unit_test(patches_are_read),
        cmocka_unit_test(orders_are_written),
        cmocka_unit_test(payments_are_read),
        cmocka_unit_test(payments_are_written),
        cmocka_unit_test(the_longest_order_has_room),
        cmocka_unit_test(segments_are_written),
        cmocka_unit_test(problems_are_written),
        cmocka_unit_test(problems_are_described),
        cmocka_unit_test(outcomes_become_problems),
        cmocka_unit_test(statuses_become_problems),
        cmocka_unit_test(without_memory_it_is_a_503_to_be_repeated),
    };

    parse_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
