/* Product 1, split over segments. See store_rig.h. */
#include "tests/support/store_rig.h"
#include "tests/support/store_wait.h"

#include <inttypes.h>
#include <stdio.h>

void store_rig_split(struct store_rig *rig, int64_t units, int64_t segments)
{
    store_rig_put(rig, (struct store_product){
                           .id = 1, .initial = units, .segments = segments});
}

void store_rig_resize(struct store_rig *rig, int64_t segments)
{
    store_rig_split(rig, store_rig_product(rig, 1).initial, segments);
}

struct store_order store_rig_ask_at(struct store_rig *rig, int64_t segment,
                                    int64_t quantity)
{
    struct store_order order = store_rig_ask(1, 1, quantity, "");

    order.segment = segment;
    store_rig_place(rig, &order);
    return order;
}

struct store_order store_rig_order_at(struct store_rig *rig, int64_t segment,
                                      int64_t quantity)
{
    struct store_order order = store_rig_ask_at(rig, segment, quantity);

    assert_int_equal(order.status, STORE_OK);
    return order;
}

void store_rig_cancel(struct store_rig *rig, const struct store_order *it)
{
    struct store_order order;

    assert_ok(store_cancel(rig->store, it->id, &order, NULL));
}

void store_rig_restock(struct store_rig *rig, int64_t units)
{
    struct store_product product;

    assert_ok(store_restock(rig->store, 1, units, "", &product, NULL));
}

void store_rig_stock(struct store_rig *rig, char text[STORE_RIG_TEXT_BYTES])
{
    struct store_segments found;
    struct store_product product;
    int64_t sum = 0;
    size_t length = 0;

    assert_ok(store_product_segments(rig->reader, 1, &product, &found, NULL));
    for (size_t i = 0; i < found.n; i++) {
        assert_int_equal(found.at[i].segment, i);
        sum += found.at[i].stock;
        length +=
            (size_t)snprintf(text + length, STORE_RIG_TEXT_BYTES - length,
                             "%s%" PRId64, i ? " " : "", found.at[i].stock);
    }
    assert_int_equal(product.stock, sum);
}

void store_rig_expect(struct store_rig *rig, const char *stock)
{
    char text[STORE_RIG_TEXT_BYTES] = "";

    store_rig_stock(rig, text);
    assert_string_equal(text, stock);
}
