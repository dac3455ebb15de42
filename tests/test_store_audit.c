/*
 * The audit. A checker is trusted after it has caught what was planted: every
 * violation is written into the file behind the store's back, in plain SQL,
 * and its number must come out, and no other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "db/store.h"
#include "tests/support/temp_dir.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#define ORDERS 5

/* A sound ledger: product 1 has 5 orders of user 1..5, under fences 1..5. */
struct fixture {
    struct temp_dir dir;
    char ids[ORDERS][STORE_ID_BYTES_MAX + 1];
};

static void put(struct store *store, int64_t id, int64_t units, int64_t limit)
{
    struct store_product product = {
        .id = id, .initial = units, .limit_per_user = limit, .name = "Thing"};

    assert_int_equal(store_product_put(store, &product, NULL, NULL), STORE_OK);
}

static void sell(struct fixture *fixture, struct store *store)
{
    for (int i = 0; i < ORDERS; i++) {
        struct store_order order = {
            .product_id = 1, .user_id = i + 1, .quantity = 2};
        struct store_order *orders[] = {&order};
        struct store_fence fence = {.name = "lock", .token = (uint64_t)i + 1};

        order.key[0] = (char)('a' + i);
        assert_int_equal(store_place(store, orders, 1, &fence, NULL), STORE_OK);
        memcpy(fixture->ids[i], order.id, sizeof(order.id));
    }
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    struct store_options options = {0};
    struct store_product product;
    struct store *store;

    temp_dir_make(&fixture->dir);
    options.url = fixture->dir.url;
    assert_int_equal(store_open(&options, &store, NULL), STORE_OK);
    put(store, 1, 6, 3);
    put(store, 2, 100, 0);
    assert_int_equal(store_restock(store, 1, 4, "r", &product, NULL), STORE_OK);
    sell(fixture, store);
    store_close(store);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    temp_dir_remove(&fixture->dir);
    free(fixture);
    return 0;
}

/* Writes what no honest program could: the constraints are off. */
static void plant(struct fixture *fixture, const char *sql)
{
    char *error = NULL;
    sqlite3 *db;

    assert_int_equal(sqlite3_open(fixture->dir.db, &db), SQLITE_OK);
    sqlite3_exec(db,
                 "PRAGMA ignore_check_constraints = ON;"
                 "PRAGMA foreign_keys = OFF",
                 NULL, NULL, NULL);
    if (sqlite3_exec(db, sql, NULL, NULL, &error) != SQLITE_OK)
        fail_msg("%s", error);
    sqlite3_close(db);
}

static struct store_audit audit_acked(struct fixture *fixture,
                                      const char *const acked[], size_t n)
{
    struct store_audit verdict;
    struct store_reader *reader;

    assert_int_equal(store_reader_open_url(fixture->dir.url, &reader, NULL),
                     STORE_OK);
    assert_int_equal(store_audit(reader, NULL, NULL, acked, n, &verdict, NULL),
                     STORE_OK);
    store_reader_close(reader);
    return verdict;
}

static struct store_audit audit(struct fixture *fixture)
{
    return audit_acked(fixture, NULL, 0);
}

/* All nine numbers at once: the planted one, and none besides. */
static void require(const struct store_audit *got,
                    const struct store_audit *want)
{
    assert_int_equal(got->oversold, want->oversold);
    assert_int_equal(got->undersold, want->undersold);
    assert_int_equal(got->phantom, want->phantom);
    assert_int_equal(got->negative, want->negative);
    assert_int_equal(got->stranded, want->stranded);
    assert_int_equal(got->duplicates, want->duplicates);
    assert_int_equal(got->over_limit, want->over_limit);
    assert_int_equal(got->fence_regressions, want->fence_regressions);
    assert_int_equal(got->lost, want->lost);
    assert_int_equal(got->balanced, want->balanced);
}

static void require_planted(struct fixture *fixture, const char *sql,
                            struct store_audit want)
{
    struct store_audit got;

    plant(fixture, sql);
    got = audit(fixture);
    require(&got, &want);
}

static void test_sound(void **state)
{
    struct fixture *fixture = *state;
    const char *acked[ORDERS];
    struct store_audit got;

    for (int i = 0; i < ORDERS; i++)
        acked[i] = fixture->ids[i];
    got = audit_acked(fixture, acked, ORDERS);
    require(&got, &(struct store_audit){.balanced = true});
    assert_int_equal(got.products, 2);
    assert_int_equal(got.orders, 5);
    assert_int_equal(got.sold, 10);
    assert_int_equal(got.cancelled, 0);
}

static void test_oversold(void **state)
{
    require_planted(
        *state, "UPDATE orders SET quantity = 5 WHERE number = 5",
        (struct store_audit){.oversold = 3, .phantom = 3, .over_limit = 1});
}

