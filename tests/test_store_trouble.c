/*
 * Trouble from outside: the disk is full, another process has the lock. The
 * answer is "don't know", never "sold out"; nothing half is kept; and when the
 * trouble is over, so is ours.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "db/store.h"
#include "tests/support/store_rig.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BUSY_MS 200
#define BATCH   64

struct fixture {
    struct store_rig rig;
    pid_t holder;
    int to_holder, from_holder;
};

/* Opens nothing yet: the tests fork first, while there are no threads. */
static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    store_rig_begin(&fixture->rig);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    store_rig_end(&fixture->rig);
    free(fixture);
    return 0;
}

static void open_all(struct fixture *fixture, bool shared)
{
    const struct store_options options = {.shared = shared, .busy_ms = BUSY_MS};
    const struct store_product product = {.id = 1, .initial = 1000000};

    store_rig_open(&fixture->rig, options);
    store_rig_put(&fixture->rig, product);
}

static enum store_status buy(struct fixture *fixture)
{
    struct store_order order = {.product_id = 1, .user_id = 1, .quantity = 1};
    struct store_order *orders[] = {&order};
    enum store_status status =
        store_place(fixture->rig.store, orders, 1, NULL, NULL);

    assert_int_equal(order.status, status);
    return status;
}

/* ---- a full disk -------------------------------------------------------- */

/* Buys until it fails. *placed counts what was acknowledged. */
static enum store_status buy_all(struct fixture *fixture, int64_t *placed)
{
    struct store_order asked[BATCH], *orders[BATCH];
    enum store_status status = STORE_OK;

