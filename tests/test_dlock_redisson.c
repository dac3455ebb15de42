/*
 * The complete lock: re-entry, and commands whose reply was lost and which are
 * sent again. Renewal and wake-ups have files of their own.
 */
#include <stdio.h>

#include "tests/support/lock_rig.h"
#include "tests/support/unit_test.h"

/* Re-entry ------------------------------------------------------------------ */

static void test_reentry(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");
    struct dlock_grant outer, inner;
    struct dlock_holder holder;

    assert_int_equal(lock_hold_take(&pair, "k", 0, &outer), 0);
    assert_int_equal(outer.holds, 1);
    assert_int_equal(lock_hold_take(&pair, "k", 0, &inner), 0);
    assert_int_equal(inner.holds, 2);
    assert_int_equal(dlock_inspect(pair.session[1], "k", &holder, NULL), 0);
    assert_true(holder.held);
    assert_int_equal(holder.holds, 2);
    assert_string_equal(holder.owner, dlock_session_owner(pair.session[0]));
    assert_int_equal(lock_hold_give(&pair, &inner), DLOCK_OK);
    assert_int_equal(lock_pair_take(&pair, 1, 0, 0), DLOCK_BUSY);
    assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_OK);
    assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_LOST);
    assert_int_equal(lock_pair_take(&pair, 1, 0, 0), DLOCK_OK);
    lock_pair_close(&pair);
}

/* An inner, shorter lease must not cut the outer one. */
static void test_reentry_keeps_the_longer_lease(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");
    struct dlock_grant outer, inner;

    assert_int_equal(lock_hold_take(&pair, "k", 60000, &outer), 0);
    assert_int_equal(lock_hold_take(&pair, "k", 1000, &inner), 0);
    assert_in_range(redis_server_number(rig->server, "PTTL k"), 50000, 60000);
    assert_int_equal(lock_hold_take(&pair, "k", 90000, &inner), 0);
    assert_in_range(redis_server_number(rig->server, "PTTL k"), 80000, 90000);
    lock_pair_close(&pair);
}

static void test_extend(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");

    assert_int_equal(lock_pair_take(&pair, 0, 0, 5000), 0);
    assert_int_equal(dlock_extend(pair.session[0], &pair.grant[0], 60000, NULL),
                     0);
    assert_in_range(redis_server_number(rig->server, "PTTL k"), 50000, 60000);
    assert_in_range(lock_pair_left_ms(&pair, 0), 50000, 60000);
    assert_int_equal(dlock_extend(pair.session[0], &pair.grant[0], 2000, NULL),
                     0);
    assert_in_range(redis_server_number(rig->server, "PTTL k"), 1, 2000);
    redis_server_ask(rig->server, "DEL k", NULL, 0);
    assert_int_equal(dlock_extend(pair.session[0], &pair.grant[0], 60000, NULL),
                     DLOCK_LOST);
    lock_pair_close(&pair);
}

/* Commands sent twice --------------------------------------------------------- */

static void test_lost_reply_of_acquire(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");

    step_log_fail(&rig->log, "eval-acquire", DLOCK_AFTER, 1);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), DLOCK_OK);
    assert_int_equal(step_log_count(&rig->log, "eval-acquire"), 2);
    assert_int_equal(pair.grant[0].holds, 1);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 0);
    lock_pair_close(&pair);
}

static void test_lost_reply_of_release(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");
    struct dlock_grant outer, inner;

    assert_int_equal(lock_hold_take(&pair, "k", 0, &outer), 0);
    assert_int_equal(lock_hold_take(&pair, "k", 0, &inner), 0);
    step_log_fail(&rig->log, "eval-release", DLOCK_AFTER, 2);
    assert_int_equal(lock_hold_give(&pair, &inner), DLOCK_OK);
    assert_int_equal(step_log_count(&rig->log, "eval-release"), 3);
    /* One hold went, not three. */
    assert_int_equal(lock_rig_probe(rig, "redisson", "k"), DLOCK_BUSY);
    step_log_fail(&rig->log, "eval-release", DLOCK_AFTER, 1);
    assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_OK);
    assert_int_equal(lock_rig_probe(rig, "redisson", "k"), DLOCK_OK);
    lock_pair_close(&pair);
}

/*
 * Nothing comes back at all: "don't know". A withdrawal goes after it; where
 * that is lost as well, the session copes with what it finds.
 */
static void test_unknown_acquire_is_taken_over(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");

    step_log_fail(&rig->log, "eval-acquire", DLOCK_AFTER, 3);
    step_log_fail_also(&rig->log, "eval-withdraw", DLOCK_BEFORE, 1);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), DLOCK_UNKNOWN);
    assert_int_equal(step_log_count(&rig->log, "eval-acquire"), 3);
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 1);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), 0);
    assert_int_equal(pair.grant[0].holds, 1);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 0);
    lock_pair_close(&pair);
}

/* The withdrawal alone frees it, long before the lease of 5 s is over. */
static void test_unknown_acquire_is_withdrawn(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");

    step_log_fail(&rig->log, "eval-acquire", DLOCK_AFTER, 3);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 5000), DLOCK_UNKNOWN);
    assert_int_equal(lock_pair_take(&pair, 1, 2000, 0), 0);
    assert_int_equal(lock_pair_give(&pair, 1), DLOCK_OK);
    lock_pair_close(&pair);
}

/*
 * A release that never arrived leaves the server with a hold that nobody has.
 * The next acquire must not count on from there: each cycle would leave one
 * hold behind and set its lease anew, for ever.
 */
