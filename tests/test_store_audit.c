/*
 * The audit. A checker is trusted after it has caught what was planted: every
 * violation is written into the file behind the store's back, in plain SQL,
 * and its number must come out, and no other.
 */
#include "tests/support/store_rig.h"
#include "tests/support/store_wait.h"

#define ORDERS 5

/* A sound ledger: product 1 has 5 orders of user 1..5, under fences 1..5. */
static char ids[ORDERS][STORE_ID_BYTES_MAX + 1];

static int set_up(void **state)
{
    struct store_product product;
    struct store_rig *rig;

    store_rig_set_up(state);
    rig = *state;
    store_rig_put(rig, (struct store_product){
                           .id = 1, .initial = 6, .limit_per_user = 3});
    store_rig_put(rig, (struct store_product){.id = 2, .initial = 100});
    assert_ok(store_restock(rig->store, 1, 4, "r", &product, NULL));
    for (int i = 0; i < ORDERS; i++) {
        const char key[] = {(char)('a' + i), '\0'};
        struct store_order order = store_rig_ask(1, i + 1, 2, key);
        struct store_order *orders[] = {&order};
        struct store_fence fence = {.name = "lock", .token = (uint64_t)i + 1};

        assert_ok(store_place(rig->store, orders, 1, &fence, NULL));
        memcpy(ids[i], order.id, sizeof(order.id));
    }
    return 0;
}

/* Writes what no honest program could: the constraints are off. */
static void plant(struct store_rig *rig, const char *sql)
{
    const char *off = store_rig_on_mysql(rig)
                          ? "SET check_constraint_checks = 0;"
                            "SET foreign_key_checks = 0"
                          : "PRAGMA ignore_check_constraints = ON;"
                            "PRAGMA foreign_keys = OFF";

    store_rig_sql(rig, text_of("%s;%s", off, sql));
}

/* All eleven numbers at once: the planted one, and none besides. */
static void require(const struct store_audit *got,
                    const struct store_audit *want)
{
    assert_int_equal(got->oversold, want->oversold);
    assert_int_equal(got->undersold, want->undersold);
    assert_int_equal(got->phantom, want->phantom);
    assert_int_equal(got->negative, want->negative);
    assert_int_equal(got->stranded, want->stranded);
    assert_int_equal(got->duplicates, want->duplicates);
    assert_int_equal(got->over_limit, want->over_limit);
    assert_int_equal(got->miscounted, want->miscounted);
    assert_int_equal(got->fence_regressions, want->fence_regressions);
    assert_int_equal(got->unsettled, want->unsettled);
    assert_int_equal(got->lost, want->lost);
    assert_int_equal(got->balanced, want->balanced);
}

STORE_OWN_TEST(test_sound)
{
    const char *acked[ORDERS];
    struct store_audit got;

    for (int i = 0; i < ORDERS; i++)
        acked[i] = ids[i];
    got = store_rig_audit_dir(&rig->dir, acked, ORDERS);
    require(&got, &(struct store_audit){.balanced = true});
    assert_int_equal(got.products, 2);
    assert_int_equal(got.orders, 5);
    assert_int_equal(got.sold, 10);
    assert_int_equal(got.cancelled, 0);
}

/* Product 2 with 100 units: 37 37 0 0, the last two retired; 26 sold, more than
 * were in one segment. */
static void split(struct store_rig *rig)
{
    struct store_product product = {.id = 2, .initial = 100, .segments = 4};

    store_rig_put(rig, product);
    assert_ok(store_rig_buy(rig, 2, 1, 26, ""));
    product.segments = 2;
    store_rig_put(rig, product);
}

STORE_OWN_TEST(test_sound_when_split)
{
    struct store_audit got;

    split(rig);
    got = store_rig_audit(rig);
    require(&got, &(struct store_audit){.balanced = true});
    assert_int_equal(got.orders, 6); /* the gathered one counts once */
    assert_int_equal(got.sold, 36);
}

