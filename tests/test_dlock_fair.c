/*
 * The fair lock: first come, first served, whatever becomes of those in
 * between. The queue is looked at on the server, so that a test knows who is in
 * it before it goes on.
 */
#include "tests/support/lock_process.h"
#include "tests/support/lock_story.h"
#include "tests/support/lock_waiter.h"

enum {
    HEARTBEAT_MS = 2000,
    KEPT_MS = 10000, /* for those that are silent while all are */
};

/* The order ------------------------------------------------------------------- */

LOCK_TEST(test_first_come_first_served)
{
    struct lock_pair pair = lock_pair_held("fair", 20000);
    struct lock_waiter waiters[16] = {{.wait_ms = 0}};

    for (int i = 0; i < 16; i++)
        lock_waiter_queue_up(&waiters[i], i + 1);
    assert_ok(lock_pair_give(&pair, 0));
    for (unsigned i = 0; i < 16; i++) {
        lock_waiter_close(&waiters[i]);
        assert_ok(waiters[i].status);
        assert_int_equal(waiters[i].turn, i);
    }
    assert_false(lock_rig_is_held());
}

LOCK_TEST(test_who_waits)
{
    struct lock_pair pair = lock_pair_held("fair", 20000);
    struct dlock_waiting seen[8];
    struct lock_waiter waiters[7] = {{.wait_ms = 0}};
    size_t n = 0;

    for (int i = 0; i < 7; i++)
        lock_waiter_queue_up(&waiters[i], i + 1);
    assert_ok(dlock_inspect_waiters(pair.session[1], "k", seen, 8, &n, NULL));
    assert_int_equal(n, 7);
    for (int i = 0; i < 7; i++)
        assert_string_equal(seen[i].owner,
                            dlock_session_owner(waiters[i].session));
    assert_ok(dlock_inspect_waiters(pair.session[1], "k", seen, 2, &n, NULL));
    assert_int_equal(n, 7);
    assert_ok(lock_pair_give(&pair, 0));
    for (int i = 0; i < 7; i++)
        lock_waiter_close(&waiters[i]);
    assert_ok(dlock_inspect_waiters(pair.session[1], "k", seen, 8, &n, NULL));
    assert_int_equal(n, 0);
}

/* The dead and those that give up ------------------------------------------------ */

/* SIGKILL leaves a process no time for anything. */
LOCK_TEST(test_a_dead_waiter_does_not_block)
{
    struct lock_pair pair = lock_pair_held("fair", 20000);
    struct lock_waiter waiter = {.wait_ms = 0};
    struct lock_process process;
    uint64_t killed_at_ms;

    lock_process_start(&process, "fair"); /* before there are threads */
    lock_process_tell_take(&process, "k", 20000);
    lock_queue_await(1);
    lock_waiter_queue_up(&waiter, 2);
    lock_process_kill(&process);
    killed_at_ms = lock_rig_now_ms();
    assert_ok(lock_pair_give(&pair, 0));
    lock_waiter_close(&waiter);
    assert_ok(waiter.status);
    assert_true(waiter.done_at_ms - killed_at_ms < KEPT_MS);
    assert_int_equal(lock_queue_length(), 0);
}

/* Others come and go; nobody's place and nobody's heartbeat moves. */
LOCK_TEST(test_giving_up_moves_no_deadline)
{
    struct lock_pair pair = lock_pair_held("fair", 20000);
    struct lock_waiter first = {.wait_ms = 0};
    char reply[100];

    lock_waiter_queue_up(&first, 1);
    for (int i = 0; i < 60; i++)
        assert_int_equal(lock_pair_take(&pair, 1, 5, 0), DLOCK_TIMEOUT);
    assert_int_equal(lock_queue_length(), 1);
    redis_server_ask(rig.server,
                     text_of("ZSCORE {k}:dlock-queue %s",
                             dlock_session_owner(first.session)),
                     reply, sizeof(reply));
    assert_string_equal(reply, "$1\r\n1\r\n");
    assert_in_range(lock_rig_ask("PTTL {k}:dlock-beats"), 1, KEPT_MS);
    assert_in_range(
        lock_rig_ask(
            "EVAL \"local t=redis.call('time');return redis.call('zscore'"
            ",'{k}:dlock-beats','%s')-t[1]*1000\" 0",
            dlock_session_owner(first.session)),
        1, HEARTBEAT_MS + 1000);
    assert_ok(lock_pair_give(&pair, 0));
    lock_waiter_close(&first);
    assert_ok(first.status);
}

