/*
 * The complete lock: re-entry, and commands whose reply was lost and which are
 * sent again. Renewal and wake-ups have files of their own.
 */
#include <stdio.h>

#include "tests/support/lock_rig.h"

/* Re-entry ------------------------------------------------------------------ */

/* An inner, shorter lease must not cut the outer one. */
static void test_reentry_keeps_the_longer_lease(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct dlock_grant outer, inner;

    assert_int_equal(lock_hold_take(&pair, "k", 60000, &outer), 0);
    assert_int_equal(lock_hold_take(&pair, "k", 1000, &inner), 0);
    assert_in_range(lock_rig_ask("PTTL k"), 50000, 60000);
    assert_int_equal(lock_hold_take(&pair, "k", 90000, &inner), 0);
    assert_in_range(lock_rig_ask("PTTL k"), 80000, 90000);
}

/* Commands sent twice --------------------------------------------------------- */

/*
 * Nothing comes back at all: "don't know". A withdrawal goes after it; where
 * that is lost as well, the session copes with what it finds: of each name.
 */
static void test_unknown_acquires_are_taken_over(NO_STATE)
{
    static const char *const names[] = {"k", "k2", "k3"};
    struct lock_pair pair = lock_pair_open("redisson");
    struct dlock_grant grant;

    for (unsigned i = 0; i < 3; i++) {
        step_log_fail(&rig.log, "eval-acquire", DLOCK_AFTER, 3);
        step_log_fail_also(&rig.log, "eval-withdraw", DLOCK_BEFORE, 1);
        assert_int_equal(lock_hold_take(&pair, names[i], 0, &grant),
                         DLOCK_UNKNOWN);
        assert_int_equal(step_log_count(&rig.log, "eval-acquire"), 3 * (i + 1));
    }
    assert_int_equal(lock_rig_ask("EXISTS k k2 k3"), 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(lock_hold_take(&pair, names[i], 0, &grant), 0);
        assert_int_equal(grant.holds, 1);
        assert_int_equal(lock_hold_give(&pair, &grant), DLOCK_OK);
        assert_int_equal(lock_rig_probe("redisson", names[i]), DLOCK_OK);
    }
}

/* The withdrawal alone frees it, long before the lease of 5 s is over. */
static void test_unknown_acquire_is_withdrawn(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");

    step_log_fail(&rig.log, "eval-acquire", DLOCK_AFTER, 3);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 5000), DLOCK_UNKNOWN);
    assert_int_equal(lock_pair_take(&pair, 1, 2000, 0), 0);
    assert_int_equal(lock_pair_give(&pair, 1), DLOCK_OK);
}

/* A lock that may be held must not be renewed: it has to end by itself. */
static void test_unknown_acquire_is_not_renewed(NO_STATE)
{
    struct lock_pair pair;

    rig.watchdog_lease_ms = 90;
    pair = lock_pair_open("redisson");
    step_log_fail(&rig.log, "eval-acquire", DLOCK_AFTER, 3);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), DLOCK_UNKNOWN);
    assert_int_equal(lock_pair_take(&pair, 1, LOCK_RIG_LONG_MS, 0), 0);
    assert_int_equal(step_log_count(&rig.log, "eval-renew"), 0);
}

static void test_unknown_release_once_more(NO_STATE)
{
    struct dlock_grant outer, inner;
    struct lock_pair pair;

    rig.command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    pair = lock_pair_open("redisson");
    assert_int_equal(lock_hold_take(&pair, "k", 0, &outer), 0);
    assert_int_equal(lock_hold_take(&pair, "k", 0, &inner), 0);
    step_log_fail(&rig.log, "eval-release", DLOCK_AFTER, STEP_LOG_ALWAYS);
    assert_int_equal(lock_hold_give(&pair, &inner), DLOCK_UNKNOWN);
    step_log_fail(&rig.log, "eval-release", DLOCK_AFTER, 0);
    assert_int_equal(lock_hold_give(&pair, &inner), DLOCK_OK);
    assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_OK);
    assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_LOST);
    assert_false(lock_rig_is_held());
}

/* Not sent is not held, and nothing is sent again. */
static void test_kept_back_acquire(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct dlock_error error;
    struct dlock_terms terms = {.wait_ms = 0};
    struct dlock_grant grant;

    step_log_fail(&rig.log, "eval-acquire", DLOCK_BEFORE, 1);
    assert_int_equal(
        dlock_acquire(pair.session[0], "k", &terms, &grant, &error),
        DLOCK_UNREACHABLE);
    assert_string_equal(error.text,
                        "acquire: kept back at step 'eval-acquire'");
    assert_false(lock_rig_is_held());
}

/*
 * A late copy of an acquire, stuck in some buffer, arrives after the release:
 * it must not lock for somebody who has gone home. The test makes it late by
 * setting the memo of the release to a higher number.
 */
static void test_late_copies(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    const char *owner = dlock_session_owner(pair.session[0]);
    char command[400];
    char memo[80];

    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), 0);
    assert_int_equal(lock_pair_give(&pair, 0), 0);
    (void)snprintf(command, sizeof(command), "GET {k}:dlock-done:%s", owner);
    redis_server_ask(rig.server, command, memo, sizeof(memo));
    assert_string_equal(memo, "$1\r\n2\r\n");
    (void)snprintf(command, sizeof(command), "PTTL {k}:dlock-done:%s", owner);
    assert_in_range(lock_rig_ask(command), 60001,
                    60000 + 10 * rig.command_timeout_ms);
    /* The memo of a later release stands for all earlier attempts. */
    (void)snprintf(command, sizeof(command), "SET {k}:dlock-done:%s 99:0",
                   owner);
    lock_rig_tell(command);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), DLOCK_UNKNOWN);
    assert_false(lock_rig_is_held());
}

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_reentry_keeps_the_longer_lease),
    LOCK_TEST(test_unknown_acquires_are_taken_over),
    LOCK_TEST(test_unknown_acquire_is_withdrawn),
    LOCK_TEST(test_unknown_acquire_is_not_renewed),
    LOCK_TEST(test_unknown_release_once_more),
    LOCK_TEST(test_kept_back_acquire),
    LOCK_TEST(test_late_copies),
};
LOCK_RIG_MAIN(tests)
