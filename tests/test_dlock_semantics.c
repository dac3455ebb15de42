/*
 * The fifteen semantics that are easy to get wrong, at the end of
 * shared/locks.md: each was a real bug in a widely used library. Where the test
 * of each one is:
 *
 *    1  release of someone else's lock;         here, and test_stage.c: stories
 *       success reported on an expired lock
 *    2  a re-sent release throws at its owner   here (03), holds: releases without an
 *                                               answer
 *    3  a re-sent acquire counts as re-entry    here
 *    4  lost wake-up before the subscription    wakeup: missed_wakeup, the subscriber
 *                                               is stuck
 *    5  who gave up leaves a renewed lock       here (timed out), async: cancels, holds:
 *                                               what may be held is not renewed
 *    6  the watchdog outlives the unlock        here (many), watchdog: a release waits
 *                                               for the renewal
 *    7  leases of two holders mix               here
 *    8  fair queue: deadlines drift, a dead     fair: giving_up_moves_no_deadline,
 *       waiter blocks                           a_dead_waiter_does_not_block
 *    9  multi-lock: order, first failed unlock  multi: one_order_for_all, the others are
 *                                               given back, the release goes on
 *   10  redlock: validity, split, restart       redlock: validity is honest, the clock
 *                                               starts with the try, nobody votes twice,
 *                                               quorum: even_numbers_settle
 *   11  counters live for ever, or restart      fenced: counters do not pile up, the
 *                                               floor counts
 *   12  a cancelled release leaves the lock     here
 *   13  a lock on a session that died waiting   full/zk; here for a lease,
 *                                               which is validity (10) as well
 *   14  subscription storms                     economy: one_subscriber
 *   15  unlock before commit                    test_order_locks.c
 *
 * (test_dlock_NAME.c, test_ left out.)
 */
#include <stdatomic.h>

#include "tests/support/async_note.h"
#include "tests/support/fake_clock.h"
#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"

/* 6 ------------------------------------------------------------------------- */

/* Taken and given back while renewals run: none is sent for who is gone. */
LOCK_TEST(test_06_no_renewal_after_release)
{
    uint64_t until = lock_rig_now_ms() + 300;
    struct lock_pair pair;

    rig.watchdog_lease_ms = 30;
    pair = lock_pair_open("redisson");
    while (lock_rig_now_ms() < until) {
        enum dlock_status status;

        /* On a loaded machine 30 ms may be over any time: that is no matter. */
        assert_ok(lock_pair_take(&pair, 0, 1000, 0));
        lock_rig_sleep_ms((unsigned)(lock_rig_now_ms() % 3) * 5 + 5);
        status = lock_pair_give(&pair, 0);
        assert_true(status == DLOCK_OK || status == DLOCK_LOST);
        assert_false(lock_rig_is_held());
    }
    step_log_reset(&rig.log);
    lock_rig_sleep_ms(60);
    assert_int_equal(step_log_count(&rig.log, "eval-renew"), 0);
}

/* 13 ------------------------------------------------------------------------ */

/* The holder is stopped for 21 s while the first reply is on its way. */
static enum dlock_verdict sleep_once(void *ctx, const struct dlock_step *step)
{
    static const char *const takes[] = {"eval-acquire", "eval-take",
                                        "set-nx-px"};
    struct fake_clock *clock = ctx;

    for (size_t i = 0; i < 3; i++)
        if (strcmp(step->name, takes[i]) == 0 && step->phase == DLOCK_AFTER &&
            atomic_load(&clock->now_ms) < 21000)
            fake_clock_advance(clock, 21000);
    return DLOCK_GO;
}

/* The server, which has not slept, is told: nothing is in the next try's way. */
LOCK_TEST(test_13_what_is_no_grant_is_given_back)
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
        assert_ok(
            lock_rig_take(single.session, "k", 60000, 20000, &single.grant));
        assert_in_range(lock_rig_now_ms() - began_ms, 0, 15000);
        assert_int_equal(single.grant.holds, 1);
        assert_int_equal(dlock_remaining_ms(single.session, &single.grant),
                         20000);
        assert_ok(lock_single_give(&single));
        assert_false(lock_rig_is_held());
        lock_single_close(&single);
        /* The same dice make the same owner. */
        lock_rig_tell("FLUSHALL");
    }
}