static const struct lock_story stories[] = {
    /* The lock is free, but it is somebody else's turn. */
    {"a try does not overtake", "fair",
     "ZADD {k}:dlock-queue 1 somebody; ZADD {k}:dlock-beats 9e15 somebody; "
     "probe -> busy; ZCARD {k}:dlock-queue -> 1; "
     "ZADD {k}:dlock-beats 1 somebody; probe; ZCARD {k}:dlock-queue -> 0"},
    {"who comes in again passes the queue", "fair",
     "a takes 20000; b begins wait=120000; until ZCARD {k}:dlock-queue -> 1; "
     "a takes inner holds=2; a gives inner; ZCARD {k}:dlock-queue -> 1; "
     "a gives; b ends"},
    {"who waited in vain leaves no trace, and may come again", "fair",
     "a takes 20000; b takes wait=100 -> timeout; "
     "EXISTS {k}:dlock-queue {k}:dlock-beats -> 0; a gives; b takes wait=100"},
    /* Also with somebody waiting, and also if nobody has taken it yet. */
    {"an expired lock is given back", "fair",
     "a takes 30; sleep 60; a gives -> lost; a takes 20000; "
     "b begins wait=120000; until ZCARD {k}:dlock-queue -> 1; "
     "a extends 150 -> ok|lost; b ends; a gives -> lost; b gives"},
    /* The others go on to sleep. */
    {"the head is woken", "fair",
     "a takes 20000; b begins wait=120000; until ZCARD {k}:dlock-queue -> 1; "
     "c begins wait=120000; until ZCARD {k}:dlock-queue -> 2; "
     "listen {k}:dlock-turn:$c; a gives; b ends; heard 0; b gives; heard 1; "
     "c ends; c gives"},
    {"whatever is sent twice counts once: tries that wait, too", "fair",
     "fail eval-acquire after 2; a takes holds=1; fail eval-acquire after 2; "
     "b takes wait=50 -> timeout; fail eval-release after 2; a gives; free; "
     "b takes"},
    {"\"don't know\" leaves neither a lock nor a place in the queue", "fair",
     "fail eval-acquire after always; a takes wait=100 -> unknown; "
     "fail eval-acquire after 0; b takes; fail eval-acquire after always; "
     "a takes wait=100 -> unknown; fail eval-acquire after 0; "
     "ZCARD {k}:dlock-queue -> 0; b gives; a takes"},
    /* A release of which nothing was heard is asked for again: not before the session
     * has waited for the lock in vain, or has taken back an acquire. */
    {"a release is repeated behind a wait in vain", "fair",
     "commands timeout; a takes first; fail eval-release after always; "
     "a gives first -> unknown; fail eval-release after 0; b takes; "
     "a takes wait=50 -> timeout; a gives first; b gives"},
    {"and behind an acquire that was taken back", "fair",
     "commands timeout; a takes first; fail eval-release after always; "
     "a gives first -> unknown; fail eval-release after 0; b takes; "
     "fail eval-acquire after always; a takes wait=50 -> unknown; "
     "fail eval-acquire after 0; a gives first; b gives"},
    {"there are tokens if the terms ask", "fair",
     "a takes fenced floor=far token=far+1; a gives; b takes fenced floor=far "
     "token=far+2; b gives; a takes fenced floor=far token=far+3; a gives; "
     "b takes fenced floor=far token=far+4; b gives; a takes token=0"},
    /* No message: as if the head had got it and not come for it yet. On a busy machine it
     * may come before it gives up. */
    {"a head that gives up passes the turn on", "fair",
     "a takes 20000; b begins wait=120000; until ZCARD {k}:dlock-queue -> 1; "
     "c begins wait=120000; until ZCARD {k}:dlock-queue -> 2; "
     "listen {k}:dlock-turn:$c; DEL k; b cancels; b ends -> timeout|ok; "
     "b gives -> misuse|ok; heard 1; c ends"},
};
LOCK_STORIES_TEST

LOCK_RIG_MAIN
