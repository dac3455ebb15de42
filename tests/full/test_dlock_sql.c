/*
 * sql-table, sql-row and recorded against a real MariaDB: what each holds, what
 * sql-table does not, and what a caller is told when the server is away.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/lock_party.h"
#include "tests/support/lock_rig.h"
#include "tests/support/mariadb_server.h"

struct rig {
    struct mariadb_server *sql;
    struct redis_server *redis;
    char both[512]; /* the url of recorded */
};

static int setup(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));

    if (rig == NULL)
        return -1;
    rig->sql = mariadb_server_start();
    rig->redis = redis_server_start();
    (void)snprintf(rig->both, sizeof(rig->both), "%s,%s",
                   redis_server_url(rig->redis), mariadb_server_url(rig->sql));
    *state = rig;
    return 0;
}

static int teardown(void **state)
{
    struct rig *rig = *state;

    redis_server_stop(rig->redis);
    mariadb_server_stop(rig->sql);
    free(rig);
    return 0;
}

static int fresh(void **state)
{
    const struct rig *rig = *state;

    mariadb_server_do(rig->sql, "DROP TABLE IF EXISTS dlock_table, "
                                "dlock_record");
    redis_server_ask(rig->redis, "FLUSHALL", NULL, 0);
    return 0;
}

static struct lock_party_terms terms(const struct rig *rig,
                                     const char *strategy)
{
    return (struct lock_party_terms){
        .strategy = strategy,
        .url = strcmp(strategy, "recorded") == 0 ? rig->both
                                                 : mariadb_server_url(rig->sql),
        .timeout_ms = 300,
    };
}

static const char *const names[] = {"sql-table", "sql-row", "recorded"};
enum { NAMES_N = 3 };

/* X2: one of two processes, and the other after it. */
static void test_two_processes(void **state)
{
    for (size_t i = 0; i < NAMES_N; i++) {
        struct lock_party_terms how = terms(*state, names[i]);
        struct lock_process other;
        struct lock_party here;

        lock_process_start(&other, &how);
        lock_party_open(&here, &how);
        assert_int_equal(lock_process_take(&other, "k", 0), DLOCK_OK);
        assert_int_equal(lock_party_take(&here, "k", 0), DLOCK_BUSY);
        assert_int_equal(lock_party_take(&here, "K", 0), DLOCK_OK);
        assert_int_equal(lock_party_give(&here), DLOCK_OK);
        assert_int_equal(lock_party_take(&here, "k", 30), DLOCK_TIMEOUT);
        assert_int_equal(lock_process_give(&other), DLOCK_OK);
        assert_int_equal(lock_party_take(&here, "k", 0), DLOCK_OK);
        assert_int_equal(lock_process_take(&other, "k", 0), DLOCK_BUSY);
        assert_int_equal(lock_party_give(&here), DLOCK_OK);
        assert_int_equal(lock_party_give(&here), DLOCK_LOST);
        lock_process_kill(&other);
        lock_party_close(&here);
    }
}

/* C: the disconnect frees sql-row; nobody frees the row of sql-table. */
static void test_holder_crashes(void **state)
{
    for (size_t i = 0; i < 2; i++) {
        struct lock_party_terms how = terms(*state, names[i]);
        struct lock_process other;
        struct lock_party here;

        lock_process_start(&other, &how);
        lock_party_open(&here, &how);
        assert_int_equal(lock_process_take(&other, "k", 0), DLOCK_OK);
        lock_process_kill(&other);
        assert_int_equal(lock_party_take(&here, "k", 2000),
                         i == 0 ? DLOCK_TIMEOUT : DLOCK_OK);
        lock_party_close(&here);
    }
}

