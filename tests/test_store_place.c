/*
 * Placing orders: every way it can end, and what is in the ledger afterwards.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "db/store.h"
#include "tests/support/temp_dir.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HOUR_MS 3600000

struct fixture {
    struct temp_dir dir;
    struct store *store;
    struct store_reader *reader;
};

static int64_t wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    struct store_options options = {0};

    temp_dir_make(&fixture->dir);
    options.url = fixture->dir.url;
    assert_int_equal(store_open(&options, &fixture->store, NULL), STORE_OK);
    assert_int_equal(store_reader_open(fixture->store, &fixture->reader, NULL),
                     STORE_OK);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    store_reader_close(fixture->reader);
    store_close(fixture->store);
    temp_dir_remove(&fixture->dir);
    free(fixture);
    return 0;
}

static struct store_product product_of(int64_t id, int64_t units)
{
    const struct store_product product = {
        .id = id, .name = "Thing", .price_cents = 990, .initial = units};

    return product;
}

static void put(struct fixture *fixture, struct store_product product)
{
    assert_int_equal(store_product_put(fixture->store, &product, NULL, NULL),
                     STORE_OK);
}

static struct store_order ask(int64_t product, int64_t user, int64_t quantity,
                              const char *key)
{
    struct store_order order = {
        .product_id = product, .user_id = user, .quantity = quantity};

    snprintf(order.key, sizeof(order.key), "%s", key);
    return order;
}

static void place(struct fixture *fixture, struct store_order *order)
{
    struct store_order *orders[] = {order};

    assert_int_equal(store_place(fixture->store, orders, 1, NULL, NULL),
                     STORE_OK);
}

static enum store_status buy(struct fixture *fixture, int64_t product,
                             int64_t user, int64_t quantity, const char *key)
{
    struct store_order order = ask(product, user, quantity, key);

    place(fixture, &order);
    return order.status;
}

static int64_t stock_of(struct fixture *fixture, int64_t id)
{
    struct store_product product;

    assert_int_equal(store_product_get(fixture->reader, id, &product, NULL),
                     STORE_OK);
    return product.stock;
}

static struct store_audit audit(struct fixture *fixture)
{
    struct store_audit verdict;

    assert_int_equal(
        store_audit(fixture->reader, NULL, NULL, NULL, 0, &verdict, NULL),
        STORE_OK);
    return verdict;
}

static void test_order_is_stored_as_asked(void **state)
{
    struct fixture *fixture = *state;
    struct store_order order = ask(7, 42, 3, "k"), stored;
    int64_t before = wall_ms();

    put(fixture, product_of(7, 10));
    place(fixture, &order);
    assert_int_equal(order.status, STORE_OK);
    assert_false(order.replayed);
    assert_int_equal(order.price_cents, 990);
    assert_in_range(order.created_ms, before, wall_ms());
    assert_int_equal(order.state, STORE_PLACED);
    assert_int_equal(order.number, 1);
    assert_int_equal(store_order_get(fixture->reader, order.id, &stored, NULL),
                     STORE_OK);
    assert_int_equal(stored.product_id, 7);
    assert_int_equal(stored.user_id, 42);
    assert_int_equal(stored.quantity, 3);
    assert_int_equal(stored.created_ms, order.created_ms);
    assert_string_equal(stored.key, "k");
    assert_string_equal(stored.id, order.id);
    assert_int_equal(stock_of(fixture, 7), 7);
}

/* stock >= n, not stock > 0: the last unit must not be sold to who wants 2. */
static void test_quantity_meets_the_stock_exactly(void **state)
{
    struct fixture *fixture = *state;

    put(fixture, product_of(1, 5));
    assert_int_equal(buy(fixture, 1, 1, 6, ""), STORE_SOLD_OUT);
    assert_int_equal(buy(fixture, 1, 1, 4, ""), STORE_OK);
    assert_int_equal(buy(fixture, 1, 1, 2, ""), STORE_SOLD_OUT);
    assert_int_equal(stock_of(fixture, 1), 1);
    assert_int_equal(buy(fixture, 1, 1, 1, ""), STORE_OK);
    assert_int_equal(buy(fixture, 1, 1, 1, ""), STORE_SOLD_OUT);
    assert_int_equal(stock_of(fixture, 1), 0);
    assert_int_equal(audit(fixture).sold, 5);
    assert_true(audit(fixture).balanced);
}