    for (int round = 0; round < 1000 && status == STORE_OK; round++) {
        for (int i = 0; i < BATCH; i++) {
            asked[i] = (struct store_order){
                .product_id = 1, .user_id = 1, .quantity = 1};
            orders[i] = &asked[i];
        }
        status = store_place(fixture->rig.store, orders, BATCH, NULL, NULL);
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

static int fill_up(struct fixture *fixture, bool shared)
{
    int64_t placed = 0;

    open_all(fixture, shared);
    limit_files(128 << 10);
    if (buy_all(fixture, &placed) != STORE_NO_SPACE || placed == 0)
        return 1;
    /* One more may fit where a whole batch did not. */
    if (buy(fixture) == STORE_OK)
        placed++;
    limit_files(RLIM_INFINITY);
    if (buy(fixture) != STORE_OK)
        return 2;
    if (store_rig_audit(&fixture->rig).orders != placed + 1 ||
        !store_rig_audit(&fixture->rig).balanced)
        return 3;
    return 0;
}

/* In a process of its own: the limit is the whole process's. */
static void check_full_disk(struct fixture *fixture, bool shared)
{
    pid_t child;
    int status;

    fflush(NULL);
    child = fork();
    if (child == 0)
        _exit(fill_up(fixture, shared));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_full_disk_and_room_again(void **state)
{
    check_full_disk(*state, false);
}

static void test_full_disk_in_shared_mode(void **state)
{
    check_full_disk(*state, true);
}

/* ---- another process's lock --------------------------------------------- */

/* Runs SQL when told to, and keeps the lock it takes until told otherwise. */
static void holder_main(const char *path, const char *sql, int in, int out)
{
    sqlite3 *db;
    char byte;

    if (read(in, &byte, 1) != 1 || sqlite3_open(path, &db) != SQLITE_OK ||
        sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK ||
        write(out, "x", 1) != 1 || read(in, &byte, 1) != 1)
        _exit(1);
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_close(db);
    _exit(0);
}

static void fork_holder(struct fixture *fixture, const char *sql)
{
    int to[2], from[2];

    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    fflush(NULL);
    fixture->holder = fork();
    if (fixture->holder == 0) {
        /* Or it would wait for itself, should the test fail. */
        close(to[1]);
        close(from[0]);
        holder_main(fixture->rig.dir.db, sql, to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    fixture->to_holder = to[1];
    fixture->from_holder = from[0];
}

static void hold(struct fixture *fixture)
{
    char byte;

    assert_int_equal(write(fixture->to_holder, "x", 1), 1);
    assert_int_equal(read(fixture->from_holder, &byte, 1), 1);
}

static void let_go(struct fixture *fixture)
{
    int status;

    assert_int_equal(write(fixture->to_holder, "x", 1), 1);
    assert_int_equal(waitpid(fixture->holder, &status, 0), fixture->holder);
    assert_int_equal(status, 0);
    close(fixture->to_holder);
    close(fixture->from_holder);
}

static int64_t monotonic_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The answer comes when the bound says, and not much later. */
static void require_busy(struct fixture *fixture)
{
    int64_t began = monotonic_ms();

    assert_int_equal(buy(fixture), STORE_BUSY);
    assert_in_range(monotonic_ms() - began, BUSY_MS - 1, BUSY_MS + 500);
}

static void test_busy_is_bounded_and_no_refusal(void **state)
{
    struct fixture *fixture = *state;

    fork_holder(fixture, "BEGIN IMMEDIATE");
    open_all(fixture, false);
    hold(fixture);
    require_busy(fixture);
    assert_int_equal(store_rig_audit(&fixture->rig).orders,
                     0); /* readers do not wait */
    let_go(fixture);
    assert_int_equal(buy(fixture), STORE_OK);
    assert_int_equal(store_rig_audit(&fixture->rig).orders, 1);
}

/* With a rollback journal it is the COMMIT that a reader holds up. */
static void test_reader_in_the_way_of_a_commit(void **state)
{
    struct fixture *fixture = *state;

    fork_holder(fixture, "BEGIN; SELECT COUNT(*) FROM orders");
    open_all(fixture, true);
    hold(fixture);
    require_busy(fixture);
    require_busy(fixture);
    let_go(fixture);
    assert_int_equal(store_rig_audit(&fixture->rig).orders, 0);
    assert_int_equal(buy(fixture), STORE_OK);
    assert_int_equal(store_rig_audit(&fixture->rig).orders, 1);
    store_rig_expect_sound(&fixture->rig);
}

/* In a hurry nobody waits, and still nobody is told "sold out". */
static void test_a_hurry_ends_waiting(void **state)
{
    struct fixture *fixture = *state;
    int64_t began;

    fork_holder(fixture, "BEGIN IMMEDIATE");
    open_all(fixture, false);
    hold(fixture);
    store_end_waits(fixture->rig.store);
    began = monotonic_ms();
    assert_int_equal(buy(fixture), STORE_BUSY);
    assert_in_range(monotonic_ms() - began, 0, BUSY_MS / 2);
    let_go(fixture);
    assert_int_equal(buy(fixture), STORE_OK);
}

/* ---- the file is gone --------------------------------------------------- */

/* What would be written to a file without a name, nobody would find again. */
static void test_a_removed_file_takes_no_orders(void **state)
{
    struct fixture *fixture = *state;

    open_all(fixture, false);
    assert_int_equal(buy(fixture), STORE_OK);
    assert_int_equal(unlink(fixture->rig.dir.db), 0);
    assert_int_equal(buy(fixture), STORE_IO);
    assert_int_equal(buy(fixture), STORE_IO);
}

/* Nor does a file that was put in its place: it is not what we opened. */
static void test_a_replaced_file_takes_no_orders(void **state)
{
    struct fixture *fixture = *state;
    char copy[sizeof(fixture->rig.dir.db) + 8];
    FILE *file;

    open_all(fixture, false);
    snprintf(copy, sizeof(copy), "%s.copy", fixture->rig.dir.db);
    file = fopen(copy, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(rename(copy, fixture->rig.dir.db), 0);
    assert_int_equal(buy(fixture), STORE_IO);
    assert_int_equal(buy(fixture), STORE_IO);
}

#define WITH_DIR(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DIR(test_full_disk_and_room_again),
        WITH_DIR(test_full_disk_in_shared_mode),
        WITH_DIR(test_busy_is_bounded_and_no_refusal),
        WITH_DIR(test_reader_in_the_way_of_a_commit),
        WITH_DIR(test_a_hurry_ends_waiting),
        WITH_DIR(test_a_removed_file_takes_no_orders),
        WITH_DIR(test_a_replaced_file_takes_no_orders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
