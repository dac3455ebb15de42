/*
 * zk and zk-fair against a real ZooKeeper: lost replies, lost data, and a server that
 * goes. Those that wait are in test_dlock_zk_wait.c, sessions that expire in
 * test_dlock_zk_loss.c; that holders exclude each other, die and are stopped, in
 * conform-all.t (X2, C, P and W).
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/lock_party.h"
#include "tests/support/lock_rig.h"
#include "tests/support/unit_test.h"
#include "tests/support/zookeeper_server.h"

enum {
    SESSION_MS = 600,
    LONG_MS = 20000, /* longer than anything here takes */
};

/* A session ends with its test, and its locks with it: the server is the same for all. */
static int fresh(void **state)
{
    return lock_trio_new(state, the_zookeeper->url, SESSION_MS, 1000);
}

/* The node is there, only nobody said so: it is found, and is one. */
static void test_lost_create(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 2);

    assert_ok(lock_party_take(&trio->b, "lost", 0));
    assert_ok(lock_party_give(&trio->b));
    step_log_fail(&trio->a.log, "create", DLOCK_AFTER, 1);
    assert_ok(lock_party_take(&trio->a, "lost", 0));
    assert_int_equal(lock_party_take(&trio->b, "lost", 0), DLOCK_BUSY);
    assert_ok(lock_party_give(&trio->a));
    assert_ok(lock_party_take(&trio->b, "lost", 0));
    assert_ok(lock_party_give(&trio->b));
}

/*
 * The same, and it cannot be asked for either: not known. It does not stay,
 * whether the session holds something else or not.
 */
static void test_lost_create_is_swept(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 2);
    bool is_fair = strcmp(trio->how.strategy, "zk-fair") == 0;
    struct dlock_grant kept;

    assert_ok(lock_party_take(&trio->b, "swept", 0));
    assert_ok(lock_party_give(&trio->b));
    for (int keeps = 0; keeps < 2; keeps++) {
        if (keeps)
            assert_ok(lock_party_take(&trio->a, "kept", 0));
        kept = trio->a.grant;
        step_log_fail(&trio->a.log, "create", DLOCK_AFTER, 1);
        step_log_fail_also(&trio->a.log, is_fair ? "children" : "get",
                           DLOCK_BEFORE, 1);
        assert_int_equal(lock_party_take(&trio->a, "swept", 0), DLOCK_UNKNOWN);
        assert_ok(lock_party_take(&trio->b, "swept", 2000));
        assert_ok(lock_party_give(&trio->b));
        if (keeps)
            assert_ok(dlock_release(trio->a.session, &kept, NULL));
    }
}

/* A release without an answer: it is no loss, and the lock does not stay. */
static void test_lost_release(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 2);

    for (int phase = DLOCK_BEFORE; phase <= DLOCK_AFTER; phase++) {
        assert_ok(lock_party_take(&trio->a, "k", 2000));
        step_log_fail(&trio->a.log, "delete", (enum dlock_phase)phase, 1);
        step_log_fail_also(&trio->a.log, "sync", DLOCK_BEFORE, 1);
        assert_int_equal(lock_party_give(&trio->a), phase == DLOCK_BEFORE
                                                        ? DLOCK_UNREACHABLE
                                                        : DLOCK_UNKNOWN);
        /* Without another word from a. */
        assert_ok(lock_party_take(&trio->b, "k", 2000));
        assert_ok(lock_party_give(&trio->a));
        assert_ok(lock_party_give(&trio->b));
    }
    assert_int_equal(atomic_load(&trio->a.lost_n), 0);
}

/* The tokens of a queue rise, over sessions and over lost data. */
static void test_tokens_rise(void **state)
{
    struct lock_trio *trio = *state;
    struct dlock_terms ask = {.wait_ms = 5000};
    uint64_t last = 0;

    for (int round = 0; round < 3; round++) {
        struct lock_party a;

        lock_party_open(&a, &trio->how);
        for (int i = 0; i < 4; i++) {
            ask.fence_floor = round == 2 ? last : 0;
            assert_ok(dlock_acquire(a.session, "t", &ask, &a.grant, &a.error));
            assert_true(a.grant.token > last);
            last = a.grant.token;
            assert_ok(lock_party_give(&a));
        }
        /* Then it forgets, and begins at 1 again: the floor says from where. */
        if (round == 1) {
            last += 1000000;
            zookeeper_server_restart_empty(the_zookeeper);
        }
        lock_party_close(&a);
    }
}

/* All who wait are given up, and held locks are told lost. */
static void test_data_lost(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 1);

    assert_ok(lock_party_take(&trio->a, "k", LONG_MS));
    zookeeper_server_restart_empty(the_zookeeper);
    for (int j = 0; j < 100 && atomic_load(&trio->a.lost_n) == 0; j++)
        lock_rig_sleep_ms(100);
    assert_int_equal(atomic_load(&trio->a.lost_n), 1);
    assert_int_equal(lock_party_give(&trio->a), DLOCK_LOST);
    assert_ok(lock_party_take(&trio->a, "k", 5000));
    assert_ok(lock_party_give(&trio->a));
}