static void test_no_such_product(void **state)
{
    struct fixture *fixture = *state;

    put(fixture, product_of(1, 5));
    assert_int_equal(buy(fixture, 2, 1, 1, ""), STORE_NO_PRODUCT);
    assert_int_equal(audit(fixture).orders, 0);
}

static void test_numbers_out_of_range(void **state)
{
    struct fixture *fixture = *state;
    struct store_order order = ask(1, 1, 1, "");

    put(fixture, product_of(1, STORE_NUMBER_MAX));
    assert_int_equal(buy(fixture, 0, 1, 1, ""), STORE_RANGE);
    assert_int_equal(buy(fixture, 1, 0, 1, ""), STORE_RANGE);
    assert_int_equal(buy(fixture, 1, 1, 0, ""), STORE_RANGE);
    assert_int_equal(buy(fixture, 1, 1, -1, ""), STORE_RANGE);
    assert_int_equal(buy(fixture, 1, 1, INT64_MIN, ""), STORE_RANGE);
    assert_int_equal(buy(fixture, 1, STORE_NUMBER_MAX + 1, 1, ""), STORE_RANGE);
    assert_int_equal(buy(fixture, STORE_NUMBER_MAX + 1, 1, 1, ""), STORE_RANGE);
    assert_int_equal(buy(fixture, 1, 1, STORE_NUMBER_MAX + 1, ""), STORE_RANGE);
    memset(order.key, 'x', sizeof(order.key));
    place(fixture, &order);
    assert_int_equal(order.status, STORE_RANGE);
    assert_int_equal(buy(fixture, 1, STORE_NUMBER_MAX, STORE_NUMBER_MAX, ""),
                     STORE_OK);
    assert_int_equal(stock_of(fixture, 1), 0);
    assert_true(audit(fixture).balanced);
}

static void test_window(void **state)
{
    struct fixture *fixture = *state;
    struct store_product early = product_of(1, 5), late = product_of(2, 5);
    struct store_product now = product_of(3, 5);

    early.opens_ms = wall_ms() + HOUR_MS;
    late.ends_ms = wall_ms(); /* exclusive: over in its own millisecond */
    now.opens_ms = wall_ms(); /* inclusive */
    now.ends_ms = wall_ms() + HOUR_MS;
    put(fixture, early);
    put(fixture, late);
    put(fixture, now);
    assert_int_equal(buy(fixture, 1, 1, 1, ""), STORE_NOT_OPEN);
    assert_int_equal(buy(fixture, 2, 1, 1, ""), STORE_ENDED);
    assert_int_equal(buy(fixture, 3, 1, 1, ""), STORE_OK);
    assert_int_equal(stock_of(fixture, 1), 5);
    assert_int_equal(stock_of(fixture, 2), 5);
    assert_true(audit(fixture).balanced);
}

/* Buys across one edge; the clock is read on both sides of every try. */
static void cross_edge(struct fixture *fixture, int64_t id, int64_t edge_ms)
{
    int64_t before, after;

    do {
        struct store_order early = ask(id, 1, 1, ""),
                           late = ask(id + 1, 1, 1, "");
        struct store_order *orders[] = {&early, &late};
        before = wall_ms();
        assert_int_equal(store_place(fixture->store, orders, 2, NULL, NULL),
                         STORE_OK);
        after = wall_ms();
        if (after < edge_ms)
            assert_int_equal(early.status, STORE_OK);
        if (before >= edge_ms)
            assert_int_equal(early.status, STORE_ENDED);
        if (after < edge_ms)
            assert_int_equal(late.status, STORE_NOT_OPEN);
        if (before >= edge_ms)
            assert_int_equal(late.status, STORE_OK);
        if (early.status == STORE_OK)
            assert_true(early.created_ms < edge_ms);
        if (late.status == STORE_OK)
            assert_true(late.created_ms >= edge_ms);
    } while (before <= edge_ms);
}

