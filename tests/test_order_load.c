/*
 * Many customers at once: each is answered exactly once, what was sold is what
 * was there, and a key is one order, whoever repeats it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/order_rig.h"

#define THREADS INT64_C(12)
#define EACH    INT64_C(60) /* orders of a thread */

/* Small, split, limited, plenty, and one that there is not. */
enum { SMALL = 1, SPLIT, LIMITED, PLENTY, UNKNOWN, KINDS = UNKNOWN };

#define SMALL_STOCK 40
#define SPLIT_STOCK 100
#define LIMIT       2

static const bool one_by_one = true, batched = false;

struct sale {
    struct order_rig *rig;
};

static struct sale sale_open(void **state)
{
    const struct order_rig_options options = {
        .one_by_one = *(const bool *)*state, .lock_wait_ms = 30000};
    struct sale sale = {.rig = order_rig_open(&options)};
    const struct store_product limited = {.id = LIMITED,
                                          .name = "Ticket",
                                          .initial = 10000,
                                          .segments = 4,
                                          .limit_per_user = LIMIT};

    order_rig_put(sale.rig, SMALL, SMALL_STOCK, 1);
    order_rig_put(sale.rig, SPLIT, SPLIT_STOCK, 8);
    order_rig_put(sale.rig, PLENTY, 100000, 16);
    order_rig_put_product(sale.rig, &limited);
    return sale;
}

/* Each waits for an answer before it asks again; some in batches of five. */
static void buy_of_all(void *ctx, size_t i)
{
    const struct sale *sale = ctx;
    struct rig_order *orders[KINDS];

    for (int n = 0; n < EACH; n++) {
        for (int64_t kind = 1; kind <= KINDS; kind++)
            orders[kind - 1] =
                order_rig_make(sale->rig, kind, (int64_t)i + 1, 1, "");
        order_rig_hand_in(sale->rig, orders, KINDS);
        for (int kind = 0; kind < KINDS; kind++)
            order_rig_await(sale->rig, orders[kind]);
    }
}

/* So many of all orders of a product were placed, and the rest had one answer. */
static void expect_sale(const struct sale *sale, int64_t product, int64_t units,
                        enum order_outcome rest)
{
    assert_int_equal(order_rig_count(sale->rig, product, ORDER_PLACED), units);
    assert_int_equal(order_rig_count(sale->rig, product, rest),
                     THREADS * EACH - units);
    order_rig_expect_ledger(sale->rig, product, units);
}

static void what_is_there_is_sold_exactly(void **state)
{
    struct sale sale = sale_open(state);

    order_rig_in_threads(THREADS, buy_of_all, &sale);
    expect_sale(&sale, SMALL, SMALL_STOCK, ORDER_SOLD_OUT);
    expect_sale(&sale, SPLIT, SPLIT_STOCK, ORDER_SOLD_OUT);
    expect_sale(&sale, LIMITED, LIMIT * THREADS, ORDER_PURCHASE_LIMIT);
    expect_sale(&sale, PLENTY, THREADS * EACH, ORDER_SOLD_OUT);
    assert_int_equal(order_rig_count(sale.rig, UNKNOWN, ORDER_NO_PRODUCT),
                     THREADS * EACH);
    assert_int_equal(order_rig_depth(sale.rig), 0);
    assert_int_equal(order_rig_product(sale.rig, PLENTY).stock,
                     100000 - THREADS * EACH);
    order_rig_close(sale.rig);
}

/* All threads have the same keys, and begin with different ones. */
static struct rig_order *answers[THREADS][EACH];

static void repeat_keys(struct sale *sale, int64_t product, size_t i)
{
    char key[32];

    for (size_t n = 0; n < EACH; n++) {
        size_t k = (n + i * 7) % EACH;

        snprintf(key, sizeof(key), "key-%zu", k);
        answers[i][k] =
            order_rig_submit(sale->rig, product, (int64_t)k + 1, 1, key);
        if (n % 3 == 0)
            order_rig_await(sale->rig, answers[i][k]);
    }
}

static void repeat_split(void *sale, size_t i)
{
    repeat_keys(sale, SPLIT, i);
}

static void repeat_small(void *sale, size_t i)
{
    repeat_keys(sale, SMALL, i);
}

/* How a key was answered: once placed and then replayed, with the same order;
 * or always refused. True: it was placed. */
