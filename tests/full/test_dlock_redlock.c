/*
 * A lock on more than half of several servers: it goes on without the others,
 * and excludes without them. What it has to do with time is in
 * test_dlock_redlock_time.c.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/node_rig.h"

enum {
    LONGEST_MS = NODE_RIG_LONGEST_MS,
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

/* Servers that were not waited for do what they were told all the same. */
static void await_held(unsigned n)
{
    uint64_t until_ms = lock_rig_now_ms() + 1000;

    while (node_rig_held() != n && lock_rig_now_ms() < until_ms)
        lock_rig_sleep_ms(1);
    assert_int_equal(node_rig_held(), n);
}

/* Connections, scripts and ages: what may take long for the first time only. */
static void warm_up(struct node_user *user)
{
    for (unsigned i = 0; i < 3; i++) {
        NODE_ASSERT_TOLD(take(user, 0), DLOCK_OK);
        NODE_ASSERT_TOLD(node_give(user), DLOCK_OK);
    }
    await_held(0);
}

static void test_a_majority_and_more(NO_STATE)
{
    struct dlock_holder holder;

    begin(5);
    warm_up(&nodes.a);
    warm_up(&nodes.b);
    NODE_ASSERT_TOLD(take(&nodes.a, 0), DLOCK_OK);
    await_held(5);
    assert_in_range(node_left_ms(&nodes.a), 1, LONGEST_MS - DRIFT_MS);
    NODE_ASSERT_TOLD(dlock_inspect(nodes.b.session, "k", &holder, NULL),
                     DLOCK_OK);
    assert_true(holder.held);
    assert_string_equal(holder.owner, dlock_session_owner(nodes.a.session));
    NODE_ASSERT_TOLD(take(&nodes.b, 0), DLOCK_BUSY);
    assert_int_equal(node_rig_held(), 5);
    NODE_ASSERT_TOLD(node_give(&nodes.a), DLOCK_OK);
    await_held(0);
    NODE_ASSERT_TOLD(node_give(&nodes.a), DLOCK_LOST);
    NODE_ASSERT_TOLD(dlock_inspect(nodes.b.session, "k", &holder, NULL),
                     DLOCK_OK);
    assert_false(holder.held);
}

static void test_reentry(NO_STATE)
{
    struct dlock_grant outer;

    begin(3);
    assert_int_equal(take(&nodes.a, 0), DLOCK_OK);
    outer = nodes.a.grant;
    assert_int_equal(take(&nodes.a, 0), DLOCK_OK);
    assert_int_equal(nodes.a.grant.holds, 2);
    assert_int_equal(node_give(&nodes.a), DLOCK_OK);
    assert_int_equal(node_rig_held(), 3);
    /* Lost on too many: coming in again is coming in anew. */
    node_rig_ask(0, "DEL k");
    node_rig_ask(2, "DEL k");
    assert_int_equal(take(&nodes.a, 0), DLOCK_OK);
    assert_int_equal(nodes.a.grant.holds, 1);
    assert_int_equal(node_give(&nodes.a), DLOCK_OK);
    assert_int_equal(node_rig_held(), 0);
    assert_int_equal(dlock_release(nodes.a.session, &outer, NULL), DLOCK_LOST);
}

/* The outer hold is on two of three; that one of them does not answer to the re-entry,
 * and the third does, is no loss. */
static void test_reentry_by_another_majority(NO_STATE)
{
    struct dlock_terms terms = {.lease_ms = LONGEST_MS, .fenced = true};
    struct dlock_grant outer, inner;

    begin(3);
    warm_up(&nodes.a);
    node_rig_fail(2, "eval-acquire", DLOCK_BEFORE, 1);
    assert_int_equal(dlock_try(nodes.a.session, "k", &terms, &outer, NULL),
                     DLOCK_OK);
    assert_int_equal(node_rig_held(), 2);
    node_rig_fail(0, "eval-acquire", DLOCK_BEFORE, 1);
    assert_int_equal(dlock_try(nodes.a.session, "k", &terms, &inner, NULL),
                     DLOCK_OK);
    assert_int_equal(inner.holds, 2);
    assert_true(inner.token == outer.token);
    assert_int_equal(dlock_release(nodes.a.session, &inner, NULL), DLOCK_OK);
    assert_int_equal(take(&nodes.b, 0), DLOCK_BUSY);
    assert_int_equal(dlock_release(nodes.a.session, &outer, NULL), DLOCK_OK);
    assert_int_equal(node_rig_held(), 0);
}

/* One server counts far ahead, and the two others are not told: they could give a
 * lower token to the next one. */