/* One product ends in the millisecond in which the next one opens. */
static void test_window_edges(void **state)
{
    struct fixture *fixture = *state;

    for (int64_t id = 1; id < 40; id += 2) {
        struct store_product early = product_of(id, 1000);
        struct store_product late = product_of(id + 1, 1000);
        early.ends_ms = late.opens_ms = wall_ms() + 6;
        put(fixture, early);
        put(fixture, late);
        cross_edge(fixture, id, early.ends_ms);
    }
    assert_true(audit(fixture).balanced);
}

static void test_limit_per_user(void **state)
{
    struct fixture *fixture = *state;
    struct store_product product = product_of(1, 10);

    product.limit_per_user = 3;
    put(fixture, product);
    assert_int_equal(buy(fixture, 1, 1, 4, ""), STORE_LIMIT);
    assert_int_equal(buy(fixture, 1, 1, 2, ""), STORE_OK);
    assert_int_equal(buy(fixture, 1, 1, 2, ""), STORE_LIMIT);
    assert_int_equal(stock_of(fixture, 1), 8);
    assert_int_equal(buy(fixture, 1, 1, 1, ""), STORE_OK);
    assert_int_equal(buy(fixture, 1, 1, 1, ""), STORE_LIMIT);
    assert_int_equal(buy(fixture, 1, 2, 3, ""), STORE_OK);
    assert_int_equal(stock_of(fixture, 1), 4);
    assert_true(audit(fixture).balanced);
}

/* A limit that comes later counts what was bought before it. */
static void test_limit_counts_from_before(void **state)
{
    struct fixture *fixture = *state;
    struct store_product product = product_of(1, 10);

    put(fixture, product);
    assert_int_equal(buy(fixture, 1, 1, 2, ""), STORE_OK);
    product.limit_per_user = 3;
    put(fixture, product);
    assert_int_equal(buy(fixture, 1, 1, 2, ""), STORE_LIMIT);
    assert_int_equal(buy(fixture, 1, 1, 1, ""), STORE_OK);
    /* Off, a purchase nobody counts, and on again. */
    product.limit_per_user = 0;
    put(fixture, product);
    assert_int_equal(buy(fixture, 1, 1, 2, ""), STORE_OK);
    product.limit_per_user = 6;
    put(fixture, product);
    assert_int_equal(buy(fixture, 1, 1, 2, ""), STORE_LIMIT);
    assert_int_equal(buy(fixture, 1, 1, 1, ""), STORE_OK);
    /* A lower limit makes nobody guilty afterwards. */
    product.limit_per_user = 2;
    put(fixture, product);
    assert_int_equal(buy(fixture, 1, 1, 1, ""), STORE_LIMIT);
    assert_int_equal(audit(fixture).over_limit, 0);
    assert_true(audit(fixture).balanced);
}

static void test_same_key_same_order(void **state)
{
    struct fixture *fixture = *state;
    struct store_order first = ask(1, 1, 2, "key"), again = first;

    put(fixture, product_of(1, 10));
    place(fixture, &first);
    place(fixture, &again);
    assert_int_equal(again.status, STORE_OK);
    assert_true(again.replayed);
    assert_string_equal(again.id, first.id);
    assert_int_equal(again.created_ms, first.created_ms);
    assert_int_equal(again.number, first.number);
    assert_int_equal(stock_of(fixture, 1), 8);
    assert_int_equal(audit(fixture).orders, 1);
}

