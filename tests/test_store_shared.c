/*
 * Who may have the database open: the lock file, the journal that goes with
 * each way, and two processes that sell from one file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "db/store.h"
#include "tests/support/temp_dir.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 2
#define OPENERS   4
#define STOCK     300
#define TRIES     250 /* of each process: together more than there is */

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

static enum store_status open_store(const char *url, bool shared,
                                    struct store **store,
                                    struct store_error *error)
{
    const struct store_options options = {.url = url, .shared = shared};

    return store_open(&options, store, error);
}

static struct store *must_open(const struct temp_dir *dir, bool shared)
{
    struct store *store = NULL;
    struct store_error error;

    if (open_store(dir->url, shared, &store, &error) != STORE_OK)
        fail_msg("%s", error.text);
    return store;
}

static void put(struct store *store, int64_t units)
{
    struct store_product product = {.id = 1, .initial = units, .name = "Thing"};

    assert_int_equal(store_product_put(store, &product, NULL, NULL), STORE_OK);
}

static enum store_status buy(struct store *store)
{
    struct store_order order = {.product_id = 1, .user_id = 1, .quantity = 1};
    struct store_order *orders[] = {&order};

    if (store_place(store, orders, 1, NULL, NULL) != STORE_OK)
        return STORE_IO;
    return order.status;
}

static struct store_audit audit(const struct temp_dir *dir)
{
    struct store_audit verdict;
    struct store_reader *reader;

    assert_int_equal(store_reader_open_url(dir->url, &reader, NULL), STORE_OK);
    assert_int_equal(store_audit(reader, NULL, NULL, NULL, 0, &verdict, NULL),
                     STORE_OK);
    store_reader_close(reader);
    return verdict;
}

/* Byte 18 of the file: 1 = rollback journal, 2 = WAL. */
static int journal_of(const struct temp_dir *dir)
{
    FILE *file = fopen(dir->db, "r");
    int mode;

    assert_non_null(file);
    fseek(file, 18, SEEK_SET);
    mode = fgetc(file);
    fclose(file);
    return mode;
}

/* ---- who may open ------------------------------------------------------- */

static void test_only_sharers_meet(void **state)
{
    const struct temp_dir *dir = *state;
    const struct {
        bool first, second;
        enum store_status status;
        const char *says;
    } cases[] = {
        {false, false, STORE_IN_USE, "both with --shared"},
        {false, true, STORE_IN_USE, "both with --shared"},
        {true, false, STORE_IN_USE, "this one with --shared"},
        {true, true, STORE_OK, ""},
    };

    for (size_t i = 0; i < 4; i++) {
        struct store *first = must_open(dir, cases[i].first), *second = NULL;
        struct store_error error = {""};
        assert_int_equal(open_store(dir->url, cases[i].second, &second, &error),
                         cases[i].status);
        assert_non_null(strstr(error.text, cases[i].says));
        store_close(second);
        store_close(first);
    }
}

static void test_another_name_is_the_same_file(void **state)
{
    const struct temp_dir *dir = *state;
    struct store *store = must_open(dir, false), *other = NULL;
    char path[512], url[600];

    snprintf(path, sizeof(path), "%s/link.db", dir->path);
    assert_int_equal(symlink(dir->db, path), 0);
    snprintf(url, sizeof(url), "sqlite:%s", path);
    assert_int_equal(open_store(url, false, &other, NULL), STORE_IN_USE);
    store_close(store);
}

/* A link to a file that is yet to be made, and a name like a URI's. */
static void test_other_names_before_the_file_is_there(void **state)
{
    const struct temp_dir *dir = *state;
    struct store *store = NULL, *other = NULL;
    char path[512], url[600];

    snprintf(path, sizeof(path), "%s/link.db", dir->path);
    assert_int_equal(symlink(dir->db, path), 0);
    snprintf(url, sizeof(url), "sqlite:%s", path);
    assert_int_equal(open_store(url, false, &store, NULL), STORE_OK);
    assert_int_equal(open_store(dir->url, false, &other, NULL), STORE_IN_USE);
    snprintf(url, sizeof(url), "sqlite:file:%s", dir->db);
    assert_int_not_equal(open_store(url, false, &other, NULL), STORE_OK);
    store_close(store);
}

