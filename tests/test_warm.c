/*
 * Warm keys: copy, database and Redis together, over a real redis-server; what
 * is asked of the door, and the keys that come of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <time.h>

#include "server/clock.h"
#include "tests/support/warm_stage.h"

/* ---- keys ----------------------------------------------------------------- */

static void test_keys_are_written_at_the_start(void **state)
{
    struct warm_rig *rig = warm_rig_new(false, true);

    *state = rig;
    warm_rig_put(rig, 1, 10, 4);
    warm_rig_put(rig, 2, 7, 1);
    warm_rig_put(rig, 3, 2, 8); /* six have nothing */
    warm_rig_warm(rig);
    warm_rig_await_keys(rig, 1);
    warm_rig_await_keys(rig, 2);
    warm_rig_await_keys(rig, 3);
    assert_int_equal(redis_server_number(rig->redis, "DBSIZE"), 4 + 1 + 2);
}

static void test_what_is_sold_is_told(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 20, 4);

    for (int i = 0; i < 9; i++)
        assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_OK);
    warm_rig_await_keys(rig, 1);
    assert_int_equal(warm_stage_epoch(rig),
                     3); /* dealt out, and once at the start */
}

/* Of one that was cut to a few, the others' keys go; of one that grew, come. */
static void test_resize(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 40, 16);

    for (int64_t segments = 3; segments < 40; segments *= 3) {
        warm_rig_put(rig, 1, 40, segments);
        warm_moved(rig->app.warm, 1);
        warm_rig_await_keys(rig, 1);
        assert_int_equal(redis_server_number(rig->redis, "DBSIZE"), segments);
    }
}

/* And who has one segment has nothing to choose, and a key all the same. */
static void test_resize_to_one_and_back(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 40, 8);

    warm_rig_put(rig, 1, 40, 1);
    warm_moved(rig->app.warm, 1);
    warm_rig_until(rig, warm_stage_is_single, 1, "one segment");
    warm_rig_await_keys(rig, 1);
    assert_int_equal(redis_server_number(rig->redis, "DBSIZE"), 1);
    assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_OK);
    warm_rig_await_keys(rig, 1); /* now and then it is looked after */
    warm_rig_put(rig, 1, 40, 8);
    warm_moved(rig->app.warm, 1);
    warm_rig_until(rig, warm_stage_has_segments, 1, "eight segments");
    warm_rig_await_keys(rig, 1);
}

/* Who cut a product down to one segment died before its keys were told; the
 * next one removes those of the others, though it never knew of them. */
static void test_resized_to_one_and_dead(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 40, 8);

    warm_rig_await_keys(rig, 1);
    warm_rig_cool(rig);
    warm_rig_put(rig, 1, 40, 1);
    warm_rig_warm(rig);
    warm_rig_await_keys(rig, 1);
    assert_int_equal(redis_server_number(rig->redis, "DBSIZE"), 1);
}

static void test_what_is_new_is_found(void **state)
{
    struct warm_rig *rig = warm_rig_new(false, true);

    *state = rig;
    warm_rig_warm(rig);
    warm_rig_put(rig, 1, 40, 8);
    warm_rig_put(rig, 2, 3, 1);
    assert_true(warm_stage_is_single(rig, 1));
    warm_moved(rig->app.warm, 1);
    warm_moved(rig->app.warm, 2);
    warm_moved(rig->app.warm, 3); /* there is no such product */
    warm_rig_until(rig, warm_stage_has_segments, 1, "eight segments");
    warm_rig_await_keys(rig, 1);
    warm_rig_await_keys(rig, 2);
    assert_int_equal(redis_server_number(rig->redis, "DBSIZE"), 9);
}

/* More at once than the door can remember one by one. */
static void test_many_new_ones(void **state)
{
    struct warm_rig *rig = warm_rig_new(false, false);

    *state = rig;
    warm_rig_warm(rig);
    warm_rig_shut(rig);
    for (int64_t id = 1; id <= 600; id++) {
        warm_rig_put(rig, id, 4, 2);
        warm_moved(rig->app.warm, id);
    }
    warm_rig_let_go(rig);
    for (int64_t id = 1; id <= 600; id++)
        warm_rig_until(rig, warm_stage_has_segments, id, "two segments");
}

/* What stands in a key's place, and what another database has left there. */
static void test_keys_of_another_kind(void **state)
{
    struct warm_rig *rig = warm_rig_new(false, true);

    *state = rig;
    warm_rig_put(rig, 1, 40, 6);
    warm_stage_ask(rig, "SET stock:{1:0} nonsense");
    warm_stage_ask(rig, "HSET stock:{1:1} epoch x units y segments z");
    warm_stage_ask(rig, "HSET stock:{1:2} epoch 5000 units 77 segments 9");
    warm_stage_ask(
        rig, "HSET stock:{1:3} epoch nan units nan order nan segments nan");
    warm_stage_ask(rig,
                   "HSET stock:{1:4} epoch 1e300 units 1e300 segments 1e300");
    warm_stage_ask(rig, "HSET stock:{1:8} epoch 5000 units 77 segments 9");
    warm_rig_warm(rig);
    warm_rig_await_keys(rig, 1);
    assert_int_equal(redis_server_number(rig->redis, "DBSIZE"), 6);
}