/* A restart with its data: the session goes on, and so does the lock. */
static void test_restart(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 2);
    enum dlock_status status;

    assert_ok(lock_party_take(&trio->a, "k", LONG_MS));
    server_proc_kill(&the_zookeeper->proc);
    assert_int_equal(lock_party_take(&trio->b, "k", 0), DLOCK_UNREACHABLE);
    zookeeper_server_restart(the_zookeeper);
    /* The library looks for the server about once a second. */
    do
        status = lock_party_take(&trio->b, "k", 0);
    while (status == DLOCK_UNREACHABLE);
    assert_int_equal(status, DLOCK_BUSY);
    assert_ok(lock_party_give(&trio->a));
    assert_int_equal(atomic_load(&trio->a.lost_n), 0);
    assert_ok(lock_party_take(&trio->b, "k", 0));
    assert_ok(lock_party_give(&trio->b));
}

/* Stopped: no answer, within the timeout; and afterwards nothing is left. */
static void test_server_stopped(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 2);
    uint64_t began;

    assert_ok(lock_party_take(&trio->a, "warm-up", LONG_MS));
    assert_ok(lock_party_give(&trio->a));
    server_proc_pause(&the_zookeeper->proc);
    began = lock_rig_now_ms();
    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_UNKNOWN);
    assert_in_range(lock_rig_now_ms() - began, 250, 3000);
    server_proc_resume(&the_zookeeper->proc);
    assert_ok(lock_party_take(&trio->b, "k", 5000));
    assert_ok(lock_party_give(&trio->b));
}

static void test_odd_names(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 1);
    static const char *const odd[] = {"a/b", "a%2Fb", ".",        "..",
                                      "/",   "a b",   "zookeeper"};
    char longest[DLOCK_NAME_BYTES_MAX + 1];

    memset(longest, '/', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    for (size_t j = 0; j < COUNT_OF(odd); j++)
        assert_ok(lock_party_take(&trio->a, odd[j], LONG_MS));
    assert_ok(lock_party_take(&trio->a, longest, 0));
    assert_ok(lock_party_give(&trio->a));
}

/* Neither can, and says so: nothing happens to the holder. */
static void test_no_force(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 2);

    assert_ok(lock_party_take(&trio->a, "k", 0));
    assert_int_equal(dlock_force_release(trio->b.session, "k", &trio->b.error),
                     DLOCK_MISUSE);
    assert_non_null(strstr(trio->b.error.text, "strategy zk"));
    assert_int_equal(lock_party_take(&trio->b, "k", 0), DLOCK_BUSY);
    assert_ok(lock_party_give(&trio->a));
}

/* A root that is not there can hold no lock: that is not a no. */
/* A server that is slow for a moment makes a command's end unknown: asked again, it must
 * say that there is no such root. */
static void expect_no_root(struct lock_party *party, unsigned wait_ms)
{
    enum dlock_status status = DLOCK_UNKNOWN;

    for (int i = 0; i < 5 && status == DLOCK_UNKNOWN; i++)
        status = lock_party_take(party, "k", wait_ms);
    assert_int_equal(status, DLOCK_UNREACHABLE);
}

static void test_root_of_url(void **state)
{
    struct lock_trio *trio = *state;
    char url[128];

    (void)snprintf(url, sizeof(url), "%s/nowhere", the_zookeeper->url);
    trio->how.url = url;
    trio = lock_trio_open(state, 1);
    expect_no_root(&trio->a, 0);
    expect_no_root(&trio->a, 100);
}

static void test_urls(NO_STATE)
{
    static const char *const wrong[] = {NULL,          "zk:",      "h:1",
                                        "zk::1",       "zk:h:x",   "zk:h:1,",
                                        "zk:h:123456", "unix:/x:1"};

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct dlock_options options = {.strategy = "zk", .url = wrong[i]};
        struct dlock *client = NULL;

        assert_int_equal(dlock_open(&options, &client, NULL), DLOCK_MISUSE);
    }
}

static const struct CMUnitTest tests[] = {
    LOCK_TRIO_ZK(test_lost_create),
    LOCK_TRIO_ZK(test_lost_create_is_swept),
    LOCK_TRIO_ZK(test_lost_release),
    LOCK_TRIO_TEST(test_tokens_rise, "zk-fair"),
    LOCK_TRIO_ZK(test_data_lost),
    LOCK_TRIO_ZK(test_restart, .lease_ms = 60000),
    LOCK_TRIO_ZK(test_server_stopped, .lease_ms = 2000, .timeout_ms = 300),
    LOCK_TRIO_ZK(test_odd_names),
    LOCK_TRIO_ZK(test_no_force),
    LOCK_TRIO_ZK(test_root_of_url, .timeout_ms = 10000),
    cmocka_unit_test(test_urls),
};
TEST_MAIN_WITHIN(tests, zookeeper_server_set_up, zookeeper_server_tear_down)
