/*
 * A database of an older version is brought up, and is then what a new one is.
 */
#include "tests/support/store_rig.h"
#include "tests/support/store_wait.h"

/* 7 of 10 left, in the only segment that there was. */
static const char version_1[] =
#include "db/sqlite/schema.sql.inc"
    "PRAGMA application_id = 1937006955;"
    "PRAGMA user_version = 1;"
    "INSERT INTO products (id, name, price_cents, limit_per_user, opens_ms, "
    "ends_ms, first_units, created_ms) VALUES (1, 'Old', 5, 0, 0, 0, 10, 1);"
    "INSERT INTO cells VALUES (1, 0, 10, 7);"
    "INSERT INTO orders VALUES (1, 11, 1, 0, 42, 3, 5, 0, 0, 0, 1, 0, NULL);";

/*
 * Product 2 was dealt out to 0, 1 and 2, ten each. Its first order took ten
 * from 0, ten from 1 and two from 2. The second, of the same kind, was
 * cancelled. The third was all from 1. Then 2 was retired, and its eight moved
 * to 0.
 */
static const char version_2[] =
#include "db/sqlite/schema_2.sql.inc"
    "PRAGMA user_version = 2;"
    "INSERT INTO products (id, name, price_cents, limit_per_user, opens_ms, "
    "ends_ms, first_units, created_ms, segments) "
    "VALUES (2, 'Split', 5, 0, 0, 0, 30, 1, 2);"
    "INSERT INTO cells VALUES (2, 0, 18, 8, 1), (2, 1, 10, 0, 1), "
    "(2, 2, 2, 0, 0);"
    "INSERT INTO transfers (product_id, from_segment, to_segment, units, "
    "created_ms, key) VALUES (2, 0, 1, 10, 1, NULL), (2, 0, 2, 10, 1, 'k'), "
    "(2, 2, 0, 8, 1, NULL);"
    "INSERT INTO orders VALUES (2, 12, 2, 0, 42, 21, 5, 0, 0, 0, 1, 0, 'a'), "
    "(3, 13, 2, 0, 42, 12, 5, 0, 0, 1, 1, 1, 'b'), "
    "(4, 14, 2, 1, 42, 1, 5, 0, 7, 0, 1, 0, NULL);"
    "INSERT INTO parts VALUES (2, 1, 9), (2, 2, 2), (3, 1, 2), (3, 2, 3);"
    "INSERT INTO fences VALUES ('lock:{2:1}', 7, 'o');";

/* A user may buy two of product 3. User 42 has one unit in each of two buckets of
 * orders (schema_8.sql), and 43 has given his back; product 4 got its limit since, and
 * nobody has counted. */
static const char version_5[] =
#include "db/sqlite/schema.sql.inc"
#include "db/sqlite/schema_2.sql.inc"
#include "db/sqlite/schema_3.sql.inc"
#include "db/sqlite/schema_4.sql.inc"
#include "db/sqlite/schema_5.sql.inc"
    "PRAGMA application_id = 1937006955;"
    "PRAGMA user_version = 5;"
    "INSERT INTO products (id, name, price_cents, limit_per_user, opens_ms, "
    "ends_ms, first_units, created_ms, counted) "
    "VALUES (3, 'Limited', 5, 2, 0, 0, 10, 1, 1), "
    "(4, 'Since', 5, 2, 0, 0, 10, 1, 0);"
    "INSERT INTO segments (product_id, segment, initial, stock) "
    "VALUES (3, 0, 10, 8), (4, 0, 10, 8);"
    "INSERT INTO orders VALUES "
    "(1, 11, 3, 0, 42, 1, 5, 2, 0, 0, 1, 0, 'old', 0), "
    "(2, 12, 4, 0, 42, 2, 5, 0, 0, 0, 1, 0, NULL, 0), "
    "(3, 14, 3, 0, 43, 2, 5, 2, 0, 1, 1, 1, NULL, 0), "
    "(32768, 13, 3, 0, 42, 1, 5, 2, 0, 0, 1, 0, 'newer', 0);"
    "INSERT INTO purchases VALUES (3, 42, 2), (4, 42, 77);";

/* After version_5: its buckets are larger, and its purchases have another column. */
static const char version_6[] =
    "DROP INDEX orders_key;"
    "CREATE UNIQUE INDEX orders_bucket_key ON orders (number >> 14, key) "
    "WHERE key IS NOT NULL;"
    "DROP TABLE purchases;"
    "CREATE TABLE purchases (bucket INTEGER NOT NULL, "
    "product_id INTEGER NOT NULL REFERENCES products (id), "
    "user_id INTEGER NOT NULL, units INTEGER NOT NULL CHECK (units >= 0), "
    "PRIMARY KEY (bucket, product_id, user_id)) STRICT, WITHOUT ROWID;"
    "INSERT INTO purchases VALUES (0, 3, 42, 1), (2, 3, 42, 1);"
    "PRAGMA user_version = 6;";

/* After version_6: the same in smaller ones, by other names. */
static const char version_7[] =
    "DROP INDEX orders_bucket_key;"
    "CREATE UNIQUE INDEX orders_key_by_bucket ON orders (number >> 9, key) "
    "WHERE key IS NOT NULL;"
    "ALTER TABLE purchases RENAME COLUMN bucket TO bucket_of_512;"
    "UPDATE purchases SET bucket_of_512 = 64 WHERE bucket_of_512 = 2;"
    "PRAGMA user_version = 7;";

static void expect_stock(struct store_rig *rig, int64_t id, int64_t stock)
{
    assert_int_equal(store_rig_product(rig, id).stock, stock);
    store_rig_expect_sound(rig);
}

/* Once is enough: the second time there is nothing to bring up. */
static void reopen(struct store_rig *rig)
{
    store_rig_close(rig);
    store_rig_open(rig, (struct store_options){0});
}

