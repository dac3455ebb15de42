/*
 * Holds: coming in again, and several of one session. What is done with one of them, and
 * what goes wrong with it, as a reply that is lost, is done to none of the others.
 */
#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"

/* Very many of them ----------------------------------------------------------- */

#define MANY 300

static void take_many(struct dlock_session *session, char side,
                      struct dlock_grant grants[])
{
    for (int i = 0; i < MANY; i++)
        assert_ok(
            lock_rig_take(session, text_of("%c%d", side, i), 0, 0, &grants[i]));
}

/* FROM, and each second one after it, is given back; the others are held. */
static void give_every_second(struct dlock_session *session,
                              const struct dlock_grant grants[], int from)
{
    for (int i = from; i < MANY; i += 2) {
        assert_ok(dlock_release(session, &grants[i], NULL));
        assert_int_equal(dlock_release(session, &grants[i], NULL), DLOCK_LOST);
    }
}

static bool is_there(char side, int i)
{
    return lock_rig_ask("EXISTS %c%d", side, i) == 1;
}

/*
 * Two sessions of a client, whose attempts have the same numbers: each grant is
 * known by its own owner, whatever is given back around it, and renewed.
 */
LOCK_TEST(test_each_of_very_many_is_known)
{
    static struct dlock_grant of_a[MANY], of_b[MANY];
    struct dlock_session *a, *b;
    struct dlock *client;

    rig.watchdog_lease_ms = LOCK_RIG_LEASE_MS;
    client = lock_rig_client("redisson");
    a = lock_rig_session(client);
    b = lock_rig_session(client);
    take_many(a, 'a', of_a);
    take_many(b, 'b', of_b);
    give_every_second(a, of_a, 0);
    give_every_second(b, of_b, 1);
    lock_rig_sleep_ms(LOCK_RIG_LEASE_MS +
                      500); /* longer than a lease; no event tells that */
    for (int i = 0; i < MANY; i += 2) {
        assert_true(is_there('a', i + 1));
        assert_true(is_there('b', i));
        assert_true(dlock_remaining_ms(a, &of_a[i + 1]) > 0);
        assert_true(dlock_remaining_ms(b, &of_b[i]) > 0);
    }
    give_every_second(a, of_a, 1);
    give_every_second(b, of_b, 0);
    for (int i = 0; i < MANY; i++)
        assert_false(is_there('a', i) || is_there('b', i));
}

