/*
 * Segmented stock: resized, evened out and moved from cell to cell in the middle
 * of a sale; nothing stranded and nothing lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "db/store.h"
#include "tests/support/segment_rig.h"

#include <stdio.h>
#include <string.h>

#define ANY STORE_SEGMENT_ANY

/* ---- resizing ------------------------------------------------------------- */

static void test_resize_in_mid_sale(void **state)
{
    struct segment_rig *rig = *state;
    int64_t epoch;

    segment_rig_put(rig, 100, 10);
    segment_rig_order(rig, 3, 9);
    segment_rig_order(rig, ANY, 31);
    epoch = segment_rig_product(rig).epoch;
    segment_rig_resize(rig, 10); /* it has that many */
    assert_int_equal(segment_rig_product(rig).epoch, epoch);
    segment_rig_resize(rig, 3);
    assert_true(segment_rig_product(rig).epoch > epoch);
    segment_rig_expect(rig, "20 20 20");
    segment_rig_expect_sound(rig);
    segment_rig_resize(rig, 7);
    segment_rig_expect(rig, "9 9 9 9 8 8 8");
    segment_rig_resize(rig, 1);
    segment_rig_expect(rig, "60");
    assert_int_equal(segment_rig_buy(rig, 9, 1), STORE_SHORT);
    segment_rig_expect_sound(rig);
}

/* Also when no unit has to move: who chooses among four has to hear of it. */
static void test_resize_of_nothing_raises_the_epoch(void **state)
{
    struct segment_rig *rig = *state;
    int64_t epoch;

    segment_rig_put(rig, 1, 4);
    epoch = segment_rig_product(rig).epoch;
    segment_rig_resize(rig, 8);
    segment_rig_expect(rig, "1");
    assert_true(segment_rig_product(rig).epoch > epoch);
}

/* ---- evening out ---------------------------------------------------------- */

static void test_even_out_fills_the_dry(void **state)
{
    struct segment_rig *rig = *state;
    bool moved = false;
    int64_t epoch;

    segment_rig_put(rig, 12, 3);
    segment_rig_order(rig, 0, 4);
    segment_rig_order(rig, 1, 1);
    epoch = segment_rig_product(rig).epoch;
    assert_int_equal(store_even_out(rig->store, 1, &moved, NULL), STORE_OK);
    assert_true(moved);
    segment_rig_expect(rig, "3 2 2");
    assert_int_equal(segment_rig_product(rig).epoch, epoch + 1);
    assert_int_equal(store_even_out(rig->store, 1, &moved, NULL), STORE_OK);
    assert_false(moved);
    assert_int_equal(segment_rig_product(rig).epoch, epoch + 1);
    assert_int_equal(store_even_out(rig->store, 2, NULL, NULL),
                     STORE_NO_PRODUCT);
    segment_rig_expect_sound(rig);
}

/* Towards the end of a sale there is ever less to look through. */
static void test_even_out_retires_and_brings_back(void **state)
{
    struct segment_rig *rig = *state;
    struct store_order order;

    segment_rig_put(rig, 8, 8);
    order = segment_rig_order(rig, 6, 1);
    segment_rig_order(rig, ANY, 5);
    segment_rig_expect(rig, "0 0 0 0 0 1 0 1");
    assert_int_equal(store_even_out(rig->store, 1, NULL, NULL), STORE_OK);
    segment_rig_expect(rig, "1 1");
    segment_rig_cancel(rig, &order); /* its cell is retired */
    segment_rig_expect(rig, "2 1");
    assert_int_equal(store_even_out(rig->store, 1, NULL, NULL), STORE_OK);
    segment_rig_expect(rig, "1 1 1");
    assert_int_equal(segment_rig_product(rig).segments, 8);
    segment_rig_expect_sound(rig);
}

/* ---- epochs --------------------------------------------------------------- */

/* Who asks for one has it for himself, and the cells of that moment with it. */
static void test_new_epoch_has_the_cells_of_its_beginning(void **state)
{
    struct segment_rig *rig = *state;
    struct store_cells cells = {0}, next = {0};
    struct store_order order;
    int64_t epoch;

    segment_rig_put(rig, 6, 4);
    epoch = segment_rig_product(rig).epoch;
    order = segment_rig_order(rig, 1, 2);
    assert_int_equal(store_new_epoch(rig->store, 1, 0, &cells, NULL), STORE_OK);
    assert_int_equal(cells.epoch, epoch + 1);
    assert_int_equal(cells.segments, 4);
    assert_int_equal(cells.number, order.number);
    assert_int_equal(cells.n, 4);
    assert_int_equal(cells.cells[1].stock, 0);
    assert_int_equal(cells.cells[3].stock, 1);
    assert_int_equal(segment_rig_product(rig).epoch, epoch + 1);
    segment_rig_order(rig, 3, 1);
    assert_int_equal(store_new_epoch(rig->store, 1, 0, &next, NULL), STORE_OK);
    assert_int_equal(next.epoch, epoch + 2);
    assert_int_equal(next.number, cells.number + 1);
    assert_int_equal(next.cells[3].stock, 0);
    segment_rig_expect_sound(rig);
}