static void test_a_dead_process_is_in_nobodys_way(void **state)
{
    const struct temp_dir *dir = *state;
    pid_t child;
    int status;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        put(must_open(dir, false), 5);
        _exit(0); /* closes nothing */
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    /* What it left is a WAL that wants recovery, and a change of journal. */
    store_close(must_open(dir, true));
    assert_int_equal(journal_of(dir), 1);
    assert_int_equal(audit(dir).products, 1);
}

/* ---- what is no database of ours ---------------------------------------- */

static void refuse(const char *url, enum store_status wanted, const char *says)
{
    struct store *store = NULL;
    struct store_error error = {""};

    assert_int_equal(open_store(url, false, &store, &error), wanted);
    if (!strstr(error.text, says))
        fail_msg("%s: \"%s\" says nothing of \"%s\"", url, error.text, says);
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void test_refusals_say_why(void **state)
{
    const struct temp_dir *dir = *state;
    char url[600];
    FILE *file;

    refuse("postgres://x", STORE_MISUSE, "sqlite:PATH");
    refuse("sqlite:", STORE_MISUSE, "name");
    refuse("sqlite::memory:", STORE_MISUSE, "name");
    refuse("sqlite:/nowhere/at/all.db", STORE_IO, "No such file");
    snprintf(url, sizeof(url), "sqlite:%s", dir->path);
    refuse(url, STORE_IO, "is not a file");
    file = fopen(dir->db, "w");
    fputs("This is no database, though it is long enough to be looked at. "
          "It has a second sentence so that there is a whole header's worth.",
          file);
    fclose(file);
    refuse(dir->url, STORE_IO, "not a database");
    unlink(dir->db);
    run_sql(dir->db, "CREATE TABLE theirs (x)");
    refuse(dir->url, STORE_IO, "another program");
}

static void test_newer_schema_is_refused(void **state)
{
    const struct temp_dir *dir = *state;
    struct store_reader *reader;
    struct store_error error;

    store_close(must_open(dir, false));
    store_close(must_open(dir, false));
    run_sql(dir->db, "PRAGMA user_version = 99");
    refuse(dir->url, STORE_IO, "version 99");
    assert_int_equal(store_reader_open_url(dir->url, &reader, &error),
                     STORE_IO);
    assert_non_null(strstr(error.text, "version 99"));
}

static void test_reader_creates_nothing(void **state)
{
    const struct temp_dir *dir = *state;
    struct store_reader *reader;
    struct store_error error;
    struct stat st;

    assert_int_equal(store_reader_open_url(dir->url, &reader, &error),
                     STORE_IO);
    assert_non_null(strstr(error.text, "No such file"));
    assert_int_not_equal(stat(dir->db, &st), 0);
}

/* As somebody who may not write: root may always. */
static void test_unwritable(void **state)
{
    const struct temp_dir *dir = *state;
    char lock[512];
    pid_t child;
    int status;

    store_close(must_open(dir, false));
    snprintf(lock, sizeof(lock), "%s.lock", dir->db);
    chmod(dir->path, 0755);
    chmod(dir->db, 0444);
    chmod(lock, 0666);
    fflush(NULL);
    child = fork();
    if (child == 0) {
        struct store *store;
        if (geteuid() == 0 && setuid(65534) != 0)
            _exit(2);
        _exit(open_store(dir->url, false, &store, NULL) != STORE_IO);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---- journals ----------------------------------------------------------- */

static void test_journal_goes_with_the_way_of_opening(void **state)
{
    const struct temp_dir *dir = *state;
    struct store *store;

    for (int round = 0; round < 4; round++) {
        bool shared = round % 2 == 1;
        store = must_open(dir, shared);
        put(store, 100);
        assert_int_equal(buy(store), STORE_OK);
        store_close(store);
        assert_int_equal(journal_of(dir), shared ? 1 : 2);
        assert_int_equal(audit(dir).orders, round + 1);
        assert_true(audit(dir).balanced);
    }
}

/* An audit beside a running server, of either kind, takes nothing away. */
static void test_audit_beside_a_server(void **state)
{
    const struct temp_dir *dir = *state;

    for (int shared = 0; shared < 2; shared++) {
        struct store *store = must_open(dir, shared);
        put(store, 100);
        assert_int_equal(buy(store), STORE_OK);
        assert_int_equal(audit(dir).orders, shared * 2 + 1);
        assert_int_equal(buy(store), STORE_OK);
        assert_int_equal(audit(dir).orders, shared * 2 + 2);
        store_close(store);
    }
}

/* ---- two processes at once ---------------------------------------------- */

/* Waits for the shot, opens, and buys. The exit status says how many it got. */
static void seller_main(const struct temp_dir *dir, int shot, int result)
{
    struct store *store = NULL;
    int got = 0;
    char byte;

    /* The end of the pipe wakes all at the same moment. */
    if (read(shot, &byte, 1) != 0 ||
        open_store(dir->url, true, &store, NULL) != STORE_OK)
        _exit(1);
    put(store, STOCK);
    for (int i = 0; i < TRIES; i++) {
        enum store_status status = buy(store);
        if (status != STORE_OK && status != STORE_SOLD_OUT)
            _exit(2);
        got += status == STORE_OK;
    }
    store_close(store);
    if (write(result, &got, sizeof(got)) != sizeof(got))
        _exit(3);
    _exit(0);
}

static void test_two_processes_stay_exact(void **state)
{
    const struct temp_dir *dir = *state;
    int shot[2], result[2], status, got, all = 0;

    assert_int_equal(pipe(shot) | pipe(result), 0);
    fflush(NULL);
    for (int i = 0; i < PROCESSES; i++) {
        if (fork() == 0) {
            close(shot[1]);
            seller_main(dir, shot[0], result[1]);
        }
    }
    close(shot[1]);
    for (int i = 0; i < PROCESSES; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
        assert_int_equal(read(result[0], &got, sizeof(got)), sizeof(got));
        all += got;
    }
    close(shot[0]);
    close(result[0]);
    close(result[1]);
    assert_int_equal(all, STOCK);
    assert_int_equal(audit(dir).sold, STOCK);
    assert_true(audit(dir).balanced);
}

/* A dead process's WAL: to be recovered, and then to be given up. */
static void leave_wal(const struct temp_dir *dir)
{
    int status;

    fflush(NULL);
    if (fork() == 0) {
        put(must_open(dir, false), STOCK);
        _exit(0);
    }
    assert_true(wait(&status) > 0);
    assert_int_equal(status, 0);
}

static void open_at_once(const struct temp_dir *dir)
{
    int shot[2], status;

    assert_int_equal(pipe(shot), 0);
    fflush(NULL);
    for (int i = 0; i < OPENERS; i++) {
        if (fork() == 0) {
            struct store *store;
            char byte;
            close(shot[1]);
            _exit(read(shot[0], &byte, 1) != 0 ||
                  open_store(dir->url, true, &store, NULL) != STORE_OK ||
                  buy(store) == STORE_IO);
        }
    }
    close(shot[0]);
    close(shot[1]);
    for (int i = 0; i < OPENERS; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
}

/* All want to create the schema, or all to change the journal. */
static void test_openers_at_the_same_instant(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        struct temp_dir dir = {0};
        temp_dir_make(&dir);
        if (round % 2)
            leave_wal(&dir);
        open_at_once(&dir);
        assert_int_equal(audit(&dir).sold, round % 2 ? OPENERS : 0);
        temp_dir_remove(&dir);
    }
}

#define WITH_DIR(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DIR(test_only_sharers_meet),
        WITH_DIR(test_another_name_is_the_same_file),
        WITH_DIR(test_other_names_before_the_file_is_there),
        WITH_DIR(test_a_dead_process_is_in_nobodys_way),
        WITH_DIR(test_refusals_say_why),
        WITH_DIR(test_newer_schema_is_refused),
        WITH_DIR(test_reader_creates_nothing),
        WITH_DIR(test_unwritable),
        WITH_DIR(test_journal_goes_with_the_way_of_opening),
        WITH_DIR(test_audit_beside_a_server),
        WITH_DIR(test_two_processes_stay_exact),
        cmocka_unit_test(test_openers_at_the_same_instant),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
