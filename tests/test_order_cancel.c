/*
 * Cancels: the units come back exactly once, at once, and to somebody who can
 * buy them; whatever goes on meanwhile.
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

#define THREADS 8

/* Buys single units until there are none; the last order is the one refused. */
static unsigned sell_out(struct order_rig *rig, int64_t product)
{
    unsigned n = 0;

    while (order_rig_buy(rig, product, 1 + n, 1, "") == ORDER_PLACED)
        n++;
    return n;
}

static struct rig_order *buy_one(struct order_rig *rig, int64_t quantity)
{
    struct rig_order *order = order_rig_submit(rig, 1, 1, quantity, "");

    order_rig_await(rig, order);
    order_rig_expect_outcome(order, ORDER_PLACED);
    return order;
}

struct contest {
    struct order_rig *rig;
    const char *id;
    atomic_int returned;
};

static void cancel_it(void *ctx, size_t i)
{
    struct contest *contest = ctx;

    (void)i;
    if (order_rig_cancel(contest->rig, contest->id))
        atomic_fetch_add(&contest->returned, 1);
}

static void many_cancel_and_the_units_return_once(void **state)
{
    struct order_rig *rig = order_rig_open(NULL);
    struct contest contest = {.rig = rig};

    (void)state;
    order_rig_put(rig, 1, 10, 4);
    contest.id = buy_one(rig, 3)->id;
    order_rig_in_threads(THREADS, cancel_it, &contest);
    assert_int_equal(atomic_load(&contest.returned), 1);
    assert_int_equal(order_rig_product(rig, 1).stock, 10);
    order_rig_expect_ledger(rig, 1, 0);
    order_rig_close(rig);
}

/* Everybody buys, and takes every other order back. */
struct regret {
    struct order_rig *rig;
    atomic_int kept, returned;
};

static void buy_and_regret(void *ctx, size_t i)
{
    struct regret *regret = ctx;
    struct rig_order *order;

    for (int n = 0; n < 60; n++) {
        order = order_rig_submit(regret->rig, 1, (int64_t)i + 1, 1, "");
        if (order_rig_await(regret->rig, order) != ORDER_PLACED)
            continue;
        if (n % 2 == 0)
            atomic_fetch_add(&regret->kept, 1);
        else if (order_rig_cancel(regret->rig, order->id))
            atomic_fetch_add(&regret->returned, 1);
    }
}

static void cancels_in_mid_sale(void **state)
{
    struct regret regret = {.rig = order_rig_open(NULL)};
    const int64_t stock = 120;
    int64_t kept;

    (void)state;
    order_rig_put(regret.rig, 1, stock, 8);
    order_rig_in_threads(THREADS, buy_and_regret, &regret);
    kept = atomic_load(&regret.kept);
    assert_int_equal(order_rig_count(regret.rig, 1, ORDER_PLACED),
                     kept + atomic_load(&regret.returned));
    assert_int_equal(order_rig_count(regret.rig, 1, ORDER_PLACED) +
                         order_rig_count(regret.rig, 1, ORDER_SOLD_OUT),
                     THREADS * 60);
    order_rig_expect_ledger(regret.rig, 1, kept);
    assert_int_equal(order_rig_product(regret.rig, 1).stock, stock - kept);
    /* And all that came back is for sale. */
    assert_int_equal(sell_out(regret.rig, 1), stock - kept);
    order_rig_expect_ledger(regret.rig, 1, stock);
    order_rig_close(regret.rig);
}

/* What was bought of segments that are no more comes back to those there are;
 * and the other way round. */
static void resized(int64_t from, int64_t to)
{
    struct order_rig *rig = order_rig_open(NULL);
    struct rig_order *orders[16];

    order_rig_put(rig, 1, 32, from);
    for (int i = 0; i < 16; i++)
        orders[i] = buy_one(rig, 1);
    order_rig_resize(rig, 1, to);
    for (int i = 0; i < 16; i += 2)
        assert_true(order_rig_cancel(rig, orders[i]->id));
    for (int i = 0; i < 16; i += 2)
        assert_false(order_rig_cancel(rig, orders[i]->id));
    assert_int_equal(order_rig_product(rig, 1).stock, 24);
    assert_int_equal(sell_out(rig, 1), 24);
    for (int i = 1; i < 16; i += 2)
        assert_true(order_rig_cancel(rig, orders[i]->id));
    assert_int_equal(sell_out(rig, 1), 8);
    order_rig_expect_ledger(rig, 1, 32);
    order_rig_close(rig);
}

