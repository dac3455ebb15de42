/*
 * What the committer remembers between two transactions is forgotten as soon as
 * anything has changed: each test sells once, so that the product, its stock and
 * its fence are known, has something change, and sells again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "db/recall.h"
#include "db/shelf.h"
#include "db/store.h"
#include "db/store_stream.h"
#include "tests/support/store_rig.h"

#define STOCK 5
#define MANY  10000 /* more than are kept */

struct fixture {
    struct store_rig rig;
    struct store_rig_feed feed;
    const char *failing; /* the step that fails */
    struct store_fence fence;
};

static enum store_verdict on_step(void *ctx, const char *step,
                                  int64_t product_id, enum store_phase phase)
{
    const struct fixture *f = ctx;

    (void)product_id;
    return phase == STORE_BEFORE && f->failing && !strcmp(step, f->failing)
               ? STORE_FAIL
               : STORE_GO;
}

static void put(struct fixture *f, struct store_product product)
{
    product.initial = STOCK;
    store_rig_put(&f->rig, product);
}

static int open_store(void **state, bool shared)
{
    struct fixture *f = calloc(1, sizeof(*f));
    const struct store_options options = {
        .shared = shared, .busy_ms = 200, .on_step = on_step, .on_step_ctx = f};

    store_rig_begin(&f->rig);
    store_rig_open(&f->rig, options);
    store_rig_feed_open(&f->feed, &f->rig);
    put(f, (struct store_product){.id = 1});
    f->fence = (struct store_fence){"lock:1", 10, "me", false, NULL};
    *state = f;
    return 0;
}

static int set_up(void **state)
{
    return open_store(state, false);
}

static int set_up_shared(void **state)
{
    return open_store(state, true);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    store_rig_feed_close(&f->feed);
    store_rig_end(&f->rig);
    free(f);
    return 0;
}

/* An order of product 1 on its own; says what became of it. */
static enum store_status buy(struct fixture *f, int64_t quantity,
                             struct store_order *order)
{
    struct store_order mine = {
        .product_id = 1, .user_id = 7, .quantity = quantity};
    struct store_order *orders[] = {&mine};
    struct store_lot lot = {.orders = orders, .n = 1, .fence = &f->fence};

    store_rig_feed_go(&f->feed, &lot, 1);
    if (order)
        *order = mine;
    return mine.status;
}

/* Somebody else, with a connection of his own. */
static void elsewhere(const struct fixture *f, const char *sql)
{
    sqlite3 *handle;
    char *error = NULL;

    assert_int_equal(sqlite3_open(f->rig.dir.db, &handle), SQLITE_OK);
    sqlite3_busy_timeout(handle, 5000);
    if (sqlite3_exec(handle, sql, NULL, NULL, &error) != SQLITE_OK)
        fail_msg("%s", error);
    sqlite3_close(handle);
}

/* ---- the stock ------------------------------------------------------------ */

static void stock_goes_down(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < STOCK; i++)
        assert_int_equal(buy(f, 1, NULL), STORE_OK);
    assert_int_equal(buy(f, 1, NULL), STORE_SOLD_OUT);
}

static void restock_is_seen(void **state)
{
    struct fixture *f = *state;
    struct store_product product;

    assert_int_equal(buy(f, STOCK, NULL), STORE_OK);
    assert_int_equal(buy(f, 1, NULL), STORE_SOLD_OUT);
    assert_int_equal(store_restock(f->rig.store, 1, 2, "", &product, NULL),
                     STORE_OK);
    assert_int_equal(buy(f, 2, NULL), STORE_OK);
    assert_int_equal(buy(f, 1, NULL), STORE_SOLD_OUT);
}

static void cancel_is_seen(void **state)
{
    struct fixture *f = *state;
    struct store_order order;

    assert_int_equal(buy(f, STOCK, &order), STORE_OK);
    assert_int_equal(store_cancel(f->rig.store, order.id, &order, NULL),
                     STORE_OK);
    assert_int_equal(buy(f, STOCK, NULL), STORE_OK);
}

static void other_sales_are_seen(void **state)
{
    struct fixture *f = *state;
    struct store_order direct = {
        .product_id = 1, .user_id = 8, .quantity = STOCK - 2};
    struct store_order *orders[] = {&direct};

    assert_int_equal(buy(f, 1, NULL), STORE_OK);
    assert_int_equal(store_place(f->rig.store, orders, 1, &f->fence, NULL),
                     STORE_OK);
    assert_int_equal(direct.status, STORE_OK);
    assert_int_equal(buy(f, 2, NULL), STORE_SOLD_OUT);
    assert_int_equal(buy(f, 1, NULL), STORE_OK);
}

