/*
 * Two instances, one database, one lock server: together they sell what there
 * is, each gets its share, what happens at one is true at the other, and if one
 * dies the other goes on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <unistd.h>

#include "tests/support/order_rig.h"

#define THREADS INT64_C(4)

struct pair {
    struct order_rig *rigs[2];
};

static struct pair pair_open(void)
{
    struct order_rig_options options = {.shared = true, .lock_wait_ms = 10000};
    struct pair pair;

    pair.rigs[0] = order_rig_open(&options);
    options.beside = pair.rigs[0];
    pair.rigs[1] = order_rig_open(&options);
    return pair;
}

static void pair_close(struct pair *pair)
{
    order_rig_close(pair->rigs[1]);
    order_rig_close(pair->rigs[0]);
}

/* Half of the threads at each instance. */
static void buy_singles(void *ctx, size_t i)
{
    const struct pair *pair = ctx;

    for (int n = 0; n < 60; n++)
        order_rig_buy(pair->rigs[i % 2], 1, (int64_t)i + 1, 1, "");
}

static void buy_of_all_sizes(void *ctx, size_t i)
{
    const struct pair *pair = ctx;

    for (int n = 0; n < 30; n++)
        order_rig_buy(pair->rigs[i % 2], 1, (int64_t)i + 1, n % 5 ? 1 : 11, "");
}

static void expect_sold(const struct pair *pair, int64_t units)
{
    assert_int_equal(order_rig_units(pair->rigs[0], 1) +
                         order_rig_units(pair->rigs[1], 1),
                     units);
    for (int i = 0; i < 2; i++)
        order_rig_expect_ledger(pair->rigs[i], 1, units);
}

static void nothing_is_sold_twice(int64_t segments)
{
    struct pair pair = pair_open();
    const int64_t stock = 150;

    order_rig_put(pair.rigs[0], 1, stock, segments);
    order_rig_in_threads(THREADS, buy_singles, &pair);
    expect_sold(&pair, stock);
    for (int i = 0; i < 2; i++)
        assert_int_equal(order_rig_count(pair.rigs[i], 1, ORDER_PLACED) +
                             order_rig_count(pair.rigs[i], 1, ORDER_SOLD_OUT),
                         THREADS * 60 / 2);
    pair_close(&pair);
}

static void one_product_sold_by_both(void **state)
{
    (void)state;
    nothing_is_sold_twice(1);
    nothing_is_sold_twice(8);
}

/* Together just what there is: nobody is refused, neither here nor there. */
static void large_and_small_ones_at_both(void **state)
{
    struct pair pair = pair_open();
    const int64_t stock = THREADS * (24 * 1 + 6 * 11);

    (void)state;
    order_rig_put(pair.rigs[0], 1, stock, 16);
    order_rig_in_threads(THREADS, buy_of_all_sizes, &pair);
    for (int i = 0; i < 2; i++)
        assert_int_equal(order_rig_count(pair.rigs[i], 1, ORDER_PLACED),
                         THREADS * 30 / 2);
    expect_sold(&pair, stock);
    pair_close(&pair);
}

static struct rig_order *keyed[2][40];

static void buy_with_keys(void *ctx, size_t i)
{
    const struct pair *pair = ctx;
    char key[32];

    for (int n = 0; n < 40; n++) {
        snprintf(key, sizeof(key), "both-%d", n);
        keyed[i][n] = order_rig_submit(pair->rigs[i], 1, n + 1, 1, key);
        order_rig_await(pair->rigs[i], keyed[i][n]);
    }
}

static void a_key_is_one_order_at_both(void **state)
{
    struct pair pair = pair_open();

    (void)state;
    order_rig_put(pair.rigs[0], 1, 1000, 2);
    order_rig_in_threads(2, buy_with_keys, &pair);
    for (int n = 0; n < 40; n++) {
        assert_string_equal(keyed[0][n]->id, keyed[1][n]->id);
        assert_int_equal(keyed[0][n]->outcome + keyed[1][n]->outcome,
                         ORDER_PLACED + ORDER_REPLAYED);
    }
    order_rig_expect_ledger(pair.rigs[0], 1, 40);
    pair_close(&pair);
}

/* What one knows to be sold out is sellable as soon as the other says so; also a
 * product that one did not know. */
static void what_the_other_changes_is_known_at_once(void **state)
{
    struct pair pair = pair_open();
    struct rig_order *order;

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(order_rig_buy(pair.rigs[i], 1, 1, 1, ""),
                         ORDER_NO_PRODUCT);
    order_rig_put(pair.rigs[0], 1, 1, 1);
    order = order_rig_submit(pair.rigs[1], 1, 1, 1, "");
    assert_int_equal(order_rig_await(pair.rigs[1], order), ORDER_PLACED);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(order_rig_buy(pair.rigs[0], 1, 2, 1, ""),
                         ORDER_SOLD_OUT);
        assert_int_equal(order_rig_buy(pair.rigs[1], 1, 2, 1, "k"),
                         ORDER_SOLD_OUT);
        assert_true(order_rig_cancel(pair.rigs[i % 2], order->id));
        order = order_rig_submit(pair.rigs[1 - i % 2], 1, 1, 1, "");
        assert_int_equal(order_rig_await(pair.rigs[1 - i % 2], order),
                         ORDER_PLACED);
    }
    order_rig_restock(pair.rigs[0], 1, 1);
    assert_int_equal(order_rig_buy(pair.rigs[1], 1, 3, 1, ""), ORDER_PLACED);
    order_rig_resize(pair.rigs[1], 1, 4);
    order_rig_restock(pair.rigs[1], 1, 8);
    assert_int_equal(order_rig_buy(pair.rigs[0], 1, 3, 5, ""), ORDER_PLACED);
    assert_int_equal(order_rig_buy(pair.rigs[0], 1, 3, 3, ""), ORDER_PLACED);
    assert_int_equal(order_rig_buy(pair.rigs[0], 1, 3, 1, ""), ORDER_SOLD_OUT);
    order_rig_expect_ledger(pair.rigs[0], 1, 10);
    pair_close(&pair);
}

