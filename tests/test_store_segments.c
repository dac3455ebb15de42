/*
 * Segmented stock: nothing stranded and nothing lost, whatever comes when.
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

/* ---- dealing out -------------------------------------------------------- */

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

static enum store_status buy_fenced(struct segment_rig *rig, int64_t segment,
                                    const char *lock, uint64_t token,
                                    uint64_t *stored)
{
    struct store_fence fence = {.name = lock, .token = token, .owner = "x"};
    struct store_order order = {
        .product_id = 1, .user_id = 1, .segment = segment, .quantity = 1};
    struct store_order *orders[] = {&order};

    assert_int_equal(store_place(rig->store, orders, 1, &fence, NULL),
                     STORE_OK);
    *stored = order.fence;
    return order.status;
}

/* Resized since the lock was taken: the units come from another segment, whose
 * lock it is not. */
static void test_a_token_stands_for_the_segment_of_its_lock(void **state)
{
    struct segment_rig *rig = *state;
    uint64_t stored;

    segment_rig_put(rig, 4, 2);
    assert_int_equal(buy_fenced(rig, ANY, "lock:{1:0}", 5, &stored), STORE_OK);
    assert_int_equal(stored, 5);
    segment_rig_order(rig, 0, 1); /* it is dry now */
    assert_int_equal(buy_fenced(rig, ANY, "lock:{1:0}", 6, &stored), STORE_OK);
    assert_int_equal(stored, 0);
    assert_int_equal(buy_fenced(rig, 1, "lock:{1:1}", 3, &stored), STORE_OK);
    assert_int_equal(stored, 3);
    assert_int_equal(segment_rig_audit(rig).fence_regressions, 0);
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
    assert_int_equal(segment_rig_buy(rig, ANY, 1000), STORE_OK);
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

/* ---- selling ------------------------------------------------------------ */

static void test_one_segment_is_drawn_from_and_no_other(void **state)
{
    struct segment_rig *rig = *state;
    struct store_order order;

    segment_rig_put(rig, 12, 4);
    order = segment_rig_order(rig, 2, 2);
    assert_int_equal(order.from_segment, 2);
    segment_rig_expect(rig, "3 3 1 3");
    segment_rig_expect_parts(rig, &order, "2:2");
    segment_rig_expect_sound(rig);
}

/* Short: the product has enough. Sold out: it has not, wherever one looks. */
static void test_short_is_not_sold_out(void **state)
{
    struct segment_rig *rig = *state;

    segment_rig_put(rig, 4, 2);
    assert_int_equal(segment_rig_buy(rig, 0, 3), STORE_SHORT);
    assert_int_equal(segment_rig_buy(rig, 0, 5), STORE_SOLD_OUT);
    assert_int_equal(segment_rig_buy(rig, 0, 2), STORE_OK);
    assert_int_equal(segment_rig_buy(rig, 0, 1), STORE_SHORT);
    assert_int_equal(segment_rig_buy(rig, 7, 2), STORE_SHORT); /* not there */
    assert_int_equal(segment_rig_buy(rig, 1, 2), STORE_OK);
    assert_int_equal(segment_rig_buy(rig, 0, 1), STORE_SOLD_OUT);
    assert_int_equal(segment_rig_buy(rig, 7, 1), STORE_SOLD_OUT);
    assert_int_equal(segment_rig_buy(rig, ANY, 1), STORE_SOLD_OUT);
    assert_int_equal(segment_rig_buy(rig, 256, 1), STORE_RANGE);
    assert_int_equal(segment_rig_buy(rig, -2, 1), STORE_RANGE);
}

static void test_gather_ascending_all_or_nothing(void **state)
{
    struct segment_rig *rig = *state;
    struct store_order order, stored;

    segment_rig_put(rig, 12, 4);
    segment_rig_order(rig, 1, 3);
    assert_int_equal(segment_rig_buy(rig, ANY, 10), STORE_SOLD_OUT);
    segment_rig_expect(rig, "3 0 3 3");
    order = segment_rig_order(rig, ANY, 7);
    assert_int_equal(order.from_segment, ANY);
    segment_rig_expect(rig, "0 0 0 2");
    segment_rig_expect_parts(rig, &order, "0:3 2:3 3:1");
    assert_int_equal(store_order_get(rig->reader, order.id, &stored, NULL),
                     STORE_OK);
    assert_int_equal(stored.from_segment, ANY);
    assert_int_equal(stored.quantity, 7);
    segment_rig_expect_sound(rig);
    assert_int_equal(segment_rig_audit(rig).orders, 2);
    assert_int_equal(segment_rig_audit(rig).sold, 10);
}

static void test_any_may_find_all_in_one(void **state)
{
    struct segment_rig *rig = *state;
    struct store_order order;

    segment_rig_put(rig, 4, 2);
    segment_rig_order(rig, 0, 2);
    order = segment_rig_order(rig, ANY, 2);
    assert_int_equal(order.from_segment, 1);
    segment_rig_expect_parts(rig, &order, "1:2");
}

/* One batch, many segments: each order sees what those before it took. */
static void test_batch_across_segments(void **state)
{
    struct segment_rig *rig = *state;
    const struct {
        int64_t segment, quantity;
        enum store_status status;
    } asked[] = {{0, 2, STORE_OK},    {ANY, 2, STORE_OK},
                 {0, 1, STORE_SHORT}, {1, 3, STORE_SHORT},
                 {1, 1, STORE_OK},    {2, 4, STORE_SOLD_OUT},
                 {ANY, 3, STORE_OK},  {ANY, 1, STORE_SOLD_OUT}};
    struct store_order batch[8], *orders[8];

    segment_rig_put(rig, 8, 3); /* 3 3 2 */
    for (int i = 0; i < 8; i++) {
        batch[i] = (struct store_order){.product_id = 1,
                                        .user_id = 1,
                                        .segment = asked[i].segment,
                                        .quantity = asked[i].quantity};
        orders[i] = &batch[i];
    }
    assert_int_equal(store_place(rig->store, orders, 8, NULL, NULL), STORE_OK);
    for (int i = 0; i < 8; i++)
        assert_int_equal(batch[i].status, asked[i].status);
    segment_rig_expect_parts(rig, &batch[1], "0:1 1:1");
    segment_rig_expect_parts(rig, &batch[6], "1:1 2:2");
    segment_rig_expect(rig, "0 0 0");
    segment_rig_expect_sound(rig);
}

/* Who may not have it must not take it, from none of the cells. */
static void test_gather_over_the_limit_takes_nothing(void **state)
{
    struct segment_rig *rig = *state;
    struct store_product product = {
        .id = 1, .name = "x", .initial = 8, .segments = 4, .limit_per_user = 3};

    assert_int_equal(store_product_put(rig->store, &product, NULL, NULL),
                     STORE_OK);
    assert_int_equal(segment_rig_buy(rig, ANY, 4), STORE_LIMIT);
    segment_rig_expect(rig, "2 2 2 2");
    assert_int_equal(segment_rig_buy(rig, ANY, 3), STORE_OK);
    segment_rig_expect(rig, "0 1 2 2");
}

/* What is asked for is left as it was: who was refused may ask again. */
static void test_a_key_finds_its_order_from_any_segment(void **state)
{
    struct segment_rig *rig = *state;
    struct store_order first = {.product_id = 1,
                                .user_id = 1,
                                .quantity = 5,
                                .segment = ANY,
                                .key = "k"};
    struct store_order again = {
        .product_id = 1, .user_id = 1, .quantity = 5, .segment = 2, .key = "k"};
    struct store_order *one[] = {&first}, *two[] = {&again};

    segment_rig_put(rig, 8, 4);
    assert_int_equal(store_place(rig->store, one, 1, NULL, NULL), STORE_OK);
    assert_int_equal(first.segment, ANY);
    assert_int_equal(store_place(rig->store, two, 1, NULL, NULL), STORE_OK);
    assert_true(again.replayed);
    assert_string_equal(again.id, first.id);
    assert_int_equal(again.from_segment, ANY);
    segment_rig_expect(rig, "0 0 1 2");
}

/* ---- cancelling --------------------------------------------------------- */

static void test_cancel_returns_exactly_there_once(void **state)
{
    struct segment_rig *rig = *state;
    struct store_order order;

    segment_rig_put(rig, 9, 3);
    order = segment_rig_order(rig, ANY, 7);
    segment_rig_expect(rig, "0 0 2");
    segment_rig_cancel(rig, &order);
    segment_rig_expect(rig, "3 3 3");
    segment_rig_cancel(rig, &order);
    segment_rig_expect(rig, "3 3 3");
    segment_rig_expect_parts(rig, &order, "0:3 1:3 2:1");
    segment_rig_expect_sound(rig);
}

static void test_cancel_after_more_segments(void **state)
{
    struct segment_rig *rig = *state;
    struct store_order order;

    segment_rig_put(rig, 8, 2);
    order = segment_rig_order(rig, 1, 4);
    segment_rig_resize(rig, 4);
    segment_rig_expect(rig, "1 1 1 1");
    segment_rig_cancel(rig, &order);
    segment_rig_expect(rig, "1 5 1 1");
    segment_rig_expect_sound(rig);
}

/* What comes back to a retired cell goes on to the poorest in use. */
static void test_cancel_after_fewer_segments(void **state)
{
    struct segment_rig *rig = *state;
    struct store_order order;

    segment_rig_put(rig, 16, 4);
    order = segment_rig_order(rig, ANY, 14); /* 4 4 4 2 */
    segment_rig_expect(rig, "0 0 0 2");
    segment_rig_resize(rig, 2);
    segment_rig_expect(rig, "1 1");
    segment_rig_order(rig, 1, 1);
    segment_rig_cancel(rig, &order);
    segment_rig_expect(rig, "7 8"); /* 1+4, 0+4; 4 to 1, 2 to 0 */
    assert_int_equal(segment_rig_product(rig).stock, 15);
    segment_rig_expect_sound(rig);
    segment_rig_resize(rig, 5);
    segment_rig_expect(rig, "3 3 3 3 3");
    segment_rig_expect_sound(rig);
}

/* ---- resizing, moving --------------------------------------------------- */

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
        TEST(test_units_are_dealt_out_evenly),
        TEST(test_a_token_stands_for_the_segment_of_its_lock),
        TEST(test_one_segment_unless_said_otherwise),
        TEST(test_up_to_256_segments),
        TEST(test_cells_without_a_unit_are_retired),
        TEST(test_product_and_cells_add_up),
        TEST(test_there_is_always_a_cell_in_use),
        TEST(test_restock_is_dealt_out),
        TEST(test_one_segment_is_drawn_from_and_no_other),
        TEST(test_short_is_not_sold_out),
        TEST(test_gather_ascending_all_or_nothing),
        TEST(test_any_may_find_all_in_one),
        TEST(test_batch_across_segments),
        TEST(test_gather_over_the_limit_takes_nothing),
        TEST(test_a_key_finds_its_order_from_any_segment),
        TEST(test_cancel_returns_exactly_there_once),
        TEST(test_cancel_after_more_segments),
        TEST(test_cancel_after_fewer_segments),
        TEST(test_resize_in_mid_sale),
        TEST(test_resize_of_nothing_raises_the_epoch),
        TEST(test_even_out_fills_the_dry),
        TEST(test_even_out_retires_and_brings_back),
        TEST(test_new_epoch_has_the_cells_of_its_beginning),
        TEST(test_new_epoch_above),
        TEST(test_split_list),
        TEST(test_rebalance_moves_once),
        TEST(test_rebalance_of_nothing_is_done),
        TEST(test_rebalance_to_nowhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
