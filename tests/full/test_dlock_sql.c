/*
 * sql-table, sql-row and recorded against a real MariaDB: re-entry, lost replies, and
 * what a caller is told when the server is away. That holders exclude each other, and
 * die, is in conform-all.t (X2 and C).
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "lock/backends.h" /* made by the Makefile */
#include "tests/support/deaf_server.h"
#include "tests/support/fake_resolver.h"
#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"
#include "tests/support/mariadb_server.h"

static struct mariadb_server *sql;

static void fresh(const char *lock)
{
    static char both[512]; /* the url of recorded */

    mariadb_server_do(sql, "DROP TABLE IF EXISTS dlock_table, dlock_record");
    (void)snprintf(both, sizeof(both), "%s,%s", redis_server_url(rig.server),
                   sql->url);
    rig.url = strcmp(lock, "recorded") == 0 ? both : sql->url;
    rig.command_timeout_ms = 2500;
}

static void serve(const char *how, const char *which)
{
    if (!server_proc_do(&sql->proc, how))
        mariadb_server_restart(sql);
}

static int setup(void **state)
{
    static const struct lock_story_host host = {fresh, serve};

    lock_story_host = &host;
    sql = mariadb_server_start();
    return lock_rig_setup(state);
}

static int teardown(void **state)
{
    (void)lock_rig_teardown(state);
    mariadb_server_stop(sql);
    return 0;
}

/* The next row of each connection is answered with this error of the server. */
static void fail_next(const char *error)
{
    char sql_text[400];

    (void)snprintf(sql_text, sizeof(sql_text),
                   "DELIMITER //\nCREATE OR REPLACE TRIGGER next_fails BEFORE "
                   "INSERT ON dlock_table FOR EACH ROW IF @e%s IS NULL THEN "
                   "SET @e%s = 1; SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = "
                   "%s; END IF//",
                   error, error, error);
    mariadb_server_do(sql, sql_text);
}

/* A statement that was rolled back is sent again; of one whose connection was killed,
 * or whose server is being stopped, nobody knows. */
static void test_errors(void **state)
{
    struct lock_single a = lock_single_open(*state);

    assert_ok(lock_single_take(&a, 0));
    assert_ok(lock_single_give(&a));
    fail_next("1213");
    assert_ok(lock_single_take(&a, 0));
    assert_ok(lock_single_give(&a));
    fail_next("1927");
    assert_int_equal(lock_single_take(&a, 0), DLOCK_UNKNOWN);
    fail_next("1053");
    assert_int_equal(lock_single_take(&a, 0), DLOCK_UNKNOWN);
}

/* The address leads to another server, and the old one, which goes on, is read-only. */
static void test_primary_moves(void **state)
{
    static const char user[] = "CREATE USER IF NOT EXISTS buyer@localhost; "
                               "GRANT ALL ON test.* TO buyer@localhost";
    struct mariadb_server *next = mariadb_server_start();
    char at[TEMP_DIR_BYTES_MAX + 16];
    struct lock_pair pair;
    struct dlock_grant kept;

    mariadb_server_do(sql, user);
    mariadb_server_do(next, user);
    (void)snprintf(at, sizeof(at), "%s/primary", sql->dir.path);
    rig.url = text_of("mysql:unix:%s?user=buyer", at);
    assert_int_equal(symlink(text_of("%s/sql", sql->dir.path), at), 0);
    pair = lock_pair_open(*state);
    assert_ok(lock_pair_take(&pair, 0, LOCK_RIG_PROMPT_MS, 0));
    assert_ok(
        lock_rig_take(pair.session[1], "kept", LOCK_RIG_PROMPT_MS, 0, &kept));
    mariadb_server_do(sql, "SET GLOBAL read_only = 1");
    assert_int_equal(unlink(at), 0);
    assert_int_equal(symlink(text_of("%s/sql", next->dir.path), at), 0);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_LOST);
    assert_ok(lock_pair_take(&pair, 0, LOCK_RIG_PROMPT_MS, 0));
    assert_int_equal(lock_pair_take(&pair, 1, 100, 0), DLOCK_TIMEOUT);
    assert_int_equal(dlock_release(pair.session[1], &kept, NULL), DLOCK_LOST);
    assert_ok(lock_pair_give(&pair, 0));
    mariadb_server_do(sql, "SET GLOBAL read_only = 0");
    mariadb_server_stop(next);
    assert_int_equal(unlink(at), 0);
}

