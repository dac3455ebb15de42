/*
 * Two instances, one database, one lock server: together they sell what there
 * is, each gets its share, what happens at one is true at the other, and if one
 * stops the other goes on. One that dies: e2e/two-instances-kill9.t.
 */
#include "tests/support/order_rig.h"

#include <unistd.h>

#define THREADS INT64_C(4)
#define STOCK   (THREADS * (24 * 1 + 6 * 11))

struct pair {
    struct order_rig *rigs[2];
};

static struct pair pair_of(void **state)
{
    return (struct pair){{*state, order_rig_beside(*state)}};
}

/* Half of the threads at each instance. */
static void buy_singles(void *ctx, size_t i)
{
    const struct pair *pair = ctx;

    for (int n = 0; n < STOCK / 3; n++)
        order_rig_buy(pair->rigs[i % 2], 1, (int64_t)i + 1, 1, "");
}

static void buy_of_all_sizes(void *ctx, size_t i)
{
    const struct pair *pair = ctx;

    for (int n = 0; n < 30; n++)
        order_rig_buy(pair->rigs[i % 2], 1, (int64_t)i + 1, n % 5 ? 1 : 11, "");
}

/* All of the stock was sold, once; nobody heard anything but yes and sold out. */
static void expect_all_sold(const struct pair *pair)
{
    assert_int_equal(order_rig_units(pair->rigs[0], 1) +
                         order_rig_units(pair->rigs[1], 1),
                     STOCK);
    for (int i = 0; i < 2; i++) {
        order_rig_expect_ledger(pair->rigs[i], 1, STOCK);
        assert_int_equal(order_rig_count(pair->rigs[i], 1, ORDER_PLACED) +
                             order_rig_count(pair->rigs[i], 1, ORDER_SOLD_OUT),
                         order_rig_answered(pair->rigs[i]));
    }
}

static void one_product_sold_by_both(void **state)
{
    struct pair pair = pair_of(state);

    order_rig_in_threads(THREADS, buy_singles, &pair);
    expect_all_sold(&pair);
}

/* Together just what there is: nobody is refused, neither here nor there. */
static void large_and_small_ones_at_both(void **state)
{
    struct pair pair = pair_of(state);

    order_rig_in_threads(THREADS, buy_of_all_sizes, &pair);
    expect_all_sold(&pair);
    for (int i = 0; i < 2; i++)
        assert_int_equal(order_rig_count(pair.rigs[i], 1, ORDER_SOLD_OUT), 0);
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
    struct pair pair = pair_of(state);

    order_rig_in_threads(2, buy_with_keys, &pair);
    for (int n = 0; n < 40; n++) {
        assert_string_equal(keyed[0][n]->id, keyed[1][n]->id);
        assert_int_equal(keyed[0][n]->outcome + keyed[1][n]->outcome,
                         ORDER_PLACED + ORDER_REPLAYED);
    }
    order_rig_expect_ledger(pair.rigs[0], 1, 40);
}

/* What one knows to be sold out is sellable as soon as the other says so; also a
 * product that one did not know. */
static void what_the_other_changes_is_known_at_once(void **state)
{
    struct pair pair = pair_of(state);
    struct order_rig *here = pair.rigs[0], *there = pair.rigs[1];
    struct rig_order *order;

    for (int i = 0; i < 2; i++)
        order_rig_expect(pair.rigs[i], 1, 1, "", ORDER_NO_PRODUCT);
    order_rig_put(here, 1, 1, 1);
    order = order_rig_expect(there, 1, 1, "", ORDER_PLACED);
    for (int i = 0; i < 20; i++) {
        order_rig_expect(here, 1, 1, "", ORDER_SOLD_OUT);
        order_rig_expect(there, 1, 1, "k", ORDER_SOLD_OUT);
        assert_true(order_rig_cancel(pair.rigs[i % 2], order->id));
        order = order_rig_expect(pair.rigs[1 - i % 2], 1, 1, "", ORDER_PLACED);
    }
    order_rig_restock(here, 1, 1);
    order_rig_expect(there, 1, 1, "", ORDER_PLACED);
    order_rig_resize(there, 1, 4);
    order_rig_restock(there, 1, 8);
    order_rig_expect(here, 1, 5, "", ORDER_PLACED);
    order_rig_expect(here, 1, 3, "", ORDER_PLACED);
    order_rig_expect(here, 1, 1, "", ORDER_SOLD_OUT);
    order_rig_expect_ledger(here, 1, 10);
}

