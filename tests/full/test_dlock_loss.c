/*
 * What a holder is told when its lock is lost: why, once, and at once; and that
 * nothing of the lost grant is done to the next one. Sleeps are used where time
 * itself is what is tested.
 */
#include <stdatomic.h>
#include <stdio.h>

#include "tests/support/lock_rig.h"

static struct lock_pair open_renewed(const char *strategy)
{
    rig.watchdog_lease_ms = LOCK_RIG_LEASE_MS;
    return lock_pair_open(strategy);
}

static void test_max_hold(NO_STATE)
{
    struct dlock_terms terms = {.max_hold_ms = LOCK_RIG_LEASE_MS + 400};
    struct lock_pair pair = open_renewed("redisson");
    uint64_t start_ms = lock_rig_now_ms();

    assert_int_equal(
        dlock_acquire(pair.session[0], "k", &terms, &pair.grant[0], NULL), 0);
    assert_int_equal(lock_pair_take(&pair, 1, LOCK_RIG_LONG_MS, 0), 0);
    assert_in_range(lock_rig_now_ms() - start_ms, terms.max_hold_ms - 10,
                    LOCK_RIG_PROMPT_MS);
    assert_int_equal(lock_rig_await_lost(1), DLOCK_LOSS_OVERHELD);
    assert_int_equal(lock_pair_left_ms(&pair, 0), 0);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_LOST);
}

static void lose(const char *command, enum dlock_loss reason)
{
    struct lock_pair pair = open_renewed("redisson");

    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), 0);
    lock_rig_tell(command);
    assert_int_equal(lock_rig_await_lost(1), reason);
    assert_int_equal(lock_pair_left_ms(&pair, 0), 0);
    lock_rig_sleep_ms(LOCK_RIG_LEASE_MS / 2); /* one renewal more */
    assert_int_equal(atomic_load(&rig.lost_n), 1);
}

/* Gone although our clock says that the lease runs: the server lost it. */
static void test_lost_flushed(NO_STATE)
{
    lose("FLUSHALL", DLOCK_LOSS_FLUSHED);
}

/* The holder slept through its lease: the clock has gone on without it. */
static void test_lost_expired(NO_STATE)
{
    struct lock_pair pair = open_renewed("redisson");

    step_log_shut(&rig.log, "eval-renew", DLOCK_BEFORE);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), 0);
    step_log_await_gate(&rig.log, 1);
    lock_rig_sleep_ms(LOCK_RIG_LEASE_MS + 30);
    step_log_open(&rig.log);
    assert_int_equal(lock_rig_await_lost(1), DLOCK_LOSS_EXPIRED);
}

static void test_lost_taken(NO_STATE)
{
    lock_rig_tell("HSET strangers x 1");
    lose("RENAME strangers k", DLOCK_LOSS_TAKEN);
}

/*
 * The lock is lost while nobody looks, and the session takes it anew: the
 * renewals of the first grant would find the session's own id there.
 */
static void test_lost_and_taken_anew(NO_STATE)
{
    struct dlock_grant first, second;
    struct lock_pair pair = open_renewed("redisson");

    assert_int_equal(lock_hold_take(&pair, "k", 0, &first), 0);
    lock_rig_tell("DEL k");
    assert_int_equal(lock_hold_take(&pair, "k", 0, &second), 0);
    assert_int_equal(second.holds, 1);
    assert_int_equal(lock_hold_left_ms(&pair, &first), 0);
    assert_int_equal(lock_rig_await_lost(1), DLOCK_LOSS_FLUSHED);
    /* What is done with the first one is not done to the second. */
    assert_int_equal(dlock_extend(pair.session[0], &first, 60000, NULL),
                     DLOCK_LOST);
    assert_int_equal(lock_hold_give(&pair, &first), DLOCK_LOST);
    step_log_reset(&rig.log);
    step_log_await(&rig.log, "eval-renew", 4);
    assert_in_range(lock_rig_ask("PTTL k"), 1, LOCK_RIG_LEASE_MS);
    assert_in_range(lock_hold_left_ms(&pair, &second), 1, LOCK_RIG_LEASE_MS);
    assert_int_equal(lock_hold_give(&pair, &second), DLOCK_OK);
    assert_int_equal(atomic_load(&rig.lost_n), 1);
}

