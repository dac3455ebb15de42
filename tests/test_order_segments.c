/*
 * A stock that is split over segments: a customer does not notice. Nobody hears
 * "sold out" while the product has enough, whatever lies in which segment, and
 * whatever is dealt out anew meanwhile.
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

#define THREADS INT64_C(8)

static const bool one_by_one = true, batched = false;

static struct order_rig *open_rig(void **state, int64_t stock, int64_t segments)
{
    const struct order_rig_options options = {
        .one_by_one = *(const bool *)*state, .lock_wait_ms = 30000};
    struct order_rig *rig = order_rig_open(&options);

    order_rig_put(rig, 1, stock, segments);
    return rig;
}

static void expect_bought(struct order_rig *rig, int64_t quantity,
                          enum order_outcome outcome)
{
    struct rig_order *order = order_rig_submit(rig, 1, 1, quantity, "");

    order_rig_await(rig, order);
    order_rig_expect_outcome(order, outcome);
}

/* Ten units in each segment. */
static void more_than_any_segment_has(void **state)
{
    struct order_rig *rig = open_rig(state, 80, 8);

    for (int i = 0; i < 5; i++)
        expect_bought(rig, 15, ORDER_PLACED);
    expect_bought(rig, 6, ORDER_SOLD_OUT);
    expect_bought(rig, 5, ORDER_PLACED);
    expect_bought(rig, 1, ORDER_SOLD_OUT);
    order_rig_expect_ledger(rig, 1, 80);
    order_rig_close(rig);
}

static void fragments_of_one(void **state)
{
    struct order_rig *rig = open_rig(state, 8, 8);

    for (int i = 0; i < 3; i++)
        expect_bought(rig, 2, ORDER_PLACED);
    expect_bought(rig, 3, ORDER_SOLD_OUT);
    expect_bought(rig, 2, ORDER_PLACED);
    expect_bought(rig, 1, ORDER_SOLD_OUT);
    order_rig_expect_ledger(rig, 1, 8);
    order_rig_close(rig);
}

/* Also of as many segments as there can be, at one go. */
static void all_at_one_go(void **state)
{
    struct order_rig *rig =
        open_rig(state, STORE_SEGMENTS_MAX, STORE_SEGMENTS_MAX);

    expect_bought(rig, STORE_SEGMENTS_MAX + 1, ORDER_SOLD_OUT);
    expect_bought(rig, STORE_SEGMENTS_MAX, ORDER_PLACED);
    expect_bought(rig, 1, ORDER_SOLD_OUT);
    order_rig_expect_ledger(rig, 1, STORE_SEGMENTS_MAX);
    order_rig_close(rig);
}

/* More segments than units: most of them have none. */
static void the_last_unit_is_found(void **state)
{
    struct order_rig *rig = open_rig(state, 64, 64);

    for (int i = 0; i < 64; i++)
        expect_bought(rig, 1, ORDER_PLACED);
    expect_bought(rig, 1, ORDER_SOLD_OUT);
    order_rig_restock(rig, 1, 1);
    expect_bought(rig, 1, ORDER_PLACED);
    order_rig_expect_ledger(rig, 1, 65);
    order_rig_close(rig);
}

/* Units that came back one by one, to segments of their own, are bought
 * together. */
static void what_was_cancelled_in_fragments(void **state)
{
    struct order_rig *rig = open_rig(state, 16, 16);
    struct rig_order *orders[16];

    for (int i = 0; i < 16; i++) {
        orders[i] = order_rig_submit(rig, 1, i + 1, 1, "");
        order_rig_await(rig, orders[i]);
    }
    expect_bought(rig, 1, ORDER_SOLD_OUT);
    for (int i = 0; i < 16; i += 2)
        assert_true(order_rig_cancel(rig, orders[i]->id));
    expect_bought(rig, 9, ORDER_SOLD_OUT);
    expect_bought(rig, 7, ORDER_PLACED);
    expect_bought(rig, 1, ORDER_PLACED);
    order_rig_expect_ledger(rig, 1, 16);
    order_rig_close(rig);
}

/* Customers who together want just what there is: so nobody may be refused. */
struct crowd {
    struct order_rig *rig;
    int orders;            /* of each thread */
    int64_t quantities[3]; /* in turns */
    atomic_int gone;       /* threads that have all */
};

