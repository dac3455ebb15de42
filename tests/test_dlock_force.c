/*
 * Looking at locks, and ending them. Release by force: the name is free at once, the next
 * waiter is woken, and the holder is told that it was force, not an accident, within one
 * renewal period. Labels of owners come with the acquire and go with the lock.
 */
#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"

static const struct lock_story stories[] = {
    {"a hold that is newer than the one that was seen is seen first", "fenced",
     "a takes long; shut eval-force after; & b forces; gate; a gives; "
     "a takes long; open; join; steps eval-force 3; free"},
    {"who waits without a queue is counted, and has no name", "redisson",
     "a counts waiters=0; a takes; b begins wait=10000; "
     "until a counts waiters=1 owner=nobody; a gives; b ends"},
    {"who waits in one has", "fair fenced",
     "a counts waiters=0; a takes; b begins wait=10000; "
     "until a counts waiters=1 owner=b; a gives; b ends"},
    {"who waits is not known where nobody is told", "spin",
     "a counts -> misuse 'waiters: strategy spin cannot'"},
    {"a question has a name", "redisson", "a counts name= -> misuse"},
    {"two clients see each other's label", "fenced fair redisson multi",
     "labelled nightly_report; a takes name=one; labelled web.7; "
     "b takes 5000 name=two; b sees name=one label=nightly_report; "
     "a sees name=two label=web.7; a sees name=one label=nightly_report"},
    /* A hold more, or the last release: it is no owner's. */
    {"a label is the lock's", "fenced",
     "labelled a; a takes outer; a takes inner; labelled; b sees holds=2 "
     "owner=a label=a; a gives inner; b sees label=a; a gives outer; b takes; "
     "a sees label=; b gives; a takes; b forces; a gives -> lost"},
    {"without a label there is none", "fenced", "a takes; a sees label="},
    {"nor where nobody could see it", "process",
     "labelled local; a takes; a sees label="},
    /* By a renewal: when the lease ends, the reason would be that. */
    {"the holder is told", "redisson",
     "watchdog 1200; a takes; a takes inner 5000; b forces; free; "
     "lost 1 force; a has left=0; a gives inner -> lost; a gives -> lost"},
    /* And though somebody else has it by then, force is why. */
    {"a waiter is woken", "fenced",
     "watchdog 1200; a takes token=1..; b begins wait=20000; "
     "await eval-acquire 3; listen {k}:dlock-turn:$b; c forces; heard 1; "
     "b ends token=rises; lost 1 force; a gives -> lost"},
    {"the word is not for the next owner, and does not stay for ever",
     "redisson",
     "watchdog 1200; a takes 5000; b forces; "
     "PTTL {k}:dlock-forced -> 60000..65000; b takes; DEL k; lost 1 gone"},
    /* It sleeps through the lease, in a renewal of another lock. */
    {"nor for the next grant of the session", "redisson fair fenced",
     "watchdog 1200; a takes; b forces; lost 1 force; a gives -> lost; "
     "shut eval-renew before; a takes other name=j; gate; a takes; sleep 1250; "
     "open; lost 2 expired; a gives -> lost"},
    {"nor if the old grant has not heard of it yet", "redisson",
     "watchdog 1200; a takes old; b forces; a takes; lost 1 force; a has old "
     "left=0; a gives old -> lost; DEL k; lost 2 gone; a gives -> lost"},
    {"a name that nobody can get is held",
     "reentrant redisson fenced fair multi",
     "HSET k foo bar -> 1; a tries -> busy; a sees held=1 holds=0 left=-1; "
     "DEL k; HSET k token one -> 1; a tries -> busy; "
     "a sees held=1 owner=nobody token=0; DEL k; a sees held=0; a takes; a "
     "gives"},
    {"whom no name of ours is long enough for is not asked without end",
     "redisson fenced multi",
     "HSET k 0123456789012345678901234567890123456789012345678901 1; "
     "a forces -> unreachable '..holder is none of this library'; "
     "steps eval-force 2"},
    {"there is nothing to force", "redisson fenced",
     "a forces -> lost 'force: nobody holds it'; a forces name= -> misuse"},
    {"a lock that cannot says so", "none token-lua", "a forces -> misuse"},
};
LOCK_STORIES_TEST

LOCK_RIG_MAIN
