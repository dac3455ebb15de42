/*
 * The lock server hangs, dies or forgets all: customers are told "not now" in
 * time, what was sold stays sold, and the sale goes on by itself. Who has bought
 * before hears so all the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <unistd.h>

#include "tests/support/order_rig.h"

#define WAIT_MS 1000
#define MANY    20

static struct order_rig *open_rig(void)
{
    const struct order_rig_options options = {.lock_wait_ms = WAIT_MS};
    struct order_rig *rig = order_rig_open(&options);

    order_rig_put(rig, 1, 1000, 1);
    order_rig_put(rig, 2, 1000, 1);
    order_rig_put(rig, 3, 1000, 8);
    return rig;
}

/* Nobody has a lock of products 2 and 3. */
static void expect_not_now(struct order_rig *rig)
{
    struct rig_order *orders[MANY];

    for (int i = 0; i < MANY; i++)
        orders[i] = order_rig_submit(rig, 2 + i % 2, i + 1, 1, "");
    for (int i = 0; i < MANY; i++) {
        order_rig_await(rig, orders[i]);
        if (!order_rig_is_not_now(orders[i]->outcome))
            order_rig_expect_outcome(orders[i], ORDER_LOCK_UNREACHABLE);
        assert_true(order_rig_took_ms(orders[i]) <
                    (WAIT_MS + 500) * order_rig_slow());
    }
}

static void expect_sells_again(struct order_rig *rig, uint64_t within_ms)
{
    uint64_t begin_ms = order_rig_now_ms();

    for (int64_t product = 1; product <= 3; product++)
        while (order_rig_buy(rig, product, 1, 1, "") != ORDER_PLACED)
            assert_true(order_rig_now_ms() - begin_ms <
                        within_ms * order_rig_slow());
    for (int64_t product = 1; product <= 3; product++)
        order_rig_expect_ledger(rig, product, order_rig_units(rig, product));
}

/* What was sent to the server before it hung is done later: a lock that nobody
 * waits for may stay until its lease is over. */
static void redis_hangs(void **state)
{
    struct order_rig *rig = open_rig();

    (void)state;
    assert_int_equal(order_rig_buy(rig, 1, 1, 1, ""), ORDER_PLACED);
    redis_server_pause(order_rig_redis());
    expect_not_now(rig);
    expect_not_now(rig);
    redis_server_resume(order_rig_redis());
    expect_sells_again(rig, order_rig_lease_ms() + 2000);
    order_rig_close(rig);
}

static void redis_is_killed_and_restarted(void **state)
{
    struct order_rig *rig = open_rig();

    (void)state;
    assert_int_equal(order_rig_buy(rig, 1, 1, 1, ""), ORDER_PLACED);
    redis_server_kill(order_rig_redis());
    expect_not_now(rig);
    redis_server_restart(order_rig_redis());
    expect_sells_again(rig, 5000);
    order_rig_close(rig);
}

/* Many buy all the time, and meanwhile everything is forgotten several times. */
struct sale {
    struct order_rig *rig;
    int64_t product;
    atomic_bool over;
};

static void buy_until_over(void *ctx, size_t i)
{
    struct sale *sale = ctx;

    if (i > 0) {
        while (!atomic_load(&sale->over))
            order_rig_buy(sale->rig, sale->product, (int64_t)i, 1, "");
        return;
    }
    for (unsigned n = 1; n <= 10; n++) {
        order_rig_await_answered(sale->rig, order_rig_answered(sale->rig) + 50);
        redis_server_ask(order_rig_redis(), "FLUSHALL", NULL, 0);
        if (n % 3 == 0)
            redis_server_ask(order_rig_redis(), "SCRIPT FLUSH", NULL, 0);
    }
    order_rig_await_answered(sale->rig, order_rig_answered(sale->rig) + 50);
    atomic_store(&sale->over, true);
}

static void expect_forgetting_is_not_noticed(int64_t segments)
{
    struct sale sale = {.rig = order_rig_open(NULL), .product = 1};

    order_rig_put(sale.rig, 1, 100000000, segments);
    order_rig_in_threads(6, buy_until_over, &sale);
    for (int outcome = 0; outcome < ORDER_OUTCOME_N; outcome++)
        if (outcome != ORDER_PLACED &&
            order_rig_count(sale.rig, 1, (enum order_outcome)outcome) > 0)
            fail_msg("somebody heard %s",
                     order_outcome_slug((enum order_outcome)outcome));
    order_rig_expect_ledger(sale.rig, 1, order_rig_units(sale.rig, 1));
    order_rig_close(sale.rig);
}

static void redis_forgets_all(void **state)
{
    (void)state;
    expect_forgetting_is_not_noticed(1);
}

static void redis_forgets_all_of_a_split_stock(void **state)
{
    (void)state;
    order_rig_need(PROMISE_FLUSH_UNSEEN);
    expect_forgetting_is_not_noticed(8);
}

/* ---- who has bought before ------------------------------------------------- */

