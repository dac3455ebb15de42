/*
 * Placing orders under a fence: who is not the holder of the lock any more sells
 * nothing, and a refusal writes nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "db/store.h"
#include "tests/support/store_rig.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

static enum store_status place_under(struct store_rig *rig,
                                     struct store_order *order,
                                     const struct store_fence *fence)
{
    struct store_order *orders[] = {order};

    return store_place(rig->store, orders, 1, fence, NULL);
}

static void test_batch_under_a_fence(void **state)
{
    struct store_rig *rig = *state;
    struct store_order order = store_rig_ask(1, 1, 1, ""), *orders[] = {&order};
    struct store_fence fence = {.name = "lock:{1}", .token = 5};
    struct store_error error;
    uint64_t token;

    store_rig_put(rig, (struct store_product){.id = 1, .initial = 10});
    assert_int_equal(store_place(rig->store, orders, 1, &fence, NULL),
                     STORE_OK);
    assert_int_equal(order.fence, 5);
    assert_int_equal(store_place(rig->store, orders, 1, &fence, NULL),
                     STORE_OK);
    fence.token = 4;
    assert_int_equal(store_place(rig->store, orders, 1, &fence, &error),
                     STORE_STALE_FENCE);
    assert_int_equal(order.status, STORE_STALE_FENCE);
    assert_string_equal(order.id, "");
    assert_non_null(strstr(error.text, "token 4"));
    fence.name = "lock:{2}";
    assert_int_equal(store_place(rig->store, orders, 1, &fence, NULL),
                     STORE_OK);
    assert_int_equal(store_fence_get(rig->reader, "lock:{1}", &token, NULL),
                     STORE_OK);
    assert_int_equal(token, 5);
    assert_int_equal(store_rig_product(rig, 1).stock, 7);
}

/* Stale for all, if one of them would be sold. */
static void test_stale_fence_writes_nothing(void **state)
{
    struct store_rig *rig = *state;
    struct store_order a = store_rig_ask(1, 1, 1, "a"),
                       b = store_rig_ask(1, 2, 1, "b");
    struct store_order *orders[] = {&a, &b};
    struct store_fence fence = {.name = "lock", .token = 2};

    store_rig_put(rig, (struct store_product){.id = 1, .initial = 10});
    assert_int_equal(store_stamp(rig->store, &fence, NULL), STORE_OK);
    fence.token = 1;
    assert_int_equal(store_place(rig->store, orders, 2, &fence, NULL),
                     STORE_STALE_FENCE);
    assert_int_equal(a.status, STORE_STALE_FENCE);
    assert_int_equal(b.status, STORE_STALE_FENCE);
    assert_int_equal(store_rig_audit(rig).orders, 0);
    assert_int_equal(store_rig_product(rig, 1).stock, 10);
}

static sqlite3 *look_in(struct store_rig *rig)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(rig->dir.db, &db), SQLITE_OK);
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
    struct store_rig *rig = *state;
    struct store_order gone = store_rig_ask(1, 2, 1, "");
    struct store_fence sold = {.name = "lock:{1}", .token = 1};
    struct store_fence fence = {.token = 7};
    sqlite3 *db = look_in(rig);
    int64_t version;
    char name[32];

    store_rig_put(rig, (struct store_product){.id = 1, .initial = 1});
    assert_int_equal(place_under(rig, &gone, &sold), STORE_OK);
    version = number_of(db, "PRAGMA data_version");
    for (int64_t id = 1; id < 20; id++) {
        struct store_order order = store_rig_ask(id, 3, 1, "k");
        snprintf(name, sizeof(name), "lock:{%d}", (int)id);
        fence.name = name;
        assert_int_equal(place_under(rig, &order, &fence), STORE_OK);
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
    struct store_rig *rig = *state;
    struct store_order few = store_rig_ask(1, 1, 2, ""),
                       one = store_rig_ask(1, 1, 1, "");
    struct store_order *both[] = {&few, &one};
    struct store_fence fence = {.name = "lock", .token = 2};

    store_rig_put(rig, (struct store_product){.id = 1, .initial = 1});
    assert_int_equal(store_stamp(rig->store, &fence, NULL), STORE_OK);
    fence.token = 1;
    assert_int_equal(place_under(rig, &few, &fence), STORE_OK);
    assert_int_equal(few.status, STORE_SOLD_OUT);
    assert_int_equal(store_place(rig->store, both, 2, &fence, NULL),
                     STORE_STALE_FENCE);
    assert_int_equal(few.status, STORE_STALE_FENCE);
    assert_int_equal(one.status, STORE_STALE_FENCE);
    assert_int_equal(store_rig_product(rig, 1).stock, 1);
}

