/*
 * Release by force: the name is free at once, the next waiter is woken, and
 * the holder is told that it was force, not an accident, within one renewal
 * period.
 */
#include <stdatomic.h>
#include <string.h>

#include "tests/support/async_note.h"
#include "tests/support/lock_waiter.h"

enum { LEASE_MS = LOCK_RIG_LEASE_MS / 2, PERIOD_MS = LEASE_MS / 3 };

static struct lock_pair open_renewed(const char *strategy)
{
    rig.watchdog_lease_ms = LEASE_MS;
    return lock_pair_open(strategy);
}

static void test_holder_is_told(NO_STATE)
{
    struct dlock_grant grant, inner;
    struct lock_pair pair = open_renewed("redisson");

    assert_int_equal(lock_hold_take(&pair, "k", 0, &grant), 0);
    assert_int_equal(lock_hold_take(&pair, "k", 5000, &inner), 0);
    assert_int_equal(dlock_force_release(pair.session[1], "k", NULL), DLOCK_OK);
    assert_false(lock_rig_is_held());
    /* By a renewal: when the lease ends, the reason would be that. */
    assert_int_equal(lock_rig_await_lost(1), DLOCK_LOSS_FORCED);
    assert_int_equal(dlock_remaining_ms(pair.session[0], &grant), 0);
    assert_int_equal(lock_hold_give(&pair, &inner), DLOCK_LOST);
    assert_int_equal(lock_hold_give(&pair, &grant), DLOCK_LOST);
}

/* Also if somebody else has it by then: force is why, not the somebody. */
static void test_waiter_is_woken(NO_STATE)
{
    struct dlock_grant grant;
    struct lock_pair pair = open_renewed("fenced");
    struct lock_single third = lock_single_open("fenced");
    struct note note = {.n = 0};
    uint64_t forced_ms;

    assert_int_equal(lock_hold_take(&pair, "k", 0, &grant), 0);
    assert_int_equal(note_begin(pair.session[1], "k", 20000, &note), DLOCK_OK);
    step_log_await(&rig.log, "subscribe", 1);
    lock_rig_sleep_ms(20);
    forced_ms = lock_rig_now_ms();
    assert_int_equal(dlock_force_release(third.session, "k", NULL), DLOCK_OK);
    assert_int_equal(note_await(&note), DLOCK_OK);
    assert_int_equal(note.grant.token, grant.token + 1);
    /* Not only when the lease would have ended. */
    assert_in_range(lock_rig_now_ms() - forced_ms, 0, 2 * PERIOD_MS);
    assert_int_equal(lock_rig_await_lost(1), DLOCK_LOSS_FORCED);
    assert_int_equal(lock_hold_give(&pair, &grant), DLOCK_LOST);
}

/* The word is not for the next owner, and does not stay for ever. */
static void test_word_names_the_owner(NO_STATE)
{
    struct dlock_grant grant;
    struct lock_pair pair = open_renewed("redisson");

    assert_int_equal(lock_hold_take(&pair, "k", 5000, &grant), 0);
    assert_int_equal(dlock_force_release(pair.session[1], "k", NULL), DLOCK_OK);
    assert_in_range(lock_rig_ask("PTTL {k}:dlock-forced"), 60000, 65000);
    assert_int_equal(lock_rig_take(pair.session[1], "k", 0, 0, &grant), 0);
    lock_rig_tell("DEL k");
    assert_int_equal(lock_rig_await_lost(1), DLOCK_LOSS_FLUSHED);
}

/* Takes it, and sleeps through the lease: in a renewal of another lock. */
static void expire(struct lock_pair *pair)
{
    struct dlock_grant grant, other;

    step_log_shut(&rig.log, "eval-renew", DLOCK_BEFORE);
    assert_int_equal(lock_hold_take(pair, "j", 0, &other), 0);
    step_log_await_gate(&rig.log, 1);
    assert_int_equal(lock_hold_take(pair, "k", 0, &grant), 0);
    lock_rig_sleep_ms(LEASE_MS + 50);
    step_log_open(&rig.log);
    assert_int_equal(lock_rig_await_lost(2), DLOCK_LOSS_EXPIRED);
    assert_int_equal(lock_hold_give(pair, &grant), DLOCK_LOST);
}

