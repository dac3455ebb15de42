/*
 * Placing an order: every way it can end, and what is in the ledger afterwards.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "db/store.h"
#include "tests/support/store_rig.h"

#include <string.h>
#include <time.h>

#define HOUR_MS 3600000

static int64_t wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void test_order_is_stored_as_asked(void **state)
{
    struct store_rig *rig = *state;
    const struct store_product product = {
        .id = 7, .price_cents = 990, .initial = 10};
    struct store_order order = store_rig_ask(7, 42, 3, "k"), stored;
    int64_t before = wall_ms();

    store_rig_put(rig, product);
    store_rig_place(rig, &order);
    assert_int_equal(order.status, STORE_OK);
    assert_false(order.replayed);
    assert_int_equal(order.price_cents, 990);
    assert_in_range(order.created_ms, before, wall_ms());
    assert_int_equal(order.state, STORE_PLACED);
    assert_int_equal(order.number, 1);
    assert_int_equal(store_order_get(rig->reader, order.id, &stored, NULL),
                     STORE_OK);
    assert_int_equal(stored.product_id, 7);
    assert_int_equal(stored.user_id, 42);
    assert_int_equal(stored.quantity, 3);
    assert_int_equal(stored.created_ms, order.created_ms);
    assert_string_equal(stored.key, "k");
    assert_string_equal(stored.id, order.id);
    assert_int_equal(store_rig_product(rig, 7).stock, 7);
}

/* stock >= n, not stock > 0: the last unit must not be sold to who wants 2. */
static void test_quantity_meets_the_stock_exactly(void **state)
{
    struct store_rig *rig = *state;

    store_rig_put(rig, (struct store_product){.id = 1, .initial = 5});
    assert_int_equal(store_rig_buy(rig, 1, 1, 6, ""), STORE_SOLD_OUT);
    assert_int_equal(store_rig_buy(rig, 1, 1, 4, ""), STORE_OK);
    assert_int_equal(store_rig_buy(rig, 1, 1, 2, ""), STORE_SOLD_OUT);
    assert_int_equal(store_rig_product(rig, 1).stock, 1);
    assert_int_equal(store_rig_buy(rig, 1, 1, 1, ""), STORE_OK);
    assert_int_equal(store_rig_buy(rig, 1, 1, 1, ""), STORE_SOLD_OUT);
    assert_int_equal(store_rig_product(rig, 1).stock, 0);
    assert_int_equal(store_rig_audit(rig).sold, 5);
    store_rig_expect_sound(rig);
}

static void test_no_such_product(void **state)
{
    struct store_rig *rig = *state;

    store_rig_put(rig, (struct store_product){.id = 1, .initial = 5});
    assert_int_equal(store_rig_buy(rig, 2, 1, 1, ""), STORE_NO_PRODUCT);
    assert_int_equal(store_rig_audit(rig).orders, 0);
}

static void test_numbers_out_of_range(void **state)
{
    struct store_rig *rig = *state;
    struct store_order order = store_rig_ask(1, 1, 1, "");

    store_rig_put(rig,
                  (struct store_product){.id = 1, .initial = STORE_NUMBER_MAX});
    assert_int_equal(store_rig_buy(rig, 0, 1, 1, ""), STORE_RANGE);
    assert_int_equal(store_rig_buy(rig, 1, 0, 1, ""), STORE_RANGE);
    assert_int_equal(store_rig_buy(rig, 1, 1, 0, ""), STORE_RANGE);
    assert_int_equal(store_rig_buy(rig, 1, 1, -1, ""), STORE_RANGE);
    assert_int_equal(store_rig_buy(rig, 1, 1, INT64_MIN, ""), STORE_RANGE);
    assert_int_equal(store_rig_buy(rig, 1, STORE_NUMBER_MAX + 1, 1, ""),
                     STORE_RANGE);
    assert_int_equal(store_rig_buy(rig, STORE_NUMBER_MAX + 1, 1, 1, ""),
                     STORE_RANGE);
    assert_int_equal(store_rig_buy(rig, 1, 1, STORE_NUMBER_MAX + 1, ""),
                     STORE_RANGE);
    memset(order.key, 'x', sizeof(order.key));
    store_rig_place(rig, &order);
    assert_int_equal(order.status, STORE_RANGE);
    assert_int_equal(
        store_rig_buy(rig, 1, STORE_NUMBER_MAX, STORE_NUMBER_MAX, ""),
        STORE_OK);
    assert_int_equal(store_rig_product(rig, 1).stock, 0);
    store_rig_expect_sound(rig);
}

/* ---- when ----------------------------------------------------------------- */

