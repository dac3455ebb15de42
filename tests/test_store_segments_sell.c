/*
 * Segmented stock: sold from one cell or gathered from several, and cancelled;
 * nothing stranded and nothing lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "db/store.h"
#include "tests/support/segment_rig.h"

#define ANY STORE_SEGMENT_ANY

/* ---- selling -------------------------------------------------------------- */

static void test_one_segment_is_drawn_from_and_no_other(void **state)
{
    struct segment_rig *rig = *state;
    struct store_order order;

    segment_rig_put(rig, 12, 4);
    order = segment_rig_order(rig, 2, 2);
    assert_int_equal(order.from_segment, 2);
    segment_rig_expect(rig, "3 3 1 3");
    segment_rig_expect_parts(rig, &order, "2:2");
    segment_rig_expect_sound(rig);
}

/* Short: the product has enough. Sold out: it has not, wherever one looks. */
static void test_short_is_not_sold_out(void **state)
{
    struct segment_rig *rig = *state;

    segment_rig_put(rig, 4, 2);
    assert_int_equal(segment_rig_buy(rig, 0, 3), STORE_SHORT);
    assert_int_equal(segment_rig_buy(rig, 0, 5), STORE_SOLD_OUT);
    assert_int_equal(segment_rig_buy(rig, 0, 2), STORE_OK);
    assert_int_equal(segment_rig_buy(rig, 0, 1), STORE_SHORT);
    assert_int_equal(segment_rig_buy(rig, 7, 2), STORE_SHORT); /* not there */
    assert_int_equal(segment_rig_buy(rig, 1, 2), STORE_OK);
    assert_int_equal(segment_rig_buy(rig, 0, 1), STORE_SOLD_OUT);
    assert_int_equal(segment_rig_buy(rig, 7, 1), STORE_SOLD_OUT);
    assert_int_equal(segment_rig_buy(rig, ANY, 1), STORE_SOLD_OUT);
    assert_int_equal(segment_rig_buy(rig, 256, 1), STORE_RANGE);
    assert_int_equal(segment_rig_buy(rig, -2, 1), STORE_RANGE);
}

static void test_gather_ascending_all_or_nothing(void **state)
{
    struct segment_rig *rig = *state;
    struct store_order order, stored;

    segment_rig_put(rig, 12, 4);
    segment_rig_order(rig, 1, 3);
    assert_int_equal(segment_rig_buy(rig, ANY, 10), STORE_SOLD_OUT);
    segment_rig_expect(rig, "3 0 3 3");
    order = segment_rig_order(rig, ANY, 7);
    assert_int_equal(order.from_segment, ANY);
    segment_rig_expect(rig, "0 0 0 2");
    segment_rig_expect_parts(rig, &order, "0:3 2:3 3:1");
    assert_int_equal(store_order_get(rig->reader, order.id, &stored, NULL),
                     STORE_OK);
    assert_int_equal(stored.from_segment, ANY);
    assert_int_equal(stored.quantity, 7);
    segment_rig_expect_sound(rig);
    assert_int_equal(segment_rig_audit(rig).orders, 2);
    assert_int_equal(segment_rig_audit(rig).sold, 10);
}

static void test_any_may_find_all_in_one(void **state)
{
    struct segment_rig *rig = *state;
    struct store_order order;

    segment_rig_put(rig, 4, 2);
    segment_rig_order(rig, 0, 2);
    order = segment_rig_order(rig, ANY, 2);
    assert_int_equal(order.from_segment, 1);
    segment_rig_expect_parts(rig, &order, "1:2");
}

/* One batch, many segments: each order sees what those before it took. */
static void test_batch_across_segments(void **state)
{
    struct segment_rig *rig = *state;
    const struct {
        int64_t segment, quantity;
        enum store_status status;
    } asked[] = {{0, 2, STORE_OK},    {ANY, 2, STORE_OK},
                 {0, 1, STORE_SHORT}, {1, 3, STORE_SHORT},
                 {1, 1, STORE_OK},    {2, 4, STORE_SOLD_OUT},
                 {ANY, 3, STORE_OK},  {ANY, 1, STORE_SOLD_OUT}};
    struct store_order batch[8], *orders[8];

    segment_rig_put(rig, 8, 3); /* 3 3 2 */
    for (int i = 0; i < 8; i++) {
        batch[i] = (struct store_order){.product_id = 1,
                                        .user_id = 1,
                                        .segment = asked[i].segment,
                                        .quantity = asked[i].quantity};
        orders[i] = &batch[i];
    }
    assert_int_equal(store_place(rig->store, orders, 8, NULL, NULL), STORE_OK);
    for (int i = 0; i < 8; i++)
        assert_int_equal(batch[i].status, asked[i].status);
    segment_rig_expect_parts(rig, &batch[1], "0:1 1:1");
    segment_rig_expect_parts(rig, &batch[6], "1:1 2:2");
    segment_rig_expect(rig, "0 0 0");
    segment_rig_expect_sound(rig);
}

/* Who may not have it must not take it, from none of the cells. */
static void test_gather_over_the_limit_takes_nothing(void **state)
{
    struct segment_rig *rig = *state;
    struct store_product product = {
        .id = 1, .name = "x", .initial = 8, .segments = 4, .limit_per_user = 3};

    assert_int_equal(store_product_put(rig->store, &product, NULL, NULL),
                     STORE_OK);
    assert_int_equal(segment_rig_buy(rig, ANY, 4), STORE_LIMIT);
    segment_rig_expect(rig, "2 2 2 2");
    assert_int_equal(segment_rig_buy(rig, ANY, 3), STORE_OK);
    segment_rig_expect(rig, "0 1 2 2");
}

