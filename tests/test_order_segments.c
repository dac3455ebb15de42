/*
 * A stock that is split over segments: a customer does not notice. Nobody hears
 * "sold out" while the product has enough, whatever lies in which segment, and
 * whatever is dealt out anew meanwhile. Fragments, cancels and restocks, one after the
 * other and in the middle of a sale: e2e/segments.t, e2e/segment-sale.t; keys and
 * limits: test_store_batch.c, test_store_keys.c, test_store_meet.c.
 */
#include "tests/support/order_rig.h"

#define THREADS INT64_C(8)
#define MOST    STORE_SEGMENTS_MAX

/* Orders one after another, until QUANTITY 0. */
struct step {
    int64_t quantity;
    int times;
    enum order_outcome outcome;
};

static void expect_steps(struct order_rig *rig, const struct step *step)
{
    for (; step->quantity > 0; step++)
        for (int i = 0; i < step->times; i++)
            order_rig_expect(rig, 1, step->quantity, "", step->outcome);
    order_rig_expect(rig, 1, 1, "", ORDER_SOLD_OUT);
    order_rig_expect_ledger(rig, 1, order_rig_product(rig, 1).initial);
}

/* Ten units in each segment. */
static void more_than_any_segment_has(void **state)
{
    static const struct step steps[] = {{15, 5, ORDER_PLACED},
                                        {6, 1, ORDER_SOLD_OUT},
                                        {5, 1, ORDER_PLACED},
                                        {0}};

    expect_steps(*state, steps);
}

/* Of as many segments as there can be, at one go. */
static void all_at_one_go(void **state)
{
    static const struct step steps[] = {
        {MOST + 1, 1, ORDER_SOLD_OUT}, {MOST, 1, ORDER_PLACED}, {0}};

    expect_steps(*state, steps);
}

/* ---- a crowd --------------------------------------------------------------- */

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

static void *buy_main(void *crowd)
{
    order_rig_in_threads(THREADS, buy_in_turns, crowd);
    return NULL;
}

/* Together they want just what there is: so nobody may be refused. The product
 * is resized up and down, if it may be, as long as they buy. */
static void expect_all_served(struct crowd *crowd, bool resizes)
{
    static const int64_t widths[] = {3, 16, 1, 64, 2, 8, 256, 5};
    pthread_t buyers;
    size_t resized = 0;

    pthread_create(&buyers, NULL, buy_main, crowd);
    while (resizes && atomic_load(&crowd->gone) < THREADS)
        order_rig_resize(crowd->rig, 1, widths[resized++ % 8]);
    pthread_join(buyers, NULL);
    assert_int_equal(resized > 0, resizes);
    assert_int_equal(order_rig_count(crowd->rig, 1, ORDER_PLACED),
                     THREADS * crowd->orders);
    assert_int_equal(order_rig_product(crowd->rig, 1).stock, 0);
    expect_steps(crowd->rig, &(struct step){0});
}

static void large_and_small_ones_at_once(void **state)
{
    struct crowd crowd = {*state, .orders = 30, .quantities = {1, 26, 3}};

    expect_all_served(&crowd, false);
}

static void resized_in_mid_sale(void **state)
{
    struct crowd crowd = {*state, .orders = 60, .quantities = {1, 2, 7}};

    expect_all_served(&crowd, true);
}

#define BOTH(name, units, width)                                               \
    ORDER_RIG_BOTH(name, .stock = {units}, .segments = {width},                \
                   .lock_wait_ms = 30000)

static const struct CMUnitTest tests[] = {
    BOTH(more_than_any_segment_has, 80, 8),
    BOTH(all_at_one_go, MOST, MOST),
    BOTH(large_and_small_ones_at_once, THREADS * 10 * (1 + 26 + 3), 16),
    BOTH(resized_in_mid_sale, THREADS * 20 * (1 + 2 + 7), 8),
};

ORDER_RIG_MAIN(tests)
