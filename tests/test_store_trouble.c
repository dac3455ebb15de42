/*
 * Trouble from outside: the disk is full, another process has the lock. The
 * answer is "don't know", never "sold out"; nothing half is kept; and when the
 * trouble is over, so is ours.
 */
#include "tests/support/store_rig.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BUSY_MS 200
#define BATCH   64

static void open_all(struct store_rig *rig, bool shared)
{
    const struct store_options options = {.shared = shared, .busy_ms = BUSY_MS};
    const struct store_product product = {.id = 1, .initial = 1000000};

    store_rig_open(rig, options);
    store_rig_put(rig, product);
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

struct filler {
    struct store_rig *rig;
    bool shared;
};

static void fill_up(void *ctx)
{
    const struct filler *filler = ctx;
    struct store_rig *rig = filler->rig;
    int64_t placed = 0;

    open_all(rig, filler->shared);
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
    struct filler filler = {.rig = *state};

    store_rig_join(store_rig_fork(fill_up, &filler));
}

static void test_full_disk_in_shared_mode(void **state)
{
    struct filler filler = {.rig = *state, .shared = true};

    store_rig_join(store_rig_fork(fill_up, &filler));
}

/* ---- another process's lock --------------------------------------------- */

/* Another process, which was forked while this one had no threads. */
struct holder {
    const struct store_rig *rig;
    const char *sql; /* that takes the lock */
    int ends[2];
    pid_t pid;
};

/* Runs SQL when told to, and keeps the lock it takes until told otherwise. */
static void holder_main(void *ctx)
{
    const struct holder *self = ctx;
    sqlite3 *db;
    char byte;

    close(
        self->ends[0]); /* or it would wait for itself, should the test fail */
    assert_int_equal(read(self->ends[1], &byte, 1), 1);
    assert_int_equal(sqlite3_open(self->rig->dir.db, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, self->sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(write(self->ends[1], "x", 1), 1);
    assert_int_equal(read(self->ends[1], &byte, 1), 1);
    sqlite3_close(db);
}

static struct holder open_and_hold(struct store_rig *rig, bool shared,
                                   const char *sql)
{
    struct holder holder = {.rig = rig, .sql = sql};
    char byte;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, holder.ends), 0);
    holder.pid = store_rig_fork(holder_main, &holder);
    close(holder.ends[1]);
    open_all(rig, shared);
    assert_int_equal(write(holder.ends[0], "x", 1), 1);
    assert_int_equal(read(holder.ends[0], &byte, 1), 1);
    return holder;
}

static void let_go(const struct holder *holder)
{
    assert_int_equal(write(holder->ends[0], "x", 1), 1);
    store_rig_join(holder->pid);
    close(holder->ends[0]);
}

static int64_t monotonic_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The answer comes when the bound says, and not much later. */
static void require_busy(struct store_rig *rig)
{
    int64_t began = monotonic_ms();

    assert_int_equal(buy(rig), STORE_BUSY);
    assert_in_range(monotonic_ms() - began, BUSY_MS - 1, BUSY_MS + 500);
}

static void test_busy_is_bounded_and_no_refusal(void **state)
{
    struct store_rig *rig = *state;
    struct holder holder = open_and_hold(rig, false, "BEGIN IMMEDIATE");

    require_busy(rig);
    assert_int_equal(store_rig_audit(rig).orders, 0); /* readers do not wait */
    let_go(&holder);
    assert_int_equal(buy(rig), STORE_OK);
    assert_int_equal(store_rig_audit(rig).orders, 1);
}

/* With a rollback journal it is the COMMIT that a reader holds up. */
static void test_reader_in_the_way_of_a_commit(void **state)
{
    struct store_rig *rig = *state;
    struct holder holder =
        open_and_hold(rig, true, "BEGIN; SELECT COUNT(*) FROM orders");

    require_busy(rig);
    require_busy(rig);
    let_go(&holder);
    assert_int_equal(store_rig_audit(rig).orders, 0);
    assert_int_equal(buy(rig), STORE_OK);
    assert_int_equal(store_rig_audit(rig).orders, 1);
    store_rig_expect_sound(rig);
}

/* In a hurry nobody waits, and still nobody is told "sold out". */
static void test_a_hurry_ends_waiting(void **state)
{
    struct store_rig *rig = *state;
    struct holder holder;
    int64_t began;

    holder = open_and_hold(rig, false, "BEGIN IMMEDIATE");
    store_end_waits(rig->store);
    began = monotonic_ms();
    assert_int_equal(buy(rig), STORE_BUSY);
    assert_in_range(monotonic_ms() - began, 0, BUSY_MS / 2);
    let_go(&holder);
    assert_int_equal(buy(rig), STORE_OK);
}

/* ---- the file is gone --------------------------------------------------- */

/* What would be written to a file without a name, nobody would find again. */
static void test_a_removed_file_takes_no_orders(void **state)
{
    struct store_rig *rig = *state;

    open_all(rig, false);
    assert_int_equal(buy(rig), STORE_OK);
    assert_int_equal(unlink(rig->dir.db), 0);
    assert_int_equal(buy(rig), STORE_IO);
    assert_int_equal(buy(rig), STORE_IO);
}

static const struct CMUnitTest tests[] = {
    STORE_RIG_DIR_TEST(test_full_disk_and_room_again),
    STORE_RIG_DIR_TEST(test_full_disk_in_shared_mode),
    STORE_RIG_DIR_TEST(test_busy_is_bounded_and_no_refusal),
    STORE_RIG_DIR_TEST(test_reader_in_the_way_of_a_commit),
    STORE_RIG_DIR_TEST(test_a_hurry_ends_waiting),
    STORE_RIG_DIR_TEST(test_a_removed_file_takes_no_orders),
};

TEST_MAIN(tests)
