/*
 * A lock on more than half of several servers: it goes on without the others, and
 * excludes without them. What it grants is not over already, and a server votes once
 * only, however often it starts anew.
 */
#include <limits.h>
#include <stdatomic.h>
#include <time.h>

#include "tests/support/lock_story.h"
#include "tests/support/node_rig.h"

enum {
    LONGEST_MS = NODE_RIG_LONGEST_MS,
    OF_AGE_MS = NODE_RIG_OF_AGE_MS,
};

static void begin(unsigned n)
{
    node_rig_redlock(n, LONGEST_MS);
}

/*
 * With the times that are there if none is asked for: the server that hangs
 * comes with a new connection each time, so its age is not known, and nobody
 * needs it.
 */
UNIT_TEST(test_minority_hung_by_default)
{
    enum { OLD_MS = 11000 };
    uint64_t began_ms;

    begin(3);
    rig.longest_lease_ms = 0;
    rig.watchdog_lease_ms = 0;
    rig.clock = &node_rig_ahead;
    node_rig_open("redlock");
    /* The default lease is above their age. */
    assert_int_equal(node_take(&nodes.a, 0, 0), DLOCK_UNREACHABLE);
    atomic_store(&nodes.ahead_ms, OLD_MS);
    node_rig_do(1, "pause");
    began_ms = lock_rig_now_ms();
    for (unsigned i = 0; i < 6; i++) {
        assert_ok(node_take(&nodes.a, i % 2 * 500, 0));
        assert_ok(lock_single_give(&nodes.a));
    }
    assert_in_range(lock_rig_now_ms() - began_ms, 0, OLD_MS / 2);
    node_rig_do(1, "resume");
}

/* A server with two names in the url has one vote; with two, it would outvote all. */
UNIT_TEST(test_one_server_by_two_names)
{
    const char *first = redis_server_url(nodes.servers[0]);
    struct dlock_error error = {""};

    begin(2);
    (void)snprintf(nodes.url, sizeof(nodes.url), "%s,unix:/.%s,%s", first,
                   first + strlen("unix:"), redis_server_url(nodes.servers[1]));
    node_rig_open("redlock");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            dlock_try(nodes.a.session, "k", NULL, &nodes.a.grant, &error),
            DLOCK_MISUSE);
        assert_non_null(strstr(error.text, "are one server"));
        assert_int_equal(node_rig_held(), 0);
    }
}

static enum dlock_status take(struct lock_single *user, unsigned wait_ms)
{
    return node_take(user, wait_ms, LONGEST_MS);
}

UNIT_TEST(test_restarted_servers_have_no_vote)
{
    struct dlock_terms terms = {.lease_ms = LONGEST_MS};
    struct dlock_error error = {""};
    enum dlock_status status;
    uint64_t give_up_ms;

    begin(3);
    assert_ok(take(&nodes.a, 0));
    assert_ok(lock_single_give(&nodes.a));
    node_rig_do(0, "restart");
    assert_ok(take(&nodes.a, 0));
    assert_ok(lock_single_give(&nodes.a));
    node_rig_do(1, "restart");
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
    assert_ok(status);
    assert_in_range(lock_rig_now_ms() - nodes.started_at_ms[0], LONGEST_MS,
                    OF_AGE_MS + 5000);
}

/* The wall clock's part of a second: servers take whole ones from it. */
static unsigned ms_of_second(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (unsigned)(now.tv_nsec / 1000000);
}

/* The server's own word for how long it has been up. */
static int up_s(void)
{
    return (int)redis_server_info(nodes.servers[0], "server",
                                  "uptime_in_seconds:");
}

/*
 * A server that started at the end of a second says soon that it is a second
 * older than it is. By that it would have a vote, a moment too early.
 */
UNIT_TEST(test_the_age_is_not_rounded_up)
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
        node_rig_do(0, "restart");
        while (up_s() < SAYS_S)
            lock_rig_sleep_ms(1);
        age_ms = lock_rig_now_ms() - began_ms;
    } while (age_ms > LONGEST_MS - 200);
    assert_int_equal(take(&nodes.a, 0), DLOCK_UNREACHABLE);
    assert_true(lock_rig_now_ms() - began_ms < LONGEST_MS);
    assert_int_equal(node_rig_held(), 0);
}

