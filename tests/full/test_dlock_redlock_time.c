/*
 * A lock on more than half of several servers, and time: what it grants is not
 * over already, and a server votes once only, however often it starts anew.
 */
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/lock_story.h"
#include "tests/support/node_rig.h"

enum {
    LONGEST_MS = NODE_RIG_LONGEST_MS,
    OF_AGE_MS = NODE_RIG_OF_AGE_MS,
    DRIFT_MS = LONGEST_MS / 100 + 2,
};

static void begin(unsigned n)
{
    node_rig_redlock(n, LONGEST_MS);
}

static enum dlock_status take(struct node_user *user, unsigned wait_ms)
{
    return node_take(user, wait_ms, LONGEST_MS);
}

static void test_restarted_servers_have_no_vote(NO_STATE)
{
    struct dlock_terms terms = {.lease_ms = LONGEST_MS};
    struct dlock_error error = {""};
    enum dlock_status status;
    uint64_t give_up_ms;

    begin(3);
    assert_int_equal(take(&nodes.a, 0), DLOCK_OK);
    assert_int_equal(node_give(&nodes.a), DLOCK_OK);
    node_rig_restart(0);
    assert_int_equal(take(&nodes.a, 0), DLOCK_OK);
    assert_int_equal(node_give(&nodes.a), DLOCK_OK);
    node_rig_restart(1);
    give_up_ms = lock_rig_now_ms() + OF_AGE_MS + OF_AGE_MS;
    assert_int_equal(
        dlock_acquire(nodes.a.session, "k", &terms, &nodes.a.grant, &error),
        DLOCK_UNREACHABLE);
    assert_non_null(strstr(error.text, "longest lease"));
    assert_int_equal(node_rig_held(), 0);
    do {
        lock_rig_sleep_ms(50);
        status =
            dlock_acquire(nodes.a.session, "k", &terms, &nodes.a.grant, &error);
    } while (status == DLOCK_UNREACHABLE && lock_rig_now_ms() < give_up_ms);
    assert_int_equal(status, DLOCK_OK);
    assert_in_range(lock_rig_now_ms() - nodes.started_at_ms[0], LONGEST_MS,
                    OF_AGE_MS + 500);
}

/* Of the wall clock, from which servers take whole seconds. */
static unsigned ms_of_second(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (unsigned)(now.tv_nsec / 1000000);
}

/* What the server says for how long it has been up. */
static int up_s(void)
{
    char info[4096];
    const char *at;

    redis_server_ask(nodes.servers[0], "INFO server", info, sizeof(info));
    at = strstr(info, "uptime_in_seconds:");
    assert_non_null(at);
    return atoi(at + strlen("uptime_in_seconds:"));
}

/*
 * A server that started at the end of a second says soon that it is a second
 * older than it is. By that it would have a vote, a moment too early.
 */
static void test_the_age_is_not_rounded_up(NO_STATE)
{
    enum { LATE_MS = 850, SAYS_S = LONGEST_MS / 1000 + 1 };
    uint64_t began_ms, age_ms;
    unsigned tries = 0;

    begin(1);
    do {
        assert_true(tries++ < 20);
        while (ms_of_second() < LATE_MS)
            lock_rig_sleep_ms(1);
        began_ms = lock_rig_now_ms();
        node_rig_restart(0);
        while (up_s() < SAYS_S)
            lock_rig_sleep_ms(1);
        age_ms = lock_rig_now_ms() - began_ms;
    } while (age_ms > LONGEST_MS - 200);
    assert_int_equal(take(&nodes.a, 0), DLOCK_UNREACHABLE);
    assert_true(lock_rig_now_ms() - began_ms < LONGEST_MS);
    assert_int_equal(node_rig_held(), 0);
}

/* Its clock may be fast: as old as the longest lease by that is not old enough. */
static void test_the_age_allows_for_drift(NO_STATE)
{
    enum { LONG_MS = 1000000, LONG_DRIFT_MS = LONG_MS / 100 + 2 };

    begin(1);
    nodes.longest_lease_ms = LONG_MS;
    nodes.clock = &node_rig_ahead;
    node_rig_open("redlock");
    assert_int_equal(take(&nodes.a, 0), DLOCK_UNREACHABLE);
    /* Half of the drift after the longest lease. */
    atomic_store(&nodes.ahead_ms,
                 (unsigned)(LONG_MS + LONG_DRIFT_MS / 2 - 1000 * up_s()));
    assert_int_equal(take(&nodes.a, 0), DLOCK_UNREACHABLE);
    (void)atomic_fetch_add(&nodes.ahead_ms, LONG_DRIFT_MS);
    assert_int_equal(take(&nodes.a, 0), DLOCK_OK);
    assert_int_equal(node_give(&nodes.a), DLOCK_OK);
}

static void test_leases_above_the_longest(NO_STATE)
{
    struct dlock_options options = {.strategy = "redlock",
                                    .url = nodes.url,
                                    .longest_lease_ms = 1000,
                                    .watchdog_lease_ms = 2000};
    struct dlock *client = NULL;

    begin(3);
    assert_int_equal(node_take(&nodes.a, 0, LONGEST_MS + 1), DLOCK_MISUSE);
    assert_int_equal(take(&nodes.a, 0), DLOCK_OK);
    assert_int_equal(node_extend(&nodes.a, LONGEST_MS + 1), DLOCK_MISUSE);
    assert_int_equal(node_extend(&nodes.a, 1000), DLOCK_OK);
    assert_in_range(node_left_ms(&nodes.a), 100, 1000 - 12);
    assert_int_equal(dlock_open(&options, &client, NULL), DLOCK_MISUSE);
}

static const struct lock_story stories[] = {
    {"validity is honest", "redlock:3",
     "a takes longest; a gives; nap eval-acquire after 300 @0; a takes "
     "longest; "
     "a has left=500..4549; a gives; nap eval-acquire before 300 @2; "
     "a takes 250 -> lost; held 0"},
    /* With the first of many, b's lease would be over by now. One server may still have
     * kept a's when b had enough. */
    {"the clock starts with the try", "redlock:3",
     "a takes longest; b takes 1000 wait=9000; b has left=1..988; a has "
     "left=0; "
     "a gives -> lost; held 2..3"},
    /* Why servers have an age: a holds two of three. One of these forgets, and would let
     * b in. */
    {"nobody votes twice", "redlock:3",
     "fail eval-acquire before always @2; told a takes longest; mend; "
     "server restart 1; told b takes longest wait=5000; a has left=0"},
};
LOCK_STORIES_TEST

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_stories),
    cmocka_unit_test(test_restarted_servers_have_no_vote),
    cmocka_unit_test(test_the_age_is_not_rounded_up),
    cmocka_unit_test(test_the_age_allows_for_drift),
    cmocka_unit_test(test_leases_above_the_longest),
};
TEST_MAIN_WITHIN(tests, node_rig_setup, node_rig_teardown)
