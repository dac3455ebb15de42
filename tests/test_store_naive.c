/*
 * The textbook's way. It must be able to go wrong, on demand and every time,
 * or the laboratory teaches nothing; and the fence must stop exactly the writer
 * that comes too late.
 */
#include "tests/support/store_rig.h"

static void put(struct store_rig *rig, int64_t units, int64_t limit)
{
    store_rig_put(rig, (struct store_product){
                           .id = 1, .initial = units, .limit_per_user = limit});
}

static enum store_status look(struct store_rig *rig, struct store_order *order,
                              int64_t *stock)
{
    assert_ok(store_naive_select(rig->reader, order, stock, NULL));
    return order->status;
}

static enum store_status update(struct store_rig *rig, int64_t stock,
                                const struct store_fence *fence)
{
    return store_naive_update(rig->store, 1, 0, stock, fence, NULL);
}

static enum store_status insert(struct store_rig *rig,
                                struct store_order *order,
                                const struct store_fence *fence)
{
    enum store_status status =
        store_naive_insert(rig->store, order, fence, NULL);

    assert_int_equal(order->status, status);
    return status;
}

/* ---- alone it is right -------------------------------------------------- */

STORE_TEST(test_select_checks_what_textbooks_check)
{
    static const struct {
        int64_t product_id, user_id, quantity;
        const char *key;
        enum store_status status;
    } cases[] = {
        {1, 1, 2, "key", STORE_OK}, {1, 1, 1, "key", STORE_KEY_REUSED},
        {1, 1, 2, "", STORE_LIMIT}, {1, 2, 4, "", STORE_SOLD_OUT},
        {1, 2, 0, "", STORE_RANGE}, {9, 2, 1, "", STORE_NO_PRODUCT},
        {2, 2, 1, "", STORE_ENDED},
    };
    struct store_order order = store_rig_ask(1, 1, 2, "key");
    int64_t stock;

    store_rig_put(rig,
                  (struct store_product){.id = 2, .initial = 1, .ends_ms = 1});
    put(rig, 5, 3);
    assert_int_equal(look(rig, &order, &stock), STORE_OK);
    assert_int_equal(update(rig, 3, NULL), STORE_OK);
    assert_int_equal(insert(rig, &order, NULL), STORE_OK);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        order = store_rig_ask(cases[i].product_id, cases[i].user_id,
                              cases[i].quantity, cases[i].key);
        assert_int_equal(look(rig, &order, &stock), cases[i].status);
        assert_int_equal(order.replayed, i == 0);
        if (cases[i].status == STORE_SOLD_OUT)
            assert_int_equal(stock, 3);
    }
    store_rig_expect_sound(rig);
}

/* ---- together it is wrong ----------------------------------------------- */

/* The unique key stops the second row, but its stock is gone. */
STORE_TEST(test_two_with_one_key_lose_a_unit)
{
    struct store_order a = store_rig_ask(1, 1, 1, "key"),
                       b = store_rig_ask(1, 1, 1, "key");
    struct store_order c = store_rig_ask(1, 2, 1, "key");
    int64_t stock;

    put(rig, 10, 0);
    assert_int_equal(look(rig, &a, &stock), STORE_OK);
    assert_int_equal(look(rig, &b, &stock), STORE_OK);
    assert_int_equal(update(rig, 9, NULL), STORE_OK);
    assert_int_equal(insert(rig, &a, NULL), STORE_OK);
    assert_int_equal(update(rig, 8, NULL), STORE_OK);
    assert_int_equal(insert(rig, &b, NULL), STORE_OK);
    assert_true(b.replayed);
    assert_string_equal(a.id, b.id);
    assert_int_equal(insert(rig, &c, NULL), STORE_KEY_REUSED);
    assert_int_equal(store_rig_audit(rig).undersold, 1);
}

/* A write that nobody has judged goes over the limit: its order says over which. */
STORE_TEST(test_over_a_limit)
{
    struct store_order order = store_rig_ask(1, 1, 4, "");

    put(rig, 5, 3);
    assert_int_equal(update(rig, 1, NULL), STORE_OK);
    assert_int_equal(insert(rig, &order, NULL), STORE_OK);
    assert_int_equal(store_rig_audit(rig).over_limit, 1);
}

