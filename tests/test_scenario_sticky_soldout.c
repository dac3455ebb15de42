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
    struct store_order sold; /* the last unit */
    enum memory how;
    bool flag; /* what the textbook remembers, here */
};

static void open_shop(struct shop *shop, enum memory how)
{
    *shop = (struct shop){.how = how};
    store_rig_begin(&shop->here);
    store_rig_begin_in(&shop->other, &shop->here.dir);
    store_rig_open(&shop->here, (struct store_options){.shared = true});
    store_rig_open(&shop->other, (struct store_options){.shared = true});
    store_rig_feed(&shop->here);
    store_rig_split(&shop->here, STOCK, 1);
}

static void close_shop(struct shop *shop)
{
    store_rig_close(&shop->other);
    store_rig_end(&shop->here);
}

/* Whether a customer is turned away at the door: it costs no transaction. */
static bool is_turned_away(const struct shop *shop)
{
    return shop->how == GENERATIONS
               ? store_knows_sold_out(shop->here.store, 1, 1)
               : shop->flag;
}

/* One customer who is let in; it is not remembered yet. */
static enum store_status ask(struct shop *shop)
{
    struct store_order order = store_rig_ask(1, 1, 1, "");
    enum store_status status = store_rig_go_order(&shop->here, &order);

    if (status == STORE_OK)
        shop->sold = order;
    return status;
}

/* Everything is sold, and the customer after that has heard so. */
static void sell_out(struct shop *shop)
{
    for (int i = 0; i < STOCK; i++) {
        assert_false(is_turned_away(shop));
        assert_int_equal(ask(shop), STORE_OK);
    }
    assert_false(is_turned_away(shop));
    assert_int_equal(ask(shop), STORE_SOLD_OUT);
    shop->flag = true;
    assert_true(is_turned_away(shop));
}

static void cancel(struct shop *shop, bool is_elsewhere)
{
    store_rig_cancel(is_elsewhere ? &shop->other : &shop->here, &shop->sold);
    if (!is_elsewhere && shop->how == CLEARED_FLAG)
        shop->flag = false;
    assert_int_equal(store_rig_product(&shop->here, 1).stock, 1);
}

struct plan {
    enum memory how;
    bool is_late;      /* a refusal from before the cancel is told after it */
    bool is_elsewhere; /* it is cancelled at the other instance */
    bool sticks;       /* the next customer is turned away, with a unit there */
};

/* If it does not stick he is let in, and gets what came back; time after time. */
static void sell_cancel_sell(void **state)
{
    const struct plan *plan = *state;
    struct shop shop;

    open_shop(&shop, plan->how);
    sell_out(&shop);
    for (int round = 0; round < (plan->sticks ? 1 : ROUNDS); round++) {
        assert_int_equal(ask(&shop), STORE_SOLD_OUT); /* and that is right */
        cancel(&shop, plan->is_elsewhere);
        shop.flag |= plan->is_late;
        assert_int_equal(is_turned_away(&shop), plan->sticks);
        assert_int_equal(ask(&shop), STORE_OK);
        assert_int_equal(ask(&shop), STORE_SOLD_OUT);
        shop.flag = true;
        assert_true(is_turned_away(&shop));
    }
    assert_int_equal(store_rig_product(&shop.other, 1).stock, 0);
    close_shop(&shop);
}

#define PLAN(name, ...)                                                        \
    CASE_TEST(name, sell_cancel_sell, &((struct plan){__VA_ARGS__}))

static const struct CMUnitTest tests[] = {
    PLAN("a flag sticks", FLAG, false, false, true),
    PLAN("a flag that is cleared is set again", CLEARED_FLAG, true, false,
         true),
    PLAN("a flag that is cleared in time", CLEARED_FLAG, false, false, false),
    PLAN("a flag of its own beside another", CLEARED_FLAG, false, true, true),
    PLAN("generations do not stick", GENERATIONS, true, false, false),
    PLAN("nor if it is cancelled at another", GENERATIONS, true, true, false),
};

TEST_MAIN(tests)