/* A row that is taken must not wait in a transaction, which a lost connection rolls back. */
static void test_server_without_autocommit(void **state)
{
    enum dlock_status taken, refused;
    struct lock_pair pair;

    mariadb_server_do(sql, "SET GLOBAL autocommit = 0");
    pair = lock_pair_open(*state);
    taken = lock_pair_take(&pair, 0, 0, 0);
    refused = lock_pair_take(&pair, 1, 0, 0);
    mariadb_server_do(sql, "SET GLOBAL autocommit = 1");
    assert_ok(taken);
    assert_int_equal(refused, DLOCK_BUSY);
    assert_ok(lock_pair_give(&pair, 0));
}

/* A program that the holder executes would keep the lock for it. */
static void test_nobody_inherits_it(void **state)
{
    struct lock_single a = lock_single_open(*state);
    unsigned sockets_n = 0;
    struct stat kind;

    assert_ok(lock_single_take(&a, 0));
    for (int fd = 0; fd < 256; fd++)
        if (fstat(fd, &kind) == 0 && S_ISSOCK(kind.st_mode)) {
            assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
            sockets_n++;
        }
    assert_true(sockets_n > 0);
    assert_ok(lock_single_give(&a));
}

/* The first delete finds another one's row: nothing, as if it had been killed. */
static enum dlock_verdict hide_the_row(void *ctx, const struct dlock_step *step)
{
    unsigned *steps_n = ctx;

    if (strcmp(step->name, "delete") == 0 && ++*steps_n <= 2)
        mariadb_server_do(sql, "UPDATE dlock_table SET owner = REVERSE(owner)");
    return DLOCK_GO;
}

static void test_a_killed_release_loses_nothing(void **state)
{
    unsigned steps_n = 0;
    struct lock_single a;

    rig.on_step = hide_the_row;
    rig.hooks_ctx = &steps_n;
    a = lock_single_open(*state);
    assert_ok(lock_single_take(&a, 0));
    assert_ok(lock_single_give(&a));
    assert_int_equal(steps_n, 4);
    assert_int_equal(lock_single_give(&a), DLOCK_LOST);
}