/* ---- under a fence ------------------------------------------------------ */

/*
 * The holder whose lease ran out while it was thinking. Whatever it still
 * writes comes after the new holder's stamp, and is refused.
 */
STORE_TEST(test_stamp_stops_the_old_holder)
{
    const struct store_fence old = {.name = "lock", .token = 33},
                             new = {.name = "lock", .token = 34},
                             late = {.name = "lock", .token = 33, .late = true};
    struct store_order a = store_rig_ask(1, 1, 1, ""),
                       b = store_rig_ask(1, 2, 1, "");
    int64_t stock;

    put(rig, 1, 0);
    assert_ok(store_stamp(rig->store, &old, NULL));
    assert_int_equal(look(rig, &a, &stock), STORE_OK);
    assert_ok(store_stamp(rig->store, &new, NULL));
    assert_int_equal(look(rig, &b, &stock), STORE_OK);
    /* The old one writes first: to compare only now would let it through. */
    assert_int_equal(update(rig, 0, &old), STORE_STALE_FENCE);
    assert_int_equal(insert(rig, &a, &old), STORE_STALE_FENCE);
    assert_int_equal(update(rig, 0, &new), STORE_OK);
    assert_int_equal(insert(rig, &b, &new), STORE_OK);
    assert_int_equal(b.fence, 34);
    assert_int_equal(store_stamp(rig->store, &old, NULL), STORE_STALE_FENCE);
    /* So much does the known wrong way, too, which announces by writing. */
    assert_int_equal(update(rig, 1, &late), STORE_STALE_FENCE);
    store_rig_expect_sound(rig);
}

/* A token nobody has announced is not taken, be it ever so high. */
STORE_TEST(test_unannounced_token_is_refused)
{
    const struct store_fence fence = {.name = "lock", .token = 7},
                             higher = {.name = "lock", .token = 8};
    uint64_t token;

    put(rig, 1, 0);
    assert_int_equal(update(rig, 0, &fence), STORE_STALE_FENCE);
    assert_ok(store_stamp(rig->store, &fence, NULL));
    assert_ok(store_stamp(rig->store, &fence, NULL));
    assert_int_equal(update(rig, 1, &fence), STORE_OK);
    assert_int_equal(update(rig, 0, &higher), STORE_STALE_FENCE);
    assert_ok(store_fence_floor(rig->reader, 1, "lock", &token, NULL));
    assert_int_equal(token, 7);
    assert_ok(store_fence_floor(rig->reader, 1, "other", &token, NULL));
    assert_int_equal(token, 0);
    assert_int_equal(store_fence_floor(rig->reader, 2, "lock", &token, NULL),
                     STORE_NO_PRODUCT);
}

/*
 * A lock server that lost its data before the first holder announced itself
 * gives the second one the same token. Only one of them may write.
 */
STORE_TEST(test_one_token_of_two_owners)
{
    const struct store_fence first = {
        .name = "lock", .token = 1, .owner = "owner-a"};
    const struct store_fence second = {
        .name = "lock", .token = 1, .owner = "owner-b"};
    struct store_order a = store_rig_ask(1, 1, 1, "");
    int64_t stock;

    put(rig, 1, 0);
    assert_ok(store_stamp(rig->store, &first, NULL));
    assert_ok(store_stamp(rig->store, &first, NULL));
    assert_int_equal(store_stamp(rig->store, &second, NULL), STORE_STALE_FENCE);
    assert_int_equal(look(rig, &a, &stock), STORE_OK);
    assert_int_equal(update(rig, 0, &second), STORE_STALE_FENCE);
    assert_int_equal(insert(rig, &a, &second), STORE_STALE_FENCE);
    assert_int_equal(update(rig, 0, &first), STORE_OK);
    assert_int_equal(insert(rig, &a, &first), STORE_OK);
    store_rig_expect_sound(rig);
}
