/*
 * A lock on all of several servers: taken in one order, given back whole,
 * whatever happens in between.
 */
#include "tests/support/lock_story.h"
#include "tests/support/node_rig.h"

enum { NODES = 3 };

static int fresh(NO_STATE)
{
    node_rig_fresh(NODES);
    node_rig_open("multi");
    return 0;
}

#define TEST(test) UNIT_TEST_WITH(NO_FIXTURE, test, fresh, NULL, NULL)

/* Whatever the url's order, the first one is the same for all. */
TEST(test_one_order_for_all)
{
    /* The same servers, turned round. */
    (void)snprintf(nodes.url, sizeof(nodes.url), "%s,%s,%s",
                   redis_server_url(nodes.servers[2]),
                   redis_server_url(nodes.servers[1]),
                   redis_server_url(nodes.servers[0]));
    lock_single_close(&nodes.b);
    nodes.b = lock_single_open("multi");
    assert_ok(node_take(&nodes.a, 0, 0));
    step_log_reset(&rig.log);
    assert_int_equal(node_take(&nodes.b, 0, 0), DLOCK_BUSY);
    /* b met a at the first one, and had nothing to undo. */
    assert_int_equal(step_log_count(&rig.log, "eval-acquire"), 1);
    assert_int_equal(step_log_count(&rig.log, "eval-undo"), 0);
    /* If a has all but the first one, b takes only that, and not for long. */
    node_rig_ask(0, "DEL k");
    assert_int_equal(node_take(&nodes.b, 0, 0), DLOCK_BUSY);
    assert_int_equal(step_log_count(&rig.log, "eval-undo"), 1);
    assert_int_equal(redis_server_number(nodes.servers[0], "EXISTS k"), 0);
    assert_int_equal(node_rig_held(), NODES - 1);
}

