/*
 * Rungs of the textbook ladder, where no story of the stage shows them. That each rung
 * fails as it is there to show, and that the next one does not, is in the stories of
 * test_stage.c and test_stage_programs.c, and in the laboratory's experiments, whose
 * numbers are those of the tests: e2e/lab.t plays them.
 *
 * Nothing here waits for luck: leases are ended by hand.
 */
#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"

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

static const struct lock_story stories[] = {
    /* A waiter's looks are no failed acquires: the `finally` comes at the end. */
    {"05: the `finally` of somebody who never had it", "setnx-finally",
     "a takes 5000; forget; b takes wait=20 -> timeout; steps setnx 2..; "
     "steps del 1"},
    {"07: left alone, both do set the lease", "setnx-expire setnx-expire-lua",
     "a takes 5000; PTTL k -> 4000..5000; b takes 5000 -> busy; "
     "PTTL k -> 3000..5000; a gives; free"},
    {"11: an extension looks first", "token",
     "a takes 5000; a extends 9000; PTTL k -> 8000..9000; DEL k -> 1; "
     "b takes 5000; a extends 9000 -> lost; PTTL k -> 3000..5000"},
    {"11: who does not lengthens another's lease", "set-nx-px",
     "b takes 5000; a poses as=b; a extends 9000; PTTL k -> 8000..9000"},
    /* "Don't know" where the command cannot be sent twice. */
    {"a lost reply is not sent again", "setnx",
     "fail setnx after 1; a takes 5000 -> unknown; steps setnx 1; "
     "b takes 5000 -> busy"},
    {"nor with a lease", "set-nx-px token-lua",
     "fail set after 1; a takes 5000 -> unknown; steps set 1; "
     "b takes 5000 -> busy"},
    {"what has no lease has no end", "setnx",
     "a takes 5000; a has left=-1; b sees held=1 left=-1; a gives"},
};
LOCK_STORIES_TEST

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_stories),
    LOCK_TEST(test_10_what_is_in_the_lock),
};
LOCK_RIG_MAIN(tests)
