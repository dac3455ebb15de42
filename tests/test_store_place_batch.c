/*
 * Placing many orders at once: each is decided as if those before it were placed
 * already, and gets what is its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "db/store.h"
#include "tests/support/store_rig.h"

#include <stdio.h>

static void test_batch_decides_in_order(void **state)
{
    struct store_rig *rig = *state;
    struct store_order asked[] = {
        store_rig_ask(1, 1, 2, "a"), store_rig_ask(1, 2, 2, ""),
        store_rig_ask(2, 3, 1, ""),  store_rig_ask(1, 1, 2, "a"),
        store_rig_ask(1, 1, 1, "a"), store_rig_ask(1, 4, 1, ""),
        store_rig_ask(9, 4, 1, ""),  store_rig_ask(1, 5, 0, ""),
        store_rig_ask(1, 6, 1, ""),
    };
    const enum store_status want[] = {
        STORE_OK,         STORE_SOLD_OUT,   STORE_OK,
        STORE_OK,         STORE_KEY_REUSED, STORE_OK,
        STORE_NO_PRODUCT, STORE_RANGE,      STORE_SOLD_OUT};
    struct store_order *orders[9];

    store_rig_put(rig, (struct store_product){.id = 1, .initial = 3});
    store_rig_put(rig, (struct store_product){.id = 2, .initial = 3});
    for (size_t i = 0; i < 9; i++)
        orders[i] = &asked[i];
    assert_int_equal(store_place(rig->store, orders, 9, NULL, NULL), STORE_OK);
    for (size_t i = 0; i < 9; i++)
        assert_int_equal(asked[i].status, want[i]);
    assert_true(asked[3].replayed);
    assert_string_equal(asked[3].id, asked[0].id);
    assert_true(asked[2].number > asked[0].number);
    assert_true(asked[5].number > asked[2].number);
    assert_int_equal(store_rig_audit(rig).orders, 3);
    store_rig_expect_sound(rig);
}

/* Rows are written several at a time: each must get its own number and id. */
static void test_large_batch(void **state)
{
    enum { ORDERS = 203, SPLIT_AT = 21, OTHER_AT = 10 };
    enum { AGAIN_AT = 71, UNITS = 4 };
    struct store_rig *rig = *state;
    /* Cells of two units: some orders need three of them. */
    const struct store_product split = {
        .id = 1, .initial = 250, .segments = 125, .price_cents = 990};
    const struct store_product other = {
        .id = 2, .initial = 90, .price_cents = 5};
    static struct store_order asked[ORDERS];
    struct store_order *orders[ORDERS], found;
    int64_t number = 0;

    store_rig_put(rig, split);
    store_rig_put(rig, other);
    for (int i = 0; i < ORDERS; i++) {
        asked[i] = store_rig_ask(i % OTHER_AT ? 1 : 2, i + 1,
                                 i % SPLIT_AT ? 1 : UNITS, "");
        asked[i].segment = STORE_SEGMENT_ANY;
        orders[i] = &asked[i];
        if (i % 3 == 0)
            snprintf(asked[i].key, sizeof(asked[i].key), "%d", i);
    }
    /* Its like waits to be written as well. */
    asked[AGAIN_AT] = asked[AGAIN_AT - 2];
    assert_int_equal(store_place(rig->store, orders, ORDERS, NULL, NULL),
                     STORE_OK);
    for (int i = 0; i < ORDERS; i++) {
        assert_int_equal(asked[i].status, STORE_OK);
        assert_int_equal(asked[i].replayed, i == AGAIN_AT);
        if (i != AGAIN_AT)
            assert_int_equal(asked[i].number, ++number);
        assert_int_equal(
            store_order_get(rig->reader, asked[i].id, &found, NULL), STORE_OK);
        assert_int_equal(found.user_id, asked[i].user_id);
        assert_string_equal(found.key, asked[i].key);
        assert_int_equal(found.quantity, asked[i].quantity);
        assert_int_equal(found.price_cents, i % OTHER_AT ? 990 : 5);
        assert_int_equal(asked[i].price_cents, found.price_cents);
        assert_int_equal(asked[i].created_ms, found.created_ms);
        assert_int_equal(found.from_segment, asked[i].from_segment);
    }
    assert_string_equal(asked[AGAIN_AT].id, asked[AGAIN_AT - 2].id);
    store_rig_expect_sound(rig);
}

static void test_empty_batch(void **state)
{
    struct store_rig *rig = *state;

    assert_int_equal(store_place(rig->store, NULL, 0, NULL, NULL), STORE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_RIG_TEST(test_batch_decides_in_order),
        STORE_RIG_TEST(test_large_batch),
        STORE_RIG_TEST(test_empty_batch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
