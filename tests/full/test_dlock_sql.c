/*
 * sql-table, sql-row and recorded against a real MariaDB: re-entry, lost replies, and
 * what a caller is told when the server is away. That holders exclude each other, and
 * die, is in conform-all.t (X2 and C).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/lock_party.h"
#include "tests/support/lock_rig.h"
#include "tests/support/mariadb_server.h"

static struct mariadb_server *sql;
static struct redis_server *redis;

static int setup(NO_STATE)
{
    sql = mariadb_server_start();
    redis = redis_server_start();
    return 0;
}

static int teardown(NO_STATE)
{
    redis_server_stop(redis);
    mariadb_server_stop(sql);
    return 0;
}

static int fresh(void **state)
{
    const struct lock_party_terms *how = *state;
    static char both[512]; /* the url of recorded */

    mariadb_server_do(sql, "DROP TABLE IF EXISTS dlock_table, dlock_record");
    redis_server_ask(redis, "FLUSHALL", NULL, 0);
    (void)snprintf(both, sizeof(both), "%s,%s", redis_server_url(redis),
                   sql->url);
    return lock_trio_new(
        state, strcmp(how->strategy, "recorded") == 0 ? both : sql->url, 0,
        300);
}

/* Whether it is this lock that the test is about. */
static bool is(const struct lock_trio *trio, const char *strategy)
{
    return strcmp(trio->how.strategy, strategy) == 0;
}

/* N: the row counts, and says so. */
static void test_table_reentry(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 2);
    struct dlock_holder holder;
    struct dlock_grant outer;

    assert_ok(lock_party_take(&trio->a, "k", 0));
    outer = trio->a.grant;
    assert_ok(lock_party_take(&trio->a, "k", 0));
    assert_int_equal(trio->a.grant.holds, 2);
    assert_ok(dlock_inspect(trio->b.session, "k", &holder, NULL));
    assert_int_equal(holder.holds, 2);
    assert_string_equal(holder.owner, dlock_session_owner(trio->a.session));
    assert_ok(lock_party_give(&trio->a));
    assert_int_equal(lock_party_take(&trio->b, "k", 0), DLOCK_BUSY);
    assert_ok(dlock_release(trio->a.session, &outer, NULL));
    assert_ok(lock_party_take(&trio->b, "k", 0));
    assert_ok(lock_party_give(&trio->b));
}

/* The same connection gets GET_LOCK twice; a session does not. */
static void test_row_is_not_reentrant(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 1);
    struct dlock_grant first;

    assert_ok(lock_party_take(&trio->a, "k", 0));
    first = trio->a.grant;
    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_BUSY);
    assert_ok(lock_party_take(&trio->a, "other", 0));
    assert_ok(dlock_release(trio->a.session, &first, NULL));
    assert_ok(lock_party_give(&trio->a));
}

/*
 * A lost reply counts once: what is uncertain is taken over, a release that had
 * worked is no loss. sql-row has nothing to take over: its connection is gone.
 */
static void test_lost_replies(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 2);
    bool is_row = is(trio, "sql-row");

    assert_ok(lock_party_take(&trio->a, "warm-up", 0));
    assert_ok(lock_party_give(&trio->a));
    step_log_fail(&trio->a.log, is_row ? "get-lock" : "insert", DLOCK_AFTER, 1);
    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_UNKNOWN);
    assert_ok(lock_party_take(&trio->a, "k", 500));
    assert_int_equal(trio->a.grant.holds, 1);
    assert_int_equal(lock_party_take(&trio->b, "k", 0), DLOCK_BUSY);
    step_log_fail(&trio->a.log, is_row ? "release-lock" : "delete", DLOCK_AFTER,
                  1);
    assert_int_equal(lock_party_give(&trio->a), DLOCK_UNKNOWN);
    assert_ok(lock_party_give(&trio->a));
    assert_ok(lock_party_take(&trio->b, "k", 500));
    assert_ok(lock_party_give(&trio->b));
}