static void test_failed_release_leaves_no_stale_hold(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair;

    rig->command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    pair = lock_pair_open(rig, "redisson");
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), 0);
    step_log_fail(&rig->log, "eval-release", DLOCK_BEFORE, STEP_LOG_ALWAYS);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_UNREACHABLE);
    step_log_fail(&rig->log, "eval-release", DLOCK_BEFORE, 0);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), 0);
    assert_int_equal(pair.grant[0].holds, 1);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    assert_int_equal(lock_rig_probe(rig, "redisson", "k"), DLOCK_OK);
    lock_pair_close(&pair);
}

/* The same for acquires without an answer, on more names than one. */
static void test_unknown_acquires_of_several_names_leave_no_hold(void **state)
{
    static const char *const names[] = {"k1", "k2", "k3"};
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");
    struct dlock_grant grant;

    for (size_t i = 0; i < 3; i++) {
        step_log_fail(&rig->log, "eval-acquire", DLOCK_AFTER, 3);
        step_log_fail_also(&rig->log, "eval-withdraw", DLOCK_BEFORE, 1);
        assert_int_equal(lock_hold_take(&pair, names[i], 0, &grant),
                         DLOCK_UNKNOWN);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(lock_hold_take(&pair, names[i], 0, &grant), 0);
        assert_int_equal(grant.holds, 1);
        assert_int_equal(lock_hold_give(&pair, &grant), DLOCK_OK);
        assert_int_equal(lock_rig_probe(rig, "redisson", names[i]), DLOCK_OK);
    }
    lock_pair_close(&pair);
}

/* A lock that may be held must not be renewed: it has to end by itself. */
static void test_unknown_acquire_is_not_renewed(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair;

    rig->watchdog_lease_ms = 90;
    pair = lock_pair_open(rig, "redisson");
    step_log_fail(&rig->log, "eval-acquire", DLOCK_AFTER, 3);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), DLOCK_UNKNOWN);
    assert_int_equal(lock_pair_take(&pair, 1, LOCK_RIG_LONG_MS, 0), 0);
    assert_int_equal(step_log_count(&rig->log, "eval-renew"), 0);
    lock_pair_close(&pair);
}

static void test_unknown_release_once_more(void **state)
{
    struct lock_rig *rig = *state;
    struct dlock_grant outer, inner;
    struct lock_pair pair;

    rig->command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    pair = lock_pair_open(rig, "redisson");
    assert_int_equal(lock_hold_take(&pair, "k", 0, &outer), 0);
    assert_int_equal(lock_hold_take(&pair, "k", 0, &inner), 0);
    step_log_fail(&rig->log, "eval-release", DLOCK_AFTER, STEP_LOG_ALWAYS);
    assert_int_equal(lock_hold_give(&pair, &inner), DLOCK_UNKNOWN);
    step_log_fail(&rig->log, "eval-release", DLOCK_AFTER, 0);
    assert_int_equal(lock_hold_give(&pair, &inner), DLOCK_OK);
    assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_OK);
    assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_LOST);
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 0);
    lock_pair_close(&pair);
}

/* Not sent is not held, and nothing is sent again. */
static void test_kept_back_acquire(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");
    struct dlock_error error;
    struct dlock_terms terms = {.wait_ms = 0};
    struct dlock_grant grant;

    step_log_fail(&rig->log, "eval-acquire", DLOCK_BEFORE, 1);
    assert_int_equal(
        dlock_acquire(pair.session[0], "k", &terms, &grant, &error),
        DLOCK_UNREACHABLE);
    assert_string_equal(error.text,
                        "acquire: kept back at step 'eval-acquire'");
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 0);
    lock_pair_close(&pair);
}

/*
 * A late copy of an acquire, stuck in some buffer, arrives after the release:
 * it must not lock for somebody who has gone home. The test makes it late by
 * setting the memo of the release to a higher number.
 */
static void test_late_copies(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");
    const char *owner = dlock_session_owner(pair.session[0]);
    char command[400];
    char memo[80];

    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), 0);
    assert_int_equal(lock_pair_give(&pair, 0), 0);
    (void)snprintf(command, sizeof(command), "GET {k}:dlock-done:%s", owner);
    redis_server_ask(rig->server, command, memo, sizeof(memo));
    assert_string_equal(memo, "$1\r\n2\r\n");
    (void)snprintf(command, sizeof(command), "PTTL {k}:dlock-done:%s", owner);
    assert_in_range(redis_server_number(rig->server, command), 60001,
                    60000 + 10 * rig->command_timeout_ms);
    /* The memo of a later release stands for all earlier attempts. */
    (void)snprintf(command, sizeof(command), "SET {k}:dlock-done:%s 99:0",
                   owner);
    redis_server_ask(rig->server, command, NULL, 0);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), DLOCK_UNKNOWN);
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 0);
    lock_pair_close(&pair);
}

#define TEST(name) cmocka_unit_test_setup(name, lock_rig_fresh)

static const struct CMUnitTest tests[] = {
    TEST(test_reentry),
    TEST(test_reentry_keeps_the_longer_lease),
    TEST(test_extend),
    TEST(test_lost_reply_of_acquire),
    TEST(test_lost_reply_of_release),
    TEST(test_unknown_acquire_is_taken_over),
    TEST(test_unknown_acquire_is_withdrawn),
    TEST(test_failed_release_leaves_no_stale_hold),
    TEST(test_unknown_acquires_of_several_names_leave_no_hold),
    TEST(test_unknown_acquire_is_not_renewed),
    TEST(test_unknown_release_once_more),
    TEST(test_kept_back_acquire),
    TEST(test_late_copies),
};
TEST_MAIN_WITHIN(tests, lock_rig_setup, lock_rig_teardown)
