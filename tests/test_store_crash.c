/*
 * What a process leaves that dies in the middle of a write: half a transaction,
 * or an order that no disk has. The death at each statement is in
 * test_store_segments_crash.c, that of a whole service in e2e/kill9.t and
 * e2e/two-instances-kill9.t.
 */
#include "tests/support/store_rig.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

static void open_store(struct store_rig *rig, bool shared)
{
    store_rig_open(rig, (struct store_options){.shared = shared});
    store_rig_put(rig, (struct store_product){.id = 1, .initial = 1000000});
}

static void expect_killed(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Dies with half a transaction in the file and the journal still hot. */
static void die_in_the_write(void *ctx)
{
    const struct store_rig *rig = ctx;
    sqlite3 *db;

    sqlite3_open(rig->dir.db, &db);
    sqlite3_exec(db,
                 "PRAGMA cache_size = 1; PRAGMA cache_spill = 1;"
                 "BEGIN IMMEDIATE; UPDATE orders SET quantity = quantity + 1;"
                 "UPDATE segments SET stock = 0",
                 NULL, NULL, NULL);
    raise(SIGKILL);
}

/* Fills several pages, so that the update above does not fit its cache. */
static void fill(struct store_rig *rig)
{
    struct store_order asked[1000], *orders[1000];

    open_store(rig, true);
    for (int i = 0; i < 1000; i++) {
        asked[i] = store_rig_ask(1, 1, 1, "");
        orders[i] = &asked[i];
    }
    assert_ok(store_place(rig->store, orders, 1000, NULL, NULL));
    store_rig_close(rig);
}

static bool journal_is_hot(const struct temp_dir *dir)
{
    char path[sizeof(dir->db) + 16], first = 0;
    FILE *file;

    snprintf(path, sizeof(path), "%s-journal", dir->db);
    file = fopen(path, "r");
    if (!file)
        return false;
    first = (char)fgetc(file);
    fclose(file);
    return first != 0 && first != (char)EOF;
}

static void test_audit_of_half_a_transaction(void **state)
{
    struct store_rig *rig = *state;
    struct store_audit verdict;

    fill(rig);
    expect_killed(store_rig_fork(die_in_the_write, rig));
    assert_true(journal_is_hot(&rig->dir));
    verdict = store_rig_audit_dir(&rig->dir, NULL, 0);
    assert_int_equal(verdict.sold, 1000);
    assert_true(verdict.balanced);
}

/* One order, acknowledged or not, in the WAL of a process that is dead. */
static void leave_an_order(void *ctx)
{
    open_store(ctx, false);
    store_rig_buy(ctx, 1, 1, 1, "");
    raise(SIGKILL);
}

static int64_t orders_without_wal(const struct temp_dir *dir)
{
    char command[3 * TEMP_DIR_BYTES_MAX], path[TEMP_DIR_BYTES_MAX + 64];
    sqlite3_stmt *stmt = NULL;
    sqlite3 *db = NULL;
    int64_t n = -1;

    snprintf(path, sizeof(path), "%s/alone", dir->path);
    snprintf(command, sizeof(command), "cp '%s' '%s'", dir->db, path);
    assert_int_equal(system(command), 0);
    sqlite3_open(path, &db);
    if (sqlite3_prepare_v2(db, "SELECT count(*) FROM orders", -1, &stmt,
                           NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW)
        n = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return n;
}

/*
 * Killed between its write and its fsync a process leaves an order that all can
 * read and that no disk has; who opens the database next would tell of it, and
 * sync nothing for that. So it is brought to disk before anybody is told: from
 * the WAL into the database, which syncs both.
 */
static void test_what_is_found_is_brought_to_disk(void **state)
{
    struct store_rig *rig = *state;

    expect_killed(store_rig_fork(leave_an_order, rig));
    assert_int_not_equal(orders_without_wal(&rig->dir), 1);
    store_rig_open(rig, (struct store_options){0});
    assert_int_equal(orders_without_wal(&rig->dir), 1);
}

static const struct CMUnitTest tests[] = {
    STORE_RIG_DIR_TEST(test_audit_of_half_a_transaction),
    STORE_RIG_DIR_TEST(test_what_is_found_is_brought_to_disk),
};

TEST_MAIN(tests)
