/*
 * A host that is suspended and resumed, as its clocks tell it: CLOCK_BOOTTIME has
 * gone on, CLOCK_MONOTONIC has not. The servers have gone on as well, so what was
 * a lease is over.
 */
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

#include "tests/support/lock_rig.h"

enum { NIGHT_S = 8 * 3600, LEASE_MS = LOCK_RIG_LEASE_MS };

static atomic_long suspended_s;

/* Instead of the one of the C library, in all of this program. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    int status = (int)syscall(SYS_clock_gettime, clock, now);

    if (clock == CLOCK_BOOTTIME)
        now->tv_sec += atomic_load(&suspended_s);
    return status;
}

static int fresh(void **state)
{
    atomic_store(&suspended_s, 0);
    return lock_rig_fresh(state);
}

#define TEST(test) UNIT_TEST_WITH(NO_FIXTURE, test, fresh, NULL, NULL)

TEST(test_a_lease_ends_in_the_night)
{
    struct lock_pair pair = lock_pair_open("fenced");

    assert_ok(lock_pair_take(&pair, 0, 0, 60000));
    assert_in_range(dlock_remaining_ms(pair.session[0], &pair.grant[0]), 1,
                    60000);
    atomic_store(&suspended_s, NIGHT_S);
    assert_int_equal(dlock_remaining_ms(pair.session[0], &pair.grant[0]), 0);
    lock_rig_end_lease();
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_LOST);
}

/* The watchdog slept meanwhile. It looks again when the rest of that is over. */
TEST(test_the_holder_is_told)
{
    struct lock_pair pair;

    rig.watchdog_lease_ms = LEASE_MS;
    pair = lock_pair_open("fenced");
    assert_ok(lock_pair_take(&pair, 0, 0, 0));
    lock_rig_end_lease();
    atomic_store(&suspended_s, NIGHT_S);
    assert_int_equal(dlock_remaining_ms(pair.session[0], &pair.grant[0]), 0);
    assert_int_equal(lock_rig_await_lost(1), DLOCK_LOSS_EXPIRED);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_LOST);
}

/* It has not been taken by anybody: the server still has it, and renews it. */
TEST(test_a_nap_costs_nothing)
{
    struct lock_pair pair;

    rig.watchdog_lease_ms = LEASE_MS;
    pair = lock_pair_open("fenced");
    assert_ok(lock_pair_take(&pair, 0, 0, 0));
    atomic_store(&suspended_s, 1);
    step_log_await(&rig.log, "eval-renew", 1);
    step_log_await(&rig.log, "eval-renew", 2);
    assert_in_range(dlock_remaining_ms(pair.session[0], &pair.grant[0]), 1,
                    LEASE_MS);
    assert_ok(lock_pair_give(&pair, 0));
}

LOCK_RIG_MAIN
