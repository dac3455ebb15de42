/*
 * What a holder is told when its lock is lost: why, once, and at once; and that
 * nothing of the lost grant is done to the next one. Sleeps are used where time
 * itself is what is tested.
 */
#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"

static const struct lock_story stories[] = {
    {"it was held too long", "redisson",
     "watchdog lease; clock; a takes max=lease+400; b takes wait=long; "
     "took 2790..prompt; lost 1 held; a has left=0; a gives -> lost"},
    /* Once: one renewal more says nothing. */
    {"the server lost it, as our clock says that the lease runs", "redisson",
     "watchdog lease; a takes; FLUSHALL; lost 1 gone; a has left=0; "
     "sleep 1200; lost 1"},
    {"it is somebody else's", "redisson",
     "HSET strangers x 1; watchdog lease; a takes; RENAME strangers k; "
     "lost 1 taken; a has left=0; sleep 1200; lost 1"},
    {"the holder slept through its lease", "redisson",
     "watchdog lease; shut eval-renew before; a takes; gate; sleep lease+30; "
     "open; lost 1 expired"},
    /* Nobody looks meanwhile: the renewals of the first grant would find the session's
     * own id there. What is done with the first is not done to the second. */
    {"it is taken anew", "redisson",
     "watchdog lease; a takes first; DEL k; a takes second holds=1; "
     "a has first left=0; lost 1 gone; a extends first 60000 -> lost; "
     "a gives first -> lost; forget; await eval-renew 4; PTTL k -> 1..lease; "
     "a has second left=1..lease; a gives second; lost 1"},
    {"no renewal of the first grant prolongs the second", "redisson",
     "watchdog lease; a takes first; DEL k; a takes second 2000; "
     "b takes wait=long; lost 1; a gives first -> lost; "
     "a gives second -> lost; b gives"},
    {"one is on its way when the second comes", "redisson",
     "watchdog lease; shut eval-renew before; a takes first; gate; DEL k; "
     "a takes second long; open; lost 1; a has first left=0; "
     "a gives first -> lost; a gives second"},
    /* At the end of the lease, not a command timeout later. */
    {"the server is silent", "redisson",
     "commands long; watchdog lease; a takes; clock; server pause; "
     "lost 1 unreachable; server resume; took 1200..prompt; a has left=0"},
    /* It was told that the server cannot be reached: no need to find that out twice. */
    {"a release after that does not wait twice", "fenced",
     "commands 3000; watchdog lease; a takes; server pause; "
     "lost 1 unreachable; clock; a gives -> unknown|unreachable; took 0..5900; "
     "server resume; a gives -> lost"},
    {"a short outage costs nothing: two thirds are in reserve", "redisson",
     "watchdog lease; fail eval-renew after 2; a takes; await eval-renew 5; "
     "lost 0; a gives"},
};
LOCK_STORIES_TEST

LOCK_RIG_MAIN
