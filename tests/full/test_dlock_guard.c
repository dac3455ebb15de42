/*
 * The ladder's last rung but one, `guard-thread`: a thread that renews whatever
 * is locked, and the watchdog, which looks whose lock it is. See
 * test_dlock_ladder.c.
 */
#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"

static const struct lock_story stories[] = {
    /* 14: the worker dies, its process lives; only the end of that is an end. A guard
     * that has renewed a lease four times has outlived it. */
    {"the eternal lock", "guard-thread",
     "watchdog lease; a takes max=1; a dies; more guard-expire 4; "
     "b takes 5000 -> busy; a closes; b closes; lock watchdog; "
     "b takes wait=long; b dies; a takes 5000 wait=long"},
    {"who holds too long is not renewed: the watchdog's other answer",
     "watchdog", "watchdog lease; a takes max=1; b takes 5000 wait=long"},
    /* B wants it for one lease, and dies. A can at least not delete it: that much
     * token-lua was worth. */
    {"it does not ask whose lock it renews", "guard-thread",
     "watchdog lease; a takes; more guard-expire 1; DEL k -> 1; b takes lease; "
     "b dies; more guard-expire 4; b takes 5000 -> busy; a gives -> lost; "
     "b takes 5000 wait=long"},
    {"an explicit lease is nobody's to renew", "guard-thread",
     "a takes timeout; b takes 5000 wait=long; steps guard-ttl 0"},
    /* 15: one stop flag for all. */
    {"it is set again by the next one who takes a lock, and by nobody else",
     "guard-thread",
     "watchdog lease; a takes; more guard-expire 4; a gives; a takes; "
     "more guard-expire 4; a gives; a takes; more guard-expire 4; a gives; "
     "forget; sleep lease; steps all 0"},
};
LOCK_STORIES_TEST

LOCK_RIG_MAIN
