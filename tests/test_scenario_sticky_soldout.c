/*
 * Scenario 40, sticky "sold out". So that thousands of customers who come too
 * late do not all go to the database, somebody remembers that there is nothing
 * left; then an order is cancelled.
 *
 *   a flag        set by a refusal: nobody is let in any more, with a unit left
 *   cleared       by the cancel as well: a refusal from before it, whose answer
 *                 is a moment late, sets the flag again, for ever
 *   of its own    at each instance: a cancel at another one clears nothing here
 *   generations   what was refused before the cancel counts for nothing; also if
 *                 it was cancelled at another instance: all have the same
 *
 * The same shop, customers and schedule; only who remembers is different.
 */
#include "tests/support/store_rig.h"

#define STOCK  3
#define ROUNDS 50

enum memory { FLAG, CLEARED_FLAG, GENERATIONS };

struct shop {
    struct store_rig here, other;
    struct store_order sold[STOCK];
    bool flag; /* what the textbook remembers, here */
    enum memory how;
};

static struct shop shop;

static int set_up(NO_STATE)
{
    shop = (struct shop){.how = FLAG};
    store_rig_begin(&shop.here);
    store_rig_begin_in(&shop.other, &shop.here.dir);
    store_rig_open(&shop.here, (struct store_options){.shared = true});
    store_rig_open(&shop.other, (struct store_options){.shared = true});
    store_rig_feed(&shop.here);
    store_rig_split(&shop.here, STOCK, 1);
    return 0;
}

static int tear_down(NO_STATE)
{
    store_rig_close(&shop.other);
    store_rig_end(&shop.here);
    return 0;
}

/* Whether a customer is turned away at the door: it costs no transaction. */
static bool is_turned_away(void)
{
    return shop.how == GENERATIONS ? store_knows_sold_out(shop.here.store, 1, 1)
                                   : shop.flag;
}

/* One customer who is let in. */
static enum store_status ask(struct store_order *order)
{
    *order = store_rig_ask(1, 1, 1, "");
    return store_rig_go_order(&shop.here, order);
}

static void remember(enum store_status answer)
{
    shop.flag |= answer == STORE_SOLD_OUT;
}

static void cancel_at(struct store_rig *rig, const struct store_order *sold)
{
    store_rig_cancel(rig, sold);
    if (rig == &shop.here && shop.how == CLEARED_FLAG)
        shop.flag = false;
    assert_int_equal(store_rig_product(&shop.here, 1).stock, 1);
}

/* Everything is sold, and the customer after that has heard so. */
static void sell_out(void)
{
    struct store_order late;

    for (int i = 0; i < STOCK; i++) {
        assert_false(is_turned_away());
        assert_int_equal(ask(&shop.sold[i]), STORE_OK);
    }
    assert_false(is_turned_away());
    remember(ask(&late));
    assert_true(is_turned_away());
}

/* The next customer is turned away, though there is a unit. */
static void expect_stuck(void)
{
    struct store_order order;

    assert_true(is_turned_away());
    assert_int_equal(ask(&order), STORE_OK);
}

static void a_flag_sticks(NO_STATE)
{
    sell_out();
    cancel_at(&shop.here, &shop.sold[0]);
    expect_stuck();
}

static void a_flag_that_is_cleared_is_set_again(NO_STATE)
{
    struct store_order order;
    enum store_status late;

    shop.how = CLEARED_FLAG;
    sell_out();
    late = ask(&order);
    assert_int_equal(late, STORE_SOLD_OUT); /* and that was right */
    cancel_at(&shop.here, &shop.sold[0]);
    assert_false(is_turned_away());
    remember(late);
    expect_stuck();
}

static void a_flag_of_its_own_sticks_beside_another(NO_STATE)
{
    shop.how = CLEARED_FLAG;
    sell_out();
    cancel_at(&shop.other, &shop.sold[0]);
    expect_stuck();
}

/* The very next customer is let in, and gets what came back; time after time. */
static void sell_again_and_again(struct store_rig *canceller)
{
    struct store_order order;

    shop.how = GENERATIONS;
    sell_out();
    for (int i = 0; i < ROUNDS; i++) {
        cancel_at(canceller, &shop.sold[0]);
        assert_false(is_turned_away());
        assert_int_equal(ask(&shop.sold[0]), STORE_OK);
        assert_int_equal(ask(&order), STORE_SOLD_OUT);
        assert_true(is_turned_away());
    }
    assert_int_equal(store_rig_product(&shop.other, 1).stock, 0);
}

static void generations_do_not_stick(NO_STATE)
{
    sell_again_and_again(&shop.here);
}

static void nor_if_it_is_cancelled_at_another(NO_STATE)
{
    sell_again_and_again(&shop.other);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static const struct CMUnitTest tests[] = {
    TEST(a_flag_sticks),
    TEST(a_flag_that_is_cleared_is_set_again),
    TEST(a_flag_of_its_own_sticks_beside_another),
    TEST(generations_do_not_stick),
    TEST(nor_if_it_is_cancelled_at_another),
};

TEST_MAIN(tests)
