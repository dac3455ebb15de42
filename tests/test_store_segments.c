/*
 * Segmented stock: dealt out, sold, gathered, given back, resized and evened
 * out in the middle of a sale; nothing stranded and nothing lost.
 */
#include "tests/support/store_rig.h"
#include "tests/support/store_wait.h"

/* ---- dealt out ---------------------------------------------------------- */

STORE_TEST(test_units_are_dealt_out_evenly)
{
    struct store_product product;

    store_rig_split(rig, 10, 4);
    store_rig_expect(rig, "3 3 2 2");
    assert_int_equal(store_rig_product(rig, 1).segments, 4);
    assert_int_equal(store_rig_product(rig, 1).initial, 10);
    for (int i = 0; i < 2; i++) /* once: the same key */
        assert_ok(store_restock(rig->store, 1, 4, "k", &product, NULL));
    assert_int_equal(product.stock, 14);
    store_rig_expect(rig, "4 4 3 3");
    store_rig_expect_sound(rig);
}

STORE_TEST(test_segments_without_a_unit_are_retired)
{
    struct store_product product;
    struct store_segments segments;

    assert_int_equal(
        store_product_segments(rig->reader, 1, &product, &segments, NULL),
        STORE_NO_PRODUCT);
    store_rig_split(rig, 0, 8);
    store_rig_expect(rig, "0"); /* there is always one in use */
    store_rig_restock(rig, 3);
    store_rig_expect(rig, "1 1 1");
    assert_int_equal(store_rig_product(rig, 1).segments, 8);
    product = store_rig_product(rig, 1);
    store_rig_resize(rig, 7); /* no unit has to move */
    assert_int_equal(store_rig_product(rig, 1).epoch, product.epoch + 1);
}

STORE_TEST(test_one_to_256_segments)
{
    struct store_product product = {.id = 1, .name = "x"};
    const int64_t wrong[] = {-1, 257};

    for (size_t i = 0; i < 2; i++) {
        product.segments = wrong[i];
        assert_int_equal(store_product_put(rig->store, &product, NULL, NULL),
                         STORE_RANGE);
    }
    store_rig_split(rig, 1000, 0); /* one, unless said otherwise */
    store_rig_expect(rig, "1000");
    store_rig_resize(rig, 256);
    assert_int_equal(store_rig_order_at(rig, 255, 1000).segment, 255);
    assert_int_equal(store_rig_ask_at(rig, 0, 1).status, STORE_SOLD_OUT);
    store_rig_expect_sound(rig);
}

/* ---- sold --------------------------------------------------------------- */

static void expect_short(struct store_rig *rig, int64_t segment,
                         int64_t quantity, int64_t richest)
{
    struct store_order order = store_rig_ask_at(rig, segment, quantity);

    assert_int_equal(order.status, STORE_SHORT);
    assert_int_equal(order.richest, richest);
    assert_int_equal(order.number, 0);
}

/* Short: another segment has enough. Sold out: not even all together have. */
STORE_TEST(test_short_is_not_sold_out)
{
    struct store_order order;

    store_rig_split(rig, 12, 4);
    order = store_rig_order_at(rig, 2, 2);
    assert_int_equal(order.segment, 2);
    assert_int_equal(order.segments, 4);
    store_rig_expect(rig, "3 3 1 3");
    store_rig_order_at(rig, 0, 1);
    expect_short(rig, 2, 2, 1);
    expect_short(rig, 7, 1, 1); /* never was in use */
    assert_int_equal(store_rig_ask_at(rig, 0, 10).segments, 4);
    assert_int_equal(store_rig_ask_at(rig, 0, 10).status, STORE_SOLD_OUT);
    assert_int_equal(store_rig_ask_at(rig, 7, 10).status, STORE_SOLD_OUT);
    assert_int_equal(store_rig_ask_at(rig, 256, 1).status, STORE_RANGE);
    assert_int_equal(store_rig_ask_at(rig, -1, 1).status, STORE_RANGE);
    store_rig_resize(rig, 2);
    store_rig_expect(rig, "5 4");
    expect_short(rig, 3, 1, 0); /* retired */
    expect_short(rig, 3, 7, 0); /* nor is anything gathered there */
    store_rig_expect_sound(rig);
}

/* No segment has enough: what is missing comes from the richest others. */
STORE_TEST(test_gather_moves_what_is_missing)
{
    struct store_order order, stored;

    store_rig_split(rig, 12, 4);
    store_rig_order_at(rig, 1, 2); /* 3 1 3 3 */
    store_rig_order_at(rig, 3, 1); /* 3 1 3 2 */
    assert_int_equal(store_rig_ask_at(rig, 1, 10).status, STORE_SOLD_OUT);
    order = store_rig_order_at(rig, 1, 6);
    assert_int_equal(order.segment, 1);
    store_rig_expect(rig, "0 0 1 2");
    assert_ok(store_order_get(rig->reader, order.id, &stored, NULL));
    assert_int_equal(stored.segment, 1);
    assert_int_equal(stored.quantity, 6);
    store_rig_expect_sound(rig); /* what was moved is on record */
    store_rig_cancel(rig, &order);
    store_rig_cancel(rig, &order); /* once */
    store_rig_expect(rig, "0 6 1 2");
    store_rig_expect_sound(rig);
}

/*
 * An order that was sent to the richest before, and may not be sent for ever.
 */