/* What is asked for is left as it was: who was refused may ask again. */
static void test_a_key_finds_its_order_from_any_segment(void **state)
{
    struct segment_rig *rig = *state;
    struct store_order first = {.product_id = 1,
                                .user_id = 1,
                                .quantity = 5,
                                .segment = ANY,
                                .key = "k"};
    struct store_order again = {
        .product_id = 1, .user_id = 1, .quantity = 5, .segment = 2, .key = "k"};
    struct store_order *one[] = {&first}, *two[] = {&again};

    segment_rig_put(rig, 8, 4);
    assert_int_equal(store_place(rig->store, one, 1, NULL, NULL), STORE_OK);
    assert_int_equal(first.segment, ANY);
    assert_int_equal(store_place(rig->store, two, 1, NULL, NULL), STORE_OK);
    assert_true(again.replayed);
    assert_string_equal(again.id, first.id);
    assert_int_equal(again.from_segment, ANY);
    segment_rig_expect(rig, "0 0 1 2");
}

static enum store_status buy_fenced(struct segment_rig *rig, int64_t segment,
                                    const char *lock, uint64_t token,
                                    uint64_t *stored)
{
    struct store_fence fence = {.name = lock, .token = token, .owner = "x"};
    struct store_order order = {
        .product_id = 1, .user_id = 1, .segment = segment, .quantity = 1};
    struct store_order *orders[] = {&order};

    assert_int_equal(store_place(rig->store, orders, 1, &fence, NULL),
                     STORE_OK);
    *stored = order.fence;
    return order.status;
}

/* Resized since the lock was taken: the units come from another segment, whose
 * lock it is not. */
static void test_a_token_stands_for_the_segment_of_its_lock(void **state)
{
    struct segment_rig *rig = *state;
    uint64_t stored;

    segment_rig_put(rig, 4, 2);
    assert_int_equal(buy_fenced(rig, ANY, "lock:{1:0}", 5, &stored), STORE_OK);
    assert_int_equal(stored, 5);
    segment_rig_order(rig, 0, 1); /* it is dry now */
    assert_int_equal(buy_fenced(rig, ANY, "lock:{1:0}", 6, &stored), STORE_OK);
    assert_int_equal(stored, 0);
    assert_int_equal(buy_fenced(rig, 1, "lock:{1:1}", 3, &stored), STORE_OK);
    assert_int_equal(stored, 3);
    assert_int_equal(segment_rig_audit(rig).fence_regressions, 0);
    segment_rig_expect_sound(rig);
}

/* ---- cancelling ----------------------------------------------------------- */

static void test_cancel_returns_exactly_there_once(void **state)
{
    struct segment_rig *rig = *state;
    struct store_order order;

    segment_rig_put(rig, 9, 3);
    order = segment_rig_order(rig, ANY, 7);
    segment_rig_expect(rig, "0 0 2");
    segment_rig_cancel(rig, &order);
    segment_rig_expect(rig, "3 3 3");
    segment_rig_cancel(rig, &order);
    segment_rig_expect(rig, "3 3 3");
    segment_rig_expect_parts(rig, &order, "0:3 1:3 2:1");
    segment_rig_expect_sound(rig);
}

static void test_cancel_after_more_segments(void **state)
{
    struct segment_rig *rig = *state;
    struct store_order order;

    segment_rig_put(rig, 8, 2);
    order = segment_rig_order(rig, 1, 4);
    segment_rig_resize(rig, 4);
    segment_rig_expect(rig, "1 1 1 1");
    segment_rig_cancel(rig, &order);
    segment_rig_expect(rig, "1 5 1 1");
    segment_rig_expect_sound(rig);
}

/* What comes back to a retired cell goes on to the poorest in use. */
static void test_cancel_after_fewer_segments(void **state)
{
    struct segment_rig *rig = *state;
    struct store_order order;

    segment_rig_put(rig, 16, 4);
    order = segment_rig_order(rig, ANY, 14); /* 4 4 4 2 */
    segment_rig_expect(rig, "0 0 0 2");
    segment_rig_resize(rig, 2);
    segment_rig_expect(rig, "1 1");
    segment_rig_order(rig, 1, 1);
    segment_rig_cancel(rig, &order);
    segment_rig_expect(rig, "7 8"); /* 1+4, 0+4; 4 to 1, 2 to 0 */
    assert_int_equal(segment_rig_product(rig).stock, 15);
    segment_rig_expect_sound(rig);
    segment_rig_resize(rig, 5);
    segment_rig_expect(rig, "3 3 3 3 3");
    segment_rig_expect_sound(rig);
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, segment_rig_set_up,                  \
                                    segment_rig_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_one_segment_is_drawn_from_and_no_other),
        TEST(test_short_is_not_sold_out),
        TEST(test_gather_ascending_all_or_nothing),
        TEST(test_any_may_find_all_in_one),
        TEST(test_batch_across_segments),
        TEST(test_gather_over_the_limit_takes_nothing),
        TEST(test_a_key_finds_its_order_from_any_segment),
        TEST(test_a_token_stands_for_the_segment_of_its_lock),
        TEST(test_cancel_returns_exactly_there_once),
        TEST(test_cancel_after_more_segments),
        TEST(test_cancel_after_fewer_segments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
