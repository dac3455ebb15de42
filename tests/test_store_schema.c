/*
 * A database of an older version is brought up, and is then what a new one is.
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

#define ORDER_ID "1-000000000000000b"

static const char version_1[] =
#include "db/schema.sql.inc"
    "PRAGMA application_id = 1937006955;"
    "PRAGMA user_version = 1;"
    /* 7 of 10 left, in the only cell that there was. */
    "INSERT INTO products (id, name, price_cents, limit_per_user, opens_ms, "
    "ends_ms, first_units, created_ms) VALUES (1, 'Old', 5, 0, 0, 0, 10, 1);"
    "INSERT INTO cells VALUES (1, 0, 10, 7);"
    "INSERT INTO orders VALUES (1, 11, 1, 0, 42, 3, 5, 0, 0, 0, 1, 0, NULL);";

static int set_up(void **state)
{
    struct temp_dir *dir = calloc(1, sizeof(*dir));

    temp_dir_make(dir);
    *state = dir;
    return 0;
}

static int tear_down(void **state)
{
    temp_dir_remove(*state);
    free(*state);
    return 0;
}

static void run_sql(const struct temp_dir *dir, const char *sql)
{
    char *error = NULL;
    sqlite3 *db;

    assert_int_equal(sqlite3_open(dir->db, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &error) != SQLITE_OK)
        fail_msg("%s", error);
    sqlite3_close(db);
}

static struct store *open_store(const struct temp_dir *dir)
{
    struct store_options options = {.url = dir->url};
    struct store_error error;
    struct store *store;

    if (store_open(&options, &store, &error) != STORE_OK)
        fail_msg("%s", error.text);
    return store;
}

static bool balanced(const struct temp_dir *dir)
{
    struct store_reader *reader;
    struct store_audit verdict;

    assert_int_equal(store_reader_open_url(dir->url, &reader, NULL), STORE_OK);
    assert_int_equal(store_audit(reader, NULL, NULL, NULL, 0, &verdict, NULL),
                     STORE_OK);
    store_reader_close(reader);
    return verdict.balanced;
}

static void test_version_1_sells_on_and_cancels(void **state)
{
    const struct temp_dir *dir = *state;
    struct store_product product = {
        .id = 1, .name = "New", .initial = 10, .segments = 3};
    struct store_order order;
    struct store *store;

    run_sql(dir, version_1);
    store = open_store(dir);
    assert_int_equal(store_product_put(store, &product, NULL, NULL), STORE_OK);
    assert_int_equal(product.segments, 3);
    assert_int_equal(product.stock, 7);
    assert_int_equal(store_cancel(store, ORDER_ID, &order, NULL), STORE_OK);
    assert_int_equal(order.from_segment, 0);
    store_close(store);
    assert_true(balanced(dir));
    store_close(open_store(dir)); /* once is enough */
}

/* A reader cannot bring it up, and says who can. */
static void test_reader_refuses_version_1(void **state)
{
    const struct temp_dir *dir = *state;
    struct store_reader *reader;
    struct store_error error;

    run_sql(dir, version_1);
    assert_int_equal(store_reader_open_url(dir->url, &reader, &error),
                     STORE_IO);
    assert_non_null(strstr(error.text, "start the service once"));
}

/* Whatever goes wrong on the way up, it stays what it was. */
static void test_half_a_step_up_is_none(void **state)
{
    const struct temp_dir *dir = *state;
    struct store_options options = {.url = dir->url};
    struct store *store;

    run_sql(dir, version_1);
    run_sql(dir, "CREATE TABLE transfers (in_the_way)");
    assert_int_equal(store_open(&options, &store, NULL), STORE_IO);
    run_sql(dir, "DROP TABLE transfers;"
                 "INSERT INTO cells VALUES (1, 1, 0, 0)"); /* four columns */
    store_close(open_store(dir));
    assert_true(balanced(dir));
}

#define WITH_DIR(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DIR(test_version_1_sells_on_and_cancels),
        WITH_DIR(test_reader_refuses_version_1),
        WITH_DIR(test_half_a_step_up_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
