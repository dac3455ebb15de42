/*
 * Placing an order: every way it can end, and what is in the ledger afterwards; what a
 * cancel gives back to a limit, and that ids cannot be guessed. A second cancel:
 * test_store_meet.c, test_store_holds.c; keys: test_store_keys.c.
 */
#include "tests/support/store_rig.h"
#include "tests/support/store_wait.h"

STORE_TEST(test_order_is_stored_as_asked)
{
    const struct store_product product = {
        .id = 7, .price_cents = 990, .initial = 10};
    struct store_order order = store_rig_ask(7, 42, 3, "k"), stored;
    int64_t before = store_rig_wall_ms();

    store_rig_put(rig, product);
    store_rig_place(rig, &order);
    assert_int_equal(order.status, STORE_OK);
    assert_false(order.replayed);
    assert_int_equal(order.price_cents, 990);
    assert_in_range(order.created_ms, before, store_rig_wall_ms());
    assert_int_equal(order.state, STORE_PLACED);
    assert_int_equal(order.number, 1);
    assert_ok(store_order_get(rig->reader, order.id, &stored, NULL));
    assert_int_equal(stored.product_id, 7);
    assert_int_equal(stored.user_id, 42);
    assert_int_equal(stored.quantity, 3);
    assert_int_equal(stored.created_ms, order.created_ms);
    assert_string_equal(stored.key, "k");
    assert_string_equal(stored.id, order.id);
    assert_int_equal(store_rig_product(rig, 7).stock, 7);
}

/* An order after the other, and how each ends. */
struct sale {
    int64_t product_id, user_id, quantity;
    const char *key;
    enum store_status status;
};

static void expect_sales(struct store_rig *rig, const struct sale sales[],
                         size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct sale *it = &sales[i];
        enum store_status status = store_rig_buy(
            rig, it->product_id, it->user_id, it->quantity, it->key);
        if (status != it->status)
            fail_msg("order %zu: %s", i, store_status_text(status));
    }
}

#define EXPECT_SALES(rig, ...)                                                 \
    expect_sales(rig, (const struct sale[]){__VA_ARGS__},                      \
                 sizeof((const struct sale[]){__VA_ARGS__}) /                  \
                     sizeof(struct sale))

static void expect_left(struct store_rig *rig, int64_t stock)
{
    assert_int_equal(store_rig_product(rig, 1).stock, stock);
    store_rig_expect_sound(rig);
}

/* stock >= n, not stock > 0: the last unit must not be sold to who wants 2. */
STORE_TEST(test_quantity_meets_the_stock_exactly)
{
    store_rig_put(rig, (struct store_product){.id = 1, .initial = 5});
    EXPECT_SALES(rig, {1, 1, 6, "", STORE_SOLD_OUT}, {1, 1, 4, "", STORE_OK},
                 {1, 1, 2, "", STORE_SOLD_OUT});
    expect_left(rig, 1);
    EXPECT_SALES(rig, {1, 1, 1, "", STORE_OK}, {1, 1, 1, "", STORE_SOLD_OUT});
    expect_left(rig, 0);
}

STORE_TEST(test_numbers_out_of_range)
{
    struct store_order order = store_rig_ask(1, 1, 1, "");
    const int64_t most = STORE_NUMBER_MAX;

    memset(order.key, 'x', sizeof(order.key));
    store_rig_put(rig, (struct store_product){.id = 1, .initial = most});
    store_rig_place(rig, &order);
    assert_int_equal(order.status, STORE_RANGE);
    EXPECT_SALES(
        rig, {0, 1, 1, "", STORE_RANGE}, {1, 0, 1, "", STORE_RANGE},
        {1, 1, 0, "", STORE_RANGE}, {1, 1, -1, "", STORE_RANGE},
        {1, 1, INT64_MIN, "", STORE_RANGE}, {1, most + 1, 1, "", STORE_RANGE},
        {most + 1, 1, 1, "", STORE_RANGE}, {1, 1, most + 1, "", STORE_RANGE},
        {1, most, most, "", STORE_OK});
    expect_left(rig, 0);
}

/* ---- when --------------------------------------------------------------- */

/* Buys across one edge; the clock is read on both sides of every try. */
static void cross_edge(struct store_rig *rig, int64_t id, int64_t edge_ms)
{
    int64_t before, after;

    do {
        struct store_order early = store_rig_ask(id, 1, 1, ""),
                           late = store_rig_ask(id + 1, 1, 1, "");
        struct store_order *orders[] = {&early, &late};
        before = store_rig_wall_ms();
        assert_ok(store_place(rig->store, orders, 2, NULL, NULL));
        after = store_rig_wall_ms();
        if (after < edge_ms) {
            assert_int_equal(early.status, STORE_OK);
            assert_int_equal(late.status, STORE_NOT_OPEN);
        }
        if (before >= edge_ms) {
            assert_int_equal(early.status, STORE_ENDED);
            assert_int_equal(late.status, STORE_OK);
        }
        if (early.status == STORE_OK)
            assert_true(early.created_ms < edge_ms);
        if (late.status == STORE_OK)
            assert_true(late.created_ms >= edge_ms);
    } while (before <= edge_ms);
}

