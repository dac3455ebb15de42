/*
 * Release by force: the name is free at once, the next waiter is woken, and
 * the holder is told that it was force, not an accident, within one renewal
 * period.
 */
#include <string.h>

#include "tests/support/lock_story.h"
#include "tests/support/lock_waiter.h"

/* Where waiters are woken but do not queue they are counted, without names. */
static void test_who_waits_without_a_queue_is_counted(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct dlock_waiting waiters[2] = {{"x"}};
    struct lock_waiter waiter = {.session = pair.session[1], .wait_ms = 10000};
    size_t n = 7;

    assert_ok(
        dlock_inspect_waiters(pair.session[0], "k", waiters, 2, &n, NULL));
    assert_int_equal(n, 0);
    assert_ok(lock_pair_take(&pair, 0, 0, 0));
    lock_waiter_start(&waiter);
    while (n == 0)
        assert_ok(
            dlock_inspect_waiters(pair.session[0], "k", waiters, 2, &n, NULL));
    assert_int_equal(n, 1);
    assert_string_equal(waiters[0].owner, "");
    assert_ok(lock_pair_give(&pair, 0));
    lock_waiter_join(&waiter);
    assert_ok(waiter.status);
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

static const struct lock_story stories[] = {
    /* By a renewal: when the lease ends, the reason would be that. */
    {"the holder is told", "redisson",
     "watchdog 1200; a takes; a takes inner 5000; b forces; free; lost 1 "
     "force; "
     "a has left=0; a gives inner -> lost; a gives -> lost"},
    /* Not only when the lease would have ended. And though somebody else has it by then,
     * force is why. */
    {"a waiter is woken", "fenced",
     "watchdog 1200; a takes token=1..; b begins wait=20000; await subscribe "
     "1; "
     "sleep 20; clock; c forces; b ends token=next; took 0..800; lost 1 "
     "force; "
     "a gives -> lost"},
    {"the word is not for the next owner, and does not stay for ever",
     "redisson",
     "watchdog 1200; a takes 5000; b forces; "
     "PTTL {k}:dlock-forced -> 60000..65000; b takes; DEL k; lost 1 gone"},
    /* It sleeps through the lease, in a renewal of another lock. */
    {"nor for the next grant of the session",
     "redisson fair watchdog spin reentrant fenced",
     "watchdog 1200; a takes; b forces; lost 1 force; a gives -> lost; "
     "shut eval-renew before; a takes other name=j; gate; a takes; sleep 1250; "
     "open; lost 2 expired; a gives -> lost"},
    {"nor if the old grant has not heard of it yet", "redisson",
     "watchdog 1200; a takes old; b forces; a takes; lost 1 force; "
     "a has old left=0; a gives old -> lost; DEL k; lost 2 gone; "
     "a gives -> lost"},
    {"there is nothing to force", "redisson fenced",
     "a forces -> lost 'force: nobody holds it'; a forces name= -> misuse"},
    {"a lock that cannot says so", "none",
     "a forces -> misuse 'force: strategy none cannot'"},
};
LOCK_STORIES_TEST

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_stories),
    LOCK_TEST(test_who_waits_without_a_queue_is_counted),
    LOCK_TEST(test_bad_questions_about_waiters),
    LOCK_TEST(test_losses_have_texts),
};
LOCK_RIG_MAIN(tests)