#define IN_VAIN                                                                \
    "a takes wait=3 -> timeout; a takes wait=3 -> timeout; "                   \
    "a takes wait=3 -> timeout; a takes wait=3 -> timeout; "

static const struct lock_story stories[] = {
    /* All locks that have an owner and a lease, whatever they are made of. */
    {"01: a late release frees no stranger's lock", LOCKS_OWNED,
     "a takes 5000; DEL k -> 1; a gives -> lost; b takes 5000; "
     "a gives -> lost; probe -> busy; b gives"},
    {"03: however many replies are lost, there are as many holds as grants",
     "redisson",
     "a takes one 5000 holds=1; steps eval-acquire 1; forget; "
     "fail eval-acquire after 1; a takes two 5000 holds=2; "
     "steps eval-acquire 2; forget; fail eval-acquire after 2; "
     "a takes three 5000 holds=3; steps eval-acquire 3; probe -> busy; "
     "forget; fail eval-release after 2; a gives three; steps eval-release 3; "
     "probe -> busy; forget; fail eval-release after 1; a gives two; "
     "steps eval-release 2; probe -> busy; forget; fail eval-release after 0; "
     "a gives one; steps eval-release 1; probe"},
    /* The wait ends while the last try is on its way, and that try succeeds. */
    {"05: a waiter whose time was over holds nothing", "redisson",
     "watchdog 60; b takes 60000; " IN_VAIN IN_VAIN IN_VAIN IN_VAIN IN_VAIN
     "forget; b gives; sleep 100; steps eval-renew 0; free"},
    /* A nested hold, its release, and an extension touch only their own. */
    {"07: leases of two sessions of a client do not mix", "redisson",
     "a takes name=a 60000; a2 takes name=b 5000; PTTL a -> 55000..60000; "
     "PTTL b -> 1..5000; a2 takes inner name=b 20000; a2 gives inner; "
     "a extends 30000; PTTL a -> 25000..30000; PTTL b -> 15000..20000; "
     "a has left=25000..30000; a2 has left=1..5000"},
    {"12: a release that never left can be called again, and then frees it",
     "token-lua redisson fenced reentrant-local",
     "commands timeout; a takes 60000; fail eval-release before always; "
     "a gives -> unreachable; fail eval-release before 0; probe -> busy; "
     "a gives; probe"},
    /* The lease counts from before the command was sent: what is over by the time the
     * reply is there is no grant, and is asked for again while there is time. */
    {"13: a lease that is over is no grant", "redisson",
     "shut eval-acquire after; a begins 40; gate; sleep 60; open; "
     "a ends -> lost; steps eval-acquire 1; free; "
     "forget; shut eval-acquire after; a begins 40 wait=5000; gate; sleep 60; "
     "open; a ends holds=1; steps eval-acquire 2..3"},
    {"13: a waiter asks again at once", "fenced fair",
     "b takes 60000; a begins 1000 wait=long; until b counts waiters=1; "
     "shut eval-acquire before; gate; DEL k -> 1; sleep 1020; clock; open; "
     "a ends holds=1; took 0..prompt"},
    {"13: nor is an inner one, and it leaves the outer hold alone",
     "redisson fenced fair",
     "a takes outer 60000; shut eval-acquire after; a begins inner 40; gate; "
     "sleep 60; open; a ends -> lost; b sees holds=1; a gives outer; free"},
    {"13: also where the time for the acquire itself is over", "redisson fair",
     "commands 200; shut eval-acquire before; a begins 500; gate; sleep 520; "
     "open; a ends -> lost; steps eval-release 1; free"},
};
LOCK_STORIES_TEST

LOCK_RIG_MAIN