static void test_order_of_no_product(void **state)
{
    require_planted(
        *state, "UPDATE orders SET product_id = 99 WHERE number = 1",
        (struct store_audit){.oversold = 2, .phantom = 2, .undersold = 2});
}

static void test_order_vanished(void **state)
{
    require_planted(*state, "DELETE FROM orders WHERE number = 2",
                    (struct store_audit){.undersold = 2});
}

static void test_stock_vanished(void **state)
{
    require_planted(*state,
                    "UPDATE cells SET stock = stock - 3 WHERE product_id = 2",
                    (struct store_audit){.undersold = 3});
}

static void test_stock_from_nowhere(void **state)
{
    require_planted(*state,
                    "UPDATE cells SET stock = stock + 3 WHERE product_id = 2",
                    (struct store_audit){.phantom = 3});
}

/* One product's surplus must not hide another's deficit. */
static void test_errors_do_not_cancel_out(void **state)
{
    require_planted(
        *state,
        "UPDATE cells SET stock = stock + 3 WHERE product_id = 2;"
        "DELETE FROM orders WHERE number = 2;"
        "UPDATE cells SET stock = stock - 1 WHERE product_id = 1",
        (struct store_audit){.phantom = 3, .undersold = 3, .negative = 1});
}

static void test_negative(void **state)
{
    require_planted(*state,
                    "UPDATE cells SET stock = -1 WHERE product_id = 1;"
                    "UPDATE cells SET stock = -1, initial = 0 "
                    "WHERE product_id = 2;"
                    "UPDATE products SET first_units = 0 WHERE id = 2",
                    (struct store_audit){.negative = 2, .undersold = 2});
}

static void test_account_raised_with_the_stock(void **state)
{
    require_planted(*state,
                    "UPDATE cells SET stock = stock + 7, initial = initial + 7 "
                    "WHERE product_id = 2",
                    (struct store_audit){.phantom = 7});
}

static void test_restock_not_in_the_cells(void **state)
{
    require_planted(*state,
                    "INSERT INTO restocks (product_id, quantity, created_ms) "
                    "VALUES (2, 9, 1)",
                    (struct store_audit){.undersold = 9});
}

/* Product 2 with 100 units: 40 34 0 0, the last two retired; 26 sold. */
static void split(struct fixture *fixture)
{
    struct store_order order = {.product_id = 2,
                                .user_id = 1,
                                .quantity = 26,
                                .segment = STORE_SEGMENT_ANY};
    struct store_product product = {
        .id = 2, .name = "Thing", .initial = 100, .segments = 4};
    struct store_transfer move = {
        .id = "t", .product_id = 2, .from = 1, .to = 0, .units = 3};
    struct store_options options = {.url = fixture->dir.url};
    struct store_order *orders[] = {&order};
    struct store *store;

    assert_int_equal(store_open(&options, &store, NULL), STORE_OK);
    assert_int_equal(store_product_put(store, &product, NULL, NULL), STORE_OK);
    assert_int_equal(store_place(store, orders, 1, NULL, NULL), STORE_OK);
    product.segments = 2;
    assert_int_equal(store_product_put(store, &product, NULL, NULL), STORE_OK);
    assert_int_equal(store_rebalance(store, &move, NULL), STORE_OK);
    store_close(store);
}

static void test_sound_when_split(void **state)
{
    struct fixture *fixture = *state;
    struct store_audit got;

    split(fixture);
    got = audit(fixture);
    require(&got, &(struct store_audit){.balanced = true});
    assert_int_equal(got.orders, 6); /* the gathered one counts once */
    assert_int_equal(got.sold, 36);
}

static void test_stranded(void **state)
{
    split(*state);
    require_planted(*state,
                    "UPDATE cells SET active = 0 "
                    "WHERE product_id = 2 AND segment = 1",
                    (struct store_audit){.stranded = 34});
}

/* Moved by hand, in stock and on account: no row says so. */
static void test_moved_off_the_record(void **state)
{
    split(*state);
    require_planted(*state,
                    "UPDATE cells SET stock = stock - 5, "
                    "initial = initial - 5 WHERE product_id = 2 "
                    "AND segment = 0;"
                    "UPDATE cells SET stock = stock + 5, "
                    "initial = initial + 5 WHERE product_id = 2 "
                    "AND segment = 1",
                    (struct store_audit){.phantom = 5, .undersold = 5});
}

static void test_moved_on_the_record_only(void **state)
{
    split(*state);
    require_planted(*state, "UPDATE transfers SET units = 4 WHERE key = 't'",
                    (struct store_audit){.phantom = 1, .undersold = 1});
}

/* What an order took from where is as good as what it took. */
static void test_part_is_forged(void **state)
{
    split(*state);
    require_planted(*state, "UPDATE parts SET units = 2 WHERE units = 1",
                    (struct store_audit){.phantom = 1, .undersold = 1});
}