/* N: the row counts, and says so. */
static void test_table_reentry(void **state)
{
    struct lock_party_terms how = terms(*state, "sql-table");
    struct dlock_holder holder;
    struct dlock_grant outer;
    struct lock_party a;
    struct lock_party b;

    lock_party_open(&a, &how);
    lock_party_open(&b, &how);
    assert_int_equal(lock_party_take(&a, "k", 0), DLOCK_OK);
    outer = a.grant;
    assert_int_equal(lock_party_take(&a, "k", 0), DLOCK_OK);
    assert_int_equal(a.grant.holds, 2);
    assert_int_equal(dlock_inspect(b.session, "k", &holder, NULL), DLOCK_OK);
    assert_int_equal(holder.holds, 2);
    assert_string_equal(holder.owner, dlock_session_owner(a.session));
    assert_int_equal(lock_party_give(&a), DLOCK_OK);
    assert_int_equal(lock_party_take(&b, "k", 0), DLOCK_BUSY);
    assert_int_equal(dlock_release(a.session, &outer, NULL), DLOCK_OK);
    assert_int_equal(lock_party_take(&b, "k", 0), DLOCK_OK);
    assert_int_equal(lock_party_give(&b), DLOCK_OK);
    lock_party_close(&a);
    lock_party_close(&b);
}

/* The same connection gets GET_LOCK twice; a session does not. */
static void test_row_is_not_reentrant(void **state)
{
    struct lock_party_terms how = terms(*state, "sql-row");
    struct dlock_grant first;
    struct lock_party a;

    lock_party_open(&a, &how);
    assert_int_equal(lock_party_take(&a, "k", 0), DLOCK_OK);
    first = a.grant;
    assert_int_equal(lock_party_take(&a, "k", 0), DLOCK_BUSY);
    assert_int_equal(lock_party_take(&a, "other", 0), DLOCK_OK);
    assert_int_equal(dlock_release(a.session, &first, NULL), DLOCK_OK);
    assert_int_equal(lock_party_give(&a), DLOCK_OK);
    lock_party_close(&a);
}

/*
 * A lost reply counts once: what is in doubt is taken over, a release that had
 * worked is no loss. sql-row has nothing to take over: its connection is gone.
 */
static void test_lost_replies(void **state)
{
    static const char *const takes[] = {"insert", "get-lock", "insert"};
    static const char *const gives[] = {"delete", "release-lock", "delete"};

    for (size_t i = 0; i < NAMES_N; i++) {
        struct lock_party_terms how = terms(*state, names[i]);
        struct lock_party a;
        struct lock_party b;

        lock_party_open(&a, &how);
        lock_party_open(&b, &how);
        assert_int_equal(lock_party_take(&a, "warm-up", 0), DLOCK_OK);
        assert_int_equal(lock_party_give(&a), DLOCK_OK);
        step_log_fail(&a.log, takes[i], DLOCK_AFTER, 1);
        assert_int_equal(lock_party_take(&a, "k", 0), DLOCK_UNKNOWN);
        assert_int_equal(lock_party_take(&a, "k", 500), DLOCK_OK);
        assert_int_equal(a.grant.holds, 1);
        assert_int_equal(lock_party_take(&b, "k", 0), DLOCK_BUSY);
        step_log_fail(&a.log, gives[i], DLOCK_AFTER, 1);
        assert_int_equal(lock_party_give(&a), DLOCK_UNKNOWN);
        assert_int_equal(lock_party_give(&a), DLOCK_OK);
        assert_int_equal(lock_party_take(&b, "k", 500), DLOCK_OK);
        assert_int_equal(lock_party_give(&b), DLOCK_OK);
        lock_party_close(&a);
        lock_party_close(&b);
    }
}

/* Killed: not sent. It comes back with its data: the row is still there. */
static void test_server_killed(void **state)
{
    struct rig *rig = *state;

    for (size_t i = 0; i < NAMES_N; i++) {
        struct lock_party_terms how = terms(rig, names[i]);
        bool connection_held = strcmp(names[i], "sql-row") == 0;
        struct lock_party a;

        lock_party_open(&a, &how);
        assert_int_equal(lock_party_take(&a, "k", 0), DLOCK_OK);
        mariadb_server_kill(rig->sql);
        assert_int_equal(lock_party_take(&a, "other", 0), DLOCK_UNREACHABLE);
        assert_int_equal(lock_party_give(&a), DLOCK_UNREACHABLE);
        mariadb_server_restart(rig->sql);
        assert_int_equal(lock_party_give(&a),
                         connection_held ? DLOCK_LOST : DLOCK_OK);
        assert_int_equal(lock_party_take(&a, "k", 0), DLOCK_OK);
        assert_int_equal(lock_party_give(&a), DLOCK_OK);
        lock_party_close(&a);
    }
}

