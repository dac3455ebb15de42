/*
 * Placing an order: every way it can end, and what is in the ledger afterwards; what a
 * cancel gives back to a limit, and that ids cannot be guessed. A second cancel:
 * test_store_meet.c, test_store_holds.c; keys: test_store_keys.c.
 */
#include "tests/support/store_story.h"
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

/* The last lot's fence is known, and not read again: but whose it was is, too. */
STORE_TEST(test_a_token_is_its_owners)
{
    struct store_fence fence = {"lock:1", 10, "me", false};
    struct store_order order = store_rig_ask(1, 1, 1, ""), *orders[] = {&order};

    store_rig_put(rig, (struct store_product){.id = 1, .initial = 10});
    assert_ok(store_place(rig->store, orders, 1, &fence, NULL));
    fence.owner = "other";
    assert_int_equal(store_place(rig->store, orders, 1, &fence, NULL),
                     STORE_STALE_FENCE);
    assert_int_equal(store_rig_product(rig, 1).stock, 9);
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

/* ---- what is left behind --------------------------------------------------- */

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

/* ---- ids ------------------------------------------------------------------------ */

static struct store_order buy(struct store_rig *rig)
{
    struct store_order order = store_rig_ask(1, 1, 1, "");

    store_rig_place(rig, &order);
    return order;
}

static enum store_status get(struct store_rig *rig, const char *id)
{
    struct store_order order;

    return store_order_get(rig->reader, id, &order, NULL);
}

/* The number is no secret; whoever knows it still needs the rest. */
STORE_TEST(test_ids_cannot_be_guessed)
{
    struct store_order a, b, c;
    char *secret, mixed[STORE_ID_BYTES_MAX + 1];

    store_rig_put(rig, (struct store_product){.id = 1, .initial = 1000});
    a = buy(rig);
    b = buy(rig);
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

/* Nor from one of those that were written with it. */
STORE_TEST(test_ids_of_one_statement_have_nothing_in_common)
{
    enum { N = 64 };
    struct store_order orders[N], *all[N];

    store_rig_put(rig, (struct store_product){.id = 1, .initial = N});
    for (int i = 0; i < N; i++) {
        orders[i] = store_rig_ask(1, 1, 1, "");
        all[i] = &orders[i];
    }
    assert_ok(store_place(rig->store, all, N, NULL, NULL));
    for (int i = 0; i < N; i++)
        for (int j = 0; j < i; j++)
            assert_true(orders[i].secret != orders[j].secret);
}

STORE_TEST(test_texts_that_are_no_ids)
{
    struct store_order order;
    const char *secret;
    /* Ids without the secret, which comes behind them. */
    const char *const forms[] = {" 1-",  "+1-", "01-", "1 -",
                                 "1-0x", "-1-", "1--", "1",
                                 "0-",   "2-",  "",    "99999999999999999999-"};

    store_rig_put(rig, (struct store_product){.id = 1, .initial = 1000});
    order = buy(rig);
    secret = strchr(order.id, '-') + 1;
    for (size_t i = 0; i < COUNT_OF(forms); i++)
        assert_int_equal(get(rig, text_of("%s%s", forms[i], secret)),
                         STORE_NO_ORDER);
    assert_int_equal(get(rig, text_of("%s ", order.id)), STORE_NO_ORDER);
    assert_int_equal(get(rig, "1-"), STORE_NO_ORDER);
    assert_int_equal(get(rig, ""), STORE_NO_ORDER);
}

/* ---- how it ends ---------------------------------------------------------------- */

static const struct store_story stories[] = {
    /* stock >= n, not stock > 0: the last unit must not be sold to who wants 2. */
    {"the quantity meets the stock exactly",
     "put units=5; a buys 6 -> sold-out; a buys 4; a buys 2 -> sold-out; "
     "left 1; a buys 1; a buys 1 -> sold-out; left 0"},
    {"numbers out of range",
     "put units=max; a buys 1 of=0 -> range; a buys 1 user=0 -> range; "
     "a buys 0 -> range; a buys -1 -> range; "
     "a buys -9223372036854775808 -> range; a buys 1 user=max+1 -> range; "
     "a buys 1 of=max+1 -> range; a buys max+1 -> range; a buys max user=max; "
     "left 0"},

    /* Who has bought has bought, whatever became of the sale since. */
    {"a replay outlives stock and sale",
     "put units=1 limit=1; a buys 1 key=k; b buys 1 user=2 -> sold-out; "
     "b buys 1 key=k -> again; put ends=1; b buys 1 key=k -> again same=a"},
    {"a refusal is no order: the same key may try again later",
     "put units=1; a buys 2 key=k -> sold-out; restock 1; a buys 2 key=k"},
    {"a key is of one restock, of one product",
     "put units=3; put of=2 units=3; restock 5 key=k; "
     "restock 5 of=2 key=k -> key-reused; left 3 of=2"},
    {"restocks stay in range",
     "put units=max-10; restock 0 -> range; restock -1 -> range; "
     "restock 9223372036854775807 -> range; restock 11 key=k -> range; "
     "restock 10 key=k; restock 1 -> range; left max"},

    /* What the database says is true, whoever asks. But if one of the orders would be
     * sold, all are stale. */
    {"a stale fence may refuse, and sells no more",
     "put units=1; stamp lock/2; a buys 2 key=a under=lock/1 -> sold-out; "
     "a asks 2 key=a; b asks 1 user=2 key=b; "
     "go under=lock/1 -> stale-fence; a was -> stale-fence; "
     "b was -> stale-fence; audit orders=0; left 1"},

    /* Also bought without a limit and cancelled with one, and the other way round. */
    {"a cancel frees the user's limit, once",
     "put units=1000; a buys 5; put limit=5; b buys 1 -> limit; a cancels; "
     "a cancels -> again; a buys 5; b buys 1 -> limit; put limit=0; a cancels; "
     "put limit=5; a buys 5; left 995"},
    {"the purchases kept from an earlier limit are fewer than the order's",
     "put units=1000 limit=5; a buys 1; put limit=0; a buys 4; put limit=5; "
     "a cancels; b buys 4; b buys 1 -> limit; left 995"},
};
STORE_STORIES(stories)
