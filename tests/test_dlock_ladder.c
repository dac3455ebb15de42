/*
 * The textbook ladder, lesson by lesson. Each test shows a failure on the rung
 * that is there to show it, and on the next one that it is gone. The numbers
 * are those of the laboratory's experiments.
 *
 * Nothing here waits for luck: leases are ended by hand, threads are stopped at
 * a step, and a crash is a session that is closed without a release.
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/lock_rig.h"

static unsigned steps(const char *name)
{
    return step_log_count(&rig.log, name);
}

/* 04: an error under the lock ------------------------------------------------- */

/*
 * In a textbook the release is the last line of the work: an error does not come
 * by there. A library cannot do that for its caller, nor prevent it.
 */
static void test_04_the_exception(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("setnx");

    assert_int_equal(lock_pair_take(&pair, 0, 0, 5000), DLOCK_OK);
    assert_int_equal(steps("del"), 0);
    assert_int_equal(lock_pair_take(&pair, 1, 150, 50), DLOCK_TIMEOUT);
    assert_int_equal(lock_rig_ask("PTTL k"), -1);
    lock_pair_close(&pair);

    lock_rig_end_lease();
    pair = lock_pair_open("setnx-finally");
    assert_int_equal(lock_pair_take(&pair, 0, 0, 5000), DLOCK_OK);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    assert_int_equal(steps("del"), 1);
    assert_int_equal(lock_pair_take(&pair, 1, 0, 5000), DLOCK_OK);
}

/* 05: the `finally` of somebody who never had it ------------------------------ */

/* Whether a loser's try leaves the winner alone. WAIT_MS: how he tries. */
static bool winner_is_safe(const char *strategy, unsigned wait_ms)
{
    bool safe;
    struct lock_pair pair = lock_pair_open(strategy);

    assert_int_equal(lock_pair_take(&pair, 0, 0, 5000), DLOCK_OK);
    assert_int_equal(lock_pair_take(&pair, 1, wait_ms, 5000),
                     wait_ms > 0 ? DLOCK_TIMEOUT : DLOCK_BUSY);
    /* The winner is still inside: is there room for a second one? */
    safe = lock_pair_take(&pair, 1, 0, 5000) == DLOCK_BUSY;
    lock_pair_close(&pair);
    (void)lock_rig_ask("DEL k");
    return safe;
}

static void test_05_the_losers_finally(NO_STATE)
{
    assert_true(winner_is_safe("setnx", 0));
    assert_false(winner_is_safe("setnx-finally", 0));
    assert_false(winner_is_safe("setnx-finally", 20));
    assert_true(winner_is_safe("setnx-expire", 0));
    assert_true(winner_is_safe("setnx-expire", 20));
}

/* A waiter's looks are no failed acquires: the `finally` comes at the end. */
static void test_05_waiting_is_not_losing(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("setnx-finally");

    assert_int_equal(lock_pair_take(&pair, 0, 0, 5000), DLOCK_OK);
    step_log_reset(&rig.log);
    assert_int_equal(lock_pair_take(&pair, 1, 20, 0), DLOCK_TIMEOUT);
    assert_true(steps("setnx") > 1);
    assert_int_equal(steps("del"), 1);
}

/* 06: the holder crashes ------------------------------------------------------ */

/* Whether somebody gets in after the holder has died, within lease and more. */
static bool outlives_crash(const char *strategy)
{
    bool got_in;
    struct lock_pair pair = lock_pair_open(strategy);

    assert_int_equal(lock_pair_take(&pair, 0, 0, 60), DLOCK_OK);
    lock_pair_die(&pair, 0);
    got_in = lock_pair_take(&pair, 1, 300, 60) == DLOCK_OK;
    lock_pair_close(&pair);
    (void)lock_rig_ask("DEL k");
    return got_in;
}

static void test_06_the_crash(NO_STATE)
{
    assert_false(outlives_crash("setnx"));
    assert_false(outlives_crash("setnx-finally"));
    assert_true(outlives_crash("setnx-expire"));
    assert_true(outlives_crash("set-nx-px"));
}

/* 07: between SETNX and EXPIRE ------------------------------------------------ */

/* Dies around STEP of its acquire; whether the lock comes free again. */
static bool outlives_half_a_take(const char *strategy, const char *step,
                                 enum dlock_phase phase)
{
    bool got_in;
    struct lock_pair pair = lock_pair_open(strategy);

    step_log_fail(&rig.log, step, phase, 1);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 60), DLOCK_UNKNOWN);
    assert_true(lock_rig_is_held());
    lock_pair_die(&pair, 0);
    got_in = lock_pair_take(&pair, 1, 300, 60) == DLOCK_OK;
    lock_pair_close(&pair);
    (void)lock_rig_ask("DEL k");
    return got_in;
}

static void test_07_between_two_commands(NO_STATE)
{
    const char *two = "setnx-expire";

    assert_false(outlives_half_a_take(two, "setnx", DLOCK_AFTER));
    assert_false(outlives_half_a_take(two, "pexpire", DLOCK_BEFORE));
    assert_true(outlives_half_a_take(two, "pexpire", DLOCK_AFTER));
    assert_true(
        outlives_half_a_take("setnx-expire-lua", "eval-take", DLOCK_AFTER));
    assert_true(outlives_half_a_take("set-nx-px", "set", DLOCK_AFTER));
}

