/*
 * The queue of the fair lock and time: a server that is stopped for longer than
 * a heartbeat, a clock that is set back, and the dead in the queue. Clocks cannot
 * be set here, but what was written by them can.
 */
#include "tests/support/lock_story.h"
#include "tests/support/lock_waiter.h"

enum {
    HEARTBEAT_MS = 2000,
    CROWD = 8,
};

/* A crowd that waits -------------------------------------------------------------- */

/* Each stands in the queue before the next one comes. */
static void gather(struct lock_waiter crowd[], int n)
{
    for (int i = 0; i < n; i++) {
        crowd[i] = (struct lock_waiter){.wait_ms = 30000};
        lock_waiter_queue_up(&crowd[i], i + 1);
    }
}

/*
 * Who stood first stands last. They go on to look in the order in which they came,
 * so what tells is their places.
 */
static void turn_round(void)
{
    lock_rig_tell("EVAL \"local call, q = redis.call, '{k}:dlock-queue' "
                  "local n = call('zcard', q) "
                  "for i, w in ipairs(call('zrange', q, 0, -1)) do "
                  "call('zadd', q, n - i + 1, w) end\" 0");
}

static void assert_turned_round(struct lock_waiter crowd[], unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        lock_waiter_close(&crowd[i]);
    for (unsigned i = 0; i < n; i++) {
        assert_ok(crowd[i].status);
        assert_int_equal(crowd[i].turn, n - 1 - i);
    }
}

/* A server that is stopped ---------------------------------------------------------- */

/* HELD: it is given back when the server goes on; else the lease ended meanwhile. */
static void stop_for(unsigned ms, bool held)
{
    struct lock_waiter crowd[CROWD];
    struct lock_pair pair;

    rig.command_timeout_ms = 10000;
    pair = lock_pair_held("fair", 20000);
    gather(crowd, CROWD);
    turn_round();
    if (!held)
        assert_ok(dlock_extend(pair.session[0], &pair.grant[0], 500, NULL));
    redis_server_pause(rig.server);
    lock_rig_sleep_ms(ms);
    redis_server_resume(rig.server);
    assert_int_equal(lock_pair_give(&pair, 0), held ? DLOCK_OK : DLOCK_LOST);
    assert_turned_round(crowd, CROWD);
}

LOCK_TEST(test_places_survive_a_stopped_server)
{
    stop_for(HEARTBEAT_MS + 1000, true);
}

LOCK_TEST(test_places_survive_it_beside_a_free_lock)
{
    stop_for(HEARTBEAT_MS + 1000, false);
}

/* Those that are alive keep their places, and the dead do not (below). */
LOCK_TEST(test_places_survive_a_clock_set_back)
{
    struct lock_waiter crowd[CROWD];
    struct lock_pair pair = lock_pair_open("fair");

    assert_ok(lock_pair_take(&pair, 0, 0, 20000));
    gather(crowd, CROWD);
    turn_round();
    lock_rig_tell("EVAL \"local call, b = redis.call, '{k}:dlock-beats' "
                  "for _, w in ipairs(call('zrange', b, 0, -1)) do "
                  "call('zincrby', b, 3600000, w) end\" 0");
    assert_ok(lock_pair_give(&pair, 0));
    assert_turned_round(crowd, CROWD);
}

/* By hand ------------------------------------------------------------------------- */

/* Behind each, who counts as alive for so many ms; PUT, at which place of the queue. */
#define NOW                                                                    \
    "EVAL \"local call, t = redis.call, redis.call('time') "                   \
    "local now = t[1] * 1000 + math.floor(t[2] / 1000) "
#define PUT                                                                    \
    NOW "call('zadd', '{k}:dlock-queue', KEYS[2], KEYS[1]) "                   \
        "call('zadd', '{k}:dlock-beats', now + KEYS[3], KEYS[1])\" 3 "
#define LIST                                                                   \
    NOW "call('zadd', '{k}:dlock-waiters', now + KEYS[2], KEYS[1])\" 2 "
#define PLACES "ZCOUNT {k}:dlock-queue "

static const struct lock_story stories[] = {
    /* Nobody has been heard of since all were alive but one: that one is dead, the others
     * are waited for, once. */
    {"the silent are waited for once", "fair",
     PUT
     "dead 1 -6000; " PUT "early 2 -2500; " PUT "late 3 -1500; "
     "probe -> busy; " PLACES "1 3 -> 2; " PLACES "2 3 -> 2; "
     "ZINCRBY {k}:dlock-beats -3000 early; ZINCRBY {k}:dlock-beats -3000 late; "
     "probe; " PLACES "1 3 -> 0"},
    /* The last that was heard of has time left, and one that was heard before has not:
     * nobody could be heard since. */
    {"a short stop costs no place", "fair",
     PUT "before 1 -1; " PUT "last 2 600; probe -> busy; " PLACES
         "1 1 -> 1; " PLACES "2 2 -> 1"},
    /* Somebody was heard of meanwhile: the server was not stopped, so he is dead. */
    {"a silent one among others is not waited for", "fair",
     PUT "silent 1 -1; " PUT "heard 2 1300; probe -> busy; " PLACES
         "1 1 -> 0; " PLACES "2 2 -> 1"},
    /* And not for ever: by then even their keys would have ended. */
    {"places end", "fair", PUT "silent 1 -8001; probe"},
    /* A waiter that died before has an hour left by its beat, and gets a heartbeat. */
    {"the dead do not wait for the clock that is set back", "fair",
     PUT "dead 1 3600000; " PUT "too 2 3599000; clock; "
         "a takes 20000 wait=10000; took 1000..9000"},
    {"the dead leave the list of those that wait", "fenced",
     LIST "dead 3600000; clock; a counts waiters=1; until a counts waiters=0; "
          "took 0..prompt"},
    /* One look throws out all that are in front, however many. */
    {"all the dead are passed at once", "fair",
     PUT "one 1 -10; " PUT "two 2 -20; " PUT "three 3 -30; " PUT
         "four 4 -40; " PUT "five 5 -50; " PUT
         "alive 6 2000; probe -> busy; " PLACES "1 5 -> 0; " PLACES "6 6 -> 1"},
    /* The lock is free, and "next" was not told: by whoever gives up, then. */
    {"who gives up passes the turn on", "fair fenced",
     "a takes 20000; listen {k}:dlock-turn:next; shut eval-leave before; "
     "& b takes wait=50 -> timeout; gate; " PUT "next 2 2000; " LIST
     "next 2000; DEL k; open; join; heard 1"},
};
LOCK_STORIES_TEST

LOCK_RIG_MAIN
