/*
 * Trouble from outside: the disk is full, another process has the lock. The
 * answer is "don't know", never "sold out"; nothing half is kept; and when the
 * trouble is over, so is ours.
 */
#include "server/base/clock.h"
#include "tests/support/store_rig.h"
#include "tests/support/store_wait.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define BUSY_MS 200
#define BATCH   64
#define UNITS   1000000

static bool shared; /* as the test is to open the store */

static void open_all(struct store_rig *rig)
{
    const struct store_options options = {.shared = shared, .busy_ms = BUSY_MS};
    const struct store_product product = {.id = 1, .initial = UNITS};

    store_rig_open(rig, options);
    store_rig_put(rig, product);
}

static int set_up(void **state)
{
    shared = *state != NULL;
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

/* ---- a full disk -------------------------------------------------------- */

/* Buys until it fails. *placed counts what was acknowledged. */
static enum store_status buy_all(struct store_rig *rig, int64_t *placed)
{
    struct store_order asked[BATCH], *orders[BATCH];
    enum store_status status = STORE_OK;

    for (int round = 0; round < 1000 && status == STORE_OK; round++) {
        for (int i = 0; i < BATCH; i++) {
            asked[i] = store_rig_ask(1, 1, 1, "");
            orders[i] = &asked[i];
        }
        status = store_place(rig->store, orders, BATCH, NULL, NULL);
        *placed += status == STORE_OK ? BATCH : 0;
    }
    return asked[BATCH - 1].status == status ? status : STORE_MISUSE;
}

/* No file of this process may grow beyond BYTES; writing on fails. */
static void limit_files(rlim_t bytes)
{
    const struct rlimit limit = {bytes, RLIM_INFINITY};

    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
}

static void fill_up(void *ctx)
{
    struct store_rig *rig = ctx;
    int64_t placed = 0;

    open_all(rig);
    limit_files(128 << 10);
    assert_int_equal(buy_all(rig, &placed), STORE_NO_SPACE);
    assert_true(placed > 0);
    /* One more may fit where a whole batch did not. */
    if (buy(rig) == STORE_OK)
        placed++;
    limit_files(RLIM_INFINITY);
    assert_int_equal(buy(rig), STORE_OK);
    assert_int_equal(store_rig_audit(rig).orders, placed + 1);
    store_rig_expect_sound(rig);
}

/* In a process of its own: the limit is the whole process's. */
static void test_full_disk_and_room_again(void **state)
{
    store_rig_join(store_rig_fork(fill_up, *state));
}

/* ---- another connection's lock ------------------------------------------ */

/* SQLite keeps two connections of a process apart as it does two processes; in
 * another process: e2e/store-outage.t. */
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
    assert_in_range(clock_ms() - began_ms, BUSY_MS - 1, BUSY_MS + 500);
}

static void test_busy_is_bounded_and_no_refusal(void **state)
{
    struct store_rig *rig = *state;
    sqlite3 *writer = open_beside(rig, "BEGIN IMMEDIATE");

    require_busy(rig);
    assert_int_equal(store_rig_audit(rig).orders, 0); /* readers do not wait */
    sqlite3_close(writer);
    assert_int_equal(buy(rig), STORE_OK);
    assert_int_equal(store_rig_audit(rig).orders, 1);
}

/* With a rollback journal it is the COMMIT that a reader holds up. */
static void test_reader_in_the_way_of_a_commit(void **state)
{
    struct store_rig *rig = *state;
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
static void test_a_hurry_ends_waiting(void **state)
{
    struct store_rig *rig = *state;
    sqlite3 *writer = open_beside(rig, "BEGIN IMMEDIATE");
    uint64_t began_ms;

    store_end_waits(rig->store);
    began_ms = clock_ms();
    assert_int_equal(buy(rig), STORE_BUSY);
    assert_in_range(clock_ms() - began_ms, 0, BUSY_MS / 2);
    sqlite3_close(writer);
    assert_int_equal(buy(rig), STORE_OK);
}

/* ---- the file is gone --------------------------------------------------- */

/* Nobody would find again what is written to a file without a name. For good: also
 * when there is a file again, or when the connection was lost. */
static void test_a_removed_file_takes_no_orders(void **state)
{
    struct store_rig *rig = *state;
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
static void test_without_its_lock_file_it_takes_no_orders(void **state)
{
    struct store_rig *rig = *state;
    char lock[sizeof(rig->dir.db) + 8], away[sizeof(lock) + 8];
    struct store_product product;
    struct store_error error;
    struct store_rig other;

    open_all(rig);
    assert_int_equal(buy(rig), STORE_OK);
    snprintf(lock, sizeof(lock), "%s.lock", rig->dir.db);
    snprintf(away, sizeof(away), "%s.away", lock);
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

static const struct CMUnitTest tests[] = {
    STORE_RIG_OWN_TEST(test_full_disk_and_room_again, set_up),
    STORE_RIG_SHARED_TEST(test_full_disk_and_room_again, set_up),
    STORE_RIG_OWN_TEST(test_busy_is_bounded_and_no_refusal, set_up),
    STORE_RIG_SHARED_TEST(test_reader_in_the_way_of_a_commit, set_up),
    STORE_RIG_OWN_TEST(test_a_hurry_ends_waiting, set_up),
    STORE_RIG_OWN_TEST(test_a_removed_file_takes_no_orders, set_up),
    STORE_RIG_OWN_TEST(test_without_its_lock_file_it_takes_no_orders, set_up),
    STORE_RIG_SHARED_TEST(test_without_its_lock_file_it_takes_no_orders,
                          set_up),
};

TEST_MAIN(tests)