/* Killed: not sent. It comes back with its data: the row is still there. */
static void test_server_killed(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 1);

    assert_ok(lock_party_take(&trio->a, "k", 0));
    server_proc_kill(&sql->proc);
    assert_int_equal(lock_party_take(&trio->a, "other", 0), DLOCK_UNREACHABLE);
    assert_int_equal(lock_party_give(&trio->a), DLOCK_UNREACHABLE);
    mariadb_server_restart(sql);
    assert_int_equal(lock_party_give(&trio->a),
                     is(trio, "sql-row") ? DLOCK_LOST : DLOCK_OK);
    assert_ok(lock_party_take(&trio->a, "k", 0));
    assert_ok(lock_party_give(&trio->a));
}

/* Stopped: sent, and no answer, within the timeout. */
static void test_server_stopped(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 1);
    uint64_t began;

    assert_ok(lock_party_take(&trio->a, "warm-up", 0));
    server_proc_pause(&sql->proc);
    began = lock_rig_now_ms();
    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_UNKNOWN);
    assert_in_range(lock_rig_now_ms() - began, 250, 3000);
    /* The connection is gone, and none is to be had. */
    assert_int_equal(lock_party_take(&trio->a, "k2", 0), DLOCK_UNREACHABLE);
    server_proc_resume(&sql->proc);
    assert_ok(lock_party_take(&trio->a, "k3", 2000));
    assert_ok(lock_party_give(&trio->a));
}

/* M: Redis forgets, and the row still says no; it ends with the lease. */
static void test_recorded_survives_redis(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 2);
    struct dlock_terms lease = {.lease_ms = 800};
    struct dlock_holder holder;

    assert_ok(
        dlock_acquire(trio->a.session, "k", &lease, &trio->a.grant, NULL));
    redis_server_ask(redis, "FLUSHALL", NULL, 0);
    assert_int_equal(lock_party_take(&trio->b, "k", 0), DLOCK_BUSY);
    assert_int_equal(redis_server_number(redis, "EXISTS k"), 0);
    assert_ok(dlock_inspect(trio->b.session, "k", &holder, NULL));
    assert_true(holder.held);
    assert_in_range(holder.remaining_ms, 1, 800);
    assert_ok(dlock_extend(trio->a.session, &trio->a.grant, 900, NULL));
    assert_int_equal(lock_party_take(&trio->b, "k", 0), DLOCK_BUSY);
    assert_ok(lock_party_give(&trio->a));
    assert_ok(
        dlock_acquire(trio->a.session, "k", &lease, &trio->a.grant, NULL));
    redis_server_ask(redis, "FLUSHALL", NULL, 0);
    assert_ok(lock_party_take(&trio->b, "k", 5000));
    assert_int_equal(lock_party_give(&trio->a), DLOCK_LOST);
    assert_ok(lock_party_give(&trio->b));
}

/* No record, no lock: what Redis gave goes back, and somebody else may try. */
static void test_recorded_needs_both(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 1);

    step_log_fail(&trio->a.log, "insert", DLOCK_BEFORE, 1);
    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_UNREACHABLE);
    assert_int_equal(redis_server_number(redis, "EXISTS k"), 0);
    assert_ok(lock_party_take(&trio->a, "k", 0));
    /* The row goes, the key is uncertain: asked again, it is no loss. */
    step_log_fail(&trio->a.log, "eval-release", DLOCK_AFTER, 1);
    assert_int_equal(lock_party_give(&trio->a), DLOCK_UNKNOWN);
    assert_ok(lock_party_give(&trio->a));
}

static enum dlock_status force(struct lock_party *party)
{
    return dlock_force_release(party->session, "k", &party->error);
}

/* The end of a lock that somebody else held, as its holder sees it. A connection
 * that was ended says so first, and then what it has cost. */
static void give_lost(struct lock_party *party)
{
    enum dlock_status status;

    do
        status = lock_party_give(party);
    while (status == DLOCK_UNREACHABLE || status == DLOCK_UNKNOWN);
    assert_int_equal(status, DLOCK_LOST);
}