/* Taken anew for a while only: no renewal of the first grant prolongs that. */
static void test_lost_grant_renews_nothing(NO_STATE)
{
    struct dlock_grant first, second;
    struct lock_pair pair = open_renewed("redisson");

    assert_int_equal(lock_hold_take(&pair, "k", 0, &first), 0);
    lock_rig_tell("DEL k");
    assert_int_equal(lock_hold_take(&pair, "k", 2000, &second), 0);
    assert_int_equal(lock_pair_take(&pair, 1, LOCK_RIG_LONG_MS, 0), 0);
    (void)lock_rig_await_lost(1);
    assert_int_equal(lock_hold_give(&pair, &first), DLOCK_LOST);
    assert_int_equal(lock_hold_give(&pair, &second), DLOCK_LOST);
    assert_int_equal(lock_pair_give(&pair, 1), DLOCK_OK);
}

/* A renewal of the first grant is on its way when the second one comes. */
static void test_lost_in_the_middle_of_a_renewal(NO_STATE)
{
    struct dlock_grant first, second;
    struct lock_pair pair = open_renewed("redisson");

    step_log_shut(&rig.log, "eval-renew", DLOCK_BEFORE);
    assert_int_equal(lock_hold_take(&pair, "k", 0, &first), 0);
    step_log_await_gate(&rig.log, 1);
    lock_rig_tell("DEL k");
    assert_int_equal(lock_hold_take(&pair, "k", LOCK_RIG_LONG_MS, &second), 0);
    step_log_open(&rig.log);
    (void)lock_rig_await_lost(1);
    assert_int_equal(lock_hold_left_ms(&pair, &first), 0);
    assert_int_equal(lock_hold_give(&pair, &first), DLOCK_LOST);
    assert_int_equal(lock_hold_give(&pair, &second), DLOCK_OK);
}

static void test_lost_unreachable(NO_STATE)
{
    struct lock_pair pair;
    uint64_t start_ms;

    rig.command_timeout_ms = LOCK_RIG_LONG_MS;
    pair = open_renewed("redisson");
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), 0);
    start_ms = lock_rig_now_ms();
    redis_server_pause(rig.server);
    (void)lock_rig_await_lost(1);
    redis_server_resume(rig.server);
    /* At the end of the lease, not a command timeout later. */
    assert_in_range(lock_rig_now_ms() - start_ms, LOCK_RIG_LEASE_MS / 2,
                    LOCK_RIG_PROMPT_MS);
    assert_int_equal(atomic_load(&rig.loss), DLOCK_LOSS_UNREACHABLE);
    assert_int_equal(lock_pair_left_ms(&pair, 0), 0);
}

/* It was told that the server cannot be reached: no need to find that out twice. */
static void test_release_after_unreachable(NO_STATE)
{
    enum dlock_status status;
    struct lock_pair pair;
    uint64_t start_ms;

    rig.command_timeout_ms = 2 * LOCK_RIG_TIMEOUT_MS;
    pair = open_renewed("fenced");
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), 0);
    redis_server_pause(rig.server);
    assert_int_equal(lock_rig_await_lost(1), DLOCK_LOSS_UNREACHABLE);
    start_ms = lock_rig_now_ms();
    status = lock_pair_give(&pair, 0);
    assert_true(status == DLOCK_UNKNOWN || status == DLOCK_UNREACHABLE);
    assert_in_range(lock_rig_now_ms() - start_ms, 0,
                    4 * LOCK_RIG_TIMEOUT_MS - 100);
    redis_server_resume(rig.server);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_LOST);
}

/* A short outage of the server costs nothing: two thirds are in reserve. */
static void test_renewal_survives_a_lost_reply(NO_STATE)
{
    struct lock_pair pair = open_renewed("redisson");

    step_log_fail(&rig.log, "eval-renew", DLOCK_AFTER, 2);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), 0);
    step_log_await(&rig.log, "eval-renew", 5);
    assert_int_equal(atomic_load(&rig.lost_n), 0);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
}

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_max_hold),
    LOCK_TEST(test_lost_flushed),
    LOCK_TEST(test_lost_expired),
    LOCK_TEST(test_lost_taken),
    LOCK_TEST(test_lost_and_taken_anew),
    LOCK_TEST(test_lost_grant_renews_nothing),
    LOCK_TEST(test_lost_in_the_middle_of_a_renewal),
    LOCK_TEST(test_lost_unreachable),
    LOCK_TEST(test_release_after_unreachable),
    LOCK_TEST(test_renewal_survives_a_lost_reply),
};
LOCK_RIG_MAIN(tests)