/* One product ends in the millisecond in which the next one opens. */
STORE_TEST(test_window_edges)
{
    for (int64_t id = 1; id < 40; id += 2) {
        struct store_product early = {.id = id, .initial = 1000};
        struct store_product late = {.id = id + 1, .initial = 1000};
        early.ends_ms = late.opens_ms = store_rig_wall_ms() + 6;
        store_rig_put(rig, early);
        store_rig_put(rig, late);
        cross_edge(rig, id, early.ends_ms);
    }
    store_rig_expect_sound(rig);
}

/* ---- under a key -------------------------------------------------------- */

/* Who has bought has bought, whatever became of the sale since. */
STORE_TEST(test_replay_outlives_stock_and_sale)
{
    struct store_product product = {.id = 1, .initial = 1, .limit_per_user = 1};
    struct store_order again = store_rig_ask(1, 1, 1, "key");

    store_rig_put(rig, product);
    EXPECT_SALES(rig, {1, 1, 1, "key", STORE_OK},
                 {1, 2, 1, "", STORE_SOLD_OUT});
    for (int64_t ends_ms = 0; ends_ms < 2; ends_ms++) {
        product.ends_ms = ends_ms;
        store_rig_put(rig, product);
        store_rig_place(rig, &again);
        assert_int_equal(again.status, STORE_OK);
        assert_true(again.replayed);
    }
}

/* A refusal is no order: the same key may try again later. */
STORE_TEST(test_refusal_does_not_use_the_key_up)
{
    store_rig_put(rig, (struct store_product){.id = 1, .initial = 1});
    assert_int_equal(store_rig_buy(rig, 1, 1, 2, "key"), STORE_SOLD_OUT);
    store_rig_restock(rig, 1);
    assert_ok(store_rig_buy(rig, 1, 1, 2, "key"));
}

/* ---- under a fence ------------------------------------------------------- */

static enum store_status place_under(struct store_rig *rig,
                                     struct store_order *order,
                                     const struct store_fence *fence)
{
    struct store_order *orders[] = {order};

    return store_place(rig->store, orders, 1, fence, NULL);
}

/* Anybody may ask for a product that is not there, again and again: that must
 * leave nothing in the database, and write nothing. Nor what is sold out. */
STORE_TEST(test_a_refusal_writes_nothing)
{
    struct store_order gone = store_rig_ask(1, 2, 1, "");
    struct store_fence sold = {.name = "lock:{1}", .token = 1};
    struct store_fence fence = {.token = 7};
    int64_t version;
    sqlite3 *db;

    store_rig_put(rig, (struct store_product){.id = 1, .initial = 1});
    assert_int_equal(place_under(rig, &gone, &sold), STORE_OK);
    db = store_rig_connect(rig, "");
    version = store_rig_number(db, "PRAGMA data_version");
    for (int64_t id = 1; id < 20; id++) {
        struct store_order order = store_rig_ask(id, 3, 1, "k");
        fence.name = text_of("lock:{%d}", (int)id);
        assert_int_equal(place_under(rig, &order, &fence), STORE_OK);
        assert_int_equal(order.status,
                         id == 1 ? STORE_SOLD_OUT : STORE_NO_PRODUCT);
    }
    assert_int_equal(store_rig_number(db, "SELECT COUNT(*) FROM fences"), 1);
    assert_int_equal(store_rig_number(db, "PRAGMA data_version"), version);
    sqlite3_close(db);
}

/* What the database says is true, whoever asks. But he sells no more: if one of
 * the orders would be sold, all are stale. */
STORE_TEST(test_stale_fence_may_refuse)
{
    struct store_order few = store_rig_ask(1, 1, 2, "a"),
                       one = store_rig_ask(1, 2, 1, "b");
    struct store_order *both[] = {&few, &one};
    struct store_fence fence = {.name = "lock", .token = 2};

    store_rig_put(rig, (struct store_product){.id = 1, .initial = 1});
    assert_ok(store_stamp(rig->store, &fence, NULL));
    fence.token = 1;
    assert_int_equal(place_under(rig, &few, &fence), STORE_OK);
    assert_int_equal(few.status, STORE_SOLD_OUT);
    assert_int_equal(store_place(rig->store, both, 2, &fence, NULL),
                     STORE_STALE_FENCE);
    assert_int_equal(few.status, STORE_STALE_FENCE);
    assert_int_equal(one.status, STORE_STALE_FENCE);
    assert_int_equal(store_rig_audit(rig).orders, 0);
    expect_left(rig, 1);
}