static void test_same_key_other_order(void **state)
{
    struct fixture *fixture = *state;

    put(fixture, product_of(1, 10));
    put(fixture, product_of(2, 10));
    assert_int_equal(buy(fixture, 1, 1, 1, "key"), STORE_OK);
    assert_int_equal(buy(fixture, 1, 1, 2, "key"), STORE_KEY_REUSED);
    assert_int_equal(buy(fixture, 1, 2, 1, "key"), STORE_KEY_REUSED);
    assert_int_equal(buy(fixture, 2, 1, 1, "key"), STORE_KEY_REUSED);
    assert_int_equal(stock_of(fixture, 1), 9);
    assert_int_equal(stock_of(fixture, 2), 10);
    assert_true(audit(fixture).balanced);
}

/* Who has bought has bought, whatever became of the sale since. */
static void test_replay_outlives_stock_and_sale(void **state)
{
    struct fixture *fixture = *state;
    struct store_product product = product_of(1, 1);
    struct store_order again = ask(1, 1, 1, "key");

    product.limit_per_user = 1;
    put(fixture, product);
    assert_int_equal(buy(fixture, 1, 1, 1, "key"), STORE_OK);
    assert_int_equal(buy(fixture, 1, 2, 1, ""), STORE_SOLD_OUT);
    place(fixture, &again);
    assert_int_equal(again.status, STORE_OK);
    assert_true(again.replayed);
    product.ends_ms = 1;
    put(fixture, product);
    place(fixture, &again);
    assert_int_equal(again.status, STORE_OK);
    assert_true(again.replayed);
}

/* A refusal is no order: the same key may try again later. */
static void test_refusal_does_not_use_the_key_up(void **state)
{
    struct fixture *fixture = *state;
    struct store_product product;

    put(fixture, product_of(1, 1));
    assert_int_equal(buy(fixture, 1, 1, 2, "key"), STORE_SOLD_OUT);
    assert_int_equal(store_restock(fixture->store, 1, 1, "", &product, NULL),
                     STORE_OK);
    assert_int_equal(buy(fixture, 1, 1, 2, "key"), STORE_OK);
}

static void test_batch_decides_in_order(void **state)
{
    struct fixture *fixture = *state;
    struct store_order asked[] = {
        ask(1, 1, 2, "a"), ask(1, 2, 2, ""),  ask(2, 3, 1, ""),
        ask(1, 1, 2, "a"), ask(1, 1, 1, "a"), ask(1, 4, 1, ""),
        ask(9, 4, 1, ""),  ask(1, 5, 0, ""),  ask(1, 6, 1, ""),
    };
    const enum store_status want[] = {
        STORE_OK,         STORE_SOLD_OUT,   STORE_OK,
        STORE_OK,         STORE_KEY_REUSED, STORE_OK,
        STORE_NO_PRODUCT, STORE_RANGE,      STORE_SOLD_OUT};
    struct store_order *orders[9];

    put(fixture, product_of(1, 3));
    put(fixture, product_of(2, 3));
    for (size_t i = 0; i < 9; i++)
        orders[i] = &asked[i];
    assert_int_equal(store_place(fixture->store, orders, 9, NULL, NULL),
                     STORE_OK);
    for (size_t i = 0; i < 9; i++)
        assert_int_equal(asked[i].status, want[i]);
    assert_true(asked[3].replayed);
    assert_string_equal(asked[3].id, asked[0].id);
    assert_true(asked[2].number > asked[0].number);
    assert_true(asked[5].number > asked[2].number);
    assert_int_equal(audit(fixture).orders, 3);
    assert_true(audit(fixture).balanced);
}

