/*
 * Orders and the store's transactions: what gathers while the disk is busy is
 * decided together and in turn; what fails hurts nobody else, and nobody is left
 * in doubt who need not be.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/support/order_rig.h"

#define MANY 100

/* An order is in a transaction, which is held up. */
static struct rig_order *order_in_transaction(struct order_rig *rig)
{
    struct rig_order *first;

    order_watch_hold(order_rig_watch(rig), "place", 1);
    first = order_rig_submit(rig, 1, 1, 1, "");
    order_watch_await_held(order_rig_watch(rig), 1);
    return first;
}

static void what_comes_meanwhile_is_one_transaction(void **state)
{
    struct order_rig *rig = order_rig_open(NULL);
    struct rig_order *first, *orders[MANY];

    (void)state;
    order_rig_put(rig, 1, 1000, 1);
    first = order_in_transaction(rig);
    for (int i = 0; i < MANY; i++)
        orders[i] = order_rig_submit(rig, 1, i + 2, 1, "");
    assert_int_equal(order_rig_answered(rig), 0);
    order_watch_let_go(order_rig_watch(rig));
    order_rig_await_answered(rig, MANY + 1);
    for (int i = 0; i < MANY; i++) {
        order_rig_expect_outcome(orders[i], ORDER_PLACED);
        assert_int_equal(orders[i]->transaction, orders[0]->transaction);
    }
    assert_true(orders[0]->transaction > first->transaction);
    order_rig_expect_ledger(rig, 1, MANY + 1);
    order_rig_close(rig);
}

/* Half of them can be served, and these are the ones that came first. */
static void first_come_first_served(void **state)
{
    struct order_rig *rig = order_rig_open(NULL);
    struct rig_order *first, *orders[MANY];

    (void)state;
    order_rig_put(rig, 1, 1 + MANY / 2, 1);
    first = order_in_transaction(rig);
    for (int i = 0; i < MANY; i += 2) { /* some singly, some together */
        orders[i] = order_rig_make(rig, 1, i + 2, 1, "");
        orders[i + 1] = order_rig_make(rig, 1, i + 3, 1, "");
        if (i % 4 == 0) {
            order_rig_hand_in(rig, &orders[i], 2);
        } else {
            order_rig_hand_in(rig, &orders[i], 1);
            order_rig_hand_in(rig, &orders[i + 1], 1);
        }
    }
    order_watch_let_go(order_rig_watch(rig));
    order_rig_await_answered(rig, MANY + 1);
    order_rig_expect_outcome(first, ORDER_PLACED);
    for (int i = 0; i < MANY; i++)
        order_rig_expect_outcome(orders[i],
                                 i < MANY / 2 ? ORDER_PLACED : ORDER_SOLD_OUT);
    for (int i = 0; i + 1 < MANY / 2; i++)
        assert_true(orders[i]->number < orders[i + 1]->number);
    order_rig_expect_ledger(rig, 1, 1 + MANY / 2);
    order_rig_close(rig);
}

/* The order failed, and nothing of it is there; the next one is placed. */
static void expect_nothing_and_then_one(struct order_rig *rig)
{
    struct store_order stored;

    assert_int_equal(order_rig_buy(rig, 1, 1, 1, "k"), ORDER_STORE_UNAVAILABLE);
    assert_int_equal(order_rig_find_key(rig, "k", &stored), STORE_NO_ORDER);
    assert_int_equal(order_rig_buy(rig, 2, 1, 1, ""), ORDER_PLACED);
    assert_int_equal(order_rig_buy(rig, 1, 1, 1, "k"), ORDER_PLACED);
    order_rig_expect_ledger(rig, 1, 1);
    order_rig_expect_ledger(rig, 2, 1);
    order_rig_close(rig);
}

static struct order_rig *open_two_products(const char *failing, bool after)
{
    struct order_rig *rig = order_rig_open(NULL);

    order_rig_put(rig, 1, 10, 1);
    order_rig_put(rig, 2, 10, 1);
    if (after)
        order_watch_fail_after(order_rig_watch(rig), failing, 0, 1);
    else
        order_watch_fail(order_rig_watch(rig), failing, 0, 1);
    return rig;
}

static void a_write_that_fails_leaves_nothing(void **state)
{
    (void)state;
    expect_nothing_and_then_one(open_two_products("place", false));
}

static void a_commit_that_fails_leaves_nothing(void **state)
{
    (void)state;
    expect_nothing_and_then_one(open_two_products("commit", false));
}

/* It is on disk, and nobody was told: so the key finds it. */
static void a_commit_whose_answer_is_lost_is_found_by_its_key(void **state)
{
    struct order_rig *rig = open_two_products("commit", true);
    struct rig_order *order = order_rig_submit(rig, 1, 1, 1, "k"), *again;
    struct store_order stored;

    (void)state;
    assert_int_equal(order_rig_await(rig, order), ORDER_STORE_UNAVAILABLE);
    assert_false(order_rig_says_nothing_ordered(order));
    assert_int_equal(order_rig_find_key(rig, "k", &stored), STORE_OK);
    again = order_rig_submit(rig, 1, 1, 1, "k");
    assert_int_equal(order_rig_await(rig, again), ORDER_REPLAYED);
    assert_string_equal(again->id, stored.id);
    order_rig_expect_ledger(rig, 1, 1);
    order_rig_close(rig);
}