/* ---- afterwards ------------------------------------------------------------ */

static void put(struct store_rig *rig, int64_t limit)
{
    store_rig_put(rig, (struct store_product){
                           .id = 1, .initial = 1000, .limit_per_user = limit});
}

static struct store_order buy(struct store_rig *rig, int64_t quantity)
{
    struct store_order order = store_rig_ask(1, 1, quantity, "");

    store_rig_place(rig, &order);
    return order;
}

static enum store_status get(struct store_rig *rig, const char *id)
{
    struct store_order order;

    return store_order_get(rig->reader, id, &order, NULL);
}

/* Also bought without a limit and cancelled with one, and the other way round. */
STORE_TEST(test_cancel_frees_the_users_limit)
{
    struct store_order order;

    put(rig, 0);
    order = buy(rig, 5);
    put(rig, 5);
    assert_int_equal(buy(rig, 1).status, STORE_LIMIT);
    for (int i = 0; i < 2; i++) /* once */
        assert_int_equal(store_cancel(rig->store, order.id, &order, NULL),
                         STORE_OK);
    order = buy(rig, 5);
    assert_int_equal(order.status, STORE_OK);
    assert_int_equal(buy(rig, 1).status, STORE_LIMIT);
    put(rig, 0);
    assert_int_equal(store_cancel(rig->store, order.id, &order, NULL),
                     STORE_OK);
    put(rig, 5);
    assert_int_equal(buy(rig, 5).status, STORE_OK);
    store_rig_expect_sound(rig);
}

/* The purchases kept from an earlier limit are fewer than the order's units. */
STORE_TEST(test_cancel_before_a_limit_is_counted)
{
    struct store_order order;

    put(rig, 5);
    assert_int_equal(buy(rig, 1).status, STORE_OK);
    put(rig, 0);
    order = buy(rig, 4);
    put(rig, 5);
    assert_int_equal(store_cancel(rig->store, order.id, &order, NULL),
                     STORE_OK);
    assert_int_equal(buy(rig, 4).status, STORE_OK);
    assert_int_equal(buy(rig, 1).status, STORE_LIMIT);
    store_rig_expect_sound(rig);
}

/* The number is no secret; whoever knows it still needs the rest. */
STORE_TEST(test_ids_cannot_be_guessed)
{
    struct store_order a, b, c;
    char *secret, mixed[STORE_ID_BYTES_MAX + 1];

    put(rig, 0);
    a = buy(rig, 1);
    b = buy(rig, 1);
    secret = strchr(a.id, '-') + 1;
    assert_int_equal(strlen(secret), 16);
    assert_string_not_equal(secret, strchr(b.id, '-') + 1);
    snprintf(mixed, sizeof(mixed), "%d-%s", (int)b.number, secret);
    assert_int_equal(get(rig, mixed), STORE_NO_ORDER);
    assert_int_equal(store_cancel(rig->store, mixed, &c, NULL), STORE_NO_ORDER);
    for (int i = 0; i < 16; i++) {
        memcpy(mixed, a.id, sizeof(mixed));
        mixed[strlen(mixed) - 1 - (size_t)i] ^= 1;
        assert_int_equal(get(rig, mixed), STORE_NO_ORDER);
    }
    assert_int_equal(get(rig, a.id), STORE_OK);
    assert_int_equal(store_rig_product(rig, 1).stock, 998);
}

STORE_TEST(test_texts_that_are_no_ids)
{
    struct store_order order;
    const char *secret;
    /* Ids without the secret, which comes behind them. */
    const char *const forms[] = {" 1-",  "+1-", "01-", "1 -",
                                 "1-0x", "-1-", "1--", "1",
                                 "0-",   "2-",  "",    "99999999999999999999-"};

    put(rig, 0);
    order = buy(rig, 1);
    secret = strchr(order.id, '-') + 1;
    for (size_t i = 0; i < COUNT_OF(forms); i++)
        assert_int_equal(get(rig, text_of("%s%s", forms[i], secret)),
                         STORE_NO_ORDER);
    assert_int_equal(get(rig, text_of("%s ", order.id)), STORE_NO_ORDER);
    assert_int_equal(get(rig, "1-"), STORE_NO_ORDER);
    assert_int_equal(get(rig, ""), STORE_NO_ORDER);
}
