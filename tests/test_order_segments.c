/*
 * A stock that is split over segments: a customer does not notice. Nobody hears
 * "sold out" while the product has enough, whatever lies in which segment, and
 * whatever is dealt out anew meanwhile; a key is one order, and a limit holds, however
 * many come at once. Fragments, cancels and restocks, one after the
 * other and in the middle of a sale: e2e/segments.t, e2e/segment-sale.t.
 */
#include "tests/support/order_rig.h"

#define THREADS INT64_C(8)
#define CROWD   INT64_C(12)
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

/* ---- keys and limits --------------------------------------------------------- */

enum { SMALL = 1, SPLIT, LIMITED }; /* products */

#define SMALL_STOCK 40
#define LIMIT       2
#define EACH        INT64_C(60) /* orders of a thread */

/* All threads have the same keys, and begin with different ones. */
static struct rig_order *answers[CROWD][EACH];
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

    for (size_t i = 0; i < CROWD; i++) {
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
        assert_int_equal(sold_out, CROWD);
    else
        assert_int_equal(placed * 1000 + replayed, 1000 + CROWD - 1);
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

        order_rig_in_threads(CROWD, repeat_keys, rig);
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
    order_rig_in_threads(CROWD, buy_for_all_users, rig);
    order_rig_await_answered(rig, CROWD * EACH);
    assert_int_equal(order_rig_count(rig, LIMITED, ORDER_PLACED), LIMIT * EACH);
    assert_int_equal(order_rig_count(rig, LIMITED, ORDER_PURCHASE_LIMIT),
                     (CROWD - LIMIT) * EACH);
    order_rig_expect_ledger(rig, LIMITED, LIMIT * EACH);
}

#define BOTH(name, units, width)                                               \
    ORDER_RIG_BOTH(name, .stock = {units}, .segments = {width},                \
                   .lock_wait_ms = 30000)

static const struct CMUnitTest tests[] = {
    BOTH(more_than_any_segment_has, 80, 8),
    BOTH(all_at_one_go, MOST, MOST),
    BOTH(large_and_small_ones_at_once, THREADS * 10 * (1 + 26 + 3), 16),
    BOTH(resized_in_mid_sale, THREADS * 20 * (1 + 2 + 7), 8),
    ORDER_RIG_BOTH(a_key_is_one_order, .stock = {SMALL_STOCK, 100},
                   .segments = {1, 8}, .lock_wait_ms = 30000),
    ORDER_RIG_BOTH(a_limit_holds, .lock_wait_ms = 30000),
};

ORDER_RIG_MAIN(tests)