static void test_a_token_that_did_not_spread(NO_STATE)
{
    struct dlock_terms terms = {.lease_ms = LONGEST_MS, .fenced = true};
    const uint64_t ahead = UINT64_C(4000000000000000);
    struct dlock_error error = {""};

    begin(3);
    warm_up(&nodes.a);
    node_rig_ask(1, "SET {k}:dlock-fence 4000000000000000");
    node_rig_fail(0, "eval-fence", DLOCK_BEFORE, 1);
    node_rig_fail(2, "eval-fence", DLOCK_BEFORE, 1);
    assert_int_equal(
        dlock_try(nodes.a.session, "k", &terms, &nodes.a.grant, &error),
        DLOCK_UNREACHABLE);
    assert_non_null(strstr(error.text, "did not reach enough servers"));
    await_held(0);
    NODE_ASSERT_TOLD(
        dlock_try(nodes.b.session, "k", &terms, &nodes.b.grant, NULL),
        DLOCK_OK);
    assert_true(nodes.b.grant.token > ahead);
    NODE_ASSERT_TOLD(node_give(&nodes.b), DLOCK_OK);
}

/* Servers that fail ------------------------------------------------------------ */

static void test_minority_down(NO_STATE)
{
    begin(5);
    node_rig_kill(0);
    node_rig_kill(3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(take(&nodes.a, 0), DLOCK_OK);
        assert_int_equal(node_rig_held(), 3);
        assert_int_equal(take(&nodes.b, 0), DLOCK_BUSY);
        assert_int_equal(node_give(&nodes.a), DLOCK_OK);
        assert_int_equal(node_rig_held(), 0);
    }
}

static void test_majority_down(NO_STATE)
{
    begin(5);
    assert_int_equal(take(&nodes.a, 0), DLOCK_OK);
    for (unsigned i = 0; i < 3; i++)
        node_rig_kill(i);
    /* Whether those three have let go, nobody can say; and of a release that was sent
     * while a server died, not even whether it arrived. */
    assert_in_range(node_give(&nodes.a), DLOCK_UNKNOWN, DLOCK_UNREACHABLE);
    assert_int_equal(node_rig_held(), 0);
    assert_int_equal(take(&nodes.a, 300), DLOCK_UNREACHABLE);
    assert_int_equal(node_rig_held(), 0);
}

/* One that is up has the new lease, the others may have: it is not "no effect". */
static void test_majority_down_at_an_extension(NO_STATE)
{
    begin(3);
    assert_int_equal(take(&nodes.a, 0), DLOCK_OK);
    node_rig_kill(0);
    node_rig_kill(1);
    assert_int_equal(node_extend(&nodes.a, 900), DLOCK_UNKNOWN);
    assert_in_range(node_left_ms(&nodes.a), 0, 900);
}

/* They cost a moment, and when they wake up, nothing is left on them. */
static void test_minority_hung(NO_STATE)
{
    uint64_t began_ms;

    begin(5);
    assert_int_equal(take(&nodes.a, 0), DLOCK_OK);
    assert_int_equal(node_give(&nodes.a), DLOCK_OK);
    node_rig_pause(1);
    node_rig_pause(2);
    began_ms = lock_rig_now_ms();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(take(&nodes.a, 0), DLOCK_OK);
        assert_int_equal(node_give(&nodes.a), DLOCK_OK);
    }
    assert_true(lock_rig_now_ms() - began_ms < LONGEST_MS / 2);
    node_rig_resume(1);
    node_rig_resume(2);
    lock_rig_sleep_ms(100);
    assert_int_equal(node_rig_held(), 0);
}

/*
 * With the times that are there if none is asked for: the server that hangs
 * comes with a new connection each time, so its age is not known, and nobody
 * needs it.
 */
static void test_minority_hung_by_default(NO_STATE)
{
    enum { OLD_MS = 11000 };
    uint64_t began_ms;

    begin(3);
    nodes.longest_lease_ms = 0;
    nodes.watchdog_lease_ms = 0;
    nodes.clock = &node_rig_ahead;
    node_rig_open("redlock");
    /* The default lease is above their age. */
    assert_int_equal(node_take(&nodes.a, 0, 0), DLOCK_UNREACHABLE);
    atomic_store(&nodes.ahead_ms, OLD_MS);
    node_rig_pause(1);
    began_ms = lock_rig_now_ms();
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(node_take(&nodes.a, i % 2 * 500, 0), DLOCK_OK);
        assert_int_equal(node_give(&nodes.a), DLOCK_OK);
    }
    assert_in_range(lock_rig_now_ms() - began_ms, 0, OLD_MS / 2);
    node_rig_resume(1);
}

