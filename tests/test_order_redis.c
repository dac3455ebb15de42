/*
 * The lock server hangs, dies or forgets all: customers are told "not now" in
 * time, what was sold stays sold, and the sale goes on by itself. Who has bought
 * before hears so all the same.
 */
#include "tests/support/order_rig.h"

/* Bounds that bear a machine that stalls us for a second, or two. */
#define WAIT_MS   4000
#define WITHIN_MS (WAIT_MS * 9 / 5 * order_rig_slow())
#define AGAIN_MS  30000
#define MANY      20

/* Nobody has a lock of products 2 and 3. */
static void expect_not_now(struct order_rig *rig)
{
    struct rig_order *orders[MANY];

    for (int i = 0; i < MANY; i++)
        orders[i] = order_rig_submit(rig, 2 + i % 2, i + 1, 1, "");
    for (int i = 0; i < MANY; i++) {
        order_rig_await(rig, orders[i]);
        order_rig_expect_not_now(orders[i], WITHIN_MS);
    }
}

static void expect_sells_again(struct order_rig *rig)
{
    uint64_t begin_ms = clock_ms();

    for (int64_t product = 1; product <= 3; product++)
        while (order_rig_buy(rig, product, 1, 1, "") != ORDER_PLACED)
            assert_true(clock_ms() - begin_ms < AGAIN_MS * order_rig_slow());
    for (int64_t product = 1; product <= 3; product++)
        order_rig_expect_ledger(rig, product, order_rig_units(rig, product));
}

/* What was sent to the server before it hung is done later: a lock that nobody
 * waits for may stay until its lease is over. */
static void redis_hangs(void **state)
{
    struct order_rig *rig = *state;

    order_rig_expect(rig, 1, 1, "", ORDER_PLACED);
    redis_server_pause(order_rig_redis());
    expect_not_now(rig);
    expect_not_now(rig);
    redis_server_resume(order_rig_redis());
    expect_sells_again(rig);
}

/* Many buy all the time, and meanwhile everything is forgotten several times. */
struct sale {
    struct order_rig *rig;
    atomic_bool over;
};

static void buy_until_over(void *ctx, size_t i)
{
    struct sale *sale = ctx;

    if (i > 0) {
        while (!atomic_load(&sale->over))
            order_rig_buy(sale->rig, 1, 1, 1, "");
        return;
    }
    for (unsigned n = 1; n <= 11; n++) {
        order_rig_await_answered(sale->rig, order_rig_answered(sale->rig) + 50);
        if (n <= 10)
            redis_server_ask(order_rig_redis(), "FLUSHALL", NULL, 0);
        if (n % 3 == 0)
            redis_server_ask(order_rig_redis(), "SCRIPT FLUSH", NULL, 0);
    }
    atomic_store(&sale->over, true);
}

static void redis_forgets_all(void **state)
{
    struct sale sale = {.rig = *state};

    order_rig_in_threads(6, buy_until_over, &sale);
    assert_int_equal(order_rig_count(sale.rig, 1, ORDER_PLACED),
                     order_rig_answered(sale.rig));
    order_rig_expect_ledger(sale.rig, 1, order_rig_units(sale.rig, 1));
}

/* ---- who has bought before ------------------------------------------------- */

/* ORDER was placed with the key "mine": another order with it is refused. */
static void expect_known(struct order_rig *rig, const struct rig_order *order)
{
    struct rig_order *again =
        order_rig_expect(rig, 1, 2, "mine", ORDER_REPLAYED);

    assert_string_equal(again->id, order->id);
    assert_true(again->took_ms < WITHIN_MS);
    order_rig_expect(rig, 1, 1, "mine", ORDER_KEY_REUSED);
}

static void a_known_key_when_all_is_sold(void **state)
{
    struct order_rig *rig = *state;
    struct rig_order *order = order_rig_expect(rig, 1, 2, "mine", ORDER_PLACED);

    order_rig_expect(rig, 1, 998, "", ORDER_PLACED);
    expect_known(rig, order);
    order_rig_expect(rig, 1, 1, "", ORDER_SOLD_OUT);
    expect_known(rig, order);
    order_rig_expect(rig, 1, 1, "new", ORDER_SOLD_OUT);
    order_rig_expect_ledger(rig, 1, 1000);
}

static void a_known_key_when_the_sale_is_over(void **state)
{
    struct order_rig *rig = *state;
    struct rig_order *order = order_rig_expect(rig, 1, 2, "mine", ORDER_PLACED);
    struct store_product product = order_rig_product(rig, 1);

    product.ends_ms = 1;
    order_rig_put_product(rig, &product);
    order_rig_expect(rig, 1, 1, "new", ORDER_SALE_ENDED);
    expect_known(rig, order);
}

static void a_known_key_when_another_has_the_lock(void **state)
{
    struct order_rig *rig = *state;
    struct rig_order *order = order_rig_expect(rig, 1, 2, "mine", ORDER_PLACED);
    struct order_foreign *other = order_foreign_open(1, 1, 120000);

    expect_known(rig, order);
    order_rig_expect(rig, 1, 1, "new", ORDER_LOCK_TIMEOUT);
    order_foreign_close(other);
    order_rig_expect_ledger(rig, 1, 2);
}

/* The customer, who heard nothing, asks another instance. */
static void a_known_key_of_an_instance_that_died(void **state)
{
    struct order_rig *rig = *state;
    struct rig_order *order = order_rig_expect(rig, 1, 2, "mine", ORDER_PLACED);
    struct order_foreign *dead = order_foreign_open(1, 1, 120000);

    expect_known(order_rig_beside(rig), order);
    order_foreign_close(dead);
}

static void a_known_key_when_redis_is_away(void **state)
{
    struct order_rig *rig = *state;
    struct rig_order *order = order_rig_expect(rig, 1, 2, "mine", ORDER_PLACED);

    order_rig_await_lock_free(1, 0);
    redis_server_pause(order_rig_redis());
    expect_known(rig, order);
    redis_server_kill(order_rig_redis());
    expect_known(rig, order);
    expect_not_now(rig);
    redis_server_restart(order_rig_redis());
    expect_sells_again(rig);
}

#define TEST(name)                                                             \
    ORDER_RIG_TEST(name, .stock = {1000, 1000, 1000}, .segments = {1, 1, 8},   \
                   .lock_wait_ms = WAIT_MS)

static const struct CMUnitTest tests[] = {
    TEST(redis_hangs),
    ORDER_RIG_TEST(redis_forgets_all, .stock = {100000000}),
    ORDER_RIG_TEST(redis_forgets_all, .stock = {100000000}, .segments = {8}),
    TEST(a_known_key_when_all_is_sold),
    TEST(a_known_key_when_the_sale_is_over),
    TEST(a_known_key_when_another_has_the_lock),
    ORDER_RIG_TEST(a_known_key_of_an_instance_that_died, .stock = {1000},
                   .lock_wait_ms = WAIT_MS, .shared = true),
    TEST(a_known_key_when_redis_is_away),
};

ORDER_RIG_MAIN(tests)