static void buy_in_turns(void *ctx, size_t i)
{
    struct crowd *crowd = ctx;

    for (int n = 0; n < crowd->orders; n++)
        order_rig_buy(crowd->rig, 1, (int64_t)i + 1, crowd->quantities[n % 3],
                      "");
    atomic_fetch_add(&crowd->gone, 1);
}

static void expect_all_served(const struct crowd *crowd, int64_t stock)
{
    assert_int_equal(order_rig_count(crowd->rig, 1, ORDER_PLACED),
                     THREADS * crowd->orders);
    order_rig_expect_ledger(crowd->rig, 1, stock);
    assert_int_equal(order_rig_product(crowd->rig, 1).stock, 0);
    expect_bought(crowd->rig, 1, ORDER_SOLD_OUT);
}

static void many_want_fragments(void **state)
{
    struct crowd crowd = {.orders = 12, .quantities = {2, 2, 2}};
    const int64_t stock = THREADS * 12 * 2;

    crowd.rig = open_rig(state, stock, 128);
    order_rig_in_threads(THREADS, buy_in_turns, &crowd);
    expect_all_served(&crowd, stock);
    order_rig_close(crowd.rig);
}

static void large_and_small_ones_at_once(void **state)
{
    struct crowd crowd = {.orders = 30, .quantities = {1, 26, 3}};
    const int64_t stock = THREADS * 10 * (1 + 26 + 3);

    crowd.rig = open_rig(state, stock, 16);
    order_rig_in_threads(THREADS, buy_in_turns, &crowd);
    expect_all_served(&crowd, stock);
    order_rig_close(crowd.rig);
}

static void *buy_main(void *crowd)
{
    order_rig_in_threads(THREADS, buy_in_turns, crowd);
    return NULL;
}

/* Up and down, as long as they buy. */
static void resized_in_mid_sale(void **state)
{
    static const int64_t widths[] = {3, 16, 1, 64, 2, 8, 256, 5};
    struct crowd crowd = {.orders = 60, .quantities = {1, 2, 7}};
    const int64_t stock = THREADS * 20 * (1 + 2 + 7);
    pthread_t buyers;
    size_t resized = 0;

    crowd.rig = open_rig(state, stock, 8);
    pthread_create(&buyers, NULL, buy_main, &crowd);
    while (atomic_load(&crowd.gone) < THREADS)
        order_rig_resize(crowd.rig, 1, widths[resized++ % 8]);
    pthread_join(buyers, NULL);
    assert_true(resized > 0);
    expect_all_served(&crowd, stock);
    order_rig_close(crowd.rig);
}

/* The stock comes in small pieces, while they buy: those that are too early are
 * refused, and none of the units is lost. */
static void restocked_in_mid_sale(void **state)
{
    struct crowd crowd = {.orders = 90, .quantities = {1, 1, 1}};
    int64_t stock = 20;
    pthread_t buyers;

    crowd.rig = open_rig(state, stock, 8);
    pthread_create(&buyers, NULL, buy_main, &crowd);
    while (atomic_load(&crowd.gone) < THREADS) {
        order_rig_restock(crowd.rig, 1, 5);
        stock += 5;
    }
    pthread_join(buyers, NULL);
    assert_int_equal(order_rig_count(crowd.rig, 1, ORDER_PLACED) +
                         order_rig_count(crowd.rig, 1, ORDER_SOLD_OUT),
                     THREADS * 90);
    assert_int_equal(order_rig_product(crowd.rig, 1).stock,
                     stock - order_rig_units(crowd.rig, 1));
    order_rig_expect_ledger(crowd.rig, 1, order_rig_units(crowd.rig, 1));
    order_rig_close(crowd.rig);
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
        BOTH(more_than_any_segment_has),
        BOTH(fragments_of_one),
        BOTH(all_at_one_go),
        BOTH(the_last_unit_is_found),
        BOTH(what_was_cancelled_in_fragments),
        BOTH(many_want_fragments),
        BOTH(large_and_small_ones_at_once),
        BOTH(resized_in_mid_sale),
        BOTH(restocked_in_mid_sale),
    };

    if (argc > 1)
        order_rig_child_main(argc, argv);
    alarm(500);
    return cmocka_run_group_tests(tests, order_rig_group_setup,
                                  order_rig_group_teardown);
}