/* Under several locks one has to be the holder of every one. */
static void test_linked_fences(void **state)
{
    struct store_rig *rig = *state;
    struct store_order order = store_rig_ask(1, 1, 1, "");
    struct store_fence none = {.name = "lock:none"};
    struct store_fence second = {.name = "lock:1", .token = 5, .also = &none};
    struct store_fence first = {.name = "lock:0", .token = 9, .also = &second};
    struct store_fence newer = {.name = "lock:1", .token = 6};
    uint64_t token;

    store_rig_put(rig, (struct store_product){.id = 1, .initial = 10});
    assert_int_equal(place_under(rig, &order, &first), STORE_OK);
    assert_int_equal(order.fence, 0); /* of several none is the order's own */
    assert_int_equal(store_fence_get(rig->reader, "lock:0", &token, NULL),
                     STORE_OK);
    assert_int_equal(token, 9);
    assert_int_equal(store_fence_get(rig->reader, "lock:1", &token, NULL),
                     STORE_OK);
    assert_int_equal(token, 5);
    assert_int_equal(store_stamp(rig->store, &newer, NULL), STORE_OK);
    first.token = 10;
    assert_int_equal(place_under(rig, &order, &first), STORE_STALE_FENCE);
    /* What was announced before the stale one was found is taken back. */
    assert_int_equal(store_fence_get(rig->reader, "lock:0", &token, NULL),
                     STORE_OK);
    assert_int_equal(token, 9);
    assert_int_equal(store_naive_update(rig->store, 1, 0, 3, &first, NULL),
                     STORE_STALE_FENCE);
    assert_int_equal(store_naive_insert(rig->store, &order, &first, NULL),
                     STORE_STALE_FENCE);
    second.token = 6;
    assert_int_equal(place_under(rig, &order, &first), STORE_OK);
    second.name = "";
    assert_int_equal(place_under(rig, &order, &first), STORE_MISUSE);
    assert_int_equal(store_rig_product(rig, 1).stock, 8);
    store_rig_expect_sound(rig);
}

static void test_fence_without_a_name(void **state)
{
    struct store_rig *rig = *state;
    struct store_order order = store_rig_ask(1, 1, 1, ""), *orders[] = {&order};
    char name[STORE_FENCE_NAME_BYTES_MAX + 2];
    struct store_fence bad[] = {{.token = 1},
                                {.name = "", .token = 1},
                                {.name = name, .token = 1},
                                {.name = "n", .token = 1ULL << 63}};

    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    store_rig_put(rig, (struct store_product){.id = 1, .initial = 1});
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(store_place(rig->store, orders, 1, &bad[i], NULL),
                         STORE_MISUSE);
    assert_int_equal(order.status, STORE_MISUSE);
    bad[3] = (struct store_fence){.name = "n", .token = 1, .owner = name};
    assert_int_equal(store_place(rig->store, orders, 1, &bad[3], NULL),
                     STORE_MISUSE);
    bad[2].name = name + 1;
    assert_int_equal(store_place(rig->store, orders, 1, &bad[2], NULL),
                     STORE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_RIG_TEST(test_batch_under_a_fence),
        STORE_RIG_TEST(test_stale_fence_writes_nothing),
        STORE_RIG_TEST(test_a_refusal_writes_nothing),
        STORE_RIG_TEST(test_stale_fence_may_refuse),
        STORE_RIG_TEST(test_linked_fences),
        STORE_RIG_TEST(test_fence_without_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