/* Product 1 has an order with the key "mine", of user 7. */
static struct order_rig *open_with_order(struct rig_order **order)
{
    struct order_rig *rig = open_rig();

    *order = order_rig_submit(rig, 1, 7, 2, "mine");
    assert_int_equal(order_rig_await(rig, *order), ORDER_PLACED);
    return rig;
}

static void expect_known(struct order_rig *rig, const struct rig_order *order)
{
    struct rig_order *again = order_rig_submit(rig, 1, 7, 2, "mine");
    struct rig_order *other = order_rig_submit(rig, 1, 8, 2, "mine");

    order_rig_await(rig, again);
    order_rig_expect_outcome(again, ORDER_REPLAYED);
    assert_string_equal(again->id, order->id);
    order_rig_await(rig, other);
    order_rig_expect_outcome(other, ORDER_KEY_REUSED);
    assert_true(order_rig_took_ms(again) < (WAIT_MS + 500) * order_rig_slow());
}

static void a_known_key_when_all_is_sold(void **state)
{
    struct rig_order *order;
    struct order_rig *rig = open_with_order(&order);

    (void)state;
    assert_int_equal(order_rig_buy(rig, 1, 1, 998, ""), ORDER_PLACED);
    expect_known(rig, order);
    assert_int_equal(order_rig_buy(rig, 1, 1, 1, ""), ORDER_SOLD_OUT);
    expect_known(rig, order);
    assert_int_equal(order_rig_buy(rig, 1, 1, 1, "new"), ORDER_SOLD_OUT);
    order_rig_expect_ledger(rig, 1, 1000);
    order_rig_close(rig);
}

static void a_known_key_when_the_sale_is_over(void **state)
{
    struct rig_order *order;
    struct order_rig *rig = open_with_order(&order);
    struct store_product product = order_rig_product(rig, 1);

    (void)state;
    product.ends_ms = 1;
    order_rig_put_product(rig, &product);
    assert_int_equal(order_rig_buy(rig, 1, 1, 1, "new"), ORDER_SALE_ENDED);
    expect_known(rig, order);
    order_rig_close(rig);
}

static void a_known_key_when_another_has_the_lock(void **state)
{
    struct rig_order *order;
    struct order_rig *rig;
    struct order_foreign *other;

    (void)state;
    order_rig_need(PROMISE_REPLAY_ALWAYS);
    rig = open_with_order(&order);
    other = order_foreign_open(1, 1);
    expect_known(rig, order);
    assert_int_equal(order_rig_buy(rig, 1, 1, 1, "new"), ORDER_LOCK_TIMEOUT);
    order_foreign_close(other);
    order_rig_expect_ledger(rig, 1, 2);
    order_rig_close(rig);
}

static void a_known_key_when_redis_is_away(void **state)
{
    struct rig_order *order;
    struct order_rig *rig;

    (void)state;
    order_rig_need(PROMISE_REPLAY_ALWAYS);
    rig = open_with_order(&order);
    order_rig_await_lock_free(1, 0);
    redis_server_pause(order_rig_redis());
    expect_known(rig, order);
    redis_server_kill(order_rig_redis());
    expect_known(rig, order);
    assert_true(order_rig_is_not_now(order_rig_buy(rig, 2, 1, 1, "new")));
    redis_server_restart(order_rig_redis());
    expect_sells_again(rig, 5000);
    order_rig_close(rig);
}

/* Another instance has the lock, and dies with it: the customer, who heard
 * nothing, asks this one. */
static void a_known_key_of_an_instance_that_died(void **state)
{
    const struct order_rig_options options = {.shared = true,
                                              .lock_wait_ms = WAIT_MS};
    struct order_rig_options beside = options;
    struct order_rig *first, *second;
    struct rig_order *order;
    struct order_foreign *dead;

    (void)state;
    order_rig_need(PROMISE_REPLAY_ALWAYS);
    first = order_rig_open(&options);
    beside.beside = first;
    second = order_rig_open(&beside);
    order_rig_put(first, 1, 10, 1);
    order = order_rig_submit(first, 1, 7, 2, "mine");
    assert_int_equal(order_rig_await(first, order), ORDER_PLACED);
    dead = order_foreign_open(1, 1);
    expect_known(second, order);
    order_foreign_close(dead);
    order_rig_close(second);
    order_rig_close(first);
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, order_rig_setup, order_rig_teardown)

int main(int argc, char *argv[])
{
    const struct CMUnitTest tests[] = {
        TEST(redis_hangs),
        TEST(redis_is_killed_and_restarted),
        TEST(redis_forgets_all),
        TEST(redis_forgets_all_of_a_split_stock),
        TEST(a_known_key_when_all_is_sold),
        TEST(a_known_key_when_the_sale_is_over),
        TEST(a_known_key_when_another_has_the_lock),
        TEST(a_known_key_when_redis_is_away),
        TEST(a_known_key_of_an_instance_that_died),
    };

    if (argc > 1)
        order_rig_child_main(argc, argv);
    alarm(500);
    return cmocka_run_group_tests(tests, order_rig_group_setup,
                                  order_rig_group_teardown);
}