static void another_process_is_seen(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(buy(f, 1, NULL), STORE_OK);
    elsewhere(f, "UPDATE cells SET stock = stock - 2, initial = initial - 2");
    assert_int_equal(buy(f, STOCK - 2, NULL), STORE_SOLD_OUT);
    elsewhere(f, "UPDATE cells SET stock = stock + 9, initial = initial + 9");
    assert_int_equal(buy(f, STOCK + 6, NULL), STORE_OK);
}

/* Decided, and then the commit fails: nothing of it is so. */
static void what_was_undone_is_forgotten(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(buy(f, 1, NULL), STORE_OK);
    f->failing = "commit";
    assert_int_equal(buy(f, STOCK - 1, NULL), STORE_IO);
    f->failing = NULL;
    assert_int_equal(buy(f, STOCK - 1, NULL), STORE_OK);
    assert_int_equal(buy(f, 1, NULL), STORE_SOLD_OUT);
}

/* The same with a connection that lives on: a reader keeps the commit out. */
static void what_was_too_busy_is_forgotten(void **state)
{
    struct fixture *f = *state;
    sqlite3 *reader;

    assert_int_equal(buy(f, 1, NULL), STORE_OK);
    assert_int_equal(sqlite3_open(f->rig.dir.db, &reader), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(reader, "BEGIN; SELECT * FROM cells", NULL, NULL, NULL),
        SQLITE_OK);
    assert_int_equal(buy(f, STOCK - 1, NULL), STORE_BUSY);
    sqlite3_close(reader);
    assert_int_equal(buy(f, STOCK - 1, NULL), STORE_OK);
    assert_int_equal(buy(f, 1, NULL), STORE_SOLD_OUT);
}

/* Two of a product's cells, and both at once, in turns. */
static void segments_are_told_apart(void **state)
{
    struct fixture *f = *state;
    const int64_t asked[] = {0, 1, STORE_SEGMENT_ANY, 0, 1};
    const int64_t units[] = {1, 1, 3, 1, 1};
    const enum store_status becomes[] = {STORE_OK, STORE_OK, STORE_OK,
                                         STORE_SOLD_OUT, STORE_SOLD_OUT};

    put(f, (struct store_product){.id = 1, .segments = 2});
    for (size_t i = 0; i < 5; i++) {
        struct store_order order = {.product_id = 1,
                                    .user_id = 7,
                                    .quantity = units[i],
                                    .segment = asked[i]};
        struct store_order *orders[] = {&order};
        struct store_lot lot = {.orders = orders, .n = 1};

        store_rig_feed_go(&f->feed, &lot, 1);
        assert_int_equal(order.status, becomes[i]);
    }
}

/* ---- the terms ------------------------------------------------------------ */

static void new_terms_are_seen(void **state)
{
    struct fixture *f = *state;
    struct store_order order;

    assert_int_equal(buy(f, 1, &order), STORE_OK);
    assert_int_equal(order.price_cents, 0);
    put(f, (struct store_product){.id = 1, .price_cents = 99});
    assert_int_equal(buy(f, 1, &order), STORE_OK);
    assert_int_equal(order.price_cents, 99);
    put(f, (struct store_product){.id = 1, .limit_per_user = 3});
    assert_int_equal(buy(f, 2, NULL), STORE_LIMIT);
    put(f, (struct store_product){.id = 1, .ends_ms = 1});
    assert_int_equal(buy(f, 1, NULL), STORE_ENDED);
}

/* ---- the fence ------------------------------------------------------------ */

static void new_holder_is_seen(void **state)
{
    struct fixture *f = *state;
    struct store_fence newer = {"lock:1", 11, "other", false, NULL};

    assert_int_equal(buy(f, 1, NULL), STORE_OK);
    assert_int_equal(store_stamp(f->rig.store, &newer, NULL), STORE_OK);
    assert_int_equal(buy(f, 1, NULL), STORE_STALE_FENCE);
    f->fence = newer;
    assert_int_equal(buy(f, 1, NULL), STORE_OK);
}

/* No change but the one in the stream itself. */
static void holders_take_turns(void **state)
{
    struct fixture *f = *state;
    static char name[STORE_FENCE_NAME_BYTES_MAX + 1];
    const struct store_fence first = f->fence;

    memset(name, 'x', sizeof(name) - 1);
    assert_int_equal(buy(f, 1, NULL), STORE_OK);
    f->fence.owner = "somebody else with the same token";
    assert_int_equal(buy(f, 1, NULL), STORE_STALE_FENCE);
    f->fence = first;
    assert_int_equal(buy(f, 1, NULL), STORE_OK);
    /* Too long to be kept: what was known of the lock is wrong by then. */
    f->fence = (struct store_fence){"lock:1", 11, name, false, NULL};
    assert_int_equal(buy(f, 1, NULL), STORE_OK);
    f->fence = first;
    assert_int_equal(buy(f, 1, NULL), STORE_STALE_FENCE);
}