/* Rows are written several at a time: each must get its own number and id. */
static void test_large_batch(void **state)
{
    enum { ORDERS = 203, SPLIT_AT = 21, OTHER_AT = 10 };
    enum { AGAIN_AT = 71, UNITS = 4 };
    struct fixture *fixture = *state;
    struct store_product split = product_of(1, 250), other = product_of(2, 90);
    static struct store_order asked[ORDERS];
    struct store_order *orders[ORDERS], found;
    int64_t number = 0;

    split.segments = 125; /* of two units: some orders need three of them */
    other.price_cents = 5;
    put(fixture, split);
    put(fixture, other);
    for (int i = 0; i < ORDERS; i++) {
        asked[i] =
            ask(i % OTHER_AT ? 1 : 2, i + 1, i % SPLIT_AT ? 1 : UNITS, "");
        asked[i].segment = STORE_SEGMENT_ANY;
        orders[i] = &asked[i];
        if (i % 3 == 0)
            snprintf(asked[i].key, sizeof(asked[i].key), "%d", i);
    }
    /* Its like waits to be written as well. */
    asked[AGAIN_AT] = asked[AGAIN_AT - 2];
    assert_int_equal(store_place(fixture->store, orders, ORDERS, NULL, NULL),
                     STORE_OK);
    for (int i = 0; i < ORDERS; i++) {
        assert_int_equal(asked[i].status, STORE_OK);
        assert_int_equal(asked[i].replayed, i == AGAIN_AT);
        if (i != AGAIN_AT)
            assert_int_equal(asked[i].number, ++number);
        assert_int_equal(
            store_order_get(fixture->reader, asked[i].id, &found, NULL),
            STORE_OK);
        assert_int_equal(found.user_id, asked[i].user_id);
        assert_string_equal(found.key, asked[i].key);
        assert_int_equal(found.quantity, asked[i].quantity);
        assert_int_equal(found.price_cents, i % OTHER_AT ? 990 : 5);
        assert_int_equal(asked[i].price_cents, found.price_cents);
        assert_int_equal(asked[i].created_ms, found.created_ms);
        assert_int_equal(found.from_segment, asked[i].from_segment);
    }
    assert_string_equal(asked[AGAIN_AT].id, asked[AGAIN_AT - 2].id);
    assert_true(audit(fixture).balanced);
}

static void test_empty_batch(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(store_place(fixture->store, NULL, 0, NULL, NULL),
                     STORE_OK);
}

static void test_batch_under_a_fence(void **state)
{
    struct fixture *fixture = *state;
    struct store_order order = ask(1, 1, 1, ""), *orders[] = {&order};
    struct store_fence fence = {.name = "lock:{1}", .token = 5};
    struct store_error error;
    uint64_t token;

    put(fixture, product_of(1, 10));
    assert_int_equal(store_place(fixture->store, orders, 1, &fence, NULL),
                     STORE_OK);
    assert_int_equal(order.fence, 5);
    assert_int_equal(store_place(fixture->store, orders, 1, &fence, NULL),
                     STORE_OK);
    fence.token = 4;
    assert_int_equal(store_place(fixture->store, orders, 1, &fence, &error),
                     STORE_STALE_FENCE);
    assert_int_equal(order.status, STORE_STALE_FENCE);
    assert_string_equal(order.id, "");
    assert_non_null(strstr(error.text, "token 4"));
    fence.name = "lock:{2}";
    assert_int_equal(store_place(fixture->store, orders, 1, &fence, NULL),
                     STORE_OK);
    assert_int_equal(store_fence_get(fixture->reader, "lock:{1}", &token, NULL),
                     STORE_OK);
    assert_int_equal(token, 5);
    assert_int_equal(stock_of(fixture, 1), 7);
}

