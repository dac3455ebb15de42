/*
 * The fifteen semantics that are easy to get wrong, at the end of
 * shared/locks.md: each was a real bug in a widely used library. Where the test
 * of each one is:
 *
 *    1  release of someone else's lock;         here, and test_stage.c: stories
 *       success reported on an expired lock
 *    2  a re-sent release throws at its owner   here (03), redisson:
 *                                               unknown_release_once_more
 *    3  a re-sent acquire counts as re-entry    here
 *    4  lost wake-up before the subscription    wakeup: missed_wakeup,
 *                                               stuck_subscriber
 *    5  who gave up leaves a renewed lock       here (timed out), async: all of
 *                                               cancel, redisson:
 *                                               unknown_acquire_is_not_renewed
 *    6  the watchdog outlives the unlock        here (many), watchdog:
 *                                               release_waits_for_the_renewal
 *    7  leases of two holders mix               here
 *    8  fair queue: deadlines drift, a dead     fair: giving_up_moves_no_deadline,
 *       waiter blocks                           a_dead_waiter_does_not_block
 *    9  multi-lock: order, first failed unlock  multi: one_order_for_all, rollback,
 *                                               release_over_errors
 *   10  redlock: validity, split, restart       redlock: validity_is_honest,
 *                                               the_clock_starts_with_the_try,
 *                                               quorum: even_numbers_settle,
 *                                               nobody_votes_twice
 *   11  counters live for ever, or restart      fenced: counter_expires,
 *                                               floor_after_data_loss
 *   12  a cancelled release leaves the lock     here
 *   13  a lock on a session that died waiting   full/zk; here for a lease,
 *                                               which is validity (10) as well
 *   14  subscription storms                     economy: one_subscriber
 *   15  unlock before commit                    test_order_locks.c
 *
 * (test_dlock_NAME.c, test_ left out.)
 */
#include <stdatomic.h>
#include <string.h>

#include "tests/support/async_note.h"
#include "tests/support/fake_clock.h"
#include "tests/support/lock_rig.h"

/* 1 ------------------------------------------------------------------------- */

/* All locks that have an owner and a lease, whatever they are made of. */
static void test_01_late_release_frees_no_strangers_lock(NO_STATE)
{
    static const char *const names[] = {"token-lua", "watchdog", "reentrant",
                                        "spin",      "redisson", "fenced",
                                        "fair"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct lock_pair pair = lock_pair_open(names[i]);

        assert_int_equal(lock_pair_take(&pair, 0, 0, 5000), DLOCK_OK);
        lock_rig_end_lease();
        assert_int_equal(lock_pair_give(&pair, 0), DLOCK_LOST);
        assert_int_equal(lock_pair_take(&pair, 1, 0, 5000), DLOCK_OK);
        assert_int_equal(lock_pair_give(&pair, 0), DLOCK_LOST);
        assert_int_equal(lock_rig_probe(names[i], "k"), DLOCK_BUSY);
        assert_int_equal(lock_pair_give(&pair, 1), DLOCK_OK);
        lock_pair_close(&pair);
    }
}

/* 3 ------------------------------------------------------------------------- */

/* However many replies are lost on the way: as many holds as grants. */
static void test_03_lost_replies_leave_no_hold_behind(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct dlock_grant grants[3];

    for (unsigned i = 0; i < 3; i++) {
        step_log_reset(&rig.log);
        step_log_fail(&rig.log, "eval-acquire", DLOCK_AFTER, i);
        assert_int_equal(lock_hold_take(&pair, "k", 5000, &grants[i]),
                         DLOCK_OK);
        assert_int_equal(step_log_count(&rig.log, "eval-acquire"), 1 + i);
        assert_int_equal(grants[i].holds, i + 1);
    }
    for (unsigned i = 3; i-- > 0;) {
        assert_int_equal(lock_rig_probe("redisson", "k"), DLOCK_BUSY);
        step_log_reset(&rig.log);
        step_log_fail(&rig.log, "eval-release", DLOCK_AFTER, i);
        assert_int_equal(lock_hold_give(&pair, &grants[i]), DLOCK_OK);
        assert_int_equal(step_log_count(&rig.log, "eval-release"), 1 + i);
    }
    assert_int_equal(lock_rig_probe("redisson", "k"), DLOCK_OK);
}

/* 5 ------------------------------------------------------------------------- */