static const struct lock_story stories[] = {
    {"all or nothing", "multi:3",
     "a takes 60000; held 3; a has left=50000..59398; "
     "b sees held=1 owner=a left=50000..60000; b takes -> busy; a gives; held "
     "0; "
     "a gives -> lost; b takes"},
    {"coming in again", "multi:3",
     "a takes outer 5000; a takes inner 5000 holds=2; a gives inner; held 3; "
     "a gives outer; held 0"},
    /* Try, try again when subscribed, and once woken: few, not hundreds. */
    {"a waiter sleeps, and is woken", "multi:3",
     "commands prompt; a takes 60000; forget; & b takes wait=long; sleep 300; "
     "still; clock; a gives; join; took 0..prompt; "
     "steps eval-acquire 3..14; b gives"},
    /* The last is busy, or refuses; or says nothing: it may have it, and is told to
     * forget it. */
    {"the others are given back", "multi:3",
     "@2 HSET k somebody 1; a takes -> busy; held 1; steps eval-undo 2; "
     "@2 DEL k; fail eval-acquire before 1 @2; a takes -> unreachable; "
     "held 0; fail eval-acquire after 3 @1; a takes -> unknown; held 0; "
     "a takes holds=1"},
    {"without one of them it is not to be had", "multi:3",
     "a takes; a gives; server kill 0; a takes wait=200 -> unreachable "
     "'..connect'; held 0; server restart 0; a takes; a gives; server kill 1; "
     "a takes wait=200 -> unreachable '..connect'; held 0; server restart 1; "
     "a takes; a gives; server kill 2; a takes wait=200 -> unreachable "
     "'..connect'; held 0; server restart 2; a takes; a gives"},
    {"one that hangs costs one timeout, and holds nothing when it wakes up",
     "multi:3",
     "commands 3000; a takes; a gives; server pause 1; clock; a takes -> "
     "unknown; took 2950..5900; held 0; server resume 1; sleep 100; held 0"},
    /* And says that it is not complete. Where the reply is lost, they answer as they did.
     * Where one is dead, the others are not waited for long: on a busy machine one may
     * answer too late. */
    {"the release goes on to the others", "multi:3",
     "commands timeout; a takes; fail eval-release before always @0; "
     "a gives -> unknown; mend; held 1; a gives; held 0; a takes; "
     "fail eval-release before always @2; a gives -> unknown; mend; "
     "held 1; a gives; held 0; a takes; fail eval-release after always @0; "
     "a gives -> unknown; mend; "
     "held 0; a gives; a gives -> lost; a takes; server kill 1; "
     "a gives -> unreachable|unknown; until held 0"},
    {"all may have been given back, and nobody says so", "multi:3",
     "commands timeout; a takes; fail eval-release after always @0; "
     "fail eval-release after always @1; fail eval-release after always @2; "
     "a gives -> unknown; mend; held 0; a gives; free"},
    {"two fail over to empty copies, and the third one still knows", "multi:3",
     "a takes 60000; @1 FLUSHALL; @2 FLUSHALL; b takes wait=100 -> timeout; "
     "held 1; a gives -> lost; held 0; a takes 60000; @0 FLUSHALL; @2 "
     "FLUSHALL; "
     "b takes wait=100 -> timeout; held 1; a gives -> lost; held 0; "
     "a takes 60000; @0 FLUSHALL; @1 FLUSHALL; b takes wait=100 -> timeout; "
     "held 1; a gives -> lost; held 0"},
    {"the lease began with the first: what takes longer is no grant", "multi:3",
     "a takes; a gives; nap eval-acquire before 200 @2; a takes 10000; "
     "a has left=3000..9698; a gives; nap eval-acquire after 200 @2; "
     "a takes 150 -> lost; held 0; forget; nap eval-acquire after 600 @1; "
     "a takes 500 -> unreachable; steps eval-acquire 2; held 0"},
    /* One of them has lost it: that is enough to have lost it. */
    {"it is renewed on all", "multi:3",
     "watchdog lease; a takes; b takes wait=lease+500 -> timeout; held 3; lost "
     "0; a has left=1..2374; @1 DEL k; lost 1 gone; a gives -> lost; held 0; "
     "a takes; @1 DEL k; @1 HSET k other 1; lost 2 taken; a gives -> lost; "
     "held 1"},
    {"it is forced on all", "multi:3",
     "watchdog lease; a takes; b forces; @2 DEL {k}:dlock-forced; held 0; "
     "b forces -> lost; lost 1 force"},
    {"one that is slow to name the holder is waited for: the others do not "
     "free",
     "multi:3",
     "commands prompt; a takes long; b takes -> busy; server pause 2; "
     "& b forces; sleep 300; server resume 2; join; held 0"},
    {"it is extended on all", "multi:3",
     "a takes 5000; a extends 9000; @0 PTTL k -> 5001..9000; "
     "@1 PTTL k -> 5001..9000; @2 PTTL k -> 5001..9000; a has left=5001..8908; "
     "@2 DEL k; a extends 9000 -> lost"},
    {"the holder is dead, and tells nobody: its lease ends", "multi:3",
     "a takes 60000; clock; a extends 150 -> ok|lost; b takes wait=long; "
     "took 140..prompt"},
    /* One counts higher than the others; another has lost its count. */
    {"tokens rise", "multi:3",
     "@0 SET {k}:dlock-fence 10; @1 DEL {k}:dlock-fence; "
     "a takes fenced token=rises; a gives; @1 SET {k}:dlock-fence 10; "
     "@2 DEL {k}:dlock-fence; a takes fenced token=rises; "
     "a gives; @2 SET {k}:dlock-fence 10; @0 DEL {k}:dlock-fence; "
     "a takes fenced token=rises; a gives; @0 SET {k}:dlock-fence 10; "
     "@1 DEL {k}:dlock-fence; a takes fenced token=rises"},
};
LOCK_STORIES_TEST

UNIT_TESTS_WITHIN(node_rig_setup, node_rig_teardown)