/* Whatever is printable may be a name, and differs from what looks like it. */
static void test_odd_names(void **state)
{
    struct lock_single a = lock_single_open(*state);
    static const char *const odd[] = {"a'b", "a' OR '1'='1", "a\\",
                                      "a%",  "A'B",          "a'b "};
    char longest[DLOCK_NAME_BYTES_MAX + 1];

    memset(longest, 'n', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    for (size_t j = 0; j < COUNT_OF(odd); j++)
        assert_ok(lock_rig_take(a.session, odd[j], 0, 0, &a.grant));
    assert_ok(lock_rig_take(a.session, longest, 0, 0, &a.grant));
    assert_ok(lock_single_give(&a));
}

/* Each place of a name has its share of the time, the last one its turn; a resolver that
 * hangs takes no longer than all of it. */
static void test_name_in_url(void **state)
{
    struct dlock_options options = {.strategy = *state,
                                    .url = "mysql://me@two.test/shop",
                                    .connect_timeout_ms = 1000};
    struct deaf_server deaf = deaf_server_open();
    struct sockaddr_in refuses;
    int fd = deaf_server_bind(&refuses, -1);

    fake_resolver_begin();
    fake_resolver_tell(deaf.at);
    fake_resolver_tell(refuses);
    (void)lock_rig_fails(&options, "127.0.0.1' (111)");
    fake_resolver_hang(true);
    options.url = "mysql://me@hangs.test/shop";
    (void)lock_rig_fails(&options, "look up hangs.test: Connection timed out");
    fake_resolver_let_go("hangs.test", "3306");
    (void)close(fd);
    deaf_server_close(&deaf);
}

UNIT_TEST(test_urls)
{
    static const struct {
        const char *strategy;
        const char *url;
        enum dlock_status status;
    } cases[] = {
        {"sql-row", "mysql:unix:/x", DLOCK_OK},
        {"sql-row", "mysql:unix:/x?db=a&user=b", DLOCK_OK},
        {"sql-row", "mysql://me:secret@10.0.0.1:3306/shop", DLOCK_OK},
        {"sql-row", "mysql://me@[::1]:3306/shop", DLOCK_OK},
        {"sql-row", "mysql://me@[::1]/shop", DLOCK_OK},
        {"sql-row", "mysql://me@h/shop", DLOCK_OK},
        {"sql-row", NULL, DLOCK_MISUSE},
        {"sql-row", "unix:/x", DLOCK_MISUSE},
        {"sql-row", "mysql:unix:", DLOCK_MISUSE},
        {"sql-row", "mysql:unix:/x?host=y", DLOCK_MISUSE},
        {"sql-row", "mysql://me@h:0/shop", DLOCK_MISUSE},
        {"sql-row", "mysql://me:a@secret@h/shop", DLOCK_MISUSE},
        {"sql-row", "mysql://me@h:99999/shop", DLOCK_MISUSE},
        {"sql-row", "mysql://me@h:3306/", DLOCK_MISUSE},
        {"sql-row", "mysql://h:3306/shop", DLOCK_MISUSE},
        {"recorded", "mysql:unix:/x", DLOCK_MISUSE},
        {"recorded", "unix:/x", DLOCK_MISUSE},
        {"recorded", "zk:h:1,mysql:unix:/x", DLOCK_MISUSE},
        {"recorded", "unix:/x,mysql:unix:", DLOCK_MISUSE},
        {"recorded", "rediss://h:1,mysql:unix:/x",
         DLOCK_WITH_TLS ? DLOCK_OK : DLOCK_MISUSE},
        {"recorded", "redis://h:1,mysql:unix:/x", DLOCK_OK},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct dlock_options options = {.strategy = cases[i].strategy,
                                        .url = cases[i].url};
        struct dlock_error error = {""};
        struct dlock *client = NULL;

        assert_int_equal(dlock_open(&options, &client, &error),
                         cases[i].status);
        assert_null(strstr(error.text, "secret"));
        dlock_close(client);
    }
}

#define ALL "sql-table sql-row recorded"

/* An uncertain take is taken over, a release that had worked is no loss, also if it is
 * not sent when it is repeated. sql-row has nothing to take over: its connection is
 * gone. */
#define LOST_REPLIES(take, give)                                               \
    "a takes name=warm-up; a gives; fail " take " after 1; a takes -> "        \
    "unknown; a takes wait=prompt holds=1; b takes -> busy; fail " give        \
    " after 1; a gives -> unknown; fail " give                                 \
    " before always; a gives -> unreachable; fail " give                       \
    " before 0; a gives; b takes wait=prompt; b gives"

/* It comes back with its data: the row is still there. */
#define KILLED(then)                                                           \
    "a takes; server kill; a takes other name=other -> unreachable; "          \
    "a gives -> unreachable; server restart; a gives -> " then                 \
    "; a takes; a gives"

static const struct lock_story stories[] = {
    {"N: the row counts, and says so", "sql-table",
     "a takes outer; a takes inner holds=2; b sees holds=2 owner=a; "
     "a gives inner; forget; b takes -> busy; steps update 1; a gives outer; "
     "b takes; b gives"},
    {"the same connection gets GET_LOCK twice; a session does not", "sql-row",
     "a takes; a takes again -> busy; a takes other name=other; a gives; "
     "a gives other"},
    {"a lost reply counts once", "sql-table recorded",
     LOST_REPLIES("insert", "delete")},
    {"a lost reply counts once", "sql-row",
     LOST_REPLIES("get-lock", "release-lock")},
    {"releases without an answer are known, each by itself",
     "sql-table recorded",
     "a takes one name=one; a takes two name=two; fail delete after 1; "
     "a gives one -> unknown; fail delete after 1; a gives two -> unknown; "
     "a gives one; a gives two"},
    {"the server is killed: not sent", "sql-table recorded", KILLED("ok")},
    {"and its connections with it", "sql-row", KILLED("lost")},
    {"it was there again before anybody asked", ALL,
     "a takes; a gives; server kill; server restart; a takes; a gives"},
    {"locks go with the connection, and the session knows", "sql-row",
     "a takes; a has left=-1; fail is-used-lock after 1; a sees -> unknown; "
     "a has left=0; b takes wait=prompt; a takes other name=other; "
     "a has other left=-1; a has left=0; server kill; "
     "a takes third name=third -> unreachable; a has other left=0; "
     "server restart; a gives other -> lost; a gives -> lost; "
     "a takes other name=other; a has other left=-1; a gives other; "
     "a has other left=0"},
    /* The connection is gone then, and none is to be had. */
    {"the server is stopped: sent, and no answer, within the timeout", ALL,
     "commands 300; a takes name=warm-up; server pause; clock; "
     "a takes -> unknown; took 250..prompt; a takes name=k2 -> unreachable; "
     "server resume; a takes name=k3 wait=prompt; a gives"},
    {"M: Redis forgets, and the row still says no; it ends with the lease",
     "recorded",
     "a takes 20000; FLUSHALL; b takes -> busy; free; "
     "b sees held=1 left=1..20000; a extends 30000; b takes -> busy; a gives; "
     "a takes 2000; FLUSHALL; b takes wait=long; a gives -> lost; b gives"},
    /* What Redis gave goes back, and somebody else may try. Where the row has gone, and
     * the key is uncertain: asked again, it is no loss. */
    {"no record, no lock", "recorded",
     "fail insert before 1; a takes -> unreachable; free; a takes; "
     "fail eval-release after 1; a gives -> unknown; a gives"},
    {"the row has its new end, and the key has not: the earlier one counts",
     "recorded",
     "a takes 20000; fail eval-renew before always; "
     "a extends 5000 -> unknown; a has left=1..5000; "
     "fail eval-renew before 0; a gives"},
    {"none can be forced, and says so: nothing happens to the holder", ALL,
     "a takes; b sees held=1 holds=1; b forces -> misuse; a gives"},
};
LOCK_STORIES_TEST

static const struct CMUnitTest tests[] = {
    LOCK_STORY_TEST(test_errors, "sql-table"),
    LOCK_STORY_TEST(test_server_without_autocommit, "sql-table"),
    LOCK_STORY_TEST(test_primary_moves, "sql-table"),
    LOCK_STORY_TEST(test_primary_moves, "sql-row"),
    LOCK_STORY_TEST(test_nobody_inherits_it, "sql-row"),
    LOCK_STORY_TEST(test_a_killed_release_loses_nothing, "sql-table"),
    LOCK_STORY_TEST(test_odd_names, "sql-table"),
    LOCK_STORY_TEST(test_odd_names, "sql-row"),
    LOCK_STORY_TEST(test_odd_names, "recorded"),
    LOCK_STORY_TEST(test_name_in_url, "sql-row"),
};
UNIT_TESTS_ADD(tests)

UNIT_TESTS_WITHIN(setup, teardown)