/* The wait ends while the last try is on its way, and that try succeeds. */
static void test_05_timed_out_waiter_holds_nothing(NO_STATE)
{
    struct lock_pair pair;

    rig.watchdog_lease_ms = 60;
    pair = lock_pair_open("redisson");
    assert_int_equal(lock_pair_take(&pair, 1, 0, 60000), DLOCK_OK);
    for (int i = 0; i < 20; i++)
        assert_int_equal(lock_pair_take(&pair, 0, 3, 0), DLOCK_TIMEOUT);
    step_log_reset(&rig.log);
    assert_int_equal(lock_pair_give(&pair, 1), DLOCK_OK);
    lock_rig_sleep_ms(100);
    assert_int_equal(step_log_count(&rig.log, "eval-renew"), 0);
    assert_false(lock_rig_is_held());
}

/* 6 ------------------------------------------------------------------------- */

/* Taken and given back while renewals run: none is sent for who is gone. */
static void test_06_no_renewal_after_release(NO_STATE)
{
    uint64_t until = lock_rig_now_ms() + 300;
    struct lock_pair pair;

    rig.watchdog_lease_ms = 30;
    pair = lock_pair_open("redisson");
    while (lock_rig_now_ms() < until) {
        enum dlock_status status;

        /* On a loaded machine 30 ms may be over any time: that is no matter. */
        assert_int_equal(lock_pair_take(&pair, 0, 1000, 0), DLOCK_OK);
        lock_rig_sleep_ms((unsigned)(lock_rig_now_ms() % 3) * 5 + 5);
        status = lock_pair_give(&pair, 0);
        assert_true(status == DLOCK_OK || status == DLOCK_LOST);
        assert_false(lock_rig_is_held());
    }
    step_log_reset(&rig.log);
    lock_rig_sleep_ms(60);
    assert_int_equal(step_log_count(&rig.log, "eval-renew"), 0);
}

/* 7 ------------------------------------------------------------------------- */

/* Sessions of one client, each with a lease of its own. */
static void test_07_leases_of_two_holders_do_not_mix(NO_STATE)
{
    struct dlock *client = lock_rig_client("redisson");
    struct dlock_session *a = lock_rig_session(client);
    struct dlock_session *b = lock_rig_session(client);
    struct dlock_grant of_a, of_b, inner;

    assert_int_equal(lock_rig_take(a, "a", 0, 60000, &of_a), DLOCK_OK);
    assert_int_equal(lock_rig_take(b, "b", 0, 5000, &of_b), DLOCK_OK);
    assert_in_range(lock_rig_ask("PTTL a"), 55000, 60000);
    assert_in_range(lock_rig_ask("PTTL b"), 1, 5000);
    /* A nested hold, its release, and an extension touch only their own. */
    assert_int_equal(lock_rig_take(b, "b", 0, 20000, &inner), DLOCK_OK);
    assert_int_equal(dlock_release(b, &inner, NULL), DLOCK_OK);
    assert_int_equal(dlock_extend(a, &of_a, 30000, NULL), DLOCK_OK);
    assert_in_range(lock_rig_ask("PTTL a"), 25000, 30000);
    assert_in_range(lock_rig_ask("PTTL b"), 15000, 20000);
    assert_in_range(dlock_remaining_ms(a, &of_a), 25000, 30000);
    assert_in_range(dlock_remaining_ms(b, &of_b), 1, 5000);
}

/* 12 ------------------------------------------------------------------------ */

/* A release that never left can be called again, and then frees it. */
static void test_12_failed_release_can_be_repeated(NO_STATE)
{
    static const char *const names[] = {"token-lua", "redisson", "fenced"};

    rig.command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct lock_pair pair = lock_pair_open(names[i]);

        assert_int_equal(lock_pair_take(&pair, 0, 0, 60000), DLOCK_OK);
        step_log_fail(&rig.log, "eval-release", DLOCK_BEFORE, STEP_LOG_ALWAYS);
        for (int tries = 0; tries < 2; tries++)
            assert_int_equal(lock_pair_give(&pair, 0), DLOCK_UNREACHABLE);
        step_log_fail(&rig.log, "eval-release", DLOCK_BEFORE, 0);
        assert_int_equal(lock_rig_probe(names[i], "k"), DLOCK_BUSY);
        assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
        assert_int_equal(lock_rig_probe(names[i], "k"), DLOCK_OK);
        lock_pair_close(&pair);
    }
}

/* 13 ------------------------------------------------------------------------ */

/*
 * The command (DLOCK_BEFORE) or its reply (_AFTER) is on its way for longer than
 * the lease, by the holder's clock.
 */