/* Stale for all, if one of them would be sold. */
static void test_stale_fence_writes_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct store_order a = ask(1, 1, 1, "a"), b = ask(1, 2, 1, "b");
    struct store_order *orders[] = {&a, &b};
    struct store_fence fence = {.name = "lock", .token = 2};

    put(fixture, product_of(1, 10));
    assert_int_equal(store_stamp(fixture->store, &fence, NULL), STORE_OK);
    fence.token = 1;
    assert_int_equal(store_place(fixture->store, orders, 2, &fence, NULL),
                     STORE_STALE_FENCE);
    assert_int_equal(a.status, STORE_STALE_FENCE);
    assert_int_equal(b.status, STORE_STALE_FENCE);
    assert_int_equal(audit(fixture).orders, 0);
    assert_int_equal(stock_of(fixture, 1), 10);
}

static enum store_status place_under(struct fixture *fixture,
                                     struct store_order *order,
                                     const struct store_fence *fence)
{
    struct store_order *orders[] = {order};

    return store_place(fixture->store, orders, 1, fence, NULL);
}

static sqlite3 *look_in(struct fixture *fixture)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(fixture->dir.db, &db), SQLITE_OK);
    return db;
}

static int64_t number_of(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *query;
    int64_t number;

    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &query, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(query), SQLITE_ROW);
    number = sqlite3_column_int64(query, 0);
    sqlite3_finalize(query);
    return number;
}

/* Anybody may ask for a product that is not there, again and again: that must
 * leave nothing in the database, and write nothing. Nor what is sold out. */
static void test_a_refusal_writes_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct store_order gone = ask(1, 2, 1, "");
    struct store_fence sold = {.name = "lock:{1}", .token = 1};
    struct store_fence fence = {.token = 7};
    sqlite3 *db = look_in(fixture);
    int64_t version;
    char name[32];

    put(fixture, product_of(1, 1));
    assert_int_equal(place_under(fixture, &gone, &sold), STORE_OK);
    version = number_of(db, "PRAGMA data_version");
    for (int64_t id = 1; id < 20; id++) {
        struct store_order order = ask(id, 3, 1, "k");
        snprintf(name, sizeof(name), "lock:{%d}", (int)id);
        fence.name = name;
        assert_int_equal(place_under(fixture, &order, &fence), STORE_OK);
        assert_int_equal(order.status,
                         id == 1 ? STORE_SOLD_OUT : STORE_NO_PRODUCT);
    }
    assert_int_equal(number_of(db, "SELECT COUNT(*) FROM fences"), 1);
    assert_int_equal(number_of(db, "PRAGMA data_version"), version);
    sqlite3_close(db);
}

/* What the database says is true, whoever asks; but he sells no more. */
static void test_stale_fence_may_refuse(void **state)
{
    struct fixture *fixture = *state;
    struct store_order few = ask(1, 1, 2, ""), one = ask(1, 1, 1, "");
    struct store_order *both[] = {&few, &one};
    struct store_fence fence = {.name = "lock", .token = 2};

    put(fixture, product_of(1, 1));
    assert_int_equal(store_stamp(fixture->store, &fence, NULL), STORE_OK);
    fence.token = 1;
    assert_int_equal(place_under(fixture, &few, &fence), STORE_OK);
    assert_int_equal(few.status, STORE_SOLD_OUT);
    assert_int_equal(store_place(fixture->store, both, 2, &fence, NULL),
                     STORE_STALE_FENCE);
    assert_int_equal(few.status, STORE_STALE_FENCE);
    assert_int_equal(one.status, STORE_STALE_FENCE);
    assert_int_equal(stock_of(fixture, 1), 1);
}

