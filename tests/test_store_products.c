/*
 * Products: put, restocked, listed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "db/store.h"
#include "tests/support/store_rig.h"

#include <string.h>

static enum store_status put(struct store_rig *rig,
                             struct store_product product)
{
    return store_product_put(rig->store, &product, NULL, NULL);
}

static enum store_status restock(struct store_rig *rig, int64_t quantity,
                                 const char *key)
{
    struct store_product product;

    return store_restock(rig->store, 1, quantity, key, &product, NULL);
}

static void test_put_creates_and_get_returns(void **state)
{
    struct store_rig *rig = *state;
    struct store_product product = {.id = 3,
                                    .name = "Gr\xc3\xbc\xc3\x9f Gott",
                                    .price_cents = 1299,
                                    .limit_per_user = 2,
                                    .opens_ms = 1000,
                                    .ends_ms = 2000,
                                    .initial = 50};
    struct store_product stored;
    bool created = false;

    assert_int_equal(store_product_put(rig->store, &product, &created, NULL),
                     STORE_OK);
    assert_true(created);
    stored = store_rig_product(rig, 3);
    assert_string_equal(stored.name, "Gr\xc3\xbc\xc3\x9f Gott");
    assert_int_equal(stored.price_cents, 1299);
    assert_int_equal(stored.limit_per_user, 2);
    assert_int_equal(stored.opens_ms, 1000);
    assert_int_equal(stored.ends_ms, 2000);
    assert_int_equal(stored.initial, 50);
    assert_int_equal(stored.stock, 50);
    assert_int_equal(stored.segments, 1);
    assert_int_equal(product.stock, 50);
    assert_int_equal(product.segments, 1);
}

static void test_put_changes_all_but_the_stock(void **state)
{
    struct store_rig *rig = *state;
    struct store_product product = {
        .id = 1, .name = "A", .price_cents = 1, .initial = 5};
    struct store_error error;
    bool created = true;

    assert_int_equal(put(rig, product), STORE_OK);
    product.name[0] = 'B';
    product.price_cents = 2;
    product.stock = 77; /* not listened to */
    assert_int_equal(store_product_put(rig->store, &product, &created, NULL),
                     STORE_OK);
    assert_false(created);
    assert_string_equal(store_rig_product(rig, 1).name, "B");
    assert_int_equal(store_rig_product(rig, 1).stock, 5);
    product.initial = 6;
    product.price_cents = 3;
    assert_int_equal(store_product_put(rig->store, &product, NULL, &error),
                     STORE_STOCK_FIXED);
    assert_non_null(strstr(error.text, "restock"));
    assert_int_equal(store_rig_product(rig, 1).price_cents, 2);
    store_rig_expect_sound(rig);
}

/* An order keeps the price it was sold at. */
static void test_price_of_an_order_stays(void **state)
{
    struct store_rig *rig = *state;
    struct store_product product = {
        .id = 1, .name = "A", .price_cents = 100, .initial = 5};
    struct store_order order = {.product_id = 1, .user_id = 1, .quantity = 1};
    struct store_order *orders[] = {&order};

    assert_int_equal(put(rig, product), STORE_OK);
    store_place(rig->store, orders, 1, NULL, NULL);
    product.price_cents = 200;
    assert_int_equal(put(rig, product), STORE_OK);
    assert_int_equal(store_order_get(rig->reader, order.id, &order, NULL),
                     STORE_OK);
    assert_int_equal(order.price_cents, 100);
    store_place(rig->store, orders, 1, NULL, NULL);
    assert_int_equal(order.price_cents, 200);
}

static void test_put_out_of_range(void **state)
{
    struct store_rig *rig = *state;
    const struct store_product good = {.id = 1, .name = "A"};
    struct store_product bad[9];

    for (int i = 0; i < 9; i++)
        bad[i] = good;
    bad[0].id = 0;
    bad[1].id = STORE_NUMBER_MAX + 1;
    bad[2].name[0] = '\0';
    memset(bad[3].name, 'x', sizeof(bad[3].name));
    bad[4].price_cents = -1;
    bad[5].limit_per_user = -1;
    bad[6].opens_ms = INT64_MIN;
    bad[7].ends_ms = STORE_NUMBER_MAX + 1;
    bad[8].initial = STORE_NUMBER_MAX + 1;
    for (int i = 0; i < 9; i++)
        assert_int_equal(put(rig, bad[i]), STORE_RANGE);
    assert_int_equal(put(rig, good), STORE_OK);
}