static struct note be_late(struct dlock_session *session,
                           enum dlock_phase phase,
                           const struct dlock_terms *terms)
{
    struct note late = {.n = 0};

    step_log_reset(&rig.log);
    step_log_shut(&rig.log, "eval-acquire", phase);
    assert_int_equal(
        dlock_acquire_async(session, "k", terms, note_done, &late, NULL),
        DLOCK_OK);
    step_log_await_gate(&rig.log, 1);
    lock_rig_sleep_ms(terms->lease_ms + 20);
    step_log_open(&rig.log);
    (void)note_await(&late);
    return late;
}

/*
 * The lease counts from before the command was sent: what is over by the time
 * the reply is there is no grant, and is asked for again while there is time.
 */
static void test_13_a_lease_that_is_over_is_no_grant(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct dlock_terms terms = {.lease_ms = 40};
    struct note late;

    late = be_late(pair.session[0], DLOCK_AFTER, &terms);
    assert_int_equal(late.status, DLOCK_LOST);
    assert_int_equal(step_log_count(&rig.log, "eval-acquire"), 1);
    assert_false(lock_rig_is_held());
    terms.wait_ms = 5000;
    late = be_late(pair.session[0], DLOCK_AFTER, &terms);
    assert_int_equal(late.status, DLOCK_OK);
    assert_int_equal(late.grant.holds, 1);
    assert_in_range(step_log_count(&rig.log, "eval-acquire"), 2, 3);
}

/* Also where the time for the acquire itself is over by then. */
static void test_13_a_late_grant_is_given_back_late(NO_STATE)
{
    static const char *const names[] = {"redisson", "fair"};
    struct dlock_terms terms = {.lease_ms = 500};

    rig.command_timeout_ms = 200;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct lock_pair pair = lock_pair_open(names[i]);
        struct note late;

        late = be_late(pair.session[0], DLOCK_BEFORE, &terms);
        assert_int_equal(late.status, DLOCK_LOST);
        assert_int_equal(step_log_count(&rig.log, "eval-release"), 1);
        assert_false(lock_rig_is_held());
        lock_pair_close(&pair);
    }
}

/* The holder is stopped for 6 s while the first reply is on its way. */
static enum dlock_verdict sleep_once(void *ctx, const struct dlock_step *step)
{
    static const char *const takes[] = {"eval-acquire", "eval-take",
                                        "set-nx-px"};
    struct fake_clock *clock = ctx;

    for (size_t i = 0; i < 3; i++)
        if (strcmp(step->name, takes[i]) == 0 && step->phase == DLOCK_AFTER &&
            atomic_load(&clock->now_ms) < 6000)
            fake_clock_advance(clock, 6000);
    return DLOCK_GO;
}

/* The server, which has not slept, is told: nothing is in the next try's way. */
static void test_13_what_is_no_grant_is_given_back(NO_STATE)
{
    static const char *const names[] = {"watchdog", "reentrant", "spin",
                                        "redisson", "fenced",    "fair"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        uint64_t began_ms = lock_rig_now_ms();
        static struct fake_clock clock;
        struct lock_single single;

        fake_clock_init(&clock, 1000);
        rig.command_timeout_ms = 0;
        rig.clock = &clock.face;
        rig.on_step = sleep_once;
        rig.hooks_ctx = &clock;
        single = lock_single_open(names[i]);
        assert_int_equal(
            lock_rig_take(single.session, "k", 10000, 5000, &single.grant),
            DLOCK_OK);
        assert_in_range(lock_rig_now_ms() - began_ms, 0, 3000);
        assert_int_equal(single.grant.holds, 1);
        assert_int_equal(dlock_remaining_ms(single.session, &single.grant),
                         5000);
        assert_int_equal(lock_single_give(&single), DLOCK_OK);
        assert_false(lock_rig_is_held());
        lock_single_close(&single);
        /* The same dice make the same owner. */
        lock_rig_tell("FLUSHALL");
    }
}

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_01_late_release_frees_no_strangers_lock),
    LOCK_TEST(test_03_lost_replies_leave_no_hold_behind),
    LOCK_TEST(test_05_timed_out_waiter_holds_nothing),
    LOCK_TEST(test_06_no_renewal_after_release),
    LOCK_TEST(test_07_leases_of_two_holders_do_not_mix),
    LOCK_TEST(test_12_failed_release_can_be_repeated),
    LOCK_TEST(test_13_a_lease_that_is_over_is_no_grant),
    LOCK_TEST(test_13_a_late_grant_is_given_back_late),
    LOCK_TEST(test_13_what_is_no_grant_is_given_back),
};
LOCK_RIG_MAIN(tests)
