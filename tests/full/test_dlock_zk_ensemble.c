/*
 * zk and zk-fair on an ensemble of three servers, of which one is lost, the one
 * that leads or one that follows: while a lock is held, and while it is waited
 * for. The sessions go on, and so do the locks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/lock_party.h"
#include "tests/support/lock_rig.h"
#include "tests/support/zookeeper_ensemble.h"

enum {
    SESSION_MS = 15000, /* an election takes a second or two */
    LONG_MS = 30000,    /* longer than anything here takes */
};

static int setup(void **state)
{
    *state = zookeeper_ensemble_start();
    return 0;
}

static int teardown(void **state)
{
    zookeeper_ensemble_stop(*state);
    return 0;
}

/* Whoever comes while they elect is not answered. */
static enum dlock_status take_in_time(struct lock_party *party,
                                      const char *name, unsigned wait_ms)
{
    uint64_t until_ms = lock_rig_now_ms() + LONG_MS;
    enum dlock_status status;

    do
        status = lock_party_take(party, name, wait_ms);
    while ((status == DLOCK_UNREACHABLE || status == DLOCK_UNKNOWN) &&
           lock_rig_now_ms() < until_ms);
    return status;
}

static enum dlock_status give_in_time(struct lock_party *party)
{
    uint64_t until_ms = lock_rig_now_ms() + LONG_MS;
    enum dlock_status status;

    do
        status = lock_party_give(party);
    while ((status == DLOCK_UNREACHABLE || status == DLOCK_UNKNOWN) &&
           lock_rig_now_ms() < until_ms);
    return status;
}

static void lose_one(struct zookeeper_ensemble *ensemble, const char *strategy,
                     bool leader)
{
    struct lock_party_terms how = {.strategy = strategy,
                                   .url = ensemble->url,
                                   .lease_ms = SESSION_MS,
                                   .timeout_ms = 5000};
    unsigned victim = leader ? zookeeper_ensemble_leader(ensemble)
                             : zookeeper_ensemble_follower(ensemble);
    struct lock_process_report report;
    struct lock_process waiter;
    struct lock_party holder;
    struct lock_party third;
    uint64_t token;

    lock_process_start(&waiter, &how);
    lock_party_open(&holder, &how);
    lock_party_open(&third, &how);
    assert_int_equal(take_in_time(&holder, "k", 0), DLOCK_OK);
    token = holder.grant.token;
    lock_process_tell_take(&waiter, "k", LONG_MS);
    lock_rig_sleep_ms(200);
    zookeeper_server_kill(ensemble->members[victim]);
    /* Nobody gets in, as long as it is not given back. */
    assert_int_equal(take_in_time(&third, "k", 0), DLOCK_BUSY);
    assert_int_equal(atomic_load(&holder.lost_n), 0);
    assert_int_equal(give_in_time(&holder), DLOCK_OK);
    report = lock_process_report(&waiter);
    assert_int_equal(report.status, DLOCK_OK);
    assert_true(report.token > token || (report.token == 0 && token == 0));
    assert_int_equal(take_in_time(&third, "k", 0), DLOCK_BUSY);
    /* Back again, and it changes nothing. */
    zookeeper_server_restart(ensemble->members[victim]);
    zookeeper_ensemble_await(ensemble);
    assert_int_equal(take_in_time(&third, "k", 0), DLOCK_BUSY);
    assert_int_equal(lock_process_give(&waiter), DLOCK_OK);
    assert_int_equal(take_in_time(&third, "k", LONG_MS), DLOCK_OK);
    assert_int_equal(give_in_time(&third), DLOCK_OK);
    assert_int_equal(atomic_load(&holder.lost_n), 0);
    lock_process_kill(&waiter);
    lock_party_close(&third);
    lock_party_close(&holder);
}

static void test_zk_fair_loses_leader(void **state)
{
    lose_one(*state, "zk-fair", true);
}

static void test_zk_fair_loses_follower(void **state)
{
    lose_one(*state, "zk-fair", false);
}

static void test_zk_loses_leader(void **state)
{
    lose_one(*state, "zk", true);
}

static void test_zk_loses_follower(void **state)
{
    lose_one(*state, "zk", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zk_fair_loses_leader),
        cmocka_unit_test(test_zk_fair_loses_follower),
        cmocka_unit_test(test_zk_loses_leader),
        cmocka_unit_test(test_zk_loses_follower),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
