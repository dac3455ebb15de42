/*
 * The queue of the fair lock and time: a server that is stopped for longer than
 * a heartbeat, a clock that is set back, and the dead in the queue. Clocks cannot
 * be set here, but what was written by them can.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/lock_waiter.h"

enum {
    HEARTBEAT_MS = 2000,
    KEPT_MS = 10000,
    CROWD = 8,
    HOUR_MS = 3600000,
    SLACK_MS = 1000, /* for a machine that has other things to do */
};

/* What the server is asked, with the queue and the beats as "q" and "b", the
 * server's time in milliseconds as "now". */
static long long eval(const char *format, ...)
{
    char lua[500];
    char command[800];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(lua, sizeof(lua), format, args);
    va_end(args);
    (void)snprintf(command, sizeof(command),
                   "EVAL \"local call, q, b = redis.call, '{k}:dlock-queue', "
                   "'{k}:dlock-beats' local t = call('time') local now = "
                   "t[1] * 1000 + math.floor(t[2] / 1000) %s\" 0",
                   lua);
    return lock_rig_ask(command);
}

/* Puts NAME into the queue, who counts as alive for LEFT_MS. */
static void put(int place, const char *name, long long left_ms)
{
    (void)eval(
        "call('zadd', q, %d, '%s') return call('zadd', b, now + %lld, '%s')",
        place, name, left_ms, name);
}

/* Its place, or 0. */
static long long place_of(const char *name)
{
    return eval("return tonumber(call('zscore', q, '%s') or 0)", name);
}

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
    (void)eval("local n = call('zcard', q) for i, w in "
               "ipairs(call('zrange', q, 0, -1)) do "
               "call('zadd', q, n - i + 1, w) end return n");
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
        assert_ok(lock_pair_extend(&pair, 0, 500));
    redis_server_pause(rig.server);
    lock_rig_sleep_ms(ms);
    redis_server_resume(rig.server);
    assert_int_equal(lock_pair_give(&pair, 0), held ? DLOCK_OK : DLOCK_LOST);
    assert_turned_round(crowd, CROWD);
}

static void test_places_survive_a_stopped_server(NO_STATE)
{
    stop_for(HEARTBEAT_MS + 1000, true);
}

static void test_places_survive_it_beside_a_free_lock(NO_STATE)
{
    stop_for(HEARTBEAT_MS + 1000, false);
}

/*
 * The same by hand. Nobody has been heard of since all were alive but one: that one
 * is dead, the others are waited for, once.
 */
static void test_the_silent_are_waited_for_once(NO_STATE)
{
    const char *all_silent = "local n = 0 for _, w in ipairs(call('zrange', b, "
                             "0, -1)) do n = n + call('zincrby', b, -3000, w) "
                             "end return n";

    put(1, "dead", -6000);
    put(2, "early", -2500);
    put(3, "late", -1500);
    assert_int_equal(lock_rig_probe("fair", "k"), DLOCK_BUSY);
    assert_int_equal(place_of("dead"), 0);
    assert_int_equal(place_of("early"), 2);
    assert_int_equal(place_of("late"), 3);
    (void)eval(all_silent);
    assert_ok(lock_rig_probe("fair", "k"));
    assert_int_equal(place_of("early"), 0);
    assert_int_equal(place_of("late"), 0);
}

/* The last that was heard of has time left, and one that was heard before has
 * not: nobody could be heard since. */
static void test_a_short_stop_costs_no_place(NO_STATE)
{
    put(1, "before", -1);
    put(2, "last", HEARTBEAT_MS - 1400);
    assert_int_equal(lock_rig_probe("fair", "k"), DLOCK_BUSY);
    assert_int_equal(place_of("before"), 1);
    assert_int_equal(place_of("last"), 2);
}

/* Somebody was heard of meanwhile: the server was not stopped, so he is dead. */
static void test_a_silent_one_among_others_is_not(NO_STATE)
{
    put(1, "silent", -1);
    put(2, "heard", HEARTBEAT_MS - 700);
    assert_int_equal(lock_rig_probe("fair", "k"), DLOCK_BUSY);
    assert_int_equal(place_of("silent"), 0);
    assert_int_equal(place_of("heard"), 2);
}

/* And not for ever: by then even their keys would have ended. */
static void test_places_end(NO_STATE)
{
    put(1, "silent", HEARTBEAT_MS - KEPT_MS - 1);
    assert_ok(lock_rig_probe("fair", "k"));
}

/* A clock that is set back ------------------------------------------------------------ */

