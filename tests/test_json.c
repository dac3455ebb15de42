/* JSON in and out, where it cannot be seen from outside, and which reply an outcome
 * becomes. What replies look like: e2e/http-api.t. */
#include "server/http/reply.h"
#include "server/http/parse.h"
#include "server/http/request.h"
#include "tests/support/unit_test.h"

static struct parse_error error;
static struct store_order order;

static bool order_from(const char *body)
{
    memset(&order, 0, sizeof(order));
    return parse_body(PARSE_ORDER, body, strlen(body), &order, NULL, &error);
}

/* What is refused, and which field it names, http-bad-input.t asks from outside;
 * here is what cannot be seen from there. */
UNIT_TEST(orders_are_read)
{
    static char bomb[16384];

    assert_true(order_from(" {\"product_id\":9007199254740991,\"user_id\":2,"
                           "\"quantity\":1000000}\n"));
    assert_true(order.product_id == STORE_NUMBER_MAX);
    assert_int_equal(order.user_id, 2);
    assert_int_equal(order.quantity, 1000000);
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

/* What was written by a library once is written by hand: no order is longer. */
UNIT_TEST(the_longest_order_has_room)
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
    /* A total beyond what JSON's readers hold exactly is not told. */
    longest.price_cents = STORE_NUMBER_MAX;
    longest.quantity = 2;
    render_order(&longest, RENDER_PLACED, text);
    assert_non_null(strstr(text, "\"total_cents\":null"));
}

/* Every outcome has a reply, and says when to come back. */
UNIT_TEST(outcomes_become_problems)
{
    const struct problem_row *row;

    for (int i = ORDER_SOLD_OUT; i < ORDER_OUTCOME_N; i++) {
        row = problem_row((enum problem)i);
        if (i >= ORDER_LOCK_TIMEOUT) {
            assert_true(row->status == 429 || row->status == 503);
            assert_true(row->retry_s > 0);
        } else {
            assert_in_range(row->status, 404, 422);
        }
    }
}

UNIT_TEST(statuses_become_problems)
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

UNIT_TEST(without_memory_it_is_a_503_to_be_repeated)
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
    parse_init();
    return unit_test_run(NULL, NULL);
}