/* Product 3 has to be paid: order 6 awaits it, 7 is paid, 8 was cancelled. */
static void hold(struct store_rig *rig)
{
    struct store_order order;
    struct store_pay pay;

    store_rig_put(rig, (struct store_product){
                           .id = 3, .initial = 9, .pay_within_s = 3600});
    for (int i = 0; i < 3; i++) {
        order = store_rig_ask(3, 1, 2, "");
        store_rig_place(rig, &order);
        assert_int_equal(order.number, 6 + i);
        if (i == 1)
            assert_ok(store_pay(rig->store, order.id, "p", &pay));
    }
    assert_ok(store_cancel(rig->store, order.id, &order, NULL));
}

STORE_OWN_TEST(test_sound_when_held)
{
    struct store_audit got;

    hold(rig);
    got = store_rig_audit(rig);
    require(&got, &(struct store_audit){.balanced = true});
    assert_int_equal(got.sold, 14);
    assert_int_equal(got.held, 2);
    assert_int_equal(got.cancelled, 1);
}

struct plan {
    const char *what, *sql;
    struct store_audit want;
    bool is_split; /* done in a split stock */
    bool is_held;  /* done where orders are to be paid */
};

static const struct plan planted[] = {
    {"oversold", "UPDATE orders SET quantity = 5 WHERE number = 5",
     .want = {.oversold = 3, .phantom = 3, .over_limit = 1, .miscounted = 1}},
    {"order of no product",
     "UPDATE orders SET product_id = 99 WHERE number = 1",
     .want = {.oversold = 2, .phantom = 2, .undersold = 2, .miscounted = 1}},
    {"order vanished", "DELETE FROM orders WHERE number = 2",
     .want = {.undersold = 2, .miscounted = 1}},
    {"stock vanished",
     "UPDATE segments SET stock = stock - 3 WHERE product_id = 2",
     .want = {.undersold = 3}},
    {"stock from nowhere",
     "UPDATE segments SET stock = stock + 3 WHERE product_id = 2",
     .want = {.phantom = 3}},
    /* One product's surplus must not hide another's deficit. */
    {"errors do not cancel out",
     "UPDATE segments SET stock = stock + 3 WHERE product_id = 2;"
     "DELETE FROM orders WHERE number = 2;"
     "UPDATE segments SET stock = stock - 1 WHERE product_id = 1",
     .want = {.phantom = 3, .undersold = 3, .negative = 1, .miscounted = 1}},
    {"negative",
     "UPDATE segments SET stock = -1 WHERE product_id = 1;"
     "UPDATE segments SET stock = -1, initial = 0 WHERE product_id = 2;"
     "UPDATE products SET first_units = 0 WHERE id = 2",
     .want = {.negative = 2, .undersold = 2}},
    {"account raised with the stock",
     "UPDATE segments SET stock = stock + 7, initial = initial + 7 WHERE "
     "product_id = 2",
     .want = {.phantom = 7}},
    {"restock not in the segments",
     "INSERT INTO restocks (product_id, quantity, created_ms) VALUES (2, 9, 1)",
     .want = {.undersold = 9}},
    {"duplicates",
     "DROP INDEX IF EXISTS orders_key /*! ON orders */;"
     "DROP INDEX IF EXISTS orders_key_of_64 /*! ON orders */;"
     "UPDATE orders SET `key` = 'a' WHERE number IN (2, 4);"
     "UPDATE orders SET `key` = NULL WHERE number IN (3, 5)",
     .want = {.duplicates = 2}},
    {"over limit",
     "UPDATE orders SET user_id = 1 WHERE number = 2;"
     "UPDATE orders SET user_id = 5 WHERE number IN (3, 4)",
     .want = {.over_limit = 2, .miscounted = 5}},
    {"cancelled units do not count",
     "UPDATE orders SET user_id = 1 WHERE number = 2;"
     "UPDATE orders SET state = 1, cancelled_ms = 1 WHERE number = 1;"
     "UPDATE segments SET stock = stock + 2 WHERE product_id = 1;"
     "UPDATE purchases SET units = 0 WHERE user_id = 2",
     .want = {.balanced = true}},
    {"units without an order",
     "UPDATE purchases SET units = units + 1 WHERE user_id = 1",
     .want = {.miscounted = 1}},
    {"order without units", "DELETE FROM purchases WHERE user_id IN (2, 3)",
     .want = {.miscounted = 2}},
    {"units count with a limit only",
     "DELETE FROM purchases; UPDATE products SET limit_per_user = 0",
     .want = {.balanced = true}},
    /* 1 2 9 4 5: one order under an older token than the one before. */
    {"fence regressions", "UPDATE orders SET fence = 9 WHERE number = 3",
     .want = {.fence_regressions = 1}},
    {"unfenced orders are no regression",
     "UPDATE orders SET fence = 0 WHERE number IN (2, 4)",
     .want = {.balanced = true}},
    {"tokens of another segment are no regression",
     "INSERT INTO segments (product_id, segment, initial, stock) VALUES "
     "(1, 1, 2, 0);"
     "UPDATE segments SET initial = 8 WHERE product_id = 1 AND segment = 0;"
     "INSERT INTO transfers (product_id, from_segment, to_segment, units, "
     "created_ms) VALUES (1, 0, 1, 2, 1);"
     "UPDATE fences SET token = 9;"
     "UPDATE orders SET segment = 1, fence = 9 WHERE number = 3",
     .want = {.balanced = true}},
    {"a token above all that were announced",
     "UPDATE orders SET fence = 6 WHERE number = 5",
     .want = {.fence_regressions = 1}},
    {"a lock with a lower token than its order",
     "INSERT INTO fences (name, token) VALUES ('lock:{1:0}', 4)",
     .want = {.fence_regressions = 1}},
    {"restocked twice",
     "DROP INDEX IF EXISTS restocks_key /*! ON restocks */;"
     "INSERT INTO restocks SELECT 9, product_id, quantity, 1, `key` FROM "
     "restocks;"
     "UPDATE segments SET initial = 14, stock = 4 WHERE product_id = 1",
     .want = {.duplicates = 1}},
    /* Orders were sold from the first. */
    {"stranded", "UPDATE segments SET active = 0 WHERE product_id = 2",
     .want = {.stranded = 74}, .is_split = true},
    /* Moved by hand, in stock and on account: no row says so. */
    {"moved off the record",
     "UPDATE segments SET stock = stock - 5, initial = initial - 5 WHERE "
     "product_id = 2 AND segment = 0;"
     "UPDATE segments SET stock = stock + 5, initial = initial + 5 WHERE "
     "product_id = 2 AND segment = 1",
     .want = {.phantom = 5, .undersold = 5}, .is_split = true},
    {"moved on the record only",
     "UPDATE transfers SET units = units + 1 WHERE number = (SELECT "
     "max(number) FROM transfers)",
     .want = {.phantom = 1, .undersold = 1}, .is_split = true},
    /* From where an order took its units counts as much as how many. */
    {"segment is forged", "UPDATE orders SET segment = 1 WHERE quantity = 26",
     .want = {.phantom = 26, .undersold = 26}, .is_split = true},
    {"neither sold nor given back",
     "UPDATE orders SET state = 2 WHERE number = 8", .want = {.unsettled = 1},
     .is_held = true},
    {"sold and given back",
     "UPDATE orders SET cancelled_ms = 1 WHERE number = 1",
     .want = {.unsettled = 1}},
    {"less than nothing given back",
     "UPDATE orders SET quantity = -2 WHERE number = 8",
     .want = {.unsettled = 1}, .is_held = true},
    {"nobody's late payment", "INSERT INTO payments VALUES ('x', 99, NULL, 1)",
     .want = {.unsettled = 1}, .is_held = true},
    {"a late payment, and held",
     "INSERT INTO payments VALUES ('x', 6, NULL, 1)", .want = {.unsettled = 1},
     .is_held = true},
    {"a payment neither late nor accepted",
     "INSERT INTO payments VALUES ('x', 8, 0, 1)", .want = {.unsettled = 1},
     .is_held = true},
    {"accepted when it was over",
     "UPDATE orders SET pay_until_ms = (SELECT MAX(created_ms) FROM payments) "
     "WHERE number = 7",
     .want = {.unsettled = 1}, .is_held = true},
    {"a payment too many is no fault",
     "INSERT INTO payments VALUES ('x', 7, NULL, 1)",
     .want = {.balanced = true}, .is_held = true},
    {"neither held nor paid", "DELETE FROM holds", .want = {.unsettled = 1},
     .is_held = true},
    {"held and paid", "INSERT INTO payments VALUES ('x', 6, 1, 1)",
     .want = {.unsettled = 1}, .is_held = true},
    {"paid and given back",
     "UPDATE payments SET number = 8, created_ms = 2 WHERE number = 7",
     .want = {.unsettled = 2}, .is_held = true},
    {"held and given back", "UPDATE holds SET number = 8",
     .want = {.unsettled = 2}, .is_held = true},
    {"nobody's hold", "INSERT INTO holds VALUES (99, 9000000000000, 1)",
     .want = {.unsettled = 1}, .is_held = true},
    {"a hold for longer", "UPDATE holds SET pay_until_ms = pay_until_ms + 1",
     .want = {.unsettled = 1}, .is_held = true},
    {"a hold of more", "UPDATE holds SET quantity = 3",
     .want = {.unsettled = 1}, .is_held = true},
};