static void test_force(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 2);
    struct dlock_holder holder;

    assert_int_equal(force(&trio->b), DLOCK_LOST);
    assert_ok(lock_party_take(&trio->a, "k", 0));
    assert_ok(dlock_inspect(trio->b.session, "k", &holder, NULL));
    assert_true(holder.held && holder.holds == 1);
    assert_ok(force(&trio->b));
    assert_int_equal(force(&trio->b), DLOCK_LOST);
    assert_ok(lock_party_take(&trio->b, "k", 0));
    give_lost(&trio->a);
    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_BUSY);
    /* One's own as well. */
    assert_ok(force(&trio->b));
    assert_int_equal(lock_party_give(&trio->b), DLOCK_LOST);
    assert_ok(lock_party_take(&trio->a, "k", 0));
    assert_ok(lock_party_give(&trio->a));
}

/* What holds sql-row is a connection, which not everybody may end. */
static void test_force_needs_privilege(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 1);
    struct lock_party_terms how = trio->how;
    struct lock_party poor;
    char url[256];

    mariadb_server_do(sql, "CREATE OR REPLACE USER poor@localhost; "
                           "GRANT ALL ON test.* TO poor@localhost");
    (void)snprintf(url, sizeof(url), "%s?db=test&user=poor", how.url);
    how.url = url;
    lock_party_open(&poor, &how);
    assert_ok(lock_party_take(&trio->a, "k", 0));
    assert_int_equal(force(&poor), DLOCK_MISUSE);
    assert_non_null(strstr(poor.error.text, "needs a privilege"));
    assert_int_equal(lock_party_take(&poor, "k", 0), DLOCK_BUSY);
    assert_ok(lock_party_give(&trio->a));
    lock_party_close(&poor);
}

/* Whatever is printable may be a name, and differs from what looks like it. */
static void test_odd_names(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 1);
    static const char *const odd[] = {"a'b", "a' OR '1'='1", "a\\",
                                      "a%",  "A'B",          "a'b "};
    char longest[DLOCK_NAME_BYTES_MAX + 1];

    memset(longest, 'n', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    for (size_t j = 0; j < COUNT_OF(odd); j++)
        assert_ok(lock_party_take(&trio->a, odd[j], 0));
    assert_ok(lock_party_take(&trio->a, longest, 0));
    assert_ok(lock_party_give(&trio->a));
}

static void test_urls(NO_STATE)
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
        {"sql-row", "mysql://me@h:99999/shop", DLOCK_MISUSE},
        {"sql-row", "mysql://me@h:3306/", DLOCK_MISUSE},
        {"sql-row", "mysql://h:3306/shop", DLOCK_MISUSE},
        {"recorded", "mysql:unix:/x", DLOCK_MISUSE},
        {"recorded", "unix:/x", DLOCK_MISUSE},
        {"recorded", "zk:h:1,mysql:unix:/x", DLOCK_MISUSE},
        {"recorded", "unix:/x,mysql:unix:", DLOCK_MISUSE},
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

#define ALL(name)                                                              \
    LOCK_TRIO_TEST(name, "sql-table"), LOCK_TRIO_TEST(name, "sql-row"),        \
        LOCK_TRIO_TEST(name, "recorded")

static const struct CMUnitTest tests[] = {
    LOCK_TRIO_TEST(test_table_reentry, "sql-table"),
    LOCK_TRIO_TEST(test_row_is_not_reentrant, "sql-row"),
    ALL(test_lost_replies),
    ALL(test_server_killed),
    ALL(test_server_stopped),
    LOCK_TRIO_TEST(test_recorded_survives_redis, "recorded"),
    LOCK_TRIO_TEST(test_recorded_needs_both, "recorded"),
    ALL(test_force),
    LOCK_TRIO_TEST(test_force_needs_privilege, "sql-row"),
    ALL(test_odd_names),
    cmocka_unit_test(test_urls),
};
TEST_MAIN_WITHIN(tests, setup, teardown)