static const struct lock_story stories[] = {
    /* A try that is taken back is written down beside it. */
    {"what a release has done is known when it is repeated later", "fenced",
     "commands timeout; a takes 60000; fail eval-release after always; "
     "a gives -> unknown; fail eval-release after 0; b takes; "
     "fail eval-acquire after 1; a tries other -> busy; a gives; b gives; "
     "a takes 60000; DEL k -> 1; fail eval-release after always; "
     "a gives -> unknown; fail eval-release after 0; b takes; "
     "fail eval-acquire after 1; a tries other -> busy; a gives -> lost"},
    {"and for longer than its caller goes on", "fenced",
     "commands 20000; a takes; a gives; "
     "PTTL {k}:dlock-done:$a -> 200000..220000"},
    {"a renewal does not overtake who comes in again", "fenced",
     "watchdog lease; a takes outer; shut eval-acquire before; & a takes "
     "inner; "
     "gate; more eval-renew 1; open; join; a gives inner; a gives outer; free"},
    /* 16: a method that calls another one with the same lock. */
    {"who does not count locks itself out", "token-lua watchdog",
     "a takes 5000; a takes again wait=20 5000 -> timeout; a gives; "
     "a gives -> lost"},
    {"a hold counts in its process", "reentrant-local",
     "a takes one 5000 wait=20 holds=1; b sees holds=1; a takes two 5000 "
     "wait=20 holds=2; b sees holds=1; a takes three 5000 wait=20 holds=3; "
     "b sees holds=1; b takes 5000 -> busy; a gives three; held; "
     "b takes 5000 -> busy; a gives two; held; b takes 5000 -> busy; "
     "a gives one; free; a gives one -> lost"},
    {"and with the others on the server", "reentrant spin redisson fair fenced",
     "a takes one 5000 wait=20 holds=1; b sees holds=1; a takes two 5000 "
     "wait=20 holds=2; b sees holds=2; a takes three 5000 wait=20 holds=3; "
     "b sees holds=3; b takes 5000 -> busy; a gives three; held; "
     "b takes 5000 -> busy; a gives two; held; b takes 5000 -> busy; "
     "a gives one; free; a gives one -> lost"},
    {"another session of the same thread is somebody else",
     "reentrant-local reentrant",
     "a takes 5000; a2 takes 5000 -> busy; a gives; a2 takes 5000; a2 gives"},

    /* 17: the inner section gets what is left of the outer one's lease, and thinks
     * otherwise. */
    {"a count in the session does not renew", "reentrant-local",
     "a takes outer 1000; forget; a takes inner 9000; "
     "steps all 0; PTTL k -> 0..1000; a has outer left=0..1000; "
     "a has inner left=5000..9000; a gives inner; a gives outer"},
    {"one on the server does", "reentrant",
     "a takes outer 1000; a takes inner 9000; PTTL k -> 7000..9000"},
    /* It opens a door that is somebody else's; the server still checks. */
    {"a count is not the lock", "reentrant-local",
     "a takes outer 5000; DEL k -> 1; b takes 5000; a takes inner 5000; "
     "a gives inner; a gives outer -> lost; held; b gives"},
    {"and the server knows", "reentrant",
     "a takes outer 5000; DEL k -> 1; b takes 5000; "
     "a takes inner 5000 -> busy; a gives outer -> lost; held; b gives"},

    {"an inner lease that is shorter does not cut the outer one", "redisson",
     "a takes outer 60000; a takes inner 1000; PTTL k -> 50000..60000; "
     "a takes more 90000; PTTL k -> 80000..90000"},

    /* Lost, and taken anew. */
    {"a copy of a command that began anew does not hide the loss", "fenced",
     "a takes outer; DEL k -> 1; fail eval-acquire after 1; "
     "a takes anew holds=1 token=rises; a has outer left=0; a gives anew; "
     "free; a gives outer -> lost"},
    /* Nobody renews what has a lease of its own, so no watchdog has found it lost. */
    {"nothing is left of a superseded grant", "fenced",
     "a takes outer 20000; DEL k -> 1; a takes anew 20000; a has outer left=0; "
     "a has anew left=1..; a gives outer -> lost; a gives anew"},
    {"what is withdrawn does not go to a hold that was lost before", "fenced",
     "a takes outer; DEL k -> 1; fail eval-acquire after 3; "
     "a takes none -> unknown; until free; a gives outer -> lost"},
    {"and is one hold, where none was lost", "fenced",
     "a takes outer 60000; fail eval-acquire after 3; a takes none 60000 -> "
     "unknown; until b sees held=1 holds=1; a gives outer"},

    /* Acquires without an answer. A withdrawal goes after them; where that is lost as
     * well, the session copes with what it finds: of each name. */
    {"unknown acquires are taken over", "redisson",
     "fail eval-acquire after 3; also eval-withdraw before 1; "
     "a takes -> unknown; steps eval-acquire 3; fail eval-acquire after 3; "
     "also eval-withdraw before 1; a takes name=k2 -> unknown; steps "
     "eval-acquire 6; fail eval-acquire after 3; also eval-withdraw before 1; "
     "a takes name=k3 -> unknown; steps eval-acquire 9; EXISTS k k2 k3 -> 3; "
     "a takes holds=1; a gives; b takes; a takes name=k2 holds=1; a gives; "
     "b takes name=k2; a takes name=k3 holds=1; a gives; b takes name=k3"},
    {"a try without an answer is no hold of its own, where the server counts",
     "reentrant spin",
     "fail eval-take after 1; a takes 60000 wait=long holds=1; a gives; free"},
    {"the withdrawal alone frees it, long before its lease is over", "redisson",
     "fail eval-acquire after 3; a takes 5000 -> unknown; b takes wait=2000; "
     "b gives"},
    {"a lock that may be held is not renewed", "redisson",
     "watchdog 90; fail eval-acquire after 3; a takes -> unknown; "
     "b takes wait=long; steps eval-renew 0"},
    {"not sent is not held, and nothing is sent again", "redisson",
     "fail eval-acquire before 1; a takes -> unreachable 'acquire: kept back "
     "at step 'eval-acquire''; free"},
    /* A late copy, stuck in some buffer, must not lock for somebody who has gone home.
     * What makes it late: the memo of a later release stands for all attempts before. */
    {"a copy that comes after the release takes nothing", "redisson",
     "a takes; a gives; EVAL \"return tonumber(redis.call('get', KEYS[1]))\" 1 "
     "{k}:dlock-done:$a -> 2; PTTL {k}:dlock-done:$a -> 60001..110000; "
     "SET {k}:dlock-done:$a 99:0; a takes -> unknown; free"},

    /* Releases without an answer. */
    {"each unknown release is known again when it is repeated", "fenced",
     "commands timeout; a takes outer 60000; a takes inner 60000; "
     "a takes other 60000 name=other; fail eval-release before always; "
     "a gives inner -> unreachable; a gives other -> unreachable; "
     "fail eval-release before 0; a gives inner; probe -> busy; a gives other; "
     "a gives outer; EXISTS k other -> 0"},
    {"but not after the lock was lost, and taken anew", "fenced",
     "commands timeout; a takes outer 60000; "
     "fail eval-release before always; a gives outer -> unreachable; "
     "fail eval-release before 0; DEL k -> 1; a takes anew 60000; "
     "a gives outer -> lost; held; a gives anew; free"},
    {"and again when that was given back", "fenced",
     "commands timeout; a takes outer 60000; fail eval-release after always; "
     "a gives outer -> unknown; fail eval-release after 0; a takes anew 60000; "
     "a gives outer -> lost; a gives anew; a gives outer; free"},
    {"also when the outer hold has gone", "fenced",
     "commands timeout; a takes outer 60000; a takes inner 60000; "
     "fail eval-release after always; a gives inner -> unknown; "
     "fail eval-release after 0; a gives outer; a gives inner"},
    {"and before", "redisson",
     "commands timeout; a takes outer; a takes inner; fail eval-release "
     "after always; a gives inner -> unknown; fail eval-release after 0; "
     "a gives inner; a gives outer; a gives outer -> lost; free"},
    {"a release that had worked and is repeated gives back no second hold",
     LOCKS_REENTRANT,
     "a takes outer; a takes inner; fail eval-release after 3; "
     "a gives inner -> ok|unknown; fail eval-release after 0; "
     "a gives inner -> ok|lost; probe -> busy; a gives outer; probe"},
    /* The second release is told so, and in which order does not matter. */
    {"a hold is given back once", LOCKS_REENTRANT,
     "a takes outer; a takes inner; a takes last; a gives inner; "
     "a gives inner -> lost; a gives inner -> lost; "
     "a extends inner 5000 -> lost; probe -> busy; a gives outer; "
     "a gives outer -> lost; probe -> busy; a gives last; probe"},
};
LOCK_STORIES_TEST

LOCK_RIG_MAIN
