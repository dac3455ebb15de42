/*
 * Segmented stock: how it is dealt out to cells, and what is said of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "db/store.h"
#include "tests/support/segment_rig.h"

static void test_units_are_dealt_out_evenly(void **state)
{
    struct segment_rig *rig = *state;

    segment_rig_put(rig, 10, 4);
    segment_rig_expect(rig, "3 3 2 2");
    assert_int_equal(segment_rig_product(rig).segments, 4);
    assert_int_equal(segment_rig_product(rig).initial, 10);
    assert_int_equal(segment_rig_product(rig).stock, 10);
    assert_true(segment_rig_product(rig).epoch > 0);
    assert_int_equal(segment_rig_cells(rig).epoch,
                     segment_rig_product(rig).epoch);
    segment_rig_expect_sound(rig);
}

static void test_one_segment_unless_said_otherwise(void **state)
{
    struct segment_rig *rig = *state;

    segment_rig_put(rig, 10, 0);
    segment_rig_expect(rig, "10");
    segment_rig_resize(rig, 2);
    segment_rig_resize(rig, 0); /* as it is */
    segment_rig_expect(rig, "5 5");
}

static void test_up_to_256_segments(void **state)
{
    struct segment_rig *rig = *state;
    struct store_product product = {.id = 1, .name = "x", .segments = 257};

    assert_int_equal(store_product_put(rig->store, &product, NULL, NULL),
                     STORE_RANGE);
    product.segments = -1;
    assert_int_equal(store_product_put(rig->store, &product, NULL, NULL),
                     STORE_RANGE);
    segment_rig_put(rig, 1000, 256);
    assert_int_equal(segment_rig_cells(rig).n, 256);
    assert_int_equal(segment_rig_cells(rig).cells[231].stock, 4);
    assert_int_equal(segment_rig_cells(rig).cells[232].stock, 3);
    assert_int_equal(segment_rig_buy(rig, STORE_SEGMENT_ANY, 1000), STORE_OK);
    assert_int_equal(segment_rig_buy(rig, 255, 1), STORE_SOLD_OUT);
    segment_rig_expect_sound(rig);
}

static void test_cells_without_a_unit_are_retired(void **state)
{
    struct segment_rig *rig = *state;

    segment_rig_put(rig, 3, 8);
    segment_rig_expect(rig, "1 1 1");
    assert_int_equal(segment_rig_product(rig).segments, 8);
    segment_rig_put(rig, 3, 8);
    segment_rig_expect(rig, "1 1 1");
}

/* The product with its cells: one moment, so the numbers add up. */
static void test_product_and_cells_add_up(void **state)
{
    struct segment_rig *rig = *state;
    struct store_product product;
    struct store_cells cells;

    assert_int_equal(
        store_product_cells(rig->reader, 1, &product, &cells, NULL),
        STORE_NO_PRODUCT);
    segment_rig_put(rig, 8, 4);
    (void)segment_rig_order(rig, 3, 2);
    segment_rig_resize(rig, 3);
    assert_int_equal(
        store_product_cells(rig->reader, 1, &product, &cells, NULL), STORE_OK);
    assert_int_equal(cells.n, 3);
    assert_int_equal(cells.epoch, product.epoch);
    assert_int_equal(product.stock, 6);
    assert_int_equal(
        cells.cells[0].stock + cells.cells[1].stock + cells.cells[2].stock, 6);
}

static void test_there_is_always_a_cell_in_use(void **state)
{
    struct segment_rig *rig = *state;
    struct store_cells cells;

    assert_int_equal(store_cells_get(rig->reader, 1, &cells, NULL),
                     STORE_NO_PRODUCT);
    segment_rig_put(rig, 0, 8);
    segment_rig_expect(rig, "0");
}

static void test_restock_is_dealt_out(void **state)
{
    struct segment_rig *rig = *state;
    struct store_product product;

    segment_rig_put(rig, 2, 4);
    segment_rig_expect(rig, "1 1");
    assert_int_equal(store_restock(rig->store, 1, 8, "k", &product, NULL),
                     STORE_OK);
    assert_int_equal(store_restock(rig->store, 1, 8, "k", &product, NULL),
                     STORE_OK);
    assert_int_equal(product.stock, 10);
    segment_rig_expect(rig, "3 3 2 2");
    segment_rig_expect_sound(rig);
}

static void test_split_list(void **state)
{
    struct segment_rig *rig = *state;
    struct store_split splits[2];
    size_t n;

    for (int64_t id = 1; id <= 5; id++) {
        struct store_product product = {.id = id,
                                        .name = "Thing",
                                        .initial = 9,
                                        .segments = id % 2 ? 3 : 1};

        assert_int_equal(store_product_put(rig->store, &product, NULL, NULL),
                         STORE_OK);
    }
    assert_int_equal(store_split_list(rig->reader, 0, 2, splits, &n, NULL),
                     STORE_OK);
    assert_int_equal(n, 2);
    assert_int_equal(splits[0].product_id, 1);
    assert_int_equal(splits[0].epoch, segment_rig_product(rig).epoch);
    assert_int_equal(splits[1].product_id, 3);
    assert_int_equal(store_split_list(rig->reader, 3, 2, splits, &n, NULL),
                     STORE_OK);
    assert_int_equal(n, 1);
    assert_int_equal(splits[0].product_id, 5);
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, segment_rig_set_up,                  \
                                    segment_rig_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_units_are_dealt_out_evenly),
        TEST(test_one_segment_unless_said_otherwise),
        TEST(test_up_to_256_segments),
        TEST(test_cells_without_a_unit_are_retired),
        TEST(test_product_and_cells_add_up),
        TEST(test_there_is_always_a_cell_in_use),
        TEST(test_restock_is_dealt_out),
        TEST(test_split_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
