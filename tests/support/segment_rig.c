/*
 * A store with one product whose stock is split. See segment_rig.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/segment_rig.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int segment_rig_set_up(void **state)
{
    struct segment_rig *rig = calloc(1, sizeof(*rig));
    struct store_options options = {0};

    temp_dir_make(&rig->dir);
    options.url = rig->dir.url;
    assert_int_equal(store_open(&options, &rig->store, NULL), STORE_OK);
    assert_int_equal(store_reader_open(rig->store, &rig->reader, NULL),
                     STORE_OK);
    *state = rig;
    return 0;
}

int segment_rig_tear_down(void **state)
{
    struct segment_rig *rig = *state;

    store_reader_close(rig->reader);
    store_close(rig->store);
    temp_dir_remove(&rig->dir);
    free(rig);
    return 0;
}

void segment_rig_put(struct segment_rig *rig, int64_t units, int64_t segments)
{
    struct store_product product = {
        .id = 1, .name = "Thing", .initial = units, .segments = segments};

    assert_int_equal(store_product_put(rig->store, &product, NULL, NULL),
                     STORE_OK);
}

void segment_rig_resize(struct segment_rig *rig, int64_t segments)
{
    segment_rig_put(rig, segment_rig_product(rig).initial, segments);
}

static struct store_order place(struct segment_rig *rig, int64_t segment,
                                int64_t quantity)
{
    struct store_order order = {.product_id = 1,
                                .user_id = 1,
                                .segment = segment,
                                .quantity = quantity};
    struct store_order *orders[] = {&order};

    assert_int_equal(store_place(rig->store, orders, 1, NULL, NULL), STORE_OK);
    return order;
}

enum store_status segment_rig_buy(struct segment_rig *rig, int64_t segment,
                                  int64_t quantity)
{
    return place(rig, segment, quantity).status;
}

struct store_order segment_rig_order(struct segment_rig *rig, int64_t segment,
                                     int64_t quantity)
{
    struct store_order order = place(rig, segment, quantity);

    assert_int_equal(order.status, STORE_OK);
    return order;
}

void segment_rig_cancel(struct segment_rig *rig, const struct store_order *it)
{
    struct store_order order;

    assert_int_equal(store_cancel(rig->store, it->id, &order, NULL), STORE_OK);
}

struct store_product segment_rig_product(struct segment_rig *rig)
{
    struct store_product product;

    assert_int_equal(store_product_get(rig->reader, 1, &product, NULL),
                     STORE_OK);
    return product;
}

struct store_cells segment_rig_cells(struct segment_rig *rig)
{
    struct store_cells cells;

    assert_int_equal(store_cells_get(rig->reader, 1, &cells, NULL), STORE_OK);
    return cells;
}

void segment_rig_stock(struct segment_rig *rig,
                       char text[SEGMENT_RIG_TEXT_BYTES])
{
    struct store_cells cells = segment_rig_cells(rig);
    size_t length = 0;

    for (size_t i = 0; i < cells.n; i++) {
        assert_int_equal(cells.cells[i].segment, i);
        length +=
            (size_t)snprintf(text + length, SEGMENT_RIG_TEXT_BYTES - length,
                             "%s%" PRId64, i ? " " : "", cells.cells[i].stock);
    }
}

void segment_rig_expect(struct segment_rig *rig, const char *stock)
{
    char text[SEGMENT_RIG_TEXT_BYTES] = "";

    segment_rig_stock(rig, text);
    assert_string_equal(text, stock);
}

void segment_rig_expect_parts(struct segment_rig *rig,
                              const struct store_order *order,
                              const char *parts)
{
    struct store_parts found;
    char text[SEGMENT_RIG_TEXT_BYTES] = "";
    size_t length = 0;

    assert_int_equal(store_order_parts(rig->reader, order->id, &found, NULL),
                     STORE_OK);
    for (size_t i = 0; i < found.n; i++)
        length += (size_t)snprintf(
            text + length, sizeof(text) - length, "%s%" PRId64 ":%" PRId64,
            i ? " " : "", found.parts[i].segment, found.parts[i].units);
    assert_string_equal(text, parts);
}

struct store_audit segment_rig_audit(struct segment_rig *rig)
{
    struct store_audit verdict;

    assert_int_equal(
        store_audit(rig->reader, NULL, NULL, NULL, 0, &verdict, NULL),
        STORE_OK);
    return verdict;
}

void segment_rig_expect_sound(struct segment_rig *rig)
{
    assert_true(segment_rig_audit(rig).balanced);
}