static void test_restock_adds(void **state)
{
    struct store_rig *rig = *state;
    struct store_product product = {.id = 1, .name = "A", .initial = 5};

    assert_int_equal(restock(rig, 1, ""), STORE_NO_PRODUCT);
    assert_int_equal(put(rig, product), STORE_OK);
    assert_int_equal(store_restock(rig->store, 1, 3, "", &product, NULL),
                     STORE_OK);
    assert_int_equal(product.initial, 8);
    assert_int_equal(product.stock, 8);
    assert_int_equal(restock(rig, 3, ""), STORE_OK);
    assert_int_equal(store_rig_product(rig, 1).stock, 11);
    store_rig_expect_sound(rig);
}

static void test_restock_once_per_key(void **state)
{
    struct store_rig *rig = *state;
    const struct store_product product = {.id = 1, .name = "A", .initial = 5};
    struct store_product other = {.id = 2, .name = "B"};

    assert_int_equal(put(rig, product), STORE_OK);
    assert_int_equal(put(rig, other), STORE_OK);
    assert_int_equal(restock(rig, 3, "monday"), STORE_OK);
    assert_int_equal(restock(rig, 3, "monday"), STORE_OK);
    assert_int_equal(store_rig_product(rig, 1).stock, 8);
    assert_int_equal(restock(rig, 4, "monday"), STORE_KEY_REUSED);
    assert_int_equal(store_restock(rig->store, 2, 3, "monday", &other, NULL),
                     STORE_KEY_REUSED);
    assert_int_equal(restock(rig, 3, "tuesday"), STORE_OK);
    assert_int_equal(store_rig_product(rig, 1).stock, 11);
    store_rig_expect_sound(rig);
}

static void test_restock_stays_in_range(void **state)
{
    struct store_rig *rig = *state;
    const struct store_product product = {
        .id = 1, .name = "A", .initial = STORE_NUMBER_MAX - 10};
    char key[STORE_KEY_BYTES_MAX + 2];

    memset(key, 'k', sizeof(key) - 1);
    key[sizeof(key) - 1] = '\0';
    assert_int_equal(put(rig, product), STORE_OK);
    assert_int_equal(restock(rig, 0, ""), STORE_RANGE);
    assert_int_equal(restock(rig, -1, ""), STORE_RANGE);
    assert_int_equal(restock(rig, INT64_MAX, ""), STORE_RANGE);
    assert_int_equal(restock(rig, 1, key), STORE_RANGE);
    assert_int_equal(restock(rig, 11, "k"), STORE_RANGE);
    assert_int_equal(restock(rig, 10, "k"), STORE_OK);
    assert_int_equal(restock(rig, 1, ""), STORE_RANGE);
    assert_int_equal(store_rig_product(rig, 1).stock, STORE_NUMBER_MAX);
    store_rig_expect_sound(rig);
}

static void test_list_in_pages(void **state)
{
    struct store_rig *rig = *state;
    struct store_product products[3], product = {.name = "A", .initial = 1};
    const int64_t ids[] = {50, 2, 9, 1, STORE_NUMBER_MAX};
    size_t found;

    for (size_t i = 0; i < 5; i++) {
        product.id = ids[i];
        assert_int_equal(put(rig, product), STORE_OK);
    }
    assert_int_equal(
        store_product_list(rig->reader, 0, 3, products, &found, NULL),
        STORE_OK);
    assert_int_equal(found, 3);
    assert_int_equal(products[0].id, 1);
    assert_int_equal(products[2].id, 9);
    assert_int_equal(
        store_product_list(rig->reader, 9, 3, products, &found, NULL),
        STORE_OK);
    assert_int_equal(found, 2);
    assert_int_equal(products[1].id, STORE_NUMBER_MAX);
    assert_int_equal(products[1].stock, 1);
    assert_int_equal(store_product_list(rig->reader, STORE_NUMBER_MAX, 3,
                                        products, &found, NULL),
                     STORE_OK);
    assert_int_equal(found, 0);
}

static void test_get_of_nothing(void **state)
{
    struct store_rig *rig = *state;
    struct store_product product;

    assert_int_equal(store_product_get(rig->reader, 1, &product, NULL),
                     STORE_NO_PRODUCT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_RIG_TEST(test_put_creates_and_get_returns),
        STORE_RIG_TEST(test_put_changes_all_but_the_stock),
        STORE_RIG_TEST(test_price_of_an_order_stays),
        STORE_RIG_TEST(test_put_out_of_range),
        STORE_RIG_TEST(test_restock_adds),
        STORE_RIG_TEST(test_restock_once_per_key),
        STORE_RIG_TEST(test_restock_stays_in_range),
        STORE_RIG_TEST(test_list_in_pages),
        STORE_RIG_TEST(test_get_of_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