static void after_a_resize(void **state)
{
    (void)state;
    resized(8, 2);
    resized(1, 16);
    resized(16, 1);
}

/* No flag says "sold out" a moment longer than it is true. */
static void sold_out_and_back(int64_t segments)
{
    struct order_rig *rig = order_rig_open(NULL);
    struct rig_order *last;
    char key[32];

    order_rig_put(rig, 1, 3, segments);
    assert_int_equal(sell_out(rig, 1), 3);
    order_rig_restock(rig, 1, 1);
    last = buy_one(rig, 1);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(order_rig_buy(rig, 1, 9, 1, ""), ORDER_SOLD_OUT);
        snprintf(key, sizeof(key), "late-%d", i);
        assert_int_equal(order_rig_buy(rig, 1, 9, 1, key), ORDER_SOLD_OUT);
        assert_true(order_rig_cancel(rig, last->id));
        assert_int_equal(order_rig_buy(rig, 1, 9, 2, ""), ORDER_SOLD_OUT);
        last = order_rig_submit(rig, 1, 9, 1, i % 2 ? key : "");
        order_rig_await(rig, last);
        order_rig_expect_outcome(last, ORDER_PLACED);
    }
    order_rig_expect_ledger(rig, 1, 4);
    order_rig_close(rig);
}

static void what_comes_back_is_sellable_at_once(void **state)
{
    (void)state;
    sold_out_and_back(1);
    sold_out_and_back(4);
}

static void *cancel_main(void *arg)
{
    cancel_it(arg, 0);
    return NULL;
}

/*
 * An order is refused, and its refusal is not told yet, when a cancel comes: what
 * is remembered of the refusal must not outlive the cancel.
 */
static void a_refusal_that_is_late_is_not_remembered(void **state)
{
    struct order_rig *rig = order_rig_open(NULL);
    struct order_watch *watch = order_rig_watch(rig);
    struct contest contest = {.rig = rig};
    struct rig_order *refused;
    pthread_t thread;

    (void)state;
    order_rig_put(rig, 1, 1, 1);
    order_rig_put(rig, 2, 100, 1);
    contest.id = buy_one(rig, 1)->id;
    for (int i = 0; i < 10; i++) {
        order_watch_hold(watch, "commit", 0);
        refused = order_rig_submit(rig, 1, 2, 1, "");
        order_rig_submit(rig, 2, 1, 1, "");
        order_watch_await_held(watch, 1);
        pthread_create(&thread, NULL, cancel_main, &contest);
        usleep(5000); /* so that it waits by then; it is right either way */
        order_watch_let_go(watch);
        pthread_join(thread, NULL);
        order_rig_await(rig, refused);
        if (refused->outcome == ORDER_PLACED) /* the cancel was first */
            contest.id = refused->id;
        else
            contest.id = buy_one(rig, 1)->id;
    }
    order_rig_await_answered(rig, order_rig_count(rig, 0, ORDER_PLACED));
    order_rig_expect_ledger(rig, 1, 1);
    order_rig_close(rig);
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, order_rig_setup, order_rig_teardown)

int main(int argc, char *argv[])
{
    const struct CMUnitTest tests[] = {
        TEST(many_cancel_and_the_units_return_once),
        TEST(cancels_in_mid_sale),
        TEST(after_a_resize),
        TEST(what_comes_back_is_sellable_at_once),
        TEST(a_refusal_that_is_late_is_not_remembered),
    };

    if (argc > 1)
        order_rig_child_main(argc, argv);
    alarm(500);
    return cmocka_run_group_tests(tests, order_rig_group_setup,
                                  order_rig_group_teardown);
}
