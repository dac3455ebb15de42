/*
 * Coming in again, and waiting without being woken: the last rungs of the
 * ladder and `spin`. Each lesson on the lock that is there to show it, and on
 * the next one that it is gone.
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/lock_waiter.h"

/* 16: a method that calls another one with the same lock --------------------- */

static void test_16_locking_yourself_out(NO_STATE)
{
    static const char *const locks[] = {"token-lua", "watchdog"};

    for (size_t i = 0; i < 2; i++) {
        struct lock_pair pair = lock_pair_open(locks[i]);

        assert_int_equal(lock_pair_take(&pair, 0, 0, 5000), DLOCK_OK);
        assert_int_equal(lock_pair_take(&pair, 0, 20, 5000), DLOCK_TIMEOUT);
        assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
        assert_int_equal(lock_pair_give(&pair, 0), DLOCK_LOST);
        lock_pair_close(&pair);
    }
}

static void test_16_coming_in_again(NO_STATE)
{
    static const char *const locks[] = {
        "reentrant-local", "reentrant", "spin", "redisson", "fair", "fenced"};

    for (size_t i = 0; i < COUNT_OF(locks); i++) {
        struct lock_pair pair = lock_pair_open(locks[i]);
        struct dlock_grant grants[4];
        struct dlock_holder seen;

        for (unsigned n = 1; n <= 3; n++) {
            assert_int_equal(lock_pair_take(&pair, 0, 20, 5000), DLOCK_OK);
            assert_int_equal(pair.grant[0].holds, n);
            grants[n] = pair.grant[0];
            assert_int_equal(dlock_inspect(pair.session[1], "k", &seen, NULL),
                             DLOCK_OK);
            /* The first counts in its process. */
            assert_int_equal(seen.holds, i == 0 ? 1 : n);
        }
        for (unsigned n = 3; n > 0; n--) {
            assert_int_equal(lock_pair_take(&pair, 1, 0, 5000), DLOCK_BUSY);
            pair.grant[0] = grants[n];
            assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
            assert_int_equal(lock_rig_is_held(), n > 1);
        }
        assert_int_equal(lock_pair_give(&pair, 0), DLOCK_LOST);
        lock_pair_close(&pair);
    }
}

/* Another session of the same thread is somebody else. */
static void test_16_another_session_is_not_the_same(NO_STATE)
{
    static const char *const locks[] = {"reentrant-local", "reentrant"};

    for (size_t i = 0; i < 2; i++) {
        struct lock_pair pair = lock_pair_open(locks[i]);
        struct dlock_session *other = lock_rig_session(pair.client[0]);
        struct dlock_grant grant;

        assert_int_equal(lock_pair_take(&pair, 0, 0, 5000), DLOCK_OK);
        assert_int_equal(lock_rig_take(other, "k", 0, 5000, &grant),
                         DLOCK_BUSY);
        assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
        assert_int_equal(lock_rig_take(other, "k", 0, 5000, &grant), DLOCK_OK);
        assert_int_equal(dlock_release(other, &grant, NULL), DLOCK_OK);
        lock_pair_close(&pair);
    }
}

/* 17: the inner section gets what is left of the outer one's lease ------------ */

static void test_17_reentry_does_not_renew(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("reentrant-local");
    struct dlock_grant outer;

    assert_int_equal(lock_pair_take(&pair, 0, 0, 1000), DLOCK_OK);
    outer = pair.grant[0];
    step_log_reset(&rig.log);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 9000), DLOCK_OK);
    assert_int_equal(step_log_count(&rig.log, NULL), 0);
    assert_in_range(lock_rig_ask("PTTL k"), 0, 1000);
    /* It thinks otherwise. */
    assert_true(pair.grant[0].deadline_ms > outer.deadline_ms + 7000);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_OK);
    lock_pair_close(&pair);

    pair = lock_pair_open("reentrant");
    assert_int_equal(lock_pair_take(&pair, 0, 0, 1000), DLOCK_OK);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 9000), DLOCK_OK);
    assert_in_range(lock_rig_ask("PTTL k"), 7000, 9000);
}