/* ---- another process ------------------------------------------------------- */

static struct order_rig *open_with_seller(struct server_proc **seller)
{
    const struct order_rig_options options = {.shared = true,
                                              .lock_wait_ms = 1000};
    struct order_rig *rig = order_rig_open(&options);
    char url[512];
    const char *words[] = {url, redis_server_url(order_rig_redis()), "1"};

    snprintf(url, sizeof(url), "sqlite:%s", order_rig_db(rig));
    order_rig_put(rig, 1, 100000000, 1);
    order_rig_put(rig, 2, 1000, 1);
    *seller = order_rig_child("sell", words, 3);
    return rig;
}

static int64_t sold(struct order_rig *rig)
{
    struct store_product product = order_rig_product(rig, 1);

    return product.initial - product.stock;
}

#define SHARE_MS 2000

static void buy_for_a_while(void *ctx, size_t i)
{
    struct order_rig *rig = ctx;
    uint64_t until_ms = order_rig_now_ms() + SHARE_MS;

    while (order_rig_now_ms() < until_ms)
        order_rig_buy(rig, 1, (int64_t)i + 1, 1, "");
}

/* The other one sells when we come, and holds the lock. */
static void each_gets_its_share(void **state)
{
    struct server_proc *seller;
    struct order_rig *rig = open_with_seller(&seller);
    int64_t before = sold(rig), all, ours;

    (void)state;
    order_rig_in_threads(THREADS, buy_for_a_while, rig);
    all = sold(rig) - before;
    ours = order_rig_units(rig, 1);
    print_message("of %lld units we sold %lld\n", (long long)all,
                  (long long)ours);
    assert_in_range(ours * 3, all, 2 * all);
    assert_int_equal(order_rig_count(rig, 1, ORDER_PLACED),
                     order_rig_answered(rig));
    server_proc_kill(seller);
    order_rig_close(rig);
}

/* It dies with the lock in its hand. Another product is not concerned. */
static void one_dies_and_the_other_goes_on(void **state)
{
    struct server_proc *seller;
    struct order_rig *rig;
    uint64_t died_ms, slack_ms = 1500 * order_rig_slow();
    int held = 0;

    (void)state;
    if (order_rig_lease_ms() > 3000)
        print_message("a dead holder is waited for %llu ms, not 3000 yet\n",
                      (unsigned long long)order_rig_lease_ms());
    for (int i = 0; i < 3 && held == 0; i++) {
        rig = open_with_seller(&seller);
        server_proc_kill(seller);
        died_ms = order_rig_now_ms();
        held = order_rig_lock_is_held(1, 0);
        assert_int_equal(order_rig_buy(rig, 2, 1, 1, ""), ORDER_PLACED);
        while (order_rig_buy(rig, 1, 1, 1, "") != ORDER_PLACED)
            assert_true(order_rig_now_ms() - died_ms <
                        order_rig_lease_ms() + slack_ms);
        print_message("sold again after %llu ms\n",
                      (unsigned long long)(order_rig_now_ms() - died_ms));
        assert_true(order_rig_now_ms() - died_ms <
                    order_rig_lease_ms() + slack_ms);
        order_rig_expect_ledger(rig, 1, sold(rig));
        order_rig_close(rig);
    }
    assert_true(held);
}

/* One that stops as it should gives back what it holds. */
static void one_stops_and_the_other_goes_on(void **state)
{
    struct pair pair = pair_open();

    (void)state;
    order_rig_put(pair.rigs[0], 1, 1000, 1);
    for (int i = 0; i < 50; i++)
        assert_int_equal(order_rig_buy(pair.rigs[0], 1, 1, 1, ""),
                         ORDER_PLACED);
    order_rig_stop(pair.rigs[0]);
    assert_false(order_rig_lock_is_held(1, 0));
    assert_int_equal(order_rig_buy(pair.rigs[1], 1, 1, 1, ""), ORDER_PLACED);
    order_rig_expect_ledger(pair.rigs[1], 1, 51);
    pair_close(&pair);
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, order_rig_setup, order_rig_teardown)

int main(int argc, char *argv[])
{
    const struct CMUnitTest tests[] = {
        TEST(one_product_sold_by_both),
        TEST(large_and_small_ones_at_both),
        TEST(a_key_is_one_order_at_both),
        TEST(what_the_other_changes_is_known_at_once),
        TEST(each_gets_its_share),
        TEST(one_dies_and_the_other_goes_on),
        TEST(one_stops_and_the_other_goes_on),
    };

    if (argc > 1)
        order_rig_child_main(argc, argv);
    alarm(500);
    return cmocka_run_group_tests(tests, order_rig_group_setup,
                                  order_rig_group_teardown);
}