static void test_duplicates(void **state)
{
    require_planted(*state,
                    "DROP INDEX orders_key;"
                    "UPDATE orders SET key = 'a' WHERE number IN (2, 4);"
                    "UPDATE orders SET key = NULL WHERE number IN (3, 5)",
                    (struct store_audit){.duplicates = 2});
}

static void test_over_limit(void **state)
{
    require_planted(*state,
                    "UPDATE orders SET user_id = 1 WHERE number = 2;"
                    "UPDATE orders SET user_id = 5 WHERE number IN (3, 4)",
                    (struct store_audit){.over_limit = 2});
}

static void test_cancelled_units_do_not_count(void **state)
{
    require_planted(*state,
                    "UPDATE orders SET user_id = 1 WHERE number = 2;"
                    "UPDATE orders SET state = 1, cancelled_ms = 1 "
                    "WHERE number = 1;"
                    "UPDATE cells SET stock = stock + 2 WHERE product_id = 1",
                    (struct store_audit){.balanced = true});
}

/* 1 2 9 4 5: two orders under an older token than one before them. */
static void test_fence_regressions(void **state)
{
    require_planted(*state, "UPDATE orders SET fence = 9 WHERE number = 3",
                    (struct store_audit){.fence_regressions = 2});
}

static void test_unfenced_orders_are_no_regression(void **state)
{
    require_planted(*state,
                    "UPDATE orders SET fence = 0 WHERE number IN (2, 4)",
                    (struct store_audit){.balanced = true});
}

static void test_lost(void **state)
{
    struct fixture *fixture = *state;
    char forged[STORE_ID_BYTES_MAX + 1];
    const char *acked[] = {fixture->ids[0], "77-0123456789abcdef", forged,
                           "nonsense", fixture->ids[4]};
    struct store_audit got;

    memcpy(forged, fixture->ids[1], sizeof(forged));
    forged[strlen(forged) - 1] ^= 1;
    got = audit_acked(fixture, acked, 5);
    require(&got, &(struct store_audit){.lost = 3});
}

struct lines {
    struct store_audit_line line[4];
    size_t n;
};

static void on_line(void *ctx, const struct store_audit_line *line)
{
    struct lines *lines = ctx;

    assert_true(lines->n < 4);
    lines->line[lines->n++] = *line;
}

static void test_lines(void **state)
{
    struct fixture *fixture = *state;
    struct store_audit verdict;
    struct store_reader *reader;
    struct lines lines = {0};

    plant(fixture, "UPDATE cells SET stock = 95 WHERE product_id = 2");
    assert_int_equal(store_reader_open_url(fixture->dir.url, &reader, NULL),
                     STORE_OK);
    assert_int_equal(
        store_audit(reader, on_line, &lines, NULL, 0, &verdict, NULL),
        STORE_OK);
    store_reader_close(reader);
    assert_int_equal(lines.n, 2);
    assert_int_equal(lines.line[0].product_id, 1);
    assert_int_equal(lines.line[0].initial, 10);
    assert_int_equal(lines.line[0].sold, 10);
    assert_int_equal(lines.line[0].orders, 5);
    assert_int_equal(lines.line[0].drift, 0);
    assert_int_equal(lines.line[1].product_id, 2);
    assert_int_equal(lines.line[1].segment, 0);
    assert_int_equal(lines.line[1].stock, 95);
    assert_int_equal(lines.line[1].drift, -5);
}

#define WITH_LEDGER(test)                                                      \
    cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_LEDGER(test_sound),
        WITH_LEDGER(test_oversold),
        WITH_LEDGER(test_order_of_no_product),
        WITH_LEDGER(test_order_vanished),
        WITH_LEDGER(test_stock_vanished),
        WITH_LEDGER(test_stock_from_nowhere),
        WITH_LEDGER(test_errors_do_not_cancel_out),
        WITH_LEDGER(test_negative),
        WITH_LEDGER(test_account_raised_with_the_stock),
        WITH_LEDGER(test_restock_not_in_the_cells),
        WITH_LEDGER(test_sound_when_split),
        WITH_LEDGER(test_stranded),
        WITH_LEDGER(test_moved_off_the_record),
        WITH_LEDGER(test_moved_on_the_record_only),
        WITH_LEDGER(test_part_is_forged),
        WITH_LEDGER(test_duplicates),
        WITH_LEDGER(test_over_limit),
        WITH_LEDGER(test_cancelled_units_do_not_count),
        WITH_LEDGER(test_fence_regressions),
        WITH_LEDGER(test_unfenced_orders_are_no_regression),
        WITH_LEDGER(test_lost),
        WITH_LEDGER(test_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