/* Stopped: sent, and no answer, within the timeout. */
static void test_server_stopped(void **state)
{
    struct rig *rig = *state;

    for (size_t i = 0; i < NAMES_N; i++) {
        struct lock_party_terms how = terms(rig, names[i]);
        struct lock_party a;
        uint64_t began;

        lock_party_open(&a, &how);
        assert_int_equal(lock_party_take(&a, "warm-up", 0), DLOCK_OK);
        mariadb_server_pause(rig->sql);
        began = lock_rig_now_ms();
        assert_int_equal(lock_party_take(&a, "k", 0), DLOCK_UNKNOWN);
        assert_in_range(lock_rig_now_ms() - began, 250, 3000);
        /* The connection is gone, and none is to be had. */
        assert_int_equal(lock_party_take(&a, "k2", 0), DLOCK_UNREACHABLE);
        mariadb_server_resume(rig->sql);
        assert_int_equal(lock_party_take(&a, "k3", 2000), DLOCK_OK);
        assert_int_equal(lock_party_give(&a), DLOCK_OK);
        lock_party_close(&a);
        fresh(state);
    }
}

/* M: Redis forgets, and the row still says no; it ends with the lease. */
static void test_recorded_survives_redis(void **state)
{
    struct rig *rig = *state;
    struct lock_party_terms how = terms(rig, "recorded");
    struct dlock_terms lease = {.lease_ms = 800};
    struct dlock_holder holder;
    struct lock_party a;
    struct lock_party b;

    lock_party_open(&a, &how);
    lock_party_open(&b, &how);
    assert_int_equal(dlock_acquire(a.session, "k", &lease, &a.grant, NULL),
                     DLOCK_OK);
    redis_server_ask(rig->redis, "FLUSHALL", NULL, 0);
    assert_int_equal(lock_party_take(&b, "k", 0), DLOCK_BUSY);
    assert_int_equal(redis_server_number(rig->redis, "EXISTS k"), 0);
    assert_int_equal(dlock_inspect(b.session, "k", &holder, NULL), DLOCK_OK);
    assert_true(holder.held);
    assert_in_range(holder.remaining_ms, 1, 800);
    assert_int_equal(dlock_extend(a.session, &a.grant, 900, NULL), DLOCK_OK);
    assert_int_equal(lock_party_take(&b, "k", 0), DLOCK_BUSY);
    assert_int_equal(lock_party_give(&a), DLOCK_OK);
    assert_int_equal(dlock_acquire(a.session, "k", &lease, &a.grant, NULL),
                     DLOCK_OK);
    redis_server_ask(rig->redis, "FLUSHALL", NULL, 0);
    assert_int_equal(lock_party_take(&b, "k", 5000), DLOCK_OK);
    assert_int_equal(lock_party_give(&a), DLOCK_LOST);
    assert_int_equal(lock_party_give(&b), DLOCK_OK);
    lock_party_close(&a);
    lock_party_close(&b);
}