/* A new session finds one of the servers hung, and asks for all ages. */
static void test_minority_hung_from_the_start(NO_STATE)
{
    uint64_t began_ms;

    begin(3);
    node_rig_pause(0);
    node_rig_open("redlock");
    began_ms = lock_rig_now_ms();
    assert_int_equal(take(&nodes.a, 0), DLOCK_OK);
    assert_in_range(lock_rig_now_ms() - began_ms, 0, LONGEST_MS / 10);
    assert_int_equal(node_give(&nodes.a), DLOCK_OK);
    node_rig_resume(0);
}

/* One timeout for all of them together, and a small one. */
static void test_majority_hung(NO_STATE)
{
    uint64_t began_ms;

    begin(5);
    assert_int_equal(take(&nodes.a, 0), DLOCK_OK);
    assert_int_equal(node_give(&nodes.a), DLOCK_OK);
    for (unsigned i = 1; i < 4; i++)
        node_rig_pause(i);
    began_ms = lock_rig_now_ms();
    assert_int_equal(take(&nodes.a, 0), DLOCK_UNKNOWN);
    assert_in_range(lock_rig_now_ms() - began_ms, LONGEST_MS / 10,
                    3 * LONGEST_MS / 10 - 1);
    for (unsigned i = 1; i < 4; i++)
        node_rig_resume(i);
    lock_rig_sleep_ms(100);
    assert_int_equal(node_rig_held(), 0);
    assert_int_equal(take(&nodes.a, 0), DLOCK_OK);
}

/* Whoever did not answer may hold it all the same. */
static void test_release_goes_to_all(NO_STATE)
{
    begin(3);
    /* It hangs before it was ever sent a release, and does not know the script. */
    assert_int_equal(take(&nodes.a, 0), DLOCK_OK);
    redis_server_ask(nodes.servers[1], "SCRIPT FLUSH", NULL, 0);
    node_rig_pause(1);
    assert_int_equal(node_give(&nodes.a), DLOCK_OK);
    node_rig_resume(1);
    lock_rig_sleep_ms(100);
    assert_int_equal(node_rig_held(), 0);
    /* It voted, and its word did not arrive. */
    node_rig_fail(1, "eval-acquire", DLOCK_AFTER, 1);
    assert_int_equal(take(&nodes.a, 0), DLOCK_OK);
    assert_int_equal(node_rig_held(), 3);
    assert_int_equal(node_give(&nodes.a), DLOCK_OK);
    assert_int_equal(node_rig_held(), 0);
    /* The same for an acquire that came to nothing. */
    node_rig_fail(0, "eval-acquire", DLOCK_AFTER, 1);
    node_rig_fail(1, "eval-acquire", DLOCK_AFTER, 1);
    assert_int_not_equal(take(&nodes.a, 0), DLOCK_OK);
    lock_rig_sleep_ms(50);
    assert_int_equal(node_rig_held(), 0);
}

/* Whichever server is lost, nobody else gets in. */
static void test_loss_of_one_keeps_exclusion(NO_STATE)
{
    begin(3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(take(&nodes.a, 0), DLOCK_OK);
        node_rig_ask(i, "FLUSHALL");
        assert_int_equal(take(&nodes.b, 200), DLOCK_TIMEOUT);
        assert_int_equal(node_give(&nodes.a), DLOCK_OK);
        assert_int_equal(node_rig_held(), 0);
    }
    assert_int_equal(take(&nodes.a, 0), DLOCK_OK);
    node_rig_kill(1);
    assert_int_equal(take(&nodes.b, 200), DLOCK_TIMEOUT);
    assert_int_equal(node_give(&nodes.a), DLOCK_OK);
    assert_int_equal(take(&nodes.b, 200), DLOCK_OK);
}

/* What has two names in the url has one vote; with two, it would outvote all. */
static void test_one_server_by_two_names(NO_STATE)
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

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_majority_and_more),
    cmocka_unit_test(test_reentry),
    cmocka_unit_test(test_reentry_by_another_majority),
    cmocka_unit_test(test_a_token_that_did_not_spread),
    cmocka_unit_test(test_minority_down),
    cmocka_unit_test(test_majority_down),
    cmocka_unit_test(test_majority_down_at_an_extension),
    cmocka_unit_test(test_minority_hung),
    cmocka_unit_test(test_minority_hung_by_default),
    cmocka_unit_test(test_minority_hung_from_the_start),
    cmocka_unit_test(test_majority_hung),
    cmocka_unit_test(test_release_goes_to_all),
    cmocka_unit_test(test_loss_of_one_keeps_exclusion),
    cmocka_unit_test(test_one_server_by_two_names),
};
TEST_MAIN_WITHIN(tests, node_rig_setup, node_rig_teardown)