static void new_holder_elsewhere_is_seen(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(buy(f, 1, NULL), STORE_OK);
    elsewhere(f, "UPDATE fences SET token = 12");
    assert_int_equal(buy(f, 1, NULL), STORE_STALE_FENCE);
}

/* ---- the memory itself ---------------------------------------------------- */

/* That it is used at all: what is remembered comes back, right or wrong. */
static void what_is_known_is_not_read_again(void **state)
{
    struct fixture *f = *state;
    struct sqlite_options options = {.path = f->rig.dir.db,
                                     .role = SQLITE_ROLE_READER};
    struct recall *recall = recall_new();
    struct shelf shelf;
    struct sqlite *db;
    bool found;

    assert_int_equal(sqlite_open(&options, &db, NULL), STORE_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sqlite_run(db, "BEGIN", NULL), STORE_OK);
        assert_int_equal(recall_begin(recall, db, NULL), STORE_OK);
        shelf_init(&shelf, recall);
        assert_int_equal(shelf_turn(db, &shelf, 1, 0, &found, NULL), STORE_OK);
        assert_true(found);
        assert_int_equal(shelf.left, i == 1 ? 77 : STOCK);
        recall_set_stock(recall, 1, 0, 77);
        if (i == 0)
            recall_end(recall, db);
        assert_int_equal(sqlite_run(db, "COMMIT", NULL), STORE_OK);
    }
    sqlite_close(db);
    recall_free(recall);
}

/* More than fit: what is found is right, and many of the last are. */
static void many_cells(void **state)
{
    struct recall *recall = recall_new();
    struct recall_cell cell;
    int found = 0;

    (void)state;
    for (int i = 1; i <= MANY; i++)
        recall_keep_cell(recall,
                         &(struct recall_cell){.product_id = i,
                                               .segment = i % 64,
                                               .stock = INT64_C(10) * i});
    for (int i = 1; i <= MANY; i++) {
        assert_false(recall_find_cell(recall, i, i % 64 + 1, &cell));
        if (!recall_find_cell(recall, i, i % 64, &cell))
            continue;
        found++;
        assert_int_equal(cell.stock, 10 * i);
    }
    assert_in_range(found, 100, 4096);
    recall_forget(recall);
    assert_false(recall_find_cell(recall, MANY, MANY % 64, &cell));
    recall_free(recall);
}

static void many_fences(void **state)
{
    struct recall *recall = recall_new();
    char name[32];
    struct store_fence fence = {name, 1, "me", false, NULL};
    int found = 0;

    (void)state;
    for (uint64_t i = 1; i <= MANY; i++) {
        snprintf(name, sizeof(name), "lock:%d", (int)i);
        fence.token = i;
        recall_keep_fence(recall, &fence);
    }
    for (uint64_t i = 1; i <= MANY; i++) {
        snprintf(name, sizeof(name), "lock:%d", (int)i);
        fence.token = i;
        found += recall_is_announced(recall, &fence);
        fence.token = i + 1;
        assert_false(recall_is_announced(recall, &fence));
    }
    assert_in_range(found, 100, 4096);
    recall_forget(recall);
    fence.token = MANY;
    assert_false(recall_is_announced(recall, &fence));
    recall_free(recall);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(stock_goes_down, set_up, tear_down),
        cmocka_unit_test_setup_teardown(restock_is_seen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cancel_is_seen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_sales_are_seen, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(another_process_is_seen, set_up_shared,
                                        tear_down),
        cmocka_unit_test_setup_teardown(another_process_is_seen, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_was_undone_is_forgotten, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_was_too_busy_is_forgotten,
                                        set_up_shared, tear_down),
        cmocka_unit_test_setup_teardown(segments_are_told_apart, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(new_terms_are_seen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(new_holder_is_seen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(holders_take_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(new_holder_elsewhere_is_seen, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(new_holder_elsewhere_is_seen,
                                        set_up_shared, tear_down),
        cmocka_unit_test_setup_teardown(what_is_known_is_not_read_again, set_up,
                                        tear_down),
        cmocka_unit_test(many_cells),
        cmocka_unit_test(many_fences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
