/*
 * The dispatcher: how long it keeps a lock for orders that could not be placed at
 * once, what it does with more orders than fit, and with those that have to wait
 * once more. What it promises to customers: test_order_*.c.
 */
#include <unistd.h>

#include "tests/support/order_rig.h"

/* A lock is kept for a second, while orders wait. */
#define KEPT_MS 1000

static void business_time_may_be_longer_than_a_lock_is_kept(void **state)
{
    order_rig_expect(*state, 1, 1, "", ORDER_PLACED);
}

/* Product 2 is waited for while product 1 is on its way to the disk: its lock was
 * not taken for nothing. */
static void a_commit_may_take_longer_than_a_lock_is_kept(void **state)
{
    struct order_rig *rig = *state;
    struct rig_order *orders[2];

    order_watch_hold(rig, "commit", 0);
    orders[0] = order_rig_submit(rig, 1, 1, 1, "");
    order_watch_await_held(rig);
    orders[1] = order_rig_submit(rig, 2, 1, 1, "");
    usleep((KEPT_MS + 200) * 1000); /* the disk is slow */
    order_watch_let_go(rig);
    for (int i = 0; i < 2; i++)
        assert_int_equal(order_rig_await(rig, orders[i]), ORDER_PLACED);
    assert_int_equal(order_watch_count(rig, "eval-acquire", 2, STORE_BEFORE),
                     1);
}

/* Three queues with more orders each than it may have of a transaction, whose
 * locks come all at once: together far more than fit into one. */
static void more_orders_than_fit_into_a_transaction(void **state)
{
    struct order_rig *rig = *state;

    order_watch_hold(rig, "eval-acquire", 0);
    order_rig_submit_many(rig, NULL, 3 * 600, 3);
    order_watch_await_held(rig);
    order_watch_let_go(rig);
    order_rig_await_answered(rig, 3 * 600);
    for (int64_t product = 1; product <= 3; product++)
        order_rig_expect_ledger(rig, product, 600);
}

/* The lock passes on, and they have to take it again, together: the store has
 * been told of a later holder while they waited for its commit. */
static void orders_that_go_on_keep_their_order(void **state)
{
    struct order_rig *rig = *state;
    struct store_fence later = {
        .name = "lock:{1:0}", .token = UINT64_C(3) << 50, .owner = "later"};
    struct rig_order *orders[50];

    for (int64_t round = 0; round < 10; round++) {
        for (int64_t i = 0; i < 3; i++) /* so that it is kept */
            order_rig_buy(rig, 1, 1 + i, 1, "");
        later.token += 1000;
        assert_int_equal(store_stamp(order_rig_store(rig), &later, NULL),
                         STORE_OK);
        for (int64_t i = 0; i < 50; i++)
            orders[i] = order_rig_make(rig, 1, 1 + i, 1, "");
        order_rig_hand_in(rig, orders, 50);
        for (int64_t i = 0; i < 50; i++)
            assert_int_equal(order_rig_await(rig, orders[i]), ORDER_PLACED);
        for (int64_t i = 1; i < 50; i++)
            assert_true(orders[i - 1]->number < orders[i]->number);
    }
}

static const struct CMUnitTest tests[] = {
    ORDER_RIG_TEST(business_time_may_be_longer_than_a_lock_is_kept,
                   .stock = {10}, .think_ms = KEPT_MS + 100),
    ORDER_RIG_TEST(a_commit_may_take_longer_than_a_lock_is_kept,
                   .stock = {10, 10}),
    ORDER_RIG_TEST(more_orders_than_fit_into_a_transaction,
                   .stock = {1000, 1000, 1000}),
    ORDER_RIG_TEST(orders_that_go_on_keep_their_order, .stock = {1000}),
};

ORDER_RIG_MAIN(tests)