/* The count is not the lock: it opens a door that is somebody else's. */
static void test_17_a_count_is_not_the_lock(NO_STATE)
{
    static const char *const locks[] = {"reentrant-local", "reentrant"};

    for (size_t i = 0; i < 2; i++) {
        struct lock_pair pair = lock_pair_open(locks[i]);
        struct dlock_grant outer;

        assert_int_equal(lock_pair_take(&pair, 0, 0, 5000), DLOCK_OK);
        outer = pair.grant[0];
        lock_rig_end_lease();
        assert_int_equal(lock_pair_take(&pair, 1, 0, 5000), DLOCK_OK);
        assert_int_equal(lock_pair_take(&pair, 0, 0, 5000),
                         i == 0 ? DLOCK_OK : DLOCK_BUSY);
        if (i == 0)
            assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
        /* What goes to the server is still checked there. */
        assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_LOST);
        assert_true(lock_rig_is_held());
        assert_int_equal(lock_pair_give(&pair, 1), DLOCK_OK);
        lock_pair_close(&pair);
    }
}

/* A release that never left may be called again; the count waits for that. */
static void test_17_failed_release_of_a_count(NO_STATE)
{
    struct lock_pair pair;

    rig.command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    pair = lock_pair_open("reentrant-local");
    assert_int_equal(lock_pair_take(&pair, 0, 0, 5000), DLOCK_OK);
    step_log_fail(&rig.log, "eval-release", DLOCK_BEFORE, STEP_LOG_ALWAYS);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_UNREACHABLE);
    step_log_fail(&rig.log, "eval-release", DLOCK_BEFORE, 0);
    assert_true(lock_rig_is_held());
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    assert_false(lock_rig_is_held());
}

/* 18: the tutorial that never ran --------------------------------------------- */

static void test_18_wrongtype(NO_STATE)
{
    struct dlock_terms terms = {.lease_ms = 50};
    struct dlock_grant grant = {.name = "k"};
    struct dlock_error error = {""};
    struct lock_pair pair;

    rig.command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    pair = lock_pair_open("reentrant-broken");
    assert_int_equal(
        dlock_acquire(pair.session[0], "k", &terms, &grant, &error),
        DLOCK_UNKNOWN);
    assert_non_null(strstr(error.text, "WRONGTYPE"));
    /* And what it leaves behind is a lock that nobody has, without an end. */
    assert_int_equal(lock_rig_ask("PTTL k"), -1);
    for (int i = 0; i < 2; i++) {
        terms.wait_ms = 100;
        error.text[0] = '\0';
        assert_int_equal(
            dlock_acquire(pair.session[i], "k", &terms, &grant, &error),
            DLOCK_UNREACHABLE);
        assert_non_null(strstr(error.text, "WRONGTYPE"));
        error.text[0] = '\0';
        lock_rig_pass_off(pair.session[i], &grant);
        assert_int_equal(dlock_release(pair.session[i], &grant, &error),
                         DLOCK_UNREACHABLE);
        assert_non_null(strstr(error.text, "WRONGTYPE"));
    }
    assert_int_equal(lock_rig_ask("PTTL k"), -1);
}

/* With the hash that its author had in mind, the rest of it would have run. */
static void test_18_what_was_meant(NO_STATE)
{
    char command[160];
    struct lock_pair pair = lock_pair_open("reentrant-broken");

    (void)snprintf(command, sizeof(command), "HSET k %s 2",
                   dlock_session_owner(pair.session[0]));
    assert_int_equal(lock_rig_ask(command), 1);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(pair.grant[i].name, sizeof(pair.grant[i].name), "k");
        lock_rig_pass_off(pair.session[i], &pair.grant[i]);
    }
    assert_int_equal(lock_pair_give(&pair, 1), DLOCK_LOST);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    assert_true(lock_rig_is_held());
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    assert_false(lock_rig_is_held());
}

/* 20: how often a waiter looks ------------------------------------------------ */

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

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_16_locking_yourself_out),
    LOCK_TEST(test_16_coming_in_again),
    LOCK_TEST(test_16_another_session_is_not_the_same),
    LOCK_TEST(test_17_reentry_does_not_renew),
    LOCK_TEST(test_17_a_count_is_not_the_lock),
    LOCK_TEST(test_17_failed_release_of_a_count),
    LOCK_TEST(test_18_wrongtype),
    LOCK_TEST(test_18_what_was_meant),
    LOCK_TEST(test_20_spin_looks_less_and_less),
    LOCK_TEST(test_20_spin_gets_it),
    LOCK_TEST(test_20_spin_ends_in_time),
};
LOCK_RIG_MAIN(tests)