/* ---- the door ------------------------------------------------------------- */

static void test_warming_up(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 40, 4);
    struct store_error error = {""};
    struct store_cells cells;
    bool in_redis = false;
    int64_t epoch = warm_stage_epoch(rig);

    assert_int_equal(warm_up(rig->app.warm, 1, &cells, &in_redis, &error),
                     STORE_OK);
    assert_true(in_redis);
    assert_int_equal(cells.epoch, epoch + 1);
    assert_int_equal(cells.n, 4);
    assert_int_equal(cells.cells[3].stock, 10);
    warm_rig_await_keys(rig, 1);
    assert_int_equal(warm_up(rig->app.warm, 2, &cells, &in_redis, &error),
                     STORE_NO_PRODUCT);
    assert_string_equal(error.text, "there is no product 2");
    warm_rig_put(rig, 2, 5, 1);
    assert_int_equal(warm_up(rig->app.warm, 2, &cells, &in_redis, &error),
                     STORE_OK);
    assert_true(in_redis);
    warm_rig_await_keys(rig, 2);
    redis_server_kill(rig->redis);
    assert_int_equal(warm_up(rig->app.warm, 1, &cells, &in_redis, &error),
                     STORE_OK);
    assert_false(in_redis);
    redis_server_restart(rig->redis);
    warm_rig_await_keys(rig, 1);
}

/* Just after a pass: the next one would gather for a while. */
static void test_closing_tells_the_rest(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 40, 4);

    warm_rig_await_pass(rig);
    for (int i = 0; i < 9; i++)
        assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_OK);
    warm_rig_cool(rig);
    for (int64_t i = 0; i < 4; i++) {
        struct store_cells cells = warm_rig_cells(rig, 1);
        char found[WARM_RIG_KEY_BYTES], wanted[WARM_RIG_KEY_BYTES];

        warm_rig_key(rig, 1, i, found);
        snprintf(wanted, sizeof(wanted), "%" PRId64 " %" PRId64 " 4",
                 cells.epoch, cells.cells[i].stock);
        assert_string_equal(found, wanted);
    }
}

static void test_closing_while_redis_hangs(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 40, 4);
    uint64_t begin_ms;

    assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_OK);
    redis_server_pause(rig->redis);
    begin_ms = clock_ms();
    warm_rig_cool(rig);
    assert_true(clock_ms() < begin_ms + 5000);
    redis_server_resume(rig->redis);
}

/* ---- many products -------------------------------------------------------- */

/* Past the store, for it takes its time for each. */
static void put_ten_thousand(struct warm_rig *rig)
{
    const char *sql =
        "BEGIN;"
        "WITH RECURSIVE ids (id) AS "
        "  (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < 10000) "
        "INSERT INTO products (id, name, price_cents, limit_per_user, opens_ms,"
        "  ends_ms, first_units, created_ms) "
        "  SELECT id, 'Thing', 0, 0, 0, 0, 5, 0 FROM ids;"
        "INSERT INTO cells (product_id, segment, initial, stock) "
        "  SELECT id, 0, 5, 5 FROM products;"
        "COMMIT";
    sqlite3 *db;

    assert_int_equal(sqlite3_open(rig->dir.db, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* The keys come from the warmer, in a pipeline; the start does not wait. */
static void test_ten_thousand_products(void **state)
{
    struct warm_rig *rig = warm_rig_new(false, true);
    uint64_t opened_ms, begin_ms;

    *state = rig;
    put_ten_thousand(rig);
    warm_rig_put(rig, 10001, 16, 16);
    begin_ms = clock_ms();
    rig->app.warm = warm_open(&rig->app, redis_server_url(rig->redis));
    assert_non_null(rig->app.warm);
    opened_ms = clock_ms();
    while (redis_server_number(rig->redis, "DBSIZE") < 10016) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        assert_true(clock_ms() < begin_ms + 20000);
    }
    print_message("# open: %" PRIu64 " ms, all keys: %" PRIu64 " ms\n",
                  opened_ms - begin_ms, clock_ms() - begin_ms);
}

#define TEST(test) cmocka_unit_test_teardown(test, warm_stage_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_keys_are_written_at_the_start),
        TEST(test_what_is_sold_is_told),
        TEST(test_resize),
        TEST(test_resize_to_one_and_back),
        TEST(test_resized_to_one_and_dead),
        TEST(test_what_is_new_is_found),
        TEST(test_many_new_ones),
        TEST(test_keys_of_another_kind),
        TEST(test_warming_up),
        TEST(test_closing_tells_the_rest),
        TEST(test_closing_while_redis_hangs),
        TEST(test_ten_thousand_products),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
