/*
 * Coming in again, and waiting without being woken: the last rungs of the
 * ladder and `spin`. Each lesson on the lock that is there to show it, and on
 * the next one that it is gone.
 */
#include "tests/support/lock_story.h"
#include "tests/support/lock_waiter.h"

/* Looks of a waiter in WAIT_MS. */
static unsigned looks(const char *strategy, unsigned wait_ms)
{
    struct lock_pair pair = lock_pair_open(strategy);
    unsigned n;

    assert_int_equal(lock_pair_take(&pair, 0, 0, 5000), DLOCK_OK);
    step_log_reset(&rig.log);
    assert_int_equal(lock_pair_take(&pair, 1, wait_ms, 0), DLOCK_TIMEOUT);
    n = step_log_count(&rig.log, "eval-take");
    lock_pair_close(&pair);
    lock_rig_end_lease();
    return n;
}

/* Half of 1, 2, 4 ... 64, 128, 128 ms at least: that is how many at most. */
static void test_20_spin_looks_less_and_less(NO_STATE)
{
    unsigned polls = looks("reentrant", 500);
    unsigned spins = looks("spin", 500);

    assert_in_range(spins, 3, 15);
    assert_true(polls > 2 * spins);
}

/* Sooner or later the waiter looks, and then the lock is free. */
static void test_20_spin_gets_it(NO_STATE)
{
    struct lock_pair pair = lock_pair_held("spin", 5000);
    struct lock_waiter waiter = {.session = pair.session[1], .wait_ms = 5000};

    lock_waiter_start(&waiter);
    step_log_await(&rig.log, "eval-take", 6);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    lock_waiter_join(&waiter);
    assert_int_equal(waiter.status, DLOCK_OK);
}

/* A pause does not outlast the wait: the ninth would end after 383 ms. */
static void test_20_spin_ends_in_time(NO_STATE)
{
    uint64_t best_ms = UINT64_MAX;
    struct lock_pair pair;

    rig.clock = &lock_rig_long_pauses;
    pair = lock_pair_open("spin");
    assert_int_equal(lock_pair_take(&pair, 0, 0, 20000), DLOCK_OK);
    /* The best of some: a busy machine may be late, but not each time. */
    for (int i = 0; i < 5; i++) {
        uint64_t start_ms = lock_rig_now_ms(), took_ms;

        assert_int_equal(lock_pair_take(&pair, 1, 260, 0), DLOCK_TIMEOUT);
        took_ms = lock_rig_now_ms() - start_ms;
        best_ms = took_ms < best_ms ? took_ms : best_ms;
    }
    assert_in_range(best_ms, 259, 360);
}

static const struct lock_story stories[] = {
    /* 18: what it leaves behind is a lock that nobody has, without an end. */
    {"the tutorial that never ran", "reentrant-broken",
     "commands timeout; a takes 50 -> unknown '..WRONGTYPE'; PTTL k -> -1; "
     "a takes 50 wait=100 -> unreachable '..WRONGTYPE'; a poses as=a; "
     "a gives -> unreachable '..WRONGTYPE'; "
     "b takes 50 wait=100 -> unreachable '..WRONGTYPE'; b poses as=b; "
     "b gives -> unreachable '..WRONGTYPE'; PTTL k -> -1"},
    {"with the hash that its author had in mind, the rest would have run",
     "reentrant-broken",
     "HSET k $a 2 -> 1; a poses as=a; b poses as=b; b gives -> lost; a gives; "
     "held; a gives; free"},
};
LOCK_STORIES_TEST

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_stories),
    LOCK_TEST(test_20_spin_looks_less_and_less),
    LOCK_TEST(test_20_spin_gets_it),
    LOCK_TEST(test_20_spin_ends_in_time),
};
LOCK_RIG_MAIN(tests)
