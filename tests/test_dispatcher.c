/*
 * The dispatcher: how long it keeps a lock for orders that could not be placed at
 * once, what it does with more orders than fit, and with those that have to wait
 * once more, and how it stops. What it promises to customers: test_order_*.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <unistd.h>

#include "tests/support/order_rig.h"

/* A lock is kept for a second, while orders wait. */
#define KEPT_MS 1000

static void business_time_may_be_longer_than_a_lock_is_kept(void **state)
{
    const struct order_rig_options options = {.think_ms = KEPT_MS + 100};
    struct order_rig *rig = order_rig_open(&options);

    (void)state;
    order_rig_put(rig, 1, 10, 1);
    assert_int_equal(order_rig_buy(rig, 1, 1, 1, ""), ORDER_PLACED);
    order_rig_close(rig);
}

/* Product 2 is waited for while product 1 is on its way to the disk: its lock was
 * not taken for nothing. */
static void a_commit_may_take_longer_than_a_lock_is_kept(void **state)
{
    struct order_rig *rig = order_rig_open(NULL);
    struct order_watch *watch = order_rig_watch(rig);
    struct rig_order *orders[2];

    (void)state;
    order_rig_put(rig, 1, 10, 1);
    order_rig_put(rig, 2, 10, 1);
    order_watch_hold(watch, "commit", 0);
    orders[0] = order_rig_submit(rig, 1, 1, 1, "");
    order_watch_await_held(watch, 1);
    orders[1] = order_rig_submit(rig, 2, 1, 1, "");
    usleep((KEPT_MS + 200) * 1000); /* the disk is slow */
    order_watch_let_go(watch);
    for (int i = 0; i < 2; i++)
        assert_int_equal(order_rig_await(rig, orders[i]), ORDER_PLACED);
    assert_int_equal(order_watch_begun(watch, "eval-acquire", 2), 1);
    order_rig_close(rig);
}

/* ---- batches --------------------------------------------------------------- */

/* Six queues with more orders each than it may have of a transaction, whose locks
 * come all at once: together far more than fit into one. */
static void more_orders_than_fit_into_a_transaction(void **state)
{
    struct order_rig *rig = order_rig_open(NULL);
    struct order_watch *watch = order_rig_watch(rig);

    (void)state;
    for (int64_t product = 1; product <= 6; product++)
        order_rig_put(rig, product, 1000, 1);
    order_watch_hold(watch, "eval-acquire", 0);
    for (int64_t i = 0; i < 6 * 600; i++)
        order_rig_submit(rig, 1 + i % 6, 1 + i, 1, "");
    order_watch_await_held(watch, 6);
    order_watch_let_go(watch);
    order_rig_await_answered(rig, 6 * 600);
    for (int64_t product = 1; product <= 6; product++)
        order_rig_expect_ledger(rig, product, 600);
    order_rig_close(rig);
}

/* The lock passes on, and they have to take it again, together: the store has
 * been told of a later holder while they waited for its commit. */
static void orders_that_go_on_keep_their_order(void **state)
{
    struct order_rig *rig = order_rig_open(NULL);
    struct store_fence later = {
        .name = "lock:{1:0}", .token = 1000, .owner = "later"};
    struct rig_order *orders[50];

    (void)state;
    order_rig_put(rig, 1, 1000, 1);
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
    order_rig_close(rig);
}

/* ---- stopping -------------------------------------------------------------- */

static void it_stops_at_once_after_a_sale(void **state)
{
    struct order_rig *rig = order_rig_open(NULL);

    (void)state;
    order_rig_put(rig, 1, 100, 4);
    for (int64_t user = 1; user <= 20; user++)
        assert_int_equal(order_rig_buy(rig, 1, user, 1, ""), ORDER_PLACED);
    assert_in_range(order_rig_stop(rig), 0, 500 * order_rig_slow());
    assert_false(order_rig_lock_is_held(1, 0));
    order_rig_close(rig);
}

static void *stop(void *rig)
{
    order_rig_stop(rig);
    return NULL;
}

/* Its order is refused meanwhile: nobody is there to do business with. */
static void a_lock_that_comes_when_it_stops_has_no_business_time(void **state)
{
    const struct order_rig_options options = {.think_ms = 20000};
    struct order_rig *rig = order_rig_open(&options);
    struct order_watch *watch = order_rig_watch(rig);
    uint64_t begin_ms = order_rig_now_ms();
    struct rig_order *order;
    pthread_t thread;

    (void)state;
    order_rig_put(rig, 1, 10, 1);
    order_watch_hold(watch, "eval-acquire", 1);
    order = order_rig_submit(rig, 1, 1, 1, "");
    order_watch_await_held(watch, 1);
    assert_int_equal(pthread_create(&thread, NULL, stop, rig), 0);
    assert_int_equal(order_rig_await(rig, order), ORDER_SHUTTING_DOWN);
    order_watch_let_go(watch);
    pthread_join(thread, NULL);
    assert_true(order_rig_now_ms() - begin_ms < 10000);
    assert_false(order_rig_lock_is_held(1, 0));
    order_rig_close(rig);
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, order_rig_setup, order_rig_teardown)

int main(int argc, char *argv[])
{
    const struct CMUnitTest tests[] = {
        TEST(business_time_may_be_longer_than_a_lock_is_kept),
        TEST(a_commit_may_take_longer_than_a_lock_is_kept),
        TEST(more_orders_than_fit_into_a_transaction),
        TEST(orders_that_go_on_keep_their_order),
        TEST(it_stops_at_once_after_a_sale),
        TEST(a_lock_that_comes_when_it_stops_has_no_business_time),
    };

    if (argc > 1)
        order_rig_child_main(argc, argv);
    return cmocka_run_group_tests(tests, order_rig_group_setup,
                                  order_rig_group_teardown);
}