/* No record, no lock: what Redis gave goes back, and somebody else may try. */
static void test_recorded_needs_both(void **state)
{
    struct rig *rig = *state;
    struct lock_party_terms how = terms(rig, "recorded");
    struct lock_party a;

    lock_party_open(&a, &how);
    step_log_fail(&a.log, "insert", DLOCK_BEFORE, 1);
    assert_int_equal(lock_party_take(&a, "k", 0), DLOCK_UNREACHABLE);
    assert_int_equal(redis_server_number(rig->redis, "EXISTS k"), 0);
    assert_int_equal(lock_party_take(&a, "k", 0), DLOCK_OK);
    /* The row goes, the key stays in doubt: asked again, it is no loss. */
    step_log_fail(&a.log, "eval-release", DLOCK_AFTER, 1);
    assert_int_equal(lock_party_give(&a), DLOCK_UNKNOWN);
    assert_int_equal(lock_party_give(&a), DLOCK_OK);
    lock_party_close(&a);
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
    for (size_t i = 0; i < NAMES_N; i++) {
        struct lock_party_terms how = terms(*state, names[i]);
        struct dlock_holder holder;
        struct lock_party a;
        struct lock_party b;

        lock_party_open(&a, &how);
        lock_party_open(&b, &how);
        assert_int_equal(force(&b), DLOCK_LOST);
        assert_int_equal(lock_party_take(&a, "k", 0), DLOCK_OK);
        assert_int_equal(dlock_inspect(b.session, "k", &holder, NULL),
                         DLOCK_OK);
        assert_true(holder.held && holder.holds == 1);
        assert_int_equal(force(&b), DLOCK_OK);
        assert_int_equal(force(&b), DLOCK_LOST);
        assert_int_equal(lock_party_take(&b, "k", 0), DLOCK_OK);
        give_lost(&a);
        assert_int_equal(lock_party_take(&a, "k", 0), DLOCK_BUSY);
        /* One's own as well. */
        assert_int_equal(force(&b), DLOCK_OK);
        assert_int_equal(lock_party_give(&b), DLOCK_LOST);
        assert_int_equal(lock_party_take(&a, "k", 0), DLOCK_OK);
        assert_int_equal(lock_party_give(&a), DLOCK_OK);
        lock_party_close(&a);
        lock_party_close(&b);
    }
}

/* What holds sql-row is a connection, which not everybody may end. */
static void test_force_needs_privilege(void **state)
{
    struct rig *rig = *state;
    struct lock_party_terms how = terms(rig, "sql-row");
    struct lock_party root;
    struct lock_party poor;
    char url[256];

    mariadb_server_do(rig->sql, "CREATE OR REPLACE USER poor@localhost; "
                                "GRANT ALL ON test.* TO poor@localhost");
    lock_party_open(&root, &how);
    (void)snprintf(url, sizeof(url), "%s?db=test&user=poor", how.url);
    how.url = url;
    lock_party_open(&poor, &how);
    assert_int_equal(lock_party_take(&root, "k", 0), DLOCK_OK);
    assert_int_equal(force(&poor), DLOCK_MISUSE);
    assert_non_null(strstr(poor.error.text, "needs a privilege"));
    assert_int_equal(lock_party_take(&poor, "k", 0), DLOCK_BUSY);
    assert_int_equal(lock_party_give(&root), DLOCK_OK);
    lock_party_close(&root);
    lock_party_close(&poor);
}

/* Whatever is printable may be a name, and differs from what looks like it. */
static void test_odd_names(void **state)
{
    static const char *const odd[] = {"a'b", "a' OR '1'='1", "a\\",
                                      "a%",  "A'B",          "a'b "};

    for (size_t i = 0; i < NAMES_N; i++) {
        struct lock_party_terms how = terms(*state, names[i]);
        char longest[DLOCK_NAME_BYTES_MAX + 1];
        struct lock_party a;

        memset(longest, 'n', sizeof(longest) - 1);
        longest[sizeof(longest) - 1] = '\0';
        lock_party_open(&a, &how);
        for (size_t j = 0; j < sizeof(odd) / sizeof(odd[0]); j++)
            assert_int_equal(lock_party_take(&a, odd[j], 0), DLOCK_OK);
        assert_int_equal(lock_party_take(&a, longest, 0), DLOCK_OK);
        assert_int_equal(lock_party_give(&a), DLOCK_OK);
        lock_party_close(&a);
    }
}

static void test_urls(void **state)
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

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_two_processes, fresh),
        cmocka_unit_test_setup(test_holder_crashes, fresh),
        cmocka_unit_test_setup(test_table_reentry, fresh),
        cmocka_unit_test_setup(test_row_is_not_reentrant, fresh),
        cmocka_unit_test_setup(test_lost_replies, fresh),
        cmocka_unit_test_setup(test_server_killed, fresh),
        cmocka_unit_test_setup(test_server_stopped, fresh),
        cmocka_unit_test_setup(test_recorded_survives_redis, fresh),
        cmocka_unit_test_setup(test_recorded_needs_both, fresh),
        cmocka_unit_test_setup(test_force, fresh),
        cmocka_unit_test_setup(test_force_needs_privilege, fresh),
        cmocka_unit_test_setup(test_odd_names, fresh),
        cmocka_unit_test(test_urls),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
