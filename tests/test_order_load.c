/*
 * Many customers at once: each is answered exactly once, a key is one order, whoever
 * repeats it, and a limit holds. What is there is sold exactly: test_order_pair.c,
 * test_order_segments.c.
 */
#include "tests/support/order_rig.h"

#define THREADS INT64_C(12)
#define EACH    INT64_C(60) /* orders of a thread */

enum { SMALL = 1, SPLIT, LIMITED }; /* products */

#define SMALL_STOCK 40
#define LIMIT       2

/* All threads have the same keys, and begin with different ones. */
static struct rig_order *answers[THREADS][EACH];
static int64_t key_product;

static void repeat_keys(void *rig, size_t i)
{
    char key[32];

    for (size_t n = 0; n < EACH; n++) {
        size_t k = (n + i * 7) % EACH;

        snprintf(key, sizeof(key), "key-%d-%zu", (int)key_product, k);
        answers[i][k] =
            order_rig_submit(rig, key_product, (int64_t)k + 1, 1, key);
        if (n % 3 == 0)
            order_rig_await(rig, answers[i][k]);
    }
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

/* The keys of each product begin with its number. Where there is not enough for
 * all keys those that bought hear so all the same. */
static void a_key_is_one_order(void **state)
{
    static const int64_t placed[] = {[SMALL] = SMALL_STOCK, [SPLIT] = EACH};
    struct order_rig *rig = *state;

    for (key_product = SMALL; key_product <= SPLIT; key_product++) {
        int n = 0;

        order_rig_in_threads(THREADS, repeat_keys, rig);
        for (size_t k = 0; k < EACH; k++)
            n += expect_one_order(rig, k);
        assert_int_equal(n, placed[key_product]);
        order_rig_expect_ledger(rig, key_product, placed[key_product]);
    }
}

/* A user buys from all threads at once, and gets as many as one user may. */
static void buy_for_all_users(void *rig, size_t i)
{
    for (int64_t n = 0; n < EACH; n++)
        order_rig_submit(rig, LIMITED, 1 + (n + (int64_t)i) % EACH, 1, "");
}

static void a_limit_holds(void **state)
{
    const struct store_product limited = {.id = LIMITED,
                                          .name = "Ticket",
                                          .initial = 10000,
                                          .segments = 4,
                                          .limit_per_user = LIMIT};
    struct order_rig *rig = *state;

    order_rig_put_product(rig, &limited);
    order_rig_in_threads(THREADS, buy_for_all_users, rig);
    order_rig_await_answered(rig, THREADS * EACH);
    assert_int_equal(order_rig_count(rig, LIMITED, ORDER_PLACED), LIMIT * EACH);
    assert_int_equal(order_rig_count(rig, LIMITED, ORDER_PURCHASE_LIMIT),
                     (THREADS - LIMIT) * EACH);
    order_rig_expect_ledger(rig, LIMITED, LIMIT * EACH);
}

#define BOTH(name)                                                             \
    ORDER_RIG_BOTH(name, .stock = {SMALL_STOCK, 100}, .segments = {1, 8},      \
                   .lock_wait_ms = 30000)

static const struct CMUnitTest tests[] = {
    BOTH(a_key_is_one_order),
    BOTH(a_limit_holds),
};

ORDER_RIG_MAIN(tests)
