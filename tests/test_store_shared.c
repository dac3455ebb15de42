/*
 * Who may have the database open: the lock file, and the journal that goes with
 * each way. Many that open it at once: test_store_conflicts.c.
 */
#include "tests/support/store_rig.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

static enum store_status open_store(const char *url, bool shared,
                                    struct store **store,
                                    struct store_error *error)
{
    const struct store_options options = {.url = url, .shared = shared};

    return store_open(&options, store, error);
}

/* With a product that has units. */
static void open_rig(struct store_rig *rig, bool shared)
{
    store_rig_open(rig, (struct store_options){.shared = shared});
    store_rig_put(rig, (struct store_product){.id = 1, .initial = 300});
}

static enum store_status buy(struct store_rig *rig)
{
    return store_rig_buy(rig, 1, 1, 1, "");
}

/* Byte 18 of the file: 1 = rollback journal, 2 = WAL. */
static int journal_of(const struct store_rig *rig)
{
    return store_rig_byte(rig, "", 18);
}

/* ---- who may open ------------------------------------------------------- */

STORE_DIR_TEST(test_only_sharers_meet)
{
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
        struct store *second = NULL;
        struct store_error error = {""};
        open_rig(rig, cases[i].first);
        assert_int_equal(
            open_store(rig->dir.url, cases[i].second, &second, &error),
            cases[i].status);
        assert_non_null(strstr(error.text, cases[i].says));
        store_close(second);
        store_rig_close(rig);
    }
}

/* Also while the file is yet to be made: a link, and a name like a URI's. */
STORE_DIR_TEST(test_another_name_is_the_same_file)
{
    struct store *store = NULL, *other = NULL;
    const char *path = text_of("%s/link.db", rig->dir.path);
    const char *url = text_of("sqlite:%s", path);

    assert_int_equal(symlink(rig->dir.db, path), 0);
    assert_int_equal(open_store(url, false, &store, NULL), STORE_OK);
    assert_int_equal(open_store(rig->dir.url, false, &other, NULL),
                     STORE_IN_USE);
    store_close(store);
    open_rig(rig, false);
    assert_int_equal(open_store(url, false, &other, NULL), STORE_IN_USE);
    url = text_of("sqlite:file:%s", rig->dir.db);
    assert_int_not_equal(open_store(url, false, &other, NULL), STORE_OK);
}

/* A hard link has a lock file and a journal of its own: nobody writes until it is gone, nor
 * reads, because the last orders are in the other one. */
STORE_DIR_TEST(test_a_second_name_is_refused)
{
    const char *path = text_of("%s/copy.db", rig->dir.path);
    const char *url = text_of("sqlite:%s", path);
    struct store_reader *reader = NULL;
    struct store *store = NULL;
    struct store_error error;

    open_rig(rig, false);
    assert_int_equal(link(rig->dir.db, path), 0);
    assert_int_equal(open_store(url, false, &store, &error), STORE_UNFIT);
    assert_non_null(strstr(error.text, "2 names (hard links)"));
    assert_int_equal(store_check(url, &error), STORE_UNFIT);
    assert_int_equal(store_reader_open_url(url, &reader, &error), STORE_UNFIT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(store_check(rig->dir.url, &error), STORE_OK);
}

/* In a file system of our own, with the file mounted over another. Exits with a status of
 * the store's, or 77: not allowed here. */
_Noreturn static void check_mounted(const char *from, const char *to,
                                    const char *url)
{
    struct store_error error;
    enum store_status status;

    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 ||
        mount(from, to, NULL, MS_BIND, NULL) != 0)
        _exit(77);
    status = store_check(url, &error);
    _exit(strstr(error.text, "mount its folder") ? (int)status : 1);
}

/* A container that is given the file and not its folder keeps the journal to itself. */
STORE_DIR_TEST(test_a_file_mounted_by_itself_is_refused)
{
    const char *path = text_of("%s/mounted.db", rig->dir.path);
    const char *url = text_of("sqlite:%s", path);
    int status;
    pid_t pid;

    open_rig(rig, false);
    store_rig_close(rig);
    assert_int_equal(close(creat(path, 0600)), 0);
    pid = fork();
    if (pid == 0)
        check_mounted(rig->dir.db, path, url);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), STORE_UNFIT);
}

/* As somebody who may not write: root may always. */
static void open_as_nobody(void *ctx)
{
    const struct store_rig *rig = ctx;
    struct store *store;

    if (geteuid() == 0)
        assert_int_equal(setuid(65534), 0);
    assert_int_equal(open_store(rig->dir.url, false, &store, NULL),
                     STORE_UNFIT);
}

STORE_DIR_TEST(test_unwritable)
{
    open_rig(rig, false);
    store_rig_close(rig);
    chmod(rig->dir.path, 0755);
    chmod(rig->dir.db, 0444);
    chmod(text_of("%s.lock", rig->dir.db), 0666);
    store_rig_join(store_rig_fork(open_as_nobody, rig));
}

/* ---- journals ----------------------------------------------------------- */

/* And an audit beside a running server, of either kind, takes nothing away. */
STORE_DIR_TEST(test_journal_goes_with_the_way_of_opening)
{
    struct store_audit verdict;

    for (int round = 0; round < 4; round++) {
        bool shared = round % 2 == 1;
        open_rig(rig, shared);
        assert_int_equal(buy(rig), STORE_OK);
        verdict = store_rig_audit_dir(&rig->dir, NULL, 0);
        assert_int_equal(verdict.orders, round * 2 + 1);
        assert_int_equal(buy(rig), STORE_OK);
        store_rig_close(rig);
        assert_int_equal(journal_of(rig), shared ? 1 : 2);
        verdict = store_rig_audit_dir(&rig->dir, NULL, 0);
        assert_int_equal(verdict.orders, round * 2 + 2);
        assert_true(verdict.balanced);
    }
}
