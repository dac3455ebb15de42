/*
 * What is known to be sold out, and what is told without a lock: it may forget,
 * but must not be wrong.
 */
#include "tests/support/store_rig.h"
#include "tests/support/store_wait.h"

#define STOCK 60

static bool known; /* that 1 is sold out, at the last commit's end */

static enum store_verdict on_step(void *ctx, const struct store_step *step)
{
    struct store_rig *rig = ctx;

    if (step->phase == STORE_AFTER && rig->store &&
        strcmp(step->name, "commit") == 0)
        known = store_knows_sold_out(rig->store, 1, 1);
    return store_rig_on_step(ctx, step);
}

static int set_up(void **state)
{
    store_rig_set_up_dir(state);
    store_rig_open(*state, (struct store_options){.on_step = on_step,
                                                  .on_step_ctx = *state});
    store_rig_feed(*state);
    store_rig_put(*state, (struct store_product){.id = 1, .initial = STOCK});
    store_rig_put(*state, (struct store_product){
                              .id = 2, .limit_per_user = 3, .initial = STOCK});
    return 0;
}

/* One order, in a lot of its own. */
static struct store_lot go_one(struct store_rig *rig, struct store_order *order,
                               bool unlocked)
{
    struct store_lot lot = {.orders = &order, .n = 1, .unlocked = unlocked};

    (void)store_rig_go(rig, &lot, 1);
    return rig->feed.told[0];
}

static enum store_status unlocked(struct store_rig *rig,
                                  struct store_order order)
{
    struct store_lot lot = go_one(rig, &order, true);

    assert_int_equal(lot.status, STORE_OK);
    assert_int_equal(lot.left, -1);
    assert_int_equal(lot.wrongly_known, 0);
    return order.status;
}

STORE_OWN_TEST(without_a_lock_orders_are_replayed_or_refused)
{
    struct store_order order = store_rig_ask(1, 7, 2, "k");
    int64_t before;
    sqlite3 *db;

    store_rig_put(rig,
                  (struct store_product){.id = 3, .initial = 9, .segments = 3});
    store_rig_put(rig,
                  (struct store_product){.id = 4, .initial = 9, .ends_ms = 1});
    assert_ok(store_rig_buy(rig, 1, 7, 2, "k"));
    assert_ok(store_rig_buy(rig, 2, 7, 2, ""));
    db = store_rig_connect(rig, "");
    before = store_rig_number(db, "PRAGMA data_version");
    (void)go_one(rig, &order, true);
    assert_true(order.status == STORE_OK && order.replayed && order.number);
    assert_int_equal(unlocked(rig, store_rig_ask(1, 7, 3, "k")),
                     STORE_KEY_REUSED);
    assert_int_equal(unlocked(rig, store_rig_ask(9, 7, 1, "")),
                     STORE_NO_PRODUCT);
    assert_int_equal(unlocked(rig, store_rig_ask(4, 7, 1, "")), STORE_ENDED);
    assert_int_equal(unlocked(rig, store_rig_ask(2, 7, 2, "")), STORE_LIMIT);
    assert_int_equal(unlocked(rig, store_rig_ask(2, 7, 1, "")),
                     STORE_NEEDS_LOCK);
    assert_int_equal(unlocked(rig, store_rig_ask(2, 8, 4, "")), STORE_LIMIT);
    assert_int_equal(unlocked(rig, store_rig_ask(3, 7, 9, "n")),
                     STORE_NEEDS_LOCK);
    assert_int_equal(unlocked(rig, store_rig_ask(3, 7, 10, "")),
                     STORE_SOLD_OUT);
    assert_true(store_knows_sold_out(rig->store, 3, 10));
    order = store_rig_ask(3, 7, 9, "n");
    order.segment = 200; /* wherever it would be sold */
    assert_int_equal(unlocked(rig, order), STORE_NEEDS_LOCK);
    /* Nothing at all is written. */
    assert_int_equal(store_rig_number(db, "PRAGMA data_version"), before);
    sqlite3_close(db);
}

/* Stock comes behind our back, which ends no generation. */
STORE_OWN_TEST(what_is_known_wrongly_is_counted)
{
    struct store_order order = store_rig_ask(1, 7, STOCK + 1, "");

    (void)go_one(rig, &order, false);
    assert_int_equal(order.status, STORE_SOLD_OUT);
    assert_int_equal(go_one(rig, &order, true).wrongly_known, 0);
    store_rig_sql(rig, "UPDATE segments SET stock = stock + 9, "
                       "initial = initial + 9 WHERE product_id = 1");
    assert_int_equal(go_one(rig, &order, true).wrongly_known, 1);
    order.quantity = STOCK;
    assert_int_equal(go_one(rig, &order, true).wrongly_known, 0);
    assert_int_equal(order.status, STORE_NEEDS_LOCK);
}

STORE_OWN_TEST(what_is_sold_out_is_known_until_a_cancel)
{
    struct store_order all = store_rig_ask(1, 7, STOCK, ""),
                       one = store_rig_ask(1, 7, 1, ""), cancelled;

    (void)go_one(rig, &all, false);
    assert_false(store_knows_sold_out(rig->store, 1, 1));
    (void)go_one(rig, &one, false);
    assert_int_equal(one.status, STORE_SOLD_OUT);
    assert_true(store_knows_sold_out(rig->store, 1, 1));
    assert_true(store_knows_sold_out(rig->store, 1, 7)); /* more as well */
    assert_int_equal(unlocked(rig, store_rig_ask(1, 7, 7, "")), STORE_SOLD_OUT);
    assert_true(store_knows_sold_out(rig->store, 1, 1)); /* still */
    assert_false(store_knows_sold_out(rig->store, 3, 1));
    assert_false(store_knows_sold_out(rig->store, 1 + 1496, 1)); /* its slot */
    assert_ok(store_cancel(rig->store, all.id, &cancelled, NULL));
    assert_false(known); /* nor when it was committed and not yet told */
    assert_false(store_knows_sold_out(rig->store, 1, 1));
    all = store_rig_ask(1, 7, STOCK, "");
    (void)go_one(rig, &all, false);
    (void)go_one(rig, &one, false);
    assert_true(store_knows_sold_out(rig->store, 1, 1));
    /* A second time nothing comes back. */
    assert_ok(store_cancel(rig->store, cancelled.id, &cancelled, NULL));
    assert_true(store_knows_sold_out(rig->store, 1, 1));
}

STORE_OWN_TEST(what_was_not_committed_is_not_known)
{
    struct store_order order = store_rig_ask(1, 7, STOCK + 1, "");

    rig->steps.failing = "commit";
    assert_int_equal(go_one(rig, &order, false).status, STORE_IO);
    rig->steps.failing = NULL;
    assert_false(store_knows_sold_out(rig->store, 1, STOCK + 1));
    store_rig_put(
        rig, (struct store_product){.id = 1, .initial = STOCK, .segments = 2});
    order.quantity = STOCK - 1; /* short is not sold out */
    order.segment = 9;
    (void)go_one(rig, &order, false);
    assert_int_equal(order.status, STORE_SHORT);
    assert_false(store_knows_sold_out(rig->store, 1, STOCK - 1));
}