/* Each in a ledger of its own. */
static void check(const struct plan *plan)
{
    struct store_audit got;
    void *rig;

    print_message("# %s\n", plan->what);
    set_up(&rig);
    if (plan->is_split)
        split(rig);
    if (plan->is_held)
        hold(rig);
    plant(rig, plan->sql);
    got = store_rig_audit(rig);
    require(&got, &plan->want);
    store_rig_tear_down(&rig);
}

UNIT_TEST(test_planted)
{
    for (size_t i = 0; i < COUNT_OF(planted); i++)
        check(&planted[i]);
}

STORE_OWN_TEST(test_lost)
{
    char forged[STORE_ID_BYTES_MAX + 1];
    const char *acked[] = {ids[0], "77-0123456789abcdef", forged, "nonsense",
                           ids[4]};
    struct store_audit got;

    memcpy(forged, ids[1], sizeof(forged));
    forged[strlen(forged) - 1] ^= 1;
    got = store_rig_audit_dir(&rig->dir, acked, 5);
    require(&got, &(struct store_audit){.lost = 3});
}

static void on_line(void *ctx, const struct store_audit_line *line)
{
    static const struct store_audit_line wanted[] = {
        {.product_id = 1, .initial = 10, .sold = 10, .orders = 5},
        {.product_id = 2, .initial = 100, .stock = 95, .drift = -5},
    };
    size_t *n = ctx;
    const struct store_audit_line *want = &wanted[*n];

    assert_true((*n)++ < COUNT_OF(wanted));
    assert_int_equal(line->product_id, want->product_id);
    assert_int_equal(line->segment, 0);
    assert_int_equal(line->initial, want->initial);
    assert_int_equal(line->stock, want->stock);
    assert_int_equal(line->sold, want->sold);
    assert_int_equal(line->orders, want->orders);
    assert_int_equal(line->drift, want->drift);
}

STORE_OWN_TEST(test_lines)
{
    struct store_audit verdict;
    size_t n = 0;

    plant(rig, "UPDATE segments SET stock = 95 WHERE product_id = 2");
    assert_ok(store_audit(rig->reader, on_line, &n, NULL, 0, &verdict, NULL));
    assert_int_equal(n, 2);
}