STORE_TEST(test_gather_on_demand)
{
    struct store_order order = store_rig_ask(1, 1, 4, "k");

    store_rig_split(rig, 10, 2);
    store_rig_order_at(rig, 0, 3); /* 2 5 */
    store_rig_place(rig, &order);
    assert_int_equal(order.status, STORE_SHORT);
    order.gather = true;
    store_rig_place(rig, &order);
    assert_int_equal(order.status, STORE_OK);
    assert_int_equal(order.segment, 0);
    store_rig_expect(rig, "0 3");
    order.segment = 1; /* its key finds it from there as well */
    store_rig_place(rig, &order);
    assert_true(order.replayed);
    assert_int_equal(order.segment, 0);
    store_rig_expect_sound(rig);
}

STORE_TEST(test_over_the_limit_nothing_is_gathered)
{
    store_rig_put(
        rig, (struct store_product){
                 .id = 1, .initial = 8, .segments = 4, .limit_per_user = 3});
    assert_int_equal(store_rig_ask_at(rig, 0, 4).status, STORE_LIMIT);
    store_rig_expect(rig, "2 2 2 2");
    assert_ok(store_rig_ask_at(rig, 0, 3).status);
    store_rig_expect(rig, "0 1 2 2");
}

/* ---- resized ------------------------------------------------------------ */

STORE_TEST(test_resize_in_mid_sale)
{
    struct store_order order;
    int64_t epoch;

    store_rig_split(rig, 100, 10);
    order = store_rig_order_at(rig, 3, 9);
    store_rig_order_at(rig, 4, 31);
    epoch = store_rig_product(rig, 1).epoch;
    store_rig_resize(rig, 10); /* it has that many */
    assert_int_equal(store_rig_product(rig, 1).epoch, epoch);
    store_rig_resize(rig, 3);
    assert_true(store_rig_product(rig, 1).epoch > epoch);
    store_rig_expect(rig, "20 20 20");
    store_rig_order_at(rig, 1, 2);
    store_rig_cancel(rig, &order); /* its segment is retired: to the poorest */
    store_rig_expect(rig, "20 27 20");
    store_rig_resize(rig, 7);
    store_rig_expect(rig, "10 10 10 10 9 9 9");
    store_rig_resize(rig, 1);
    store_rig_expect(rig, "67");
    expect_short(rig, 6, 1, 0);
    store_rig_expect_sound(rig);
}

STORE_TEST(test_even_out)
{
    struct store_order order;
    bool moved = false;
    int64_t epoch;

    store_rig_split(rig, 8, 8);
    order = store_rig_order_at(rig, 6, 1);
    for (int64_t i = 0; i < 5; i++)
        store_rig_order_at(rig, i, 1);
    store_rig_expect(rig, "0 0 0 0 0 1 0 1");
    epoch = store_rig_product(rig, 1).epoch;
    assert_ok(store_even_out(rig->store, 1, &moved, NULL));
    assert_true(moved);
    store_rig_expect(rig, "1 1");
    assert_int_equal(store_rig_product(rig, 1).epoch, epoch + 1);
    assert_ok(store_even_out(rig->store, 1, &moved, NULL));
    assert_false(moved);
    assert_int_equal(store_rig_product(rig, 1).epoch, epoch + 1);
    store_rig_cancel(rig, &order);
    store_rig_expect(rig, "2 1");
    assert_ok(store_even_out(rig->store, 1, NULL, NULL));
    store_rig_expect(rig, "1 1 1");
    assert_int_equal(store_even_out(rig->store, 2, NULL, NULL),
                     STORE_NO_PRODUCT);
    store_rig_expect_sound(rig);
}

/* Back to where the order was, though it is out of use: nobody looks there. */
STORE_TEST(test_a_stranded_unit_is_found)
{
    struct store_units units;

    store_rig_split(rig, 16, 8);
    store_rig_order_at(rig, 7, 2);
    store_rig_resize(rig, 4);
    assert_ok(store_units_left(rig->reader, &units, NULL));
    assert_int_equal(units.stranded, 0);
    assert_int_equal(units.left, 14);
    store_rig_sql(rig, "BEGIN; UPDATE orders SET state = 1, cancelled_ms = 1; "
                       "UPDATE segments SET stock = stock + 2 "
                       "WHERE segment = 7; COMMIT");
    assert_ok(store_units_left(rig->reader, &units, NULL));
    assert_int_equal(units.stranded, 2);
    assert_int_equal(units.left, 16);
    assert_int_equal(store_rig_audit(rig).stranded, 2);
    assert_int_equal(store_rig_ask_at(rig, 0, 16).status, STORE_SOLD_OUT);
    assert_ok(store_even_out(rig->store, 1, NULL, NULL));
    assert_ok(store_rig_ask_at(rig, 0, 16).status);
}

/* The database adds them as doubles, which MariaDB writes with an exponent. */
STORE_TEST(test_units_of_many_products_are_added)
{
    struct store_units units;

    for (int64_t id = 1; id <= 2; id++) {
        struct store_product product = {
            .id = id, .name = "Many", .initial = STORE_NUMBER_MAX};

        assert_ok(store_product_put(rig->store, &product, NULL, NULL));
    }
    assert_ok(store_units_left(rig->reader, &units, NULL));
    assert_int_equal(units.stranded, 0);
    assert_int_equal(units.left, 2 * STORE_NUMBER_MAX);
}
