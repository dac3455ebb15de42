/*
 * Cancels: the units come back exactly once, at once, and to somebody who can
 * buy them; whatever goes on meanwhile.
 */
#include <unistd.h>

#include "tests/support/order_rig.h"

#define THREADS 8

/* Buys single units of product 1 until there are none. */
static unsigned sell_out(struct order_rig *rig)
{
    unsigned n = 0;

    while (order_rig_buy(rig, 1, 1 + n, 1, "") == ORDER_PLACED)
        n++;
    return n;
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
    struct order_rig *rig = *state;
    struct contest contest = {.rig = rig};

    contest.id = order_rig_expect(rig, 1, 3, "", ORDER_PLACED)->id;
    order_rig_in_threads(THREADS, cancel_it, &contest);
    assert_int_equal(atomic_load(&contest.returned), 1);
    assert_int_equal(order_rig_product(rig, 1).stock, 10);
    order_rig_expect_ledger(rig, 1, 0);
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
    struct order_rig *rig = *state;
    struct regret regret = {.rig = rig};
    const int64_t stock = 120;
    unsigned placed;
    int64_t kept;

    order_rig_in_threads(THREADS, buy_and_regret, &regret);
    kept = atomic_load(&regret.kept);
    placed = order_rig_count(rig, 1, ORDER_PLACED);
    assert_int_equal(placed, kept + atomic_load(&regret.returned));
    assert_int_equal(placed + order_rig_count(rig, 1, ORDER_SOLD_OUT),
                     THREADS * 60);
    order_rig_expect_ledger(rig, 1, kept);
    assert_int_equal(order_rig_product(rig, 1).stock, stock - kept);
    /* And all that came back is for sale. */
    assert_int_equal(sell_out(rig), stock - kept);
    order_rig_expect_ledger(rig, 1, stock);
}

/* What was bought of segments that are no more comes back to those there are;
 * and the other way round. */
static void after_a_resize(void **state)
{
    static const int64_t widths[][2] = {{8, 2}, {1, 16}, {16, 1}};
    struct order_rig *rig = *state;
    struct rig_order *orders[16];

    for (int64_t product = 1; product <= 3; product++) {
        order_rig_put(rig, product, 32, widths[product - 1][0]);
        for (int i = 0; i < 16; i++)
            orders[i] = order_rig_expect(rig, product, 1, "", ORDER_PLACED);
        order_rig_resize(rig, product, widths[product - 1][1]);
        for (size_t i = 0; i < 16; i++)
            assert_int_equal(order_rig_cancel(rig, orders[i / 2 * 2]->id),
                             i % 2 == 0);
        assert_int_equal(order_rig_product(rig, product).stock, 24);
        for (int i = 0; i < 24; i++)
            order_rig_expect(rig, product, 1, "", ORDER_PLACED);
        order_rig_expect(rig, product, 1, "", ORDER_SOLD_OUT);
        for (int i = 1; i < 16; i += 2)
            assert_true(order_rig_cancel(rig, orders[i]->id));
        order_rig_expect(rig, product, 8, "", ORDER_PLACED);
        order_rig_expect_ledger(rig, product, 32);
    }
}

/* No flag says "sold out" a moment longer than it is true. */
static void what_comes_back_is_sellable_at_once(void **state)
{
    struct order_rig *rig = *state;
    struct rig_order *last;
    char key[32];

    assert_int_equal(sell_out(rig), 3);
    order_rig_restock(rig, 1, 1);
    last = order_rig_expect(rig, 1, 1, "", ORDER_PLACED);
    for (int i = 0; i < 50; i++) {
        order_rig_expect(rig, 1, 1, "", ORDER_SOLD_OUT);
        snprintf(key, sizeof(key), "late-%d", i);
        order_rig_expect(rig, 1, 1, key, ORDER_SOLD_OUT);
        assert_true(order_rig_cancel(rig, last->id));
        order_rig_expect(rig, 1, 2, "", ORDER_SOLD_OUT);
        last = order_rig_expect(rig, 1, 1, i % 2 ? key : "", ORDER_PLACED);
    }
    order_rig_expect_ledger(rig, 1, 4);
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
    struct order_rig *rig = *state;
    struct contest contest = {.rig = rig};
    struct rig_order *last = order_rig_expect(rig, 1, 1, "", ORDER_PLACED);
    pthread_t thread;

    for (int i = 0; i < 10; i++) {
        contest.id = last->id;
        order_watch_hold(rig, "commit", 0);
        last = order_rig_submit(rig, 1, 2, 1, "");
        order_rig_submit(rig, 2, 1, 1, "");
        order_watch_await_held(rig);
        pthread_create(&thread, NULL, cancel_main, &contest);
        usleep(5000); /* so that it waits by then; it is right either way */
        order_watch_let_go(rig);
        pthread_join(thread, NULL);
        if (order_rig_await(rig, last) != ORDER_PLACED)
            last = order_rig_expect(rig, 1, 1, "", ORDER_PLACED);
    }
    order_rig_await_answered(rig, order_rig_count(rig, 0, ORDER_PLACED));
    order_rig_expect_ledger(rig, 1, 1);
}

static const struct CMUnitTest tests[] = {
    ORDER_RIG_TEST(many_cancel_and_the_units_return_once, .stock = {10},
                   .segments = {4}),
    ORDER_RIG_TEST(cancels_in_mid_sale, .stock = {120}, .segments = {8}),
    ORDER_RIG_TEST(after_a_resize, .shared = false),
    ORDER_RIG_TEST(what_comes_back_is_sellable_at_once, .stock = {3}),
    ORDER_RIG_TEST(what_comes_back_is_sellable_at_once, .stock = {3},
                   .segments = {4}),
    ORDER_RIG_TEST(a_refusal_that_is_late_is_not_remembered, .stock = {1, 100}),
};

ORDER_RIG_MAIN(tests)