/* A transaction fails: its order hears so. Those that came while it was under way
 * are in another one, and are placed. */
static void a_batch_that_fails_hurts_no_other(void **state)
{
    struct order_rig *rig = order_rig_open(NULL);
    struct order_watch *watch = order_rig_watch(rig);
    struct rig_order *first, *unhurt[MANY];

    (void)state;
    order_rig_put(rig, 1, 1000, 1);
    order_rig_put(rig, 2, 1000, 4);
    first = order_in_transaction(rig);
    for (int i = 0; i < MANY; i++)
        unhurt[i] = order_rig_submit(rig, 1 + i % 2, i + 2, 1, "");
    order_watch_fail(watch, "commit", 0, 1);
    order_watch_let_go(watch);
    order_rig_await_answered(rig, MANY + 1);
    order_rig_expect_outcome(first, ORDER_STORE_UNAVAILABLE);
    for (int i = 0; i < MANY; i++)
        order_rig_expect_outcome(unhurt[i], ORDER_PLACED);
    order_rig_expect_ledger(rig, 1, MANY / 2);
    order_rig_expect_ledger(rig, 2, MANY / 2);
    order_rig_close(rig);
}

struct cancel {
    struct order_rig *rig;
    const char *id;
    enum store_status status;
};

static void *cancel_one(void *arg)
{
    struct cancel *cancel = arg;
    struct store_order order;

    cancel->status =
        store_cancel(order_rig_store(cancel->rig), cancel->id, &order, NULL);
    return NULL;
}

/* What fails is a cancel's transaction: the orders were never tried. */
static void a_cancel_that_fails_hurts_no_order(void **state)
{
    struct order_rig *rig = order_rig_open(NULL);
    struct order_watch *watch = order_rig_watch(rig);
    struct rig_order *first;
    struct cancel cancel = {.rig = rig};
    pthread_t thread;

    (void)state;
    order_rig_put(rig, 1, 1000, 1);
    first = order_rig_submit(rig, 1, 1, 1, "");
    assert_int_equal(order_rig_await(rig, first), ORDER_PLACED);
    cancel.id = first->id;
    order_watch_hold(watch, "commit", 0);
    pthread_create(&thread, NULL, cancel_one, &cancel);
    order_watch_await_held(watch, 1);
    for (int i = 0; i < MANY; i++)
        order_rig_submit(rig, 1, i + 2, 1, "");
    order_watch_fail(watch, "commit", 0, 1);
    order_watch_let_go(watch);
    pthread_join(thread, NULL);
    assert_int_not_equal(cancel.status, STORE_OK);
    order_rig_await_answered(rig, MANY + 1);
    assert_int_equal(order_rig_count(rig, 1, ORDER_PLACED), MANY + 1);
    order_rig_expect_ledger(rig, 1, MANY + 1);
    order_rig_close(rig);
}

/* Another process keeps the database: nothing was tried, so nothing can have
 * been ordered, and the answer says so. */
static void what_was_not_tried_was_not_ordered(void **state)
{
    const struct order_rig_options options = {.shared = true, .busy_ms = 200};
    struct order_rig *rig;
    struct server_proc *keeper;
    struct rig_order *orders[MANY];
    const char *db;

    (void)state;
    order_rig_need(PROMISE_UNTRIED_IS_NO);
    rig = order_rig_open(&options);
    order_rig_put(rig, 1, 1000, 1);
    order_rig_put(rig, 2, 1000, 4);
    assert_int_equal(order_rig_buy(rig, 1, 1, 1, ""), ORDER_PLACED);
    db = order_rig_db(rig);
    keeper = order_rig_child("keep-database", &db, 1);
    for (int i = 0; i < MANY; i++)
        orders[i] = order_rig_submit(rig, 1 + i % 2, i + 2, 1, "");
    order_rig_await_answered(rig, MANY + 1);
    for (int i = 0; i < MANY; i++) {
        assert_true(order_rig_is_not_now(orders[i]->outcome));
        if (!order_rig_says_nothing_ordered(orders[i]))
            fail_msg("%s", orders[i]->detail);
    }
    server_proc_kill(keeper);
    assert_int_equal(order_rig_buy(rig, 1, 1, 1, ""), ORDER_PLACED);
    order_rig_expect_ledger(rig, 1, 2);
    order_rig_close(rig);
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, order_rig_setup, order_rig_teardown)

int main(int argc, char *argv[])
{
    const struct CMUnitTest tests[] = {
        TEST(what_comes_meanwhile_is_one_transaction),
        TEST(first_come_first_served),
        TEST(a_write_that_fails_leaves_nothing),
        TEST(a_commit_that_fails_leaves_nothing),
        TEST(a_commit_whose_answer_is_lost_is_found_by_its_key),
        TEST(a_batch_that_fails_hurts_no_other),
        TEST(a_cancel_that_fails_hurts_no_order),
        TEST(what_was_not_tried_was_not_ordered),
    };

    if (argc > 1)
        order_rig_child_main(argc, argv);
    alarm(500);
    return cmocka_run_group_tests(tests, order_rig_group_setup,
                                  order_rig_group_teardown);
}