/* Whoever died before has an hour left by his beat, and gets a heartbeat. */
static void test_the_dead_do_not_wait_for_the_clock(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("fair");
    uint64_t began_ms = lock_rig_now_ms();

    put(1, "dead", HOUR_MS);
    put(2, "dead too", HOUR_MS - 1000);
    assert_ok(lock_pair_take(&pair, 0, 10000, 20000));
    assert_in_range(lock_rig_now_ms() - began_ms, HEARTBEAT_MS - SLACK_MS,
                    HEARTBEAT_MS + SLACK_MS);
}

/* And those that are alive keep their places. */
static void test_places_survive_a_clock_set_back(NO_STATE)
{
    struct lock_waiter crowd[CROWD];
    struct lock_pair pair = lock_pair_open("fair");

    assert_ok(lock_pair_take(&pair, 0, 0, 20000));
    gather(crowd, CROWD);
    turn_round();
    (void)eval("for _, w in ipairs(call('zrange', b, 0, -1)) do "
               "call('zincrby', b, %d, w) end return 1",
               HOUR_MS);
    assert_ok(lock_pair_give(&pair, 0));
    assert_turned_round(crowd, CROWD);
}

/* The list of those that wait for a fenced lock, in which a dead one stands. */
static void test_the_dead_leave_the_list(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("fenced");
    uint64_t patience_ms = lock_rig_now_ms() + HEARTBEAT_MS + SLACK_MS;
    size_t n = 1;

    (void)eval("return call('zadd', '{k}:dlock-waiters', now + %d, 'dead')",
               HOUR_MS);
    while (n > 0) {
        assert_ok(
            dlock_inspect_waiters(pair.session[0], "k", NULL, 0, &n, NULL));
        assert_true(lock_rig_now_ms() < patience_ms);
        lock_rig_sleep_ms(10);
    }
}

/* The dead, and those that leave ------------------------------------------------------- */

/* One look throws out all that are in front, however many. */
static void test_all_the_dead_are_passed_at_once(NO_STATE)
{
    for (int i = 1; i <= 5; i++) {
        char name[10];

        (void)snprintf(name, sizeof(name), "dead-%d", i);
        put(i, name, -10LL * i);
    }
    put(6, "alive", HEARTBEAT_MS);
    assert_int_equal(lock_rig_probe("fair", "k"), DLOCK_BUSY);
    assert_int_equal(lock_queue_length(), 1);
    assert_int_equal(place_of("alive"), 6);
}

static void *give_up(void *arg)
{
    struct lock_pair *pair = arg;

    assert_int_equal(lock_pair_take(pair, 1, 50, 0), DLOCK_TIMEOUT);
    return NULL;
}

/* The lock is free, and "next" was not told: by whoever gives up, then. */
static void pass_the_turn_on(const char *strategy)
{
    struct lock_pair pair = lock_pair_held(strategy, 20000);
    int listener = redis_server_listen(rig.server, "{k}:dlock-turn:next");
    pthread_t thread;
    step_log_shut(&rig.log, "eval-leave", DLOCK_BEFORE);
    assert_int_equal(pthread_create(&thread, NULL, give_up, &pair), 0);
    step_log_await_gate(&rig.log, 1);
    put(2, "next", HEARTBEAT_MS);
    (void)eval("return call('zadd', '{k}:dlock-waiters', now + %d, 'next')",
               HEARTBEAT_MS);
    lock_rig_tell("DEL k");
    step_log_open(&rig.log);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(redis_server_heard(listener, 10000));
    (void)close(listener);
}

static void test_who_gives_up_passes_the_turn_on(NO_STATE)
{
    pass_the_turn_on("fair");
    assert_int_equal(lock_rig_fresh(NULL), 0);
    pass_the_turn_on("fenced");
}

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_places_survive_a_stopped_server),
    LOCK_TEST(test_places_survive_it_beside_a_free_lock),
    LOCK_TEST(test_a_short_stop_costs_no_place),
    LOCK_TEST(test_the_silent_are_waited_for_once),
    LOCK_TEST(test_a_silent_one_among_others_is_not),
    LOCK_TEST(test_places_end),
    LOCK_TEST(test_the_dead_do_not_wait_for_the_clock),
    LOCK_TEST(test_places_survive_a_clock_set_back),
    LOCK_TEST(test_the_dead_leave_the_list),
    LOCK_TEST(test_all_the_dead_are_passed_at_once),
    LOCK_TEST(test_who_gives_up_passes_the_turn_on),
};
LOCK_RIG_MAIN(tests)
