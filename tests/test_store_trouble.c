/*
 * Trouble from outside: another process has the lock, or a file is gone. The
 * answer is "don't know", never "sold out"; nothing half is kept; and when the
 * trouble is over, so is ours. A full disk: full/readiness.t, test_store_probe.c.
 */
#include "db/store/committer.h"
#include "server/base/clock.h"
#include "tests/support/store_rig.h"
#include "tests/support/store_wait.h"

#define BUSY_MS     200
#define BUSY_MAX_MS 1999 /* less than a store waits by default */
#define UNITS       1000000

static bool shared; /* as the test is to open the store, ... */
static unsigned busy_ms;

static void open_all(struct store_rig *rig)
{
    const struct store_options options = {.shared = shared, .busy_ms = busy_ms};
    const struct store_product product = {.id = 1, .initial = UNITS};

    store_rig_open(rig, options);
    store_rig_put(rig, product);
}

static int set_up(void **state)
{
    shared = *state != NULL;
    busy_ms = BUSY_MS;
    return store_rig_set_up_dir(state);
}

/* Of the batch; its order is told the same. */
static enum store_status buy(struct store_rig *rig)
{
    struct store_order order = store_rig_ask(1, 1, 1, "");
    struct store_order *orders[] = {&order};
    enum store_status status = store_place(rig->store, orders, 1, NULL, NULL);

    assert_int_equal(order.status, status);
    return status;
}

/* ---- another connection's lock ------------------------------------------ */

/* SQLite keeps two connections of a process apart as it does two processes; in
 * another process: full/readiness.t. */
static sqlite3 *open_beside(struct store_rig *rig, const char *sql)
{
    open_all(rig);
    return store_rig_connect(rig, sql);
}

/* The answer comes when the bound says, and not much later. */
static void require_busy(struct store_rig *rig)
{
    uint64_t began_ms = clock_ms();

    assert_int_equal(buy(rig), STORE_BUSY);
    assert_in_range(clock_ms() - began_ms, BUSY_MS - 1, BUSY_MAX_MS);
}

STORE_OWN_TEST(test_busy_is_bounded_and_no_refusal)
{
    sqlite3 *writer = open_beside(rig, "BEGIN IMMEDIATE");

    require_busy(rig);
    assert_int_equal(store_rig_audit(rig).orders, 0); /* readers do not wait */
    sqlite3_close(writer);
    assert_int_equal(buy(rig), STORE_OK);
    assert_int_equal(store_rig_audit(rig).orders, 1);
}

/* With a rollback journal it is the COMMIT that a reader holds up. */
STORE_SHARED_TEST(test_reader_in_the_way_of_a_commit)
{
    sqlite3 *reader = open_beside(rig, "BEGIN; SELECT COUNT(*) FROM orders");

    require_busy(rig);
    require_busy(rig);
    sqlite3_close(reader);
    assert_int_equal(store_rig_audit(rig).orders, 0);
    /* What the failed ones took is there again. */
    assert_int_equal(store_rig_buy(rig, 1, 1, UNITS, ""), STORE_OK);
    assert_int_equal(store_rig_audit(rig).orders, 1);
    store_rig_expect_sound(rig);
}

/* In a hurry nobody waits, and still nobody is told "sold out". */
STORE_OWN_TEST(test_a_hurry_ends_waiting)
{
    sqlite3 *writer;
    uint64_t began_ms;

    busy_ms = 100 * BUSY_MS;
    writer = open_beside(rig, "BEGIN IMMEDIATE");
    store_end_waits(rig->store);
    began_ms = clock_ms();
    assert_int_equal(buy(rig), STORE_BUSY);
    assert_in_range(clock_ms() - began_ms, 0, busy_ms / 2);
    sqlite3_close(writer);
    assert_int_equal(buy(rig), STORE_OK);
}

/* A statement without an end stands for an audit of millions. */
STORE_OWN_TEST(test_a_hurry_ends_reading)
{
    struct store_units units;

    open_all(rig);
    store_rig_sql(rig, "DROP TABLE holds; CREATE VIEW holds (quantity) AS WITH "
                       "RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT 1 FROM n)"
                       " SELECT i FROM n WHERE i < 0");
    store_end_waits(rig->store);
    assert_int_equal(store_units_left(rig->reader, &units, NULL), STORE_CLOSED);
}

/* ---- the file is gone --------------------------------------------------- */

/* Nobody would find again what is written to a file without a name. For good: also
 * when there is a file again, or when the connection was lost. */
STORE_OWN_TEST(test_a_removed_file_takes_no_orders)
{
    FILE *file;

    open_all(rig);
    assert_int_equal(buy(rig), STORE_OK);
    rig->steps.failing = "commit";
    assert_int_equal(buy(rig), STORE_IO);
    rig->steps.failing = NULL;
    assert_int_equal(unlink(rig->dir.db), 0);
    assert_int_equal(buy(rig), STORE_GONE);
    assert_int_equal(access(rig->dir.db, F_OK), -1); /* not made anew, empty */
    file = fopen(rig->dir.db, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(buy(rig), STORE_GONE);
}

/* Others may have the database open now. For good: also when it is back. */
STORE_BOTH_TEST(test_without_its_lock_file_it_takes_no_orders)
{
    const char *lock = text_of("%s.lock", rig->dir.db);
    const char *away = text_of("%s.away", lock);
    struct store_product product;
    struct store_error error;
    struct store_rig other;

    open_all(rig);
    assert_int_equal(buy(rig), STORE_OK);
    assert_int_equal(rename(lock, away), 0);
    store_rig_begin_in(&other, &rig->dir);
    open_all(&other);
    assert_int_equal(buy(rig), STORE_GONE);
    assert_int_equal(store_restock(rig->store, 1, 1, "", &product, &error),
                     STORE_GONE);
    assert_non_null(strstr(error.text, "the lock file was moved"));
    assert_int_equal(buy(&other), STORE_OK);
    store_rig_close(&other);
    assert_int_equal(rename(away, lock), 0);
    assert_int_equal(buy(rig), STORE_GONE);
}

/* ---- a statement that fails -------------------------------------------------- */

static enum store_status fail_silently(struct store *store,
                                       struct store_write *write)
{
    (void)write;
    (void)sql_run(store->db, "DELETE FROM segments");
    (void)sql_run(store->db, "DELETE FROM nowhere");
    return STORE_OK;
}

STORE_BOTH_TEST(test_half_a_write_is_not_kept_if_its_verb_says_nothing)
{
    struct store_error error;

    open_all(rig);
    assert_int_not_equal(
        write_step(rig->store, fail_silently, NULL, "half", 0, &error),
        STORE_OK);
    assert_non_null(strstr(error.text, "nowhere"));
    assert_int_equal(store_rig_product(rig, 1).stock, UNITS);
    assert_int_equal(buy(rig), STORE_OK);
}