/* Left alone, both of them do set the lease that was asked for. */
static void test_07_lease_is_set(NO_STATE)
{
    static const char *const names[] = {"setnx-expire", "setnx-expire-lua"};

    for (size_t i = 0; i < 2; i++) {
        struct lock_pair pair = lock_pair_open(names[i]);

        assert_int_equal(lock_pair_take(&pair, 0, 0, 5000), DLOCK_OK);
        assert_in_range(lock_rig_ask("PTTL k"), 4000, 5000);
        assert_int_equal(lock_pair_take(&pair, 1, 0, 5000), DLOCK_BUSY);
        assert_in_range(lock_rig_ask("PTTL k"), 3000, 5000);
        assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
        assert_false(lock_rig_is_held());
        lock_pair_close(&pair);
    }
}

/* 10: the same number in two processes ---------------------------------------- */

/* A's lease ends, B takes it, A gives back: does B still have it? */
static bool b_is_safe(const char *strategy, bool same_process)
{
    struct lock_pair pair = lock_pair_open(strategy);
    bool safe;

    if (same_process) {
        dlock_session_close(pair.session[1]);
        pair.session[1] = lock_rig_session(pair.client[0]);
    }
    assert_int_equal(lock_pair_take(&pair, 0, 0, 5000), DLOCK_OK);
    lock_rig_end_lease();
    assert_int_equal(lock_pair_take(&pair, 1, 0, 5000), DLOCK_OK);
    safe = lock_pair_give(&pair, 0) == DLOCK_LOST;
    assert_int_equal(lock_rig_is_held(), safe);
    lock_pair_die(&pair, 1);
    lock_pair_close(&pair);
    (void)lock_rig_ask("DEL k");
    return safe;
}

static void test_10_same_name_in_two_houses(NO_STATE)
{
    assert_false(b_is_safe("set-nx-px", true));
    assert_true(b_is_safe("token-thread", true));
    assert_false(b_is_safe("token-thread", false));
    assert_true(b_is_safe("token", true));
    assert_true(b_is_safe("token", false));
}

/* A token tells on the way what the key says: a number, or 128 random bits. */
static void test_10_what_is_in_the_lock(NO_STATE)
{
    struct dlock_holder holder;
    struct lock_pair pair = lock_pair_open("token-thread");

    assert_int_equal(lock_pair_take(&pair, 1, 0, 5000), DLOCK_OK);
    assert_int_equal(dlock_inspect(pair.session[0], "k", &holder, NULL),
                     DLOCK_OK);
    assert_string_equal(holder.owner, "1");
    assert_int_equal(lock_pair_give(&pair, 1), DLOCK_OK);
}

/* 11: between GET and PEXPIRE -------------------------------------------------- */

/* Who does not look lengthens another's lease. */
static void test_11_extend_looks_first(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("token");

    assert_int_equal(lock_pair_take(&pair, 0, 0, 5000), DLOCK_OK);
    assert_int_equal(lock_pair_extend(&pair, 0, 9000), DLOCK_OK);
    assert_in_range(lock_rig_ask("PTTL k"), 8000, 9000);
    lock_rig_end_lease();
    assert_int_equal(lock_pair_take(&pair, 1, 0, 5000), DLOCK_OK);
    assert_int_equal(lock_pair_extend(&pair, 0, 9000), DLOCK_LOST);
    assert_in_range(lock_rig_ask("PTTL k"), 3000, 5000);
    lock_pair_close(&pair);
    pair = lock_pair_open("set-nx-px");
    (void)snprintf(pair.grant[0].name, sizeof(pair.grant[0].name), "k");
    lock_rig_pass_off(pair.session[0], &pair.grant[0]);
    assert_int_equal(lock_pair_extend(&pair, 0, 9000), DLOCK_OK);
    assert_in_range(lock_rig_ask("PTTL k"), 8000, 9000);
}

/* What all rungs have --------------------------------------------------------- */

/* A lost reply is "don't know" where the command cannot be sent twice. */
static void test_lost_reply_is_not_sent_again(NO_STATE)
{
    static const struct {
        const char *name, *step;
    } rows[] = {{"setnx", "setnx"}, {"set-nx-px", "set"}, {"token-lua", "set"}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct lock_pair pair = lock_pair_open(rows[i].name);

        step_log_reset(&rig.log);
        step_log_fail(&rig.log, rows[i].step, DLOCK_AFTER, 1);
        assert_int_equal(lock_pair_take(&pair, 0, 0, 5000), DLOCK_UNKNOWN);
        assert_int_equal(steps(rows[i].step), 1);
        assert_int_equal(lock_pair_take(&pair, 1, 0, 5000), DLOCK_BUSY);
        lock_pair_close(&pair);
        lock_rig_end_lease();
    }
}

static void test_what_has_no_lease_has_no_end(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("setnx");
    struct dlock_holder holder;

    assert_int_equal(lock_pair_take(&pair, 0, 0, 5000), DLOCK_OK);
    assert_int_equal(pair.grant[0].deadline_ms, UINT64_MAX);
    assert_int_equal(dlock_inspect(pair.session[1], "k", &holder, NULL), 0);
    assert_true(holder.held && holder.remaining_ms == UINT64_MAX);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
}

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_04_the_exception),
    LOCK_TEST(test_05_the_losers_finally),
    LOCK_TEST(test_05_waiting_is_not_losing),
    LOCK_TEST(test_06_the_crash),
    LOCK_TEST(test_07_between_two_commands),
    LOCK_TEST(test_07_lease_is_set),
    LOCK_TEST(test_10_same_name_in_two_houses),
    LOCK_TEST(test_10_what_is_in_the_lock),
    LOCK_TEST(test_11_extend_looks_first),
    LOCK_TEST(test_lost_reply_is_not_sent_again),
    LOCK_TEST(test_what_has_no_lease_has_no_end),
};
LOCK_RIG_MAIN(tests)