static void test_window(void **state)
{
    struct store_rig *rig = *state;
    struct store_product early = {.id = 1, .initial = 5};
    struct store_product late = {.id = 2, .initial = 5};
    struct store_product now = {.id = 3, .initial = 5};

    early.opens_ms = wall_ms() + HOUR_MS;
    late.ends_ms = wall_ms(); /* exclusive: over in its own millisecond */
    now.opens_ms = wall_ms(); /* inclusive */
    now.ends_ms = wall_ms() + HOUR_MS;
    store_rig_put(rig, early);
    store_rig_put(rig, late);
    store_rig_put(rig, now);
    assert_int_equal(store_rig_buy(rig, 1, 1, 1, ""), STORE_NOT_OPEN);
    assert_int_equal(store_rig_buy(rig, 2, 1, 1, ""), STORE_ENDED);
    assert_int_equal(store_rig_buy(rig, 3, 1, 1, ""), STORE_OK);
    assert_int_equal(store_rig_product(rig, 1).stock, 5);
    assert_int_equal(store_rig_product(rig, 2).stock, 5);
    store_rig_expect_sound(rig);
}

/* Buys across one edge; the clock is read on both sides of every try. */
static void cross_edge(struct store_rig *rig, int64_t id, int64_t edge_ms)
{
    int64_t before, after;

    do {
        struct store_order early = store_rig_ask(id, 1, 1, ""),
                           late = store_rig_ask(id + 1, 1, 1, "");
        struct store_order *orders[] = {&early, &late};
        before = wall_ms();
        assert_int_equal(store_place(rig->store, orders, 2, NULL, NULL),
                         STORE_OK);
        after = wall_ms();
        if (after < edge_ms)
            assert_int_equal(early.status, STORE_OK);
        if (before >= edge_ms)
            assert_int_equal(early.status, STORE_ENDED);
        if (after < edge_ms)
            assert_int_equal(late.status, STORE_NOT_OPEN);
        if (before >= edge_ms)
            assert_int_equal(late.status, STORE_OK);
        if (early.status == STORE_OK)
            assert_true(early.created_ms < edge_ms);
        if (late.status == STORE_OK)
            assert_true(late.created_ms >= edge_ms);
    } while (before <= edge_ms);
}

/* One product ends in the millisecond in which the next one opens. */
static void test_window_edges(void **state)
{
    struct store_rig *rig = *state;

    for (int64_t id = 1; id < 40; id += 2) {
        struct store_product early = {.id = id, .initial = 1000};
        struct store_product late = {.id = id + 1, .initial = 1000};
        early.ends_ms = late.opens_ms = wall_ms() + 6;
        store_rig_put(rig, early);
        store_rig_put(rig, late);
        cross_edge(rig, id, early.ends_ms);
    }
    store_rig_expect_sound(rig);
}

/* ---- how many for one user ------------------------------------------------ */

static void test_limit_per_user(void **state)
{
    struct store_rig *rig = *state;
    const struct store_product product = {
        .id = 1, .initial = 10, .limit_per_user = 3};

    store_rig_put(rig, product);
    assert_int_equal(store_rig_buy(rig, 1, 1, 4, ""), STORE_LIMIT);
    assert_int_equal(store_rig_buy(rig, 1, 1, 2, ""), STORE_OK);
    assert_int_equal(store_rig_buy(rig, 1, 1, 2, ""), STORE_LIMIT);
    assert_int_equal(store_rig_product(rig, 1).stock, 8);
    assert_int_equal(store_rig_buy(rig, 1, 1, 1, ""), STORE_OK);
    assert_int_equal(store_rig_buy(rig, 1, 1, 1, ""), STORE_LIMIT);
    assert_int_equal(store_rig_buy(rig, 1, 2, 3, ""), STORE_OK);
    assert_int_equal(store_rig_product(rig, 1).stock, 4);
    store_rig_expect_sound(rig);
}

/* A limit that comes later counts what was bought before it. */
static void test_limit_counts_from_before(void **state)
{
    struct store_rig *rig = *state;
    struct store_product product = {.id = 1, .initial = 10};

    store_rig_put(rig, product);
    assert_int_equal(store_rig_buy(rig, 1, 1, 2, ""), STORE_OK);
    product.limit_per_user = 3;
    store_rig_put(rig, product);
    assert_int_equal(store_rig_buy(rig, 1, 1, 2, ""), STORE_LIMIT);
    assert_int_equal(store_rig_buy(rig, 1, 1, 1, ""), STORE_OK);
    /* Off, a purchase nobody counts, and on again. */
    product.limit_per_user = 0;
    store_rig_put(rig, product);
    assert_int_equal(store_rig_buy(rig, 1, 1, 2, ""), STORE_OK);
    product.limit_per_user = 6;
    store_rig_put(rig, product);
    assert_int_equal(store_rig_buy(rig, 1, 1, 2, ""), STORE_LIMIT);
    assert_int_equal(store_rig_buy(rig, 1, 1, 1, ""), STORE_OK);
    /* A lower limit makes nobody guilty afterwards. */
    product.limit_per_user = 2;
    store_rig_put(rig, product);
    assert_int_equal(store_rig_buy(rig, 1, 1, 1, ""), STORE_LIMIT);
    assert_int_equal(store_rig_audit(rig).over_limit, 0);
    store_rig_expect_sound(rig);
}