/* Its clock may be fast: as old as the longest lease by that is not old enough. */
UNIT_TEST(test_the_age_allows_for_drift)
{
    enum { LONG_MS = 1000000, LONG_DRIFT_MS = LONG_MS / 100 + 2 };

    begin(1);
    rig.longest_lease_ms = LONG_MS;
    rig.clock = &node_rig_ahead;
    node_rig_open("redlock");
    assert_int_equal(take(&nodes.a, 0), DLOCK_UNREACHABLE);
    /* Half of the drift after the longest lease. */
    atomic_store(&nodes.ahead_ms,
                 (unsigned)(LONG_MS + LONG_DRIFT_MS / 2 - 1000 * up_s()));
    assert_int_equal(take(&nodes.a, 0), DLOCK_UNREACHABLE);
    (void)atomic_fetch_add(&nodes.ahead_ms, LONG_DRIFT_MS);
    assert_ok(take(&nodes.a, 0));
    assert_ok(lock_single_give(&nodes.a));
}

static const struct lock_story stories[] = {
    /* The first of each have to make connections, tell scripts and ask for ages. */
    {"a majority and more", "redlock:5",
     "told a takes longest; told a gives; told b takes longest; told b gives; "
     "until held 0; told a takes longest; until held 5; a has left=1..4849; "
     "told b sees held=1 owner=a; told b takes longest -> busy; held 5; "
     "told a gives; until held 0; told a gives -> lost; told b sees held=0"},
    {"held for as long as a majority has it, and not the last of them",
     "redlock:3",
     "told a takes longest; until held 3; @1 PEXPIRE k 600000; "
     "told b sees held=1 owner=a left=1..5000; told a gives"},
    /* Lost on too many: coming in again is coming in anew. */
    {"coming in again", "redlock:3",
     "a takes outer longest; fail eval-acquire before 1 @0; "
     "a takes inner longest holds=2; b sees holds=2; mend; a gives inner; "
     "held 3; @0 DEL k; @2 DEL k; a takes anew longest holds=1; a gives anew; "
     "held 0; a gives outer -> lost"},
    /* The outer hold is on two of three; that one of them does not answer to the
     * re-entry, and the third does, is no loss. */
    {"coming in again by another majority", "redlock:3",
     "told a takes longest; told a gives; until held 0; "
     "fail eval-acquire before 1 @2; a tries outer longest fenced; held 2; "
     "fail eval-acquire before 1 @0; "
     "a tries inner longest fenced holds=2 token=same; a gives inner; "
     "b takes longest -> busy; a gives outer; held 0"},
    /* One server counts far ahead, and the two others are not told: they could give a
     * lower token to the next one. */
    {"a token that did not spread", "redlock:3",
     "told a takes longest; told a gives; until held 0; "
     "@1 SET {k}:dlock-fence 4000000000000000; fail eval-fence before 1 @0; "
     "fail eval-fence before 1 @2; a tries longest fenced -> unreachable "
     "'..did not reach enough servers'; until held 0; "
     "told b tries longest fenced token=4000000000000001..; told b gives"},
    {"a minority is down", "redlock:5",
     "server kill 0; server kill 3; "
     "a takes longest; held 3; b takes longest -> busy; a gives; held 0; "
     "a takes longest; held 3; b takes longest -> busy; a gives; held 0; "
     "a takes longest; held 3; b takes longest -> busy; a gives; held 0"},
    /* Whether those three have let go, nobody can say; and of a release that was sent
     * while a server died, not even whether it arrived. */
    {"a majority is down", "redlock:5",
     "a takes longest; server kill 0; server kill 1; server kill 2; "
     "a gives -> unknown|unreachable; held 0; "
     "a takes longest wait=300 -> unreachable; held 0"},
    /* One that is up has the new lease, the others may have: it is not "no effect". */
    {"who has it depends on one that is silent", "redlock:3",
     "told a takes longest; until held 3; @1 DEL k; fail eval-inspect before 1 "
     "@0; "
     "b sees -> unknown '..do not agree'; b sees held=1 owner=a; @0 DEL k; "
     "fail eval-inspect before 1 @1; b sees -> unknown; b sees held=0; a gives "
     "-> lost"},
    {"a majority is down at an extension", "redlock:3",
     "a takes longest; server kill 0; server kill 1; a extends 900 -> unknown; "
     "a has left=0..900"},
    /* They cost a moment, and when they wake up, nothing is left on them. */
    {"a minority hangs", "redlock:5",
     "a takes longest; a gives; server pause 1; server pause 2; clock; a takes "
     "longest; a gives; a takes longest; a gives; a takes longest; a gives; "
     "took 0..2449; server resume 1; server resume 2; sleep 100; held 0"},
    {"a new session finds one that hangs, and asks for all ages", "redlock:3",
     "server pause 0; clock; a takes longest; took 0..490; a gives; "
     "server resume 0"},
    /* One timeout for all of them together, and a small one. */
    {"a majority hangs", "redlock:5",
     "a takes longest; a gives; server pause 1; server pause 2; server pause "
     "3; clock; a takes longest -> unknown; took 490..1469; server resume 1; "
     "server resume 2; server resume 3; sleep 100; held 0; a takes longest"},
    /* A server that did not answer may hold it all the same: it hangs before it was ever sent
     * a release, and does not know the script; or it voted, and its word did not arrive;
     * the same for an acquire that came to nothing. */
    {"a release goes to all", "redlock:3",
     "a takes longest; @1 SCRIPT FLUSH; server pause 1; a gives; "
     "server resume 1; sleep 100; held 0; fail eval-acquire after 1 @1; "
     "a takes longest; held 3; a gives; held 0; fail eval-acquire after 1 @0; "
     "fail eval-acquire after 1 @1; a takes longest -> "
     "unknown|unreachable|busy|lost|timeout; sleep 50; held 0"},
    {"whichever server is lost, nobody else gets in", "redlock:3",
     "a takes longest; @0 FLUSHALL; b takes longest wait=200 -> timeout; "
     "a gives; held 0; a takes longest; @1 FLUSHALL; "
     "b takes longest wait=200 -> timeout; a gives; held 0; a takes longest; "
     "@2 FLUSHALL; b takes longest wait=200 -> timeout; a gives; held 0; "
     "a takes longest; server kill 1; b takes longest wait=200 -> timeout; "
     "a gives; b takes longest wait=200"},

    {"validity is honest", "redlock:3",
     "a takes longest; a gives; nap eval-acquire after 300 @0; "
     "a takes longest; a has left=500..4549; a gives; "
     "nap eval-acquire before 300 @2; a takes 250 -> lost; held 0"},
    {"leases above the longest", "redlock:3",
     "a takes longest+1 -> misuse; told a takes longest; "
     "a extends longest+1 -> misuse; a extends 1000; a has left=100..988"},
    /* With the first of many, b's lease would be over by now. One server may still have
     * kept a's when b had enough. */
    {"the clock starts with the try", "redlock:3",
     "a takes longest; b takes 1000 wait=9000; b has left=1..988; "
     "a has left=0; a gives -> lost; held 2..3"},
    /* Why servers have an age: a holds two of three. One of these forgets, and would let
     * b in. */
    {"nobody votes twice", "redlock:3",
     "fail eval-acquire before always @2; told a takes longest; mend; "
     "server restart 1; told b takes longest wait=5000; a has left=0"},
    /* The server's age is not told again. */
    {"nor by what it said before", "redlock:3",
     "told b takes longest; told b gives; until held 0; "
     "fail eval-acquire before always @2; told a takes longest; mend; "
     "server restart 1; fail eval-age before always @1; "
     "b takes longest -> busy; mend; a has left=1.."},
};
LOCK_STORIES_TEST

UNIT_TESTS_WITHIN(node_rig_setup, node_rig_teardown)
