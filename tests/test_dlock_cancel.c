/*
 * dlock_cancel(), dlock_end_waits() and dlock_try(): whoever was cancelled holds
 * nothing and renews nothing.
 */
#include "tests/support/async_note.h"
#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"

/* At any moment of an acquire that succeeds: granted, or gone; never both. */
static void test_cancel_at_any_moment(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    unsigned cancelled = 0;

    for (unsigned i = 0; i < 200; i++) {
        struct note note = {.n = 0};

        assert_ok(note_begin(pair.session[0], "k", 20000, &note));
        for (volatile unsigned spin = 0; spin < i * 200; spin++)
            ;
        dlock_cancel(pair.session[0]);
        if (note_await(&note) == DLOCK_TIMEOUT) {
            cancelled++;
            assert_false(lock_rig_is_held());
            continue;
        }
        assert_ok(note.status);
        assert_int_equal(note.grant.holds, 1);
        assert_ok(dlock_release(pair.session[0], &note.grant, NULL));
    }
    assert_int_not_equal(cancelled, 0);
}

static const struct lock_story stories[] = {
    /* Not in the session, not in the queue: whether it sleeps on a condition or on a
     * subscription, polls, or stands in a queue. */
    {"a cancelled waiter leaves no trace",
     "process spin fair token-lua redisson",
     "b takes; a begins wait=long; sleep 30; clock; a cancels; "
     "a ends -> timeout 'acquire: cancelled'; took 0..prompt; b gives; "
     "a takes holds=1; a gives"},
    {"a cancel before the caller was told of the grant gives it back",
     "redisson",
     "watchdog 600; shut eval-acquire after; a begins wait=20000; gate; held; "
     "a cancels; open; a ends -> timeout; free; sleep 300; steps eval-renew 0"},
    {"of a second hold, the first one stays", "redisson",
     "a takes; shut eval-acquire after; a begins wait=20000; gate; a cancels; "
     "open; a ends -> timeout; probe -> busy; a gives; probe"},
    {"what cannot be given back is a don't know, which ends with its lease",
     "redisson",
     "watchdog 600; commands timeout; shut eval-acquire after; "
     "fail eval-release before always; a begins wait=20000; gate; a cancels; "
     "open; a ends -> unknown; b takes wait=5000; steps eval-renew 0"},
    {"a client that ends all waits ends asynchronous ones as well", "redisson",
     "b takes; a begins wait=20000; sleep 20; a stops; a ends -> timeout"},
    {"a cancel is of the call under way, synchronous ones too, and no other",
     "redisson",
     "a cancels; a takes wait=10; & b takes wait=20000 -> timeout; sleep 30; "
     "b cancels; join"},
    /* They are woken by somebody's cancel, and sleep on. */
    {"other waiters of the client go on waiting", "redisson",
     "a takes; b begins wait=20000; b2 begins wait=20000; sleep 30; b cancels; "
     "b ends -> timeout; sleep 30; b2 waits; a gives; b2 ends"},
    {"a try does not wait", "redisson",
     "a tries 5000 wait=20000; a has left=1..5000; forget; "
     "b tries 5000 wait=20000 -> busy; steps eval-acquire 1; steps subscribe "
     "0; "
     "a gives; b tries"},
};
LOCK_STORIES_TEST

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_stories),
    LOCK_TEST(test_cancel_at_any_moment),
};
LOCK_RIG_MAIN(tests)
