/*
 * Rungs of the textbook ladder, where no story of the stage shows them. That each rung
 * fails as it is there to show, and that the next one does not, is in the stories of
 * test_stage.c and test_stage_programs.c, and in the laboratory's experiments, whose
 * numbers are those of the tests: e2e/lab.t plays them.
 *
 * Nothing here waits for luck: leases are ended by hand.
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/lock_rig.h"

static unsigned steps(const char *name)
{
    return step_log_count(&rig.log, name);
}

/* 05: the `finally` of somebody who never had it ------------------------------ */

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

/* 07: between SETNX and EXPIRE ------------------------------------------------ */

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
    LOCK_TEST(test_05_waiting_is_not_losing),
    LOCK_TEST(test_07_lease_is_set),
    LOCK_TEST(test_10_what_is_in_the_lock),
    LOCK_TEST(test_11_extend_looks_first),
    LOCK_TEST(test_lost_reply_is_not_sent_again),
    LOCK_TEST(test_what_has_no_lease_has_no_end),
};
LOCK_RIG_MAIN(tests)
