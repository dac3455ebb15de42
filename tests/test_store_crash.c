/*
 * kill -9 at random moments. Whatever was acknowledged must be there, and the
 * ledger must be sound, before anybody has opened it for writing again.
 *
 * (A killed process cannot show whether fsync was called: what it wrote is in
 * the kernel. That needs a machine that loses power.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "db/store.h"
#include "tests/support/temp_dir.h"

#include <pthread.h>
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
    struct store *store;
    int out;
    int64_t user;
};

static void open_store(const struct temp_dir *dir, bool shared,
                       struct store **store)
{
    const struct store_options options = {.url = dir->url, .shared = shared};

    if (store_open(&options, store, NULL) != STORE_OK)
        _exit(1);
}

static void put(struct store *store)
{
    struct store_product product = {
        .id = 1, .initial = 1000000, .name = "Thing"};

    store_product_put(store, &product, NULL, NULL);
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
    struct seller *seller = arg;

    for (;;) {
        struct store_order asked[BATCH], *orders[BATCH];
        for (int i = 0; i < BATCH; i++) {
            asked[i] = (struct store_order){
                .product_id = 1, .user_id = seller->user, .quantity = i + 1};
            orders[i] = &asked[i];
        }
        if (store_place(seller->store, orders, BATCH, NULL, NULL) != STORE_OK)
            _exit(3);
        for (int i = 0; i < BATCH; i++)
            acknowledge(seller->out, orders[i]);
    }
    return NULL;
}

static void child_main(const struct temp_dir *dir, bool shared, int out)
{
    struct seller sellers[SELLERS];
    pthread_t thread;
    struct store *store;

    open_store(dir, shared, &store);
    put(store);
    for (int i = 0; i < SELLERS; i++) {
        sellers[i] = (struct seller){store, out, i + 1};
        pthread_create(&thread, NULL, seller_main, &sellers[i]);
    }
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

/* Reads ids until every writer is dead. Death comes some moments after the first
 * one; or after the start, when the machine decides what it meets. */
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
    if (doomed)
        pthread_join(killer, NULL);
    return n;
}

static struct store_audit audit(const struct temp_dir *dir, char **acked,
                                size_t n)
{
    struct store_audit verdict;
    struct store_reader *reader;
    struct store_error error;

    if (store_reader_open_url(dir->url, &reader, &error) != STORE_OK)
        fail_msg("%s", error.text);
    assert_int_equal(store_audit(reader, NULL, NULL, (const char *const *)acked,
                                 n, &verdict, NULL),
                     STORE_OK);
    store_reader_close(reader);
    return verdict;
}

/* Returns how many orders had been acknowledged when death came. */
static size_t run_and_kill(const struct temp_dir *dir, bool shared, bool early,
                           char **acked)
{
    int pipe_fd[2], status;
    FILE *in;
    size_t n;
    pid_t child;

    assert_int_equal(pipe(pipe_fd), 0);
    fflush(NULL);
    child = fork();
    if (child == 0)
        child_main(dir, shared, pipe_fd[1]);
    close(pipe_fd[1]);
    in = fdopen(pipe_fd[0], "r");
    assert_non_null(in);
    n = read_acked(in, child, early, acked);
    fclose(in);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    return n;
}

/* The dead process's file goes on selling. */
static void sell_on(const struct temp_dir *dir, bool shared)
{
    struct store_order order = {.product_id = 1, .user_id = 1, .quantity = 1};
    struct store_order *orders[] = {&order};
    struct store *store;

    open_store(dir, shared, &store);
    put(store);
    assert_int_equal(store_place(store, orders, 1, NULL, NULL), STORE_OK);
    assert_int_equal(order.status, STORE_OK);
    store_close(store);
}

/* Killed before the schema was there: nothing to audit, nothing acked. */
static bool has_ledger(const struct temp_dir *dir)
{
    struct store_reader *reader;

    if (store_reader_open_url(dir->url, &reader, NULL) != STORE_OK)
        return false;
    store_reader_close(reader);
    return true;
}

static void survive(unsigned seed, bool shared)
{
    char **acked = calloc(ACKED_MAX, sizeof(*acked));
    struct store_audit verdict;
    struct temp_dir dir = {0};
    size_t n;

    srand(seed);
    temp_dir_make(&dir);
    n = run_and_kill(&dir, shared, seed % EARLY_EACH == 0, acked);
    if (n > 0 || has_ledger(&dir)) {
        verdict = audit(&dir, acked, n);
        if (!verdict.balanced || verdict.orders < (int64_t)n)
            fail_msg("seed %u shared %d: %zu acknowledged, %d stored, %d lost",
                     seed, shared, n, (int)verdict.orders, (int)verdict.lost);
    }
    sell_on(&dir, shared);
    assert_true(audit(&dir, acked, n).balanced);
    for (size_t i = 0; i < n; i++)
        free(acked[i]);
    free(acked);
    temp_dir_remove(&dir);
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
static void die_in_the_write(const struct temp_dir *dir)
{
    sqlite3 *db;

    sqlite3_open(dir->db, &db);
    sqlite3_exec(db,
                 "PRAGMA cache_size = 1; PRAGMA cache_spill = 1;"
                 "BEGIN IMMEDIATE; UPDATE orders SET quantity = quantity + 1;"
                 "UPDATE cells SET stock = 0",
                 NULL, NULL, NULL);
    raise(SIGKILL);
}

/* Fills several pages, so that the update above does not fit its cache. */
static void fill(const struct temp_dir *dir)
{
    struct store_order asked[1000], *orders[1000];
    struct store *store;

    open_store(dir, true, &store);
    put(store);
    for (int i = 0; i < 1000; i++) {
        asked[i] =
            (struct store_order){.product_id = 1, .user_id = 1, .quantity = 1};
        orders[i] = &asked[i];
    }
    assert_int_equal(store_place(store, orders, 1000, NULL, NULL), STORE_OK);
    store_close(store);
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
    struct temp_dir dir = {0};
    pid_t child;
    int status;

    (void)state;
    temp_dir_make(&dir);
    fill(&dir);
    fflush(NULL);
    child = fork();
    if (child == 0)
        die_in_the_write(&dir);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(journal_is_hot(&dir));
    assert_int_equal(audit(&dir, NULL, 0).sold, 1000);
    assert_true(audit(&dir, NULL, 0).balanced);
    temp_dir_remove(&dir);
}

/* One order, acknowledged or not, in the WAL of a process that is dead. */
static void leave_an_order(const struct temp_dir *dir)
{
    struct store_order order = {.product_id = 1, .user_id = 1, .quantity = 1};
    struct store_order *orders[] = {&order};
    struct store *store;

    open_store(dir, false, &store);
    put(store);
    store_place(store, orders, 1, NULL, NULL);
    kill(getpid(), SIGKILL);
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
    struct temp_dir dir;
    struct store *store;
    pid_t child;

    (void)state;
    temp_dir_make(&dir);
    child = fork();
    if (child == 0)
        leave_an_order(&dir);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_not_equal(orders_without_wal(&dir), 1);
    open_store(&dir, false, &store);
    assert_int_equal(orders_without_wal(&dir), 1);
    store_close(store);
    temp_dir_remove(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kill_the_only_process),
        cmocka_unit_test(test_kill_a_sharing_process),
        cmocka_unit_test(test_audit_of_half_a_transaction),
        cmocka_unit_test(test_what_is_found_is_brought_to_disk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
