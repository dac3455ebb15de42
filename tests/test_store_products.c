/*
 * Products that are put. Restocked: test_store_place.c; patched, listed, and restocked
 * once for a key: e2e/http-api.t, test_store_meet.c.
 */
#include "tests/support/store_rig.h"
#include "tests/support/store_wait.h"

static enum store_status put(struct store_rig *rig,
                             struct store_product product)
{
    return store_product_put(rig->store, &product, NULL, NULL);
}

/* A put changes all but the stock. */
STORE_TEST(test_put_creates_and_changes)
{
    struct store_product product = {.id = 3,
                                    .name = "Gr\xc3\xbc\xc3\x9f Gott",
                                    .price_cents = 1299,
                                    .limit_per_user = 2,
                                    .opens_ms = 1000,
                                    .ends_ms = 2000,
                                    .initial = 50};
    struct store_product stored;
    struct store_error error;
    bool created = false;

    assert_ok(store_product_put(rig->store, &product, &created, NULL));
    assert_true(created);
    assert_int_equal(product.stock, 50);
    assert_int_equal(product.segments, 1);
    product.name[0] = 'B';
    product.price_cents = 2;
    product.stock = 77; /* not listened to */
    assert_ok(store_product_put(rig->store, &product, &created, NULL));
    assert_false(created);
    stored = store_rig_product(rig, 3);
    assert_string_equal(stored.name, "Br\xc3\xbc\xc3\x9f Gott");
    assert_int_equal(stored.price_cents, 2);
    assert_int_equal(stored.limit_per_user, 2);
    assert_int_equal(stored.opens_ms, 1000);
    assert_int_equal(stored.ends_ms, 2000);
    assert_int_equal(stored.initial, 50);
    assert_int_equal(stored.stock, 50);
    assert_int_equal(stored.segments, 1);
    product.initial = 51;
    product.price_cents = 3;
    assert_int_equal(store_product_put(rig->store, &product, NULL, &error),
                     STORE_STOCK_FIXED);
    assert_non_null(strstr(error.text, "restock"));
    assert_int_equal(store_rig_product(rig, 3).price_cents, 2);
    store_rig_expect_sound(rig);
}

STORE_TEST(test_put_out_of_range)
{
    const struct store_product good = {.id = 1, .name = "A"};
    struct store_product bad[11];

    for (size_t i = 0; i < COUNT_OF(bad); i++)
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
    bad[9].segments = STORE_SEGMENTS_MAX + 1;
    bad[10].pay_within_s = STORE_PAY_WITHIN_S_MAX + 1;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_int_equal(put(rig, bad[i]), STORE_RANGE);
    assert_int_equal(put(rig, good), STORE_OK);
}

/* A put or a patch, which ends so. */
static struct store_change change_of(struct store_rig *rig, bool patch,
                                     unsigned given,
                                     struct store_product product,
                                     enum store_status status)
{
    struct store_change change = {
        .product = product, .patch = patch, .given = given};

    assert_int_equal(store_change(rig->store, &change, NULL), status);
    return change;
}

static const struct store_product set = {.id = 1,
                                         .name = "A",
                                         .price_cents = 7,
                                         .limit_per_user = 2,
                                         .opens_ms = 1000,
                                         .ends_ms = 9000,
                                         .initial = 5,
                                         .segments = 2,
                                         .pay_within_s = 60};

/* What is left out of a put would be reset in silence. */
STORE_TEST(test_put_leaves_nothing_out)
{
    const unsigned needed = STORE_GIVEN_ALL & ~(unsigned)STORE_GIVEN_STOCK;
    struct store_change change;

    change = change_of(rig, false, STORE_GIVEN_PRICE, set, STORE_INCOMPLETE);
    assert_int_equal(change.missing, STORE_GIVEN_NAME | STORE_GIVEN_STOCK);
    change = change_of(rig, false, STORE_GIVEN_ALL, set, STORE_OK);
    assert_true(change.created);
    for (unsigned bit = 1; bit < STORE_GIVEN_ALL; bit <<= 1) {
        change = change_of(rig, false, STORE_GIVEN_ALL & ~bit, set,
                           bit & needed ? STORE_INCOMPLETE : STORE_OK);
        assert_int_equal(change.missing, bit & needed);
    }
    assert_int_equal(store_rig_product(rig, 1).price_cents, 7);
    change =
        change_of(rig, false, needed, set, STORE_OK); /* without the stock */
    assert_int_equal(change.product.stock, 5);
    /* New, with as little as there may be. */
    change = change_of(rig, false, STORE_GIVEN_NAME | STORE_GIVEN_STOCK,
                       (struct store_product){.id = 2,
                                              .name = "B",
                                              .price_cents = 3,
                                              .initial = 4,
                                              .segments = 9},
                       STORE_OK);
    assert_int_equal(change.product.price_cents, 0); /* not given */
    assert_int_equal(change.product.segments, 1);
}
