/*
 * Rungs of the textbook ladder, where no story of the stage shows them. That each rung
 * fails as it is there to show, and that the next one does not, is in the table that
 * full/explore-all.t replays, in e2e/stories.t, and in the laboratory's experiments,
 * whose numbers are those of the tests: e2e/lab.t plays them. The last ones, which count
 * holds, are in test_dlock_holds.c as well.
 *
 * Nothing here waits for luck: leases are ended by hand.
 */
#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"

/* Looks of a waiter in WAIT_MS. */
static unsigned looks(const char *strategy, unsigned wait_ms)
{
    struct lock_pair pair = lock_pair_open(strategy);
    unsigned n;

    assert_ok(lock_pair_take(&pair, 0, 0, 5000));
    step_log_reset(&rig.log);
    assert_int_equal(lock_pair_take(&pair, 1, wait_ms, 0), DLOCK_TIMEOUT);
    n = step_log_count(&rig.log, "eval-take");
    lock_pair_close(&pair);
    lock_rig_end_lease();
    return n;
}

/* Half of 1, 2, 4 ... 64, 128, 128 ms at least: that is how many at most. */
LOCK_TEST(test_20_spin_looks_less_and_less)
{
    unsigned polls = looks("reentrant", 500);
    unsigned spins = looks("spin", 500);

    assert_in_range(spins, 3, 15);
    assert_true(polls > 2 * spins);
}

/* A pause does not outlast the wait: the ninth would end after 383 ms. */
LOCK_TEST(test_20_spin_ends_in_time)
{
    uint64_t best_ms = UINT64_MAX;
    struct lock_pair pair;

    rig.clock = &lock_rig_long_pauses;
    pair = lock_pair_open("spin");
    assert_ok(lock_pair_take(&pair, 0, 0, 20000));
    /* The best of some: a busy machine may be late, but not each time. */
    for (int i = 0; i < 20 && best_ms > 360; i++) {
        uint64_t start_ms = lock_rig_now_ms(), took_ms;

        assert_int_equal(lock_pair_take(&pair, 1, 260, 0), DLOCK_TIMEOUT);
        took_ms = lock_rig_now_ms() - start_ms;
        best_ms = took_ms < best_ms ? took_ms : best_ms;
    }
    assert_in_range(best_ms, 259, 360);
}

static const struct lock_story stories[] = {
    {"07: left alone, both do set the lease", "setnx-expire setnx-expire-lua",
     "a takes 5000; PTTL k -> 4000..5000; b takes 5000 -> busy; "
     "PTTL k -> 3000..5000; a gives; free"},
    {"11: an extension looks first", "token",
     "a takes 5000; a extends 9000; PTTL k -> 8000..9000; DEL k -> 1; "
     "b takes 5000; a extends 9000 -> lost; PTTL k -> 3000..5000"},
    {"11: who does not lengthens another's lease", "set-nx-px",
     "b takes 5000; a poses as=b; a extends 9000; PTTL k -> 8000..9000"},
    {"20: sooner or later the waiter looks, and then the lock is free", "spin",
     "a takes long; & b takes wait=long; await eval-take 6; still; a gives; "
     "join; b gives"},
    /* "Don't know" where the command cannot be sent twice. */
    {"a lost reply is not sent again", "setnx",
     "fail setnx after 1; a takes 5000 -> unknown; steps setnx 1; "
     "b takes 5000 -> busy"},
    {"nor with a lease", "set-nx-px token-lua",
     "fail set after 1; a takes 5000 -> unknown; steps set 1; "
     "b takes 5000 -> busy"},
    {"what has no lease has no end", "setnx",
     "a takes 5000; a has left=-1; b sees held=1 left=-1; a gives"},

    /* 18: what it leaves behind is a lock that nobody has, without an end. */
    {"the tutorial that never ran", "reentrant-broken",
     "commands timeout; a takes 50 -> unknown '..WRONGTYPE'; PTTL k -> -1; "
     "a takes 50 wait=100 -> unreachable '..WRONGTYPE'; a poses as=a; "
     "a gives -> unreachable '..WRONGTYPE'; "
     "b takes 50 wait=100 -> unreachable '..WRONGTYPE'; b poses as=b; "
     "b gives -> unreachable '..WRONGTYPE'; PTTL k -> -1"},
    {"with the hash that its author had in mind, the rest would have run",
     "reentrant-broken",
     "HSET k $a 2 -> 1; a poses as=a; b poses as=b; b gives -> lost; a gives; "
     "held; a gives; free"},
};
LOCK_STORIES_TEST

LOCK_RIG_MAIN
