/*
 * zk and zk-fair on an ensemble of three servers, of which one is lost, the one
 * that leads or one that follows: while a lock is held, and while it is waited
 * for. The sessions go on, and so do the locks.
 */
#include "tests/support/lock_party.h"
#include "tests/support/lock_rig.h"
#include "tests/support/unit_test.h"
#include "tests/support/zookeeper_server.h"

enum {
    SESSION_MS = 15000, /* an election takes a second or two */
    LONG_MS = 30000,    /* longer than anything here takes */
};

static struct zookeeper_ensemble *ensemble;

static int setup(NO_STATE)
{
    ensemble = zookeeper_ensemble_start();
    return 0;
}

static int teardown(NO_STATE)
{
    zookeeper_ensemble_stop(ensemble);
    return 0;
}

static int fresh(void **state)
{
    return lock_trio_new(state, ensemble->url, SESSION_MS, 5000);
}

/* Whoever comes while they elect is not answered. */
static bool is_answer(enum dlock_status status, uint64_t until_ms)
{
    return (status != DLOCK_UNREACHABLE && status != DLOCK_UNKNOWN) ||
           lock_rig_now_ms() >= until_ms;
}

static enum dlock_status take_in_time(struct lock_party *party,
                                      const char *name, unsigned wait_ms)
{
    uint64_t until_ms = lock_rig_now_ms() + LONG_MS;
    enum dlock_status status;

    do
        status = lock_party_take(party, name, wait_ms);
    while (!is_answer(status, until_ms));
    return status;
}

static enum dlock_status give_in_time(struct lock_party *party)
{
    uint64_t until_ms = lock_rig_now_ms() + LONG_MS;
    enum dlock_status status;

    do
        status = lock_party_give(party);
    while (!is_answer(status, until_ms));
    return status;
}

/* The other process waits for a's lock, while b asks for it. */
static void lose_one(void **state, char role)
{
    struct zookeeper_server *victim = zookeeper_ensemble_in(ensemble, role);
    struct lock_trio *trio = lock_trio_beside(state, 2);
    struct lock_process_report report;
    uint64_t token;

    assert_ok(take_in_time(&trio->a, "k", 0));
    token = trio->a.grant.token;
    lock_process_tell_take(&trio->other, "k", LONG_MS);
    lock_rig_sleep_ms(200);
    server_proc_kill(&victim->proc);
    /* Nobody gets in, as long as it is not given back. */
    assert_int_equal(take_in_time(&trio->b, "k", 0), DLOCK_BUSY);
    assert_int_equal(atomic_load(&trio->a.lost_n), 0);
    assert_ok(give_in_time(&trio->a));
    report = lock_process_report(&trio->other);
    assert_ok(report.status);
    assert_true(report.token > token || (report.token == 0 && token == 0));
    assert_int_equal(take_in_time(&trio->b, "k", 0), DLOCK_BUSY);
    /* Back again, and it changes nothing. */
    zookeeper_server_restart(victim);
    zookeeper_ensemble_await(ensemble);
    assert_int_equal(take_in_time(&trio->b, "k", 0), DLOCK_BUSY);
    assert_ok(lock_process_give(&trio->other));
    assert_ok(take_in_time(&trio->b, "k", LONG_MS));
    assert_ok(give_in_time(&trio->b));
    assert_int_equal(atomic_load(&trio->a.lost_n), 0);
}

static void test_the_leader_is_lost(void **state)
{
    lose_one(state, 'l');
}

static void test_a_follower_is_lost(void **state)
{
    lose_one(state, 'f');
}

static const struct CMUnitTest tests[] = {
    LOCK_TRIO_TEST(test_the_leader_is_lost, "zk-fair"),
    LOCK_TRIO_TEST(test_a_follower_is_lost, "zk-fair"),
    LOCK_TRIO_TEST(test_the_leader_is_lost, "zk"),
    LOCK_TRIO_TEST(test_a_follower_is_lost, "zk"),
};
TEST_MAIN_WITHIN(tests, setup, teardown)