/* Under several locks one has to be the holder of every one. */
static void test_linked_fences(void **state)
{
    struct fixture *fixture = *state;
    struct store_order order = ask(1, 1, 1, "");
    struct store_fence none = {.name = "lock:none"};
    struct store_fence second = {.name = "lock:1", .token = 5, .also = &none};
    struct store_fence first = {.name = "lock:0", .token = 9, .also = &second};
    struct store_fence newer = {.name = "lock:1", .token = 6};
    uint64_t token;

    put(fixture, product_of(1, 10));
    assert_int_equal(place_under(fixture, &order, &first), STORE_OK);
    assert_int_equal(order.fence, 0); /* of several none is the order's own */
    assert_int_equal(store_fence_get(fixture->reader, "lock:0", &token, NULL),
                     STORE_OK);
    assert_int_equal(token, 9);
    assert_int_equal(store_fence_get(fixture->reader, "lock:1", &token, NULL),
                     STORE_OK);
    assert_int_equal(token, 5);
    assert_int_equal(store_stamp(fixture->store, &newer, NULL), STORE_OK);
    first.token = 10;
    assert_int_equal(place_under(fixture, &order, &first), STORE_STALE_FENCE);
    /* What was announced before the stale one was found is taken back. */
    assert_int_equal(store_fence_get(fixture->reader, "lock:0", &token, NULL),
                     STORE_OK);
    assert_int_equal(token, 9);
    assert_int_equal(store_naive_update(fixture->store, 1, 0, 3, &first, NULL),
                     STORE_STALE_FENCE);
    assert_int_equal(store_naive_insert(fixture->store, &order, &first, NULL),
                     STORE_STALE_FENCE);
    second.token = 6;
    assert_int_equal(place_under(fixture, &order, &first), STORE_OK);
    second.name = "";
    assert_int_equal(place_under(fixture, &order, &first), STORE_MISUSE);
    assert_int_equal(stock_of(fixture, 1), 8);
    assert_true(audit(fixture).balanced);
}

static void test_fence_without_a_name(void **state)
{
    struct fixture *fixture = *state;
    struct store_order order = ask(1, 1, 1, ""), *orders[] = {&order};
    char name[STORE_FENCE_NAME_BYTES_MAX + 2];
    struct store_fence bad[] = {{.token = 1},
                                {.name = "", .token = 1},
                                {.name = name, .token = 1},
                                {.name = "n", .token = 1ULL << 63}};

    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    put(fixture, product_of(1, 1));
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(store_place(fixture->store, orders, 1, &bad[i], NULL),
                         STORE_MISUSE);
    assert_int_equal(order.status, STORE_MISUSE);
    bad[3] = (struct store_fence){.name = "n", .token = 1, .owner = name};
    assert_int_equal(store_place(fixture->store, orders, 1, &bad[3], NULL),
                     STORE_MISUSE);
    bad[2].name = name + 1;
    assert_int_equal(store_place(fixture->store, orders, 1, &bad[2], NULL),
                     STORE_OK);
}

static void test_every_status_has_a_text(void **state)
{
    (void)state;
    for (int i = 0; i < STORE_STATUS_N; i++)
        assert_true(strlen(store_status_text((enum store_status)i)) > 0);
    assert_string_equal(store_status_text(STORE_STATUS_N), "unknown status");
}

#define WITH_STORE(test)                                                       \
    cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(test_order_is_stored_as_asked),
        WITH_STORE(test_quantity_meets_the_stock_exactly),
        WITH_STORE(test_no_such_product),
        WITH_STORE(test_numbers_out_of_range),
        WITH_STORE(test_window),
        WITH_STORE(test_window_edges),
        WITH_STORE(test_limit_per_user),
        WITH_STORE(test_limit_counts_from_before),
        WITH_STORE(test_same_key_same_order),
        WITH_STORE(test_same_key_other_order),
        WITH_STORE(test_replay_outlives_stock_and_sale),
        WITH_STORE(test_refusal_does_not_use_the_key_up),
        WITH_STORE(test_batch_decides_in_order),
        WITH_STORE(test_large_batch),
        WITH_STORE(test_empty_batch),
        WITH_STORE(test_batch_under_a_fence),
        WITH_STORE(test_stale_fence_writes_nothing),
        WITH_STORE(test_a_refusal_writes_nothing),
        WITH_STORE(test_stale_fence_may_refuse),
        WITH_STORE(test_linked_fences),
        WITH_STORE(test_fence_without_a_name),
        cmocka_unit_test(test_every_status_has_a_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