/* A number from another time, when the database was another. */
static void test_new_epoch_above(void **state)
{
    struct segment_rig *rig = *state;
    struct store_cells cells;

    segment_rig_put(rig, 6, 4);
    assert_int_equal(store_new_epoch(rig->store, 1, 57, &cells, NULL),
                     STORE_OK);
    assert_int_equal(cells.epoch, 58);
    assert_int_equal(store_new_epoch(rig->store, 1, 3, &cells, NULL), STORE_OK);
    assert_int_equal(cells.epoch, 59);
    assert_int_equal(
        store_new_epoch(rig->store, 1, STORE_NUMBER_MAX, &cells, NULL),
        STORE_RANGE);
    assert_int_equal(store_new_epoch(rig->store, 1, -1, &cells, NULL),
                     STORE_RANGE);
    assert_int_equal(store_new_epoch(rig->store, 2, 0, &cells, NULL),
                     STORE_NO_PRODUCT);
    assert_int_equal(segment_rig_product(rig).epoch, 59);
}

/* ---- moving --------------------------------------------------------------- */

static struct store_transfer transfer(const char *id, int64_t from, int64_t to,
                                      int64_t units)
{
    struct store_transfer it = {
        .product_id = 1, .from = from, .to = to, .units = units};

    snprintf(it.id, sizeof(it.id), "%s", id);
    return it;
}

static void test_rebalance_moves_once(void **state)
{
    struct segment_rig *rig = *state;
    struct store_transfer it = transfer("t1", 0, 1, 2);
    int64_t epoch;

    segment_rig_put(rig, 10, 2);
    epoch = segment_rig_product(rig).epoch;
    assert_int_equal(store_rebalance(rig->store, &it, NULL), STORE_OK);
    assert_false(it.replayed);
    assert_int_equal(it.moved, 2);
    segment_rig_expect(rig, "3 7");
    assert_int_equal(segment_rig_product(rig).epoch, epoch + 1);
    it = transfer("t1", 0, 1, 2);
    assert_int_equal(store_rebalance(rig->store, &it, NULL), STORE_OK);
    assert_true(it.replayed);
    assert_int_equal(it.moved, 2);
    segment_rig_expect(rig, "3 7");
    it = transfer("t1", 1, 0, 2);
    assert_int_equal(store_rebalance(rig->store, &it, NULL), STORE_KEY_REUSED);
    it = transfer("t2", 0, 1, 99); /* as many as there are */
    assert_int_equal(store_rebalance(rig->store, &it, NULL), STORE_OK);
    assert_int_equal(it.moved, 3);
    segment_rig_expect(rig, "0 10");
    segment_rig_expect_sound(rig);
}

/* What found nothing has had its turn: a late copy of it moves nothing. */
static void test_rebalance_of_nothing_is_done(void **state)
{
    struct segment_rig *rig = *state;
    struct store_transfer it = transfer("t1", 0, 1, 2);

    segment_rig_put(rig, 4, 2);
    segment_rig_order(rig, 0, 2);
    assert_int_equal(store_rebalance(rig->store, &it, NULL), STORE_OK);
    assert_int_equal(it.moved, 0);
    assert_int_equal(store_even_out(rig->store, 1, NULL, NULL), STORE_OK);
    assert_int_equal(store_rebalance(rig->store, &it, NULL), STORE_OK);
    assert_true(it.replayed);
    assert_int_equal(it.moved, 0);
    segment_rig_expect(rig, "1 1");
}

static void test_rebalance_to_nowhere(void **state)
{
    struct segment_rig *rig = *state;
    const struct store_transfer wrong[] = {
        transfer("", 0, 1, 1),   transfer("t", 0, 0, 1), transfer("t", 0, 1, 0),
        transfer("t", 0, 1, -1), transfer("t", 0, 2, 1), /* retired */
        transfer("t", 0, 9, 1),  transfer("t", 9, 0, 1),
    };
    struct store_transfer it;

    segment_rig_put(rig, 10, 3);
    segment_rig_resize(rig, 2);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        it = wrong[i];
        assert_int_equal(store_rebalance(rig->store, &it, NULL), STORE_RANGE);
    }
    it = transfer("t", 0, 1, 1);
    it.product_id = 2;
    assert_int_equal(store_rebalance(rig->store, &it, NULL), STORE_NO_PRODUCT);
    memset(it.id, 'x', sizeof(it.id));
    assert_int_equal(store_rebalance(rig->store, &it, NULL), STORE_RANGE);
    segment_rig_expect(rig, "5 5");
    segment_rig_expect_sound(rig);
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, segment_rig_set_up,                  \
                                    segment_rig_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_resize_in_mid_sale),
        TEST(test_resize_of_nothing_raises_the_epoch),
        TEST(test_even_out_fills_the_dry),
        TEST(test_even_out_retires_and_brings_back),
        TEST(test_new_epoch_has_the_cells_of_its_beginning),
        TEST(test_new_epoch_above),
        TEST(test_rebalance_moves_once),
        TEST(test_rebalance_of_nothing_is_done),
        TEST(test_rebalance_to_nowhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