static bool expect_one_order(struct order_rig *rig, size_t k)
{
    const struct rig_order *first = NULL;
    int placed = 0, replayed = 0, sold_out = 0;

    for (size_t i = 0; i < THREADS; i++) {
        const struct rig_order *order = answers[i][k];

        order_rig_await(rig, order);
        placed += order->outcome == ORDER_PLACED;
        replayed += order->outcome == ORDER_REPLAYED;
        sold_out += order->outcome == ORDER_SOLD_OUT;
        if (order->outcome == ORDER_SOLD_OUT)
            continue;
        first = first ? first : order;
        assert_string_equal(order->id, first->id);
    }
    if (placed == 0)
        assert_int_equal(sold_out, THREADS);
    else
        assert_int_equal(placed * 1000 + replayed, 1000 + THREADS - 1);
    return placed > 0;
}

static void a_key_is_one_order(void **state)
{
    struct sale sale = sale_open(state);

    order_rig_in_threads(THREADS, repeat_split, &sale);
    for (size_t k = 0; k < EACH; k++)
        assert_true(expect_one_order(sale.rig, k));
    order_rig_expect_ledger(sale.rig, SPLIT, EACH);
    order_rig_close(sale.rig);
}

/* There is not enough for all keys: those that bought hear so all the same. */
static void a_key_is_one_order_when_it_sells_out(void **state)
{
    struct sale sale = sale_open(state);
    int placed = 0;

    order_rig_in_threads(THREADS, repeat_small, &sale);
    for (size_t k = 0; k < EACH; k++)
        placed += expect_one_order(sale.rig, k);
    assert_int_equal(placed, SMALL_STOCK);
    order_rig_expect_ledger(sale.rig, SMALL, SMALL_STOCK);
    order_rig_close(sale.rig);
}

static void a_key_of_another_order_is_refused(void **state)
{
    struct sale sale = sale_open(state);
    struct order_rig *rig = sale.rig;

    assert_int_equal(order_rig_buy(rig, SMALL, 1, 2, "mine"), ORDER_PLACED);
    assert_int_equal(order_rig_buy(rig, SMALL, 1, 2, "mine"), ORDER_REPLAYED);
    assert_int_equal(order_rig_buy(rig, SMALL, 1, 1, "mine"), ORDER_KEY_REUSED);
    assert_int_equal(order_rig_buy(rig, SMALL, 2, 2, "mine"), ORDER_KEY_REUSED);
    assert_int_equal(order_rig_buy(rig, SPLIT, 1, 2, "mine"), ORDER_KEY_REUSED);
    order_rig_expect_ledger(rig, SMALL, 2);
    order_rig_expect_ledger(rig, SPLIT, 0);
    order_rig_close(rig);
}

/* A user buys from all threads at once, and gets as many as one user may. */
static void buy_for_all_users(void *ctx, size_t i)
{
    const struct sale *sale = ctx;

    for (int64_t n = 0; n < EACH; n++)
        order_rig_submit(sale->rig, LIMITED, 1 + (n + (int64_t)i) % EACH, 1,
                         "");
}

static void a_limit_holds(void **state)
{
    struct sale sale = sale_open(state);

    order_rig_in_threads(THREADS, buy_for_all_users, &sale);
    order_rig_await_answered(sale.rig, THREADS * EACH);
    expect_sale(&sale, LIMITED, LIMIT * EACH, ORDER_PURCHASE_LIMIT);
    order_rig_close(sale.rig);
}

#define WITH(name, mode)                                                       \
    {                                                                          \
#name " (" #mode ")", name, order_rig_setup, order_rig_teardown,       \
            (void *)&(mode)                                                    \
    }
#define BOTH(name) WITH(name, batched), WITH(name, one_by_one)

int main(int argc, char *argv[])
{
    const struct CMUnitTest tests[] = {
        BOTH(what_is_there_is_sold_exactly),
        BOTH(a_key_is_one_order),
        BOTH(a_key_is_one_order_when_it_sells_out),
        BOTH(a_key_of_another_order_is_refused),
        BOTH(a_limit_holds),
    };

    if (argc > 1)
        order_rig_child_main(argc, argv);
    alarm(500);
    return cmocka_run_group_tests(tests, order_rig_group_setup,
                                  order_rig_group_teardown);
}
