/*
 * kill -9 at random moments. Whatever was acknowledged must be there, and the
 * ledger must be sound, before anybody has opened it for writing again.
 *
 * (A killed process cannot show whether fsync was called: what it wrote is in
 * the kernel. That needs a machine that loses power.)
 */
#include "tests/support/store_rig.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS     10
#define EARLY_EACH 3 /* of so many rounds one ends before anything has begun */
#define SELLERS    4
#define BATCH      3
#define ACKED_MAX  200000

struct seller {
    struct store_rig *rig;
    bool shared;
    int out;
};

static void open_store(struct store_rig *rig, bool shared)
{
    store_rig_open(rig, (struct store_options){.shared = shared});
    store_rig_put(rig, (struct store_product){.id = 1, .initial = 1000000});
}

/* One write per acknowledgement, below PIPE_BUF: whole or not at all. */
static void acknowledge(int out, const struct store_order *order)
{
    char line[STORE_ID_BYTES_MAX + 2];

    snprintf(line, sizeof(line), "%s\n", order->id);
    if (order->status != STORE_OK ||
        write(out, line, strlen(line)) != (ssize_t)strlen(line))
        _exit(2);
}

static void *seller_main(void *arg)
{
    const struct seller *seller = arg;

    for (;;) {
        struct store_order asked[BATCH], *orders[BATCH];
        for (int i = 0; i < BATCH; i++) {
            asked[i] = store_rig_ask(1, 1, i + 1, "");
            orders[i] = &asked[i];
        }
        if (store_place(seller->rig->store, orders, BATCH, NULL, NULL))
            _exit(3);
        for (int i = 0; i < BATCH; i++)
            acknowledge(seller->out, orders[i]);
    }
    return NULL;
}

static void child_main(void *ctx)
{
    const struct seller *seller = ctx;
    pthread_t thread;

    open_store(seller->rig, seller->shared);
    for (int i = 0; i < SELLERS; i++)
        pthread_create(&thread, NULL, seller_main, ctx);
    pthread_join(thread, NULL);
}

static void *killer_main(void *arg)
{
    const pid_t *child = arg;
    struct timespec pause = {0, 5000000 + rand() % 60 * 1000000L};

    nanosleep(&pause, NULL);
    kill(*child, SIGKILL);
    return NULL;
}

/* Reads ids until every writer is dead. Death comes some moments after the
 * first one; or after the start, when the machine decides what it meets. */
static size_t read_acked(FILE *in, pid_t child, bool early, char **acked)
{
    bool doomed = false;
    pthread_t killer;
    char line[64];
    size_t n = 0;

    while (n < ACKED_MAX) {
        if (!doomed && (early || n > 0)) {
            pthread_create(&killer, NULL, killer_main, &child);
            doomed = true;
        }
        if (!fgets(line, sizeof(line), in))
            break;
        line[strcspn(line, "\n")] = '\0';
        acked[n++] = strdup(line);
    }
    assert_true(doomed); /* else it has not even begun to sell */
    pthread_join(killer, NULL);
    return n;
}

static void expect_killed(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Returns how many orders had been acknowledged when death came. */
static size_t run_and_kill(struct store_rig *rig, bool shared, bool early,
                           char **acked)
{
    struct seller seller = {.rig = rig, .shared = shared};
    int pipe_fd[2];
    FILE *in;
    size_t n;
    pid_t child;

    assert_int_equal(pipe(pipe_fd), 0);
    seller.out = pipe_fd[1];
    child = store_rig_fork(child_main, &seller);
    close(pipe_fd[1]);
    in = fdopen(pipe_fd[0], "r");
    assert_non_null(in);
    n = read_acked(in, child, early, acked);
    fclose(in);
    expect_killed(child);
    return n;
}

/* Killed before the schema was there: nothing to audit, nothing acked. */
static bool has_ledger(const struct store_rig *rig)
{
    struct store_reader *reader;

    if (store_reader_open_url(rig->dir.url, &reader, NULL) != STORE_OK)
        return false;
    store_reader_close(reader);
    return true;
}

static void survive(unsigned seed, bool shared)
{
    char **acked = calloc(ACKED_MAX, sizeof(*acked));
    const char *const *ids = (const char *const *)acked;
    struct store_audit verdict;
    struct store_rig rig;
    size_t n;

    srand(seed);
    store_rig_begin(&rig);
    n = run_and_kill(&rig, shared, seed % EARLY_EACH == 0, acked);
    if (n > 0 || has_ledger(&rig)) {
        verdict = store_rig_audit_dir(&rig.dir, ids, n);
        if (!verdict.balanced || verdict.orders < (int64_t)n)
            fail_msg("seed %u shared %d: %zu acknowledged, %d stored, %d lost",
                     seed, shared, n, (int)verdict.orders, (int)verdict.lost);
    }
    open_store(&rig, shared); /* the dead process's file goes on selling */
    assert_int_equal(store_rig_buy(&rig, 1, 1, 1, ""), STORE_OK);
    assert_true(store_rig_audit_dir(&rig.dir, ids, n).balanced);
    store_rig_end(&rig);
    for (size_t i = 0; i < n; i++)
        free(acked[i]);
    free(acked);
}

static void test_kill_the_only_process(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= ROUNDS; seed++)
        survive(seed, false);
}

static void test_kill_a_sharing_process(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= ROUNDS; seed++)
        survive(seed, true);
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
    assert_int_equal(store_place(rig->store, orders, 1000, NULL, NULL),
                     STORE_OK);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kill_the_only_process),
        cmocka_unit_test(test_kill_a_sharing_process),
        STORE_RIG_DIR_TEST(test_audit_of_half_a_transaction),
        STORE_RIG_DIR_TEST(test_what_is_found_is_brought_to_disk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