/* The same session gets it again: that grant is not ended by the old force. */
static void test_word_is_not_for_the_next_grant(NO_STATE)
{
    static const char *const locks[] = {"redisson", "fair",      "watchdog",
                                        "spin",     "reentrant", "fenced"};

    for (size_t i = 0; i < COUNT_OF(locks); i++) {
        struct lock_pair pair = open_renewed(locks[i]);
        struct dlock_grant grant;

        atomic_store(&rig.lost_n, 0);
        assert_int_equal(lock_hold_take(&pair, "k", 0, &grant), 0);
        assert_int_equal(dlock_force_release(pair.session[1], "k", NULL), 0);
        assert_int_equal(lock_rig_await_lost(1), DLOCK_LOSS_FORCED);
        assert_int_equal(lock_hold_give(&pair, &grant), DLOCK_LOST);
        expire(&pair);
        lock_pair_close(&pair);
        lock_rig_tell("FLUSHALL");
    }
}

/* Nor if the old grant has not heard of it yet: each has its own reason. */
static void test_word_is_for_the_old_grant(NO_STATE)
{
    struct dlock_grant old, grant;
    struct lock_pair pair = open_renewed("redisson");

    assert_int_equal(lock_hold_take(&pair, "k", 0, &old), 0);
    assert_int_equal(dlock_force_release(pair.session[1], "k", NULL), DLOCK_OK);
    assert_int_equal(lock_hold_take(&pair, "k", 0, &grant), 0);
    assert_int_equal(lock_rig_await_lost(1), DLOCK_LOSS_FORCED);
    assert_int_equal(dlock_remaining_ms(pair.session[0], &old), 0);
    assert_int_equal(lock_hold_give(&pair, &old), DLOCK_LOST);
    lock_rig_tell("DEL k");
    assert_int_equal(lock_rig_await_lost(2), DLOCK_LOSS_FLUSHED);
    assert_int_equal(lock_hold_give(&pair, &grant), DLOCK_LOST);
}

static void test_nothing_to_force(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct lock_pair none = lock_pair_open("none");
    struct dlock_error error = {""};

    assert_int_equal(dlock_force_release(pair.session[0], "k", NULL),
                     DLOCK_LOST);
    assert_int_equal(dlock_force_release(pair.session[0], "", NULL),
                     DLOCK_MISUSE);
    assert_int_equal(dlock_force_release(NULL, "k", NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_force_release(none.session[0], "k", &error),
                     DLOCK_MISUSE);
    assert_string_equal(error.text, "force: strategy none cannot");
}

/* Where waiters are woken but do not queue they are counted, without names. */
static void test_who_waits_without_a_queue_is_counted(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct dlock_waiting waiters[2] = {{"x"}};
    struct lock_waiter waiter = {.session = pair.session[1], .wait_ms = 10000};
    size_t n = 7;

    assert_int_equal(
        dlock_inspect_waiters(pair.session[0], "k", waiters, 2, &n, NULL),
        DLOCK_OK);
    assert_int_equal(n, 0);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), DLOCK_OK);
    lock_waiter_start(&waiter);
    while (n == 0)
        assert_int_equal(
            dlock_inspect_waiters(pair.session[0], "k", waiters, 2, &n, NULL),
            DLOCK_OK);
    assert_int_equal(n, 1);
    assert_string_equal(waiters[0].owner, "");
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    lock_waiter_join(&waiter);
    assert_int_equal(waiter.status, DLOCK_OK);
}

static void test_bad_questions_about_waiters(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct lock_pair polls = lock_pair_open("spin");
    struct dlock_waiting waiters[2];
    struct dlock_error error;
    size_t n = 7;

    assert_int_equal(
        dlock_inspect_waiters(pair.session[0], "k", NULL, 2, &n, NULL),
        DLOCK_MISUSE);
    assert_int_equal(
        dlock_inspect_waiters(pair.session[0], "\n", waiters, 2, &n, NULL),
        DLOCK_MISUSE);
    assert_int_equal(
        dlock_inspect_waiters(polls.session[0], "k", waiters, 2, &n, &error),
        DLOCK_MISUSE);
    assert_string_equal(error.text, "waiters: strategy spin cannot");
}

static void test_losses_have_texts(NO_STATE)
{
    for (int i = 0; i < DLOCK_LOSS_N; i++)
        assert_true(strlen(dlock_loss_text((enum dlock_loss)i)) > 10);
    assert_string_equal(dlock_loss_text(DLOCK_LOSS_FORCED),
                        "released by force");
    assert_non_null(dlock_loss_text(DLOCK_LOSS_N));
}

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_holder_is_told),
    LOCK_TEST(test_waiter_is_woken),
    LOCK_TEST(test_word_names_the_owner),
    LOCK_TEST(test_nothing_to_force),
    LOCK_TEST(test_word_is_not_for_the_next_grant),
    LOCK_TEST(test_word_is_for_the_old_grant),
    LOCK_TEST(test_who_waits_without_a_queue_is_counted),
    LOCK_TEST(test_bad_questions_about_waiters),
    LOCK_TEST(test_losses_have_texts),
};
LOCK_RIG_MAIN(tests)