STORE_DIR_TEST(test_version_1_sells_on_and_cancels)
{
    struct store_order order;

    store_rig_sql(rig, version_1);
    store_rig_open(rig, (struct store_options){0});
    expect_stock(rig, 1, 7);
    store_rig_resize(rig, 3);
    store_rig_expect(rig, "3 2 2");
    assert_ok(store_cancel(rig->store, "1-000000000000000b", &order, NULL));
    assert_int_equal(order.segment, 0);
    expect_stock(rig, 1, 10);
    reopen(rig);
    expect_stock(rig, 1, 10);
}

/* An order of before has nothing to pay, and never will. */
STORE_DIR_TEST(test_version_4_had_nothing_to_pay)
{
    static const char id[] = "1-000000000000000b";
    struct store_order order;

    store_rig_sql(rig, version_1);
    store_rig_open(rig, (struct store_options){0});
    assert_int_equal(store_rig_product(rig, 1).pay_within_s, 0);
    store_rig_put(rig, (struct store_product){
                           .id = 1, .initial = 10, .pay_within_s = 60});
    assert_ok(store_order_get(rig->reader, id, &order, NULL));
    assert_int_equal(order.state, STORE_PLACED);
    assert_ok(store_rig_buy(rig, 1, 1, 2, ""));
    assert_int_equal(store_rig_audit(rig).held, 2);
    assert_ok(store_cancel(rig->store, id, &order, NULL));
    expect_stock(rig, 1, 8);
}

/* An order of several segments has one then: what it took was moved there. */
STORE_DIR_TEST(test_version_2_with_parts)
{
    struct store_order order;

    store_rig_sql(rig, version_1);
    store_rig_sql(rig, version_2);
    store_rig_open(rig, (struct store_options){0});
    expect_stock(rig, 2, 8);
    assert_int_equal(store_rig_audit(rig).orders, 3);
    assert_int_equal(store_rig_audit(rig).sold, 3 + 21 + 1);
    assert_ok(store_order_by_key(rig->reader, "b", &order, NULL));
    assert_int_equal(order.state, STORE_CANCELLED);
    assert_ok(store_order_by_key(rig->reader, "a", &order, NULL));
    assert_int_equal(order.segment, 0);
    assert_int_equal(order.quantity, 21);
    assert_ok(store_cancel(rig->store, order.id, &order, NULL));
    expect_stock(rig, 2, 29);
    assert_ok(store_rig_buy(rig, 2, 1, 29, ""));
    reopen(rig);
    expect_stock(rig, 2, 0);
}

/* Keys and limits stay what they were, in each bucket. */
static void expect_keys_and_limits(struct store_rig *rig)
{
    struct store_order order;

    store_rig_open(rig, (struct store_options){0});
    store_rig_expect_sound(rig);
    assert_int_equal(store_rig_buy(rig, 3, 7, 1, "old"), STORE_KEY_REUSED);
    order = store_rig_ask(3, 42, 1, "newer");
    store_rig_place(rig, &order);
    assert_true(order.replayed && order.number == 32768);
    assert_int_equal(store_rig_buy(rig, 3, 42, 1, ""), STORE_LIMIT);
    assert_int_equal(store_rig_buy(rig, 4, 42, 1, ""), STORE_LIMIT);
    assert_ok(store_cancel(rig->store, "1-000000000000000b", &order, NULL));
    assert_ok(store_rig_buy(rig, 3, 42, 1, ""));
    assert_int_equal(store_rig_buy(rig, 3, 42, 1, ""), STORE_LIMIT);
    assert_ok(store_rig_buy(rig, 3, 43, 2, ""));
    expect_stock(rig, 3, 6);
}

STORE_DIR_TEST(test_version_5_knows_its_keys_and_limits)
{
    store_rig_sql(rig, version_5);
    expect_keys_and_limits(rig);
}

STORE_DIR_TEST(test_version_6_knows_its_keys_and_limits)
{
    store_rig_sql(rig, version_5);
    store_rig_sql(rig, version_6);
    expect_keys_and_limits(rig);
}

STORE_DIR_TEST(test_version_7_knows_its_keys_and_limits)
{
    sqlite3 *db;

    store_rig_sql(rig, version_5);
    store_rig_sql(rig, version_6);
    store_rig_sql(rig, version_7);
    expect_keys_and_limits(rig);
    db = store_rig_connect(rig, "SELECT 1");
    assert_int_equal(store_rig_number(db,
                                      "SELECT COUNT(*) FROM sqlite_schema "
                                      "WHERE name = 'orders_key_by_bucket'"),
                     0);
    sqlite3_close(db);
}

/* A reader cannot bring it up, and says who can. */
STORE_DIR_TEST(test_reader_refuses_an_older_version)
{
    struct store_error error;

    store_rig_sql(rig, version_1);
    store_rig_sql(rig, version_2);
    assert_int_equal(store_reader_open_url(rig->dir.url, &rig->reader, &error),
                     STORE_IO);
    assert_non_null(strstr(error.text, "start the service once"));
}

/* Whatever goes wrong on the way up, it stays what it was. */
STORE_DIR_TEST(test_half_a_step_up_is_none)
{
    const struct store_options options = {.url = rig->dir.url};

    store_rig_sql(rig, version_1);
    store_rig_sql(rig, "CREATE TABLE segments (in_the_way)");
    assert_int_equal(store_open(&options, &rig->store, NULL), STORE_IO);
    store_rig_sql(rig, "DROP TABLE segments;"
                       "INSERT INTO cells VALUES (1, 1, 0, 0)"); /* as before */
    store_rig_open(rig, (struct store_options){0});
    expect_stock(rig, 1, 7);
}