/* ---- under a key ---------------------------------------------------------- */

static void test_same_key_same_order(void **state)
{
    struct store_rig *rig = *state;
    struct store_order first = store_rig_ask(1, 1, 2, "key"), again = first;

    store_rig_put(rig, (struct store_product){.id = 1, .initial = 10});
    store_rig_place(rig, &first);
    store_rig_place(rig, &again);
    assert_int_equal(again.status, STORE_OK);
    assert_true(again.replayed);
    assert_string_equal(again.id, first.id);
    assert_int_equal(again.created_ms, first.created_ms);
    assert_int_equal(again.number, first.number);
    assert_int_equal(store_rig_product(rig, 1).stock, 8);
    assert_int_equal(store_rig_audit(rig).orders, 1);
}

static void test_same_key_other_order(void **state)
{
    struct store_rig *rig = *state;

    store_rig_put(rig, (struct store_product){.id = 1, .initial = 10});
    store_rig_put(rig, (struct store_product){.id = 2, .initial = 10});
    assert_int_equal(store_rig_buy(rig, 1, 1, 1, "key"), STORE_OK);
    assert_int_equal(store_rig_buy(rig, 1, 1, 2, "key"), STORE_KEY_REUSED);
    assert_int_equal(store_rig_buy(rig, 1, 2, 1, "key"), STORE_KEY_REUSED);
    assert_int_equal(store_rig_buy(rig, 2, 1, 1, "key"), STORE_KEY_REUSED);
    assert_int_equal(store_rig_product(rig, 1).stock, 9);
    assert_int_equal(store_rig_product(rig, 2).stock, 10);
    store_rig_expect_sound(rig);
}

/* Who has bought has bought, whatever became of the sale since. */
static void test_replay_outlives_stock_and_sale(void **state)
{
    struct store_rig *rig = *state;
    struct store_product product = {.id = 1, .initial = 1, .limit_per_user = 1};
    struct store_order again = store_rig_ask(1, 1, 1, "key");

    store_rig_put(rig, product);
    assert_int_equal(store_rig_buy(rig, 1, 1, 1, "key"), STORE_OK);
    assert_int_equal(store_rig_buy(rig, 1, 2, 1, ""), STORE_SOLD_OUT);
    store_rig_place(rig, &again);
    assert_int_equal(again.status, STORE_OK);
    assert_true(again.replayed);
    product.ends_ms = 1;
    store_rig_put(rig, product);
    store_rig_place(rig, &again);
    assert_int_equal(again.status, STORE_OK);
    assert_true(again.replayed);
}

/* A refusal is no order: the same key may try again later. */
static void test_refusal_does_not_use_the_key_up(void **state)
{
    struct store_rig *rig = *state;
    struct store_product product;

    store_rig_put(rig, (struct store_product){.id = 1, .initial = 1});
    assert_int_equal(store_rig_buy(rig, 1, 1, 2, "key"), STORE_SOLD_OUT);
    assert_int_equal(store_restock(rig->store, 1, 1, "", &product, NULL),
                     STORE_OK);
    assert_int_equal(store_rig_buy(rig, 1, 1, 2, "key"), STORE_OK);
}

/* ---- in words ------------------------------------------------------------- */

static void test_every_status_has_a_text(void **state)
{
    (void)state;
    for (int i = 0; i < STORE_STATUS_N; i++)
        assert_true(strlen(store_status_text((enum store_status)i)) > 0);
    assert_string_equal(store_status_text(STORE_STATUS_N), "unknown status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_RIG_TEST(test_order_is_stored_as_asked),
        STORE_RIG_TEST(test_quantity_meets_the_stock_exactly),
        STORE_RIG_TEST(test_no_such_product),
        STORE_RIG_TEST(test_numbers_out_of_range),
        STORE_RIG_TEST(test_window),
        STORE_RIG_TEST(test_window_edges),
        STORE_RIG_TEST(test_limit_per_user),
        STORE_RIG_TEST(test_limit_counts_from_before),
        STORE_RIG_TEST(test_same_key_same_order),
        STORE_RIG_TEST(test_same_key_other_order),
        STORE_RIG_TEST(test_replay_outlives_stock_and_sale),
        STORE_RIG_TEST(test_refusal_does_not_use_the_key_up),
        cmocka_unit_test(test_every_status_has_a_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