/* ---- another process ------------------------------------------------------- */

static int64_t sold(struct order_rig *rig)
{
    struct store_product product = order_rig_product(rig, 1);

    return product.initial - product.stock;
}

#define SHARE_MS 4000

static void buy_for_a_while(void *ctx, size_t i)
{
    struct order_rig *rig = ctx;
    uint64_t until_ms = clock_ms() + SHARE_MS;

    while (clock_ms() < until_ms)
        order_rig_buy(rig, 1, (int64_t)i + 1, 1, "");
}

/* The other one sells when we come, and holds the lock. */
static void each_gets_its_share(void **state)
{
    struct order_rig *rig = *state;
    struct server_proc *seller = order_rig_child(rig, "sell");
    int64_t before = sold(rig), all, ours;

    order_rig_in_threads(THREADS, buy_for_a_while, rig);
    all = sold(rig) - before;
    ours = order_rig_units(rig, 1);
    print_message("of %lld units we sold %lld\n", (long long)all,
                  (long long)ours);
    assert_in_range(ours * 5, all, 4 * all);
    assert_int_equal(order_rig_count(rig, 1, ORDER_PLACED),
                     order_rig_answered(rig));
    server_proc_kill(seller);
}

/* One that stops as it should gives back what it holds. */
static void one_stops_and_the_other_goes_on(void **state)
{
    struct pair pair = pair_of(state);

    for (int i = 0; i < 50; i++)
        order_rig_expect(pair.rigs[0], 1, 1, "", ORDER_PLACED);
    order_rig_stop(pair.rigs[0]);
    assert_false(order_rig_lock_is_held(1, 0));
    order_rig_expect(pair.rigs[1], 1, 1, "", ORDER_PLACED);
    order_rig_expect_ledger(pair.rigs[1], 1, 51);
}

/* The store of one hangs in its commit, while another's might not: the lock goes
 * to who waits for it, and the orders are decided when the store goes on. */
static void a_stuck_store_keeps_no_lock(void **state)
{
    struct order_rig *rig = *state;
    struct server_proc *reader = order_rig_child(rig, "read-database");
    struct rig_order *order = order_rig_submit(rig, 1, 1, 1, "");
    struct order_foreign *other;

    while (!order_rig_lock_is_held(1, 0))
        usleep(1000);
    other = order_foreign_open(1, 1, 60000);
    assert_int_equal(atomic_load(&order->answers), 0);
    server_proc_kill(reader);
    order_rig_await(rig, order);
    assert_int_equal(order->outcome, ORDER_PLACED);
    order_foreign_close(other);
    order_rig_expect(rig, 1, 1, "", ORDER_PLACED);
    order_rig_expect_ledger(rig, 1, 2);
}

#define PAIR  .shared = true, .lock_wait_ms = 10000
#define CHILD .shared = true, .stock = {100000000, 1000}

static const struct CMUnitTest tests[] = {
    ORDER_RIG_TEST(one_product_sold_by_both, PAIR, .stock = {STOCK}),
    ORDER_RIG_TEST(one_product_sold_by_both, PAIR, .stock = {STOCK},
                   .segments = {8}),
    ORDER_RIG_TEST(large_and_small_ones_at_both, PAIR, .stock = {STOCK},
                   .segments = {16}),
    ORDER_RIG_TEST(a_key_is_one_order_at_both, PAIR, .stock = {1000},
                   .segments = {2}),
    ORDER_RIG_TEST(what_the_other_changes_is_known_at_once, PAIR),
    ORDER_RIG_TEST(each_gets_its_share, CHILD, .lock_wait_ms = 60000),
    ORDER_RIG_TEST(one_stops_and_the_other_goes_on, PAIR, .stock = {1000}),
    ORDER_RIG_TEST(a_stuck_store_keeps_no_lock, PAIR, .stock = {1000},
                   .busy_ms = 60000),
};

ORDER_RIG_MAIN(tests)
