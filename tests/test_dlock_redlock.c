/*
 * A lock on more than half of several servers: it goes on without the others,
 * and excludes without them. What it has to do with time is in
 * test_dlock_redlock_time.c.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/node_rig.h"
#include "tests/support/unit_test.h"

enum {
    LONGEST_MS = NODE_RIG_LONGEST_MS,
    DRIFT_MS = LONGEST_MS / 100 + 2,
};

static struct node_rig *begin(void **state, unsigned n)
{
    return node_rig_redlock(state, n, LONGEST_MS);
}

static enum dlock_status take(struct node_user *user, unsigned wait_ms)
{
    return node_take(user, wait_ms, LONGEST_MS);
}

/* Servers that were not waited for do what they were told all the same. */
static void await_held(const struct node_rig *rig, unsigned n)
{
    uint64_t until_ms = lock_rig_now_ms() + 1000;

    while (node_rig_held(rig) != n && lock_rig_now_ms() < until_ms)
        lock_rig_sleep_ms(1);
    assert_int_equal(node_rig_held(rig), n);
}

/* Connections, scripts and ages: what may take long for the first time only. */
static void warm_up(const struct node_rig *rig, struct node_user *user)
{
    for (unsigned i = 0; i < 3; i++) {
        NODE_ASSERT_TOLD(take(user, 0), DLOCK_OK);
        NODE_ASSERT_TOLD(node_give(user), DLOCK_OK);
    }
    await_held(rig, 0);
}

static void test_a_majority_and_more(void **state)
{
    struct node_rig *rig = begin(state, 5);
    struct dlock_holder holder;

    warm_up(rig, &rig->a);
    warm_up(rig, &rig->b);
    NODE_ASSERT_TOLD(take(&rig->a, 0), DLOCK_OK);
    await_held(rig, 5);
    assert_in_range(node_left_ms(&rig->a), 1, LONGEST_MS - DRIFT_MS);
    NODE_ASSERT_TOLD(dlock_inspect(rig->b.session, "k", &holder, NULL),
                     DLOCK_OK);
    assert_true(holder.held);
    assert_string_equal(holder.owner, dlock_session_owner(rig->a.session));
    NODE_ASSERT_TOLD(take(&rig->b, 0), DLOCK_BUSY);
    assert_int_equal(node_rig_held(rig), 5);
    NODE_ASSERT_TOLD(node_give(&rig->a), DLOCK_OK);
    await_held(rig, 0);
    NODE_ASSERT_TOLD(node_give(&rig->a), DLOCK_LOST);
    NODE_ASSERT_TOLD(dlock_inspect(rig->b.session, "k", &holder, NULL),
                     DLOCK_OK);
    assert_false(holder.held);
}

static void test_reentry(void **state)
{
    struct node_rig *rig = begin(state, 3);
    struct dlock_grant outer;

    assert_int_equal(take(&rig->a, 0), DLOCK_OK);
    outer = rig->a.grant;
    assert_int_equal(take(&rig->a, 0), DLOCK_OK);
    assert_int_equal(rig->a.grant.holds, 2);
    assert_int_equal(node_give(&rig->a), DLOCK_OK);
    assert_int_equal(node_rig_held(rig), 3);
    /* Lost on too many: coming in again is coming in anew. */
    node_rig_ask(rig, 0, "DEL k");
    node_rig_ask(rig, 2, "DEL k");
    assert_int_equal(take(&rig->a, 0), DLOCK_OK);
    assert_int_equal(rig->a.grant.holds, 1);
    assert_int_equal(node_give(&rig->a), DLOCK_OK);
    assert_int_equal(node_rig_held(rig), 0);
    assert_int_equal(dlock_release(rig->a.session, &outer, NULL), DLOCK_LOST);
}

/* The outer hold is on two of three; that one of them does not answer to the re-entry,
 * and the third does, is no loss. */
static void test_reentry_by_another_majority(void **state)
{
    struct node_rig *rig = begin(state, 3);
    struct dlock_terms terms = {.lease_ms = LONGEST_MS, .fenced = true};
    struct dlock_grant outer, inner;

    warm_up(rig, &rig->a);
    node_rig_fail(rig, 2, "eval-acquire", DLOCK_BEFORE, 1);
    assert_int_equal(dlock_try(rig->a.session, "k", &terms, &outer, NULL),
                     DLOCK_OK);
    assert_int_equal(node_rig_held(rig), 2);
    node_rig_fail(rig, 0, "eval-acquire", DLOCK_BEFORE, 1);
    assert_int_equal(dlock_try(rig->a.session, "k", &terms, &inner, NULL),
                     DLOCK_OK);
    assert_int_equal(inner.holds, 2);
    assert_true(inner.token == outer.token);
    assert_int_equal(dlock_release(rig->a.session, &inner, NULL), DLOCK_OK);
    assert_int_equal(take(&rig->b, 0), DLOCK_BUSY);
    assert_int_equal(dlock_release(rig->a.session, &outer, NULL), DLOCK_OK);
    assert_int_equal(node_rig_held(rig), 0);
}

/* One server counts far ahead, and the two others are not told: they could give a
 * lower token to the next one. */
static void test_a_token_that_did_not_spread(void **state)
{
    struct node_rig *rig = begin(state, 3);
    struct dlock_terms terms = {.lease_ms = LONGEST_MS, .fenced = true};
    const uint64_t ahead = UINT64_C(4000000000000000);
    struct dlock_error error = {""};

    warm_up(rig, &rig->a);
    node_rig_ask(rig, 1, "SET {k}:dlock-fence 4000000000000000");
    node_rig_fail(rig, 0, "eval-fence", DLOCK_BEFORE, 1);
    node_rig_fail(rig, 2, "eval-fence", DLOCK_BEFORE, 1);
    assert_int_equal(
        dlock_try(rig->a.session, "k", &terms, &rig->a.grant, &error),
        DLOCK_UNREACHABLE);
    assert_non_null(strstr(error.text, "did not reach enough servers"));
    await_held(rig, 0);
    NODE_ASSERT_TOLD(
        dlock_try(rig->b.session, "k", &terms, &rig->b.grant, NULL), DLOCK_OK);
    assert_true(rig->b.grant.token > ahead);
    NODE_ASSERT_TOLD(node_give(&rig->b), DLOCK_OK);
}

/* Servers that fail ------------------------------------------------------------ */

static void test_minority_down(void **state)
{
    struct node_rig *rig = begin(state, 5);

    node_rig_kill(rig, 0);
    node_rig_kill(rig, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(take(&rig->a, 0), DLOCK_OK);
        assert_int_equal(node_rig_held(rig), 3);
        assert_int_equal(take(&rig->b, 0), DLOCK_BUSY);
        assert_int_equal(node_give(&rig->a), DLOCK_OK);
        assert_int_equal(node_rig_held(rig), 0);
    }
}

static void test_majority_down(void **state)
{
    struct node_rig *rig = begin(state, 5);

    assert_int_equal(take(&rig->a, 0), DLOCK_OK);
    for (unsigned i = 0; i < 3; i++)
        node_rig_kill(rig, i);
    /* Whether those three have let go, nobody can say; and of a release that was sent
     * while a server died, not even whether it arrived. */
    assert_in_range(node_give(&rig->a), DLOCK_UNKNOWN, DLOCK_UNREACHABLE);
    assert_int_equal(node_rig_held(rig), 0);
    assert_int_equal(take(&rig->a, 300), DLOCK_UNREACHABLE);
    assert_int_equal(node_rig_held(rig), 0);
}

/* One that is up has the new lease, the others may have: it is not "no effect". */
static void test_majority_down_at_an_extension(void **state)
{
    struct node_rig *rig = begin(state, 3);

    assert_int_equal(take(&rig->a, 0), DLOCK_OK);
    node_rig_kill(rig, 0);
    node_rig_kill(rig, 1);
    assert_int_equal(dlock_extend(rig->a.session, &rig->a.grant, 900, NULL),
                     DLOCK_UNKNOWN);
    assert_in_range(node_left_ms(&rig->a), 0, 900);
}

/* They cost a moment, and when they wake up, nothing is left on them. */
static void test_minority_hung(void **state)
{
    struct node_rig *rig = begin(state, 5);
    uint64_t began_ms;

    assert_int_equal(take(&rig->a, 0), DLOCK_OK);
    assert_int_equal(node_give(&rig->a), DLOCK_OK);
    node_rig_pause(rig, 1);
    node_rig_pause(rig, 2);
    began_ms = lock_rig_now_ms();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(take(&rig->a, 0), DLOCK_OK);
        assert_int_equal(node_give(&rig->a), DLOCK_OK);
    }
    assert_true(lock_rig_now_ms() - began_ms < LONGEST_MS / 2);
    node_rig_resume(rig, 1);
    node_rig_resume(rig, 2);
    lock_rig_sleep_ms(100);
    assert_int_equal(node_rig_held(rig), 0);
}

/* The machine's clock, some time ahead. */
static uint64_t ahead(void *ctx)
{
    return lock_rig_now_ms() + atomic_load((atomic_uint *)ctx);
}

static void no_dice(void *ctx, void *bytes, size_t len)
{
    (void)ctx;
    memset(bytes, 7, len);
}

/*
 * With the times that are there if none is asked for: the server that hangs
 * comes with a new connection each time, so its age is not known, and nobody
 * needs it.
 */
static void test_minority_hung_by_default(void **state)
{
    enum { OLD_MS = 11000 };
    struct node_rig *rig = begin(state, 3);
    /* The clients go on until the next test. */
    static atomic_uint ahead_ms;
    static const struct dlock_clock clock = {
        .now_ms = ahead, .random = no_dice, .ctx = &ahead_ms};
    uint64_t began_ms;

    rig->longest_lease_ms = 0;
    rig->watchdog_lease_ms = 0;
    rig->clock = &clock;
    node_rig_open(rig, "redlock");
    /* The default lease is above their age. */
    assert_int_equal(node_take(&rig->a, 0, 0), DLOCK_UNREACHABLE);
    atomic_store(&ahead_ms, OLD_MS);
    node_rig_pause(rig, 1);
    began_ms = lock_rig_now_ms();
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(node_take(&rig->a, i % 2 * 500, 0), DLOCK_OK);
        assert_int_equal(node_give(&rig->a), DLOCK_OK);
    }
    assert_in_range(lock_rig_now_ms() - began_ms, 0, OLD_MS / 2);
    node_rig_resume(rig, 1);
}

/* A new session finds one of the servers hung, and asks for all ages. */
static void test_minority_hung_from_the_start(void **state)
{
    struct node_rig *rig = begin(state, 3);
    uint64_t began_ms;

    node_rig_pause(rig, 0);
    node_rig_open(rig, "redlock");
    began_ms = lock_rig_now_ms();
    assert_int_equal(take(&rig->a, 0), DLOCK_OK);
    assert_in_range(lock_rig_now_ms() - began_ms, 0, LONGEST_MS / 10);
    assert_int_equal(node_give(&rig->a), DLOCK_OK);
    node_rig_resume(rig, 0);
}

/* One timeout for all of them together, and a small one. */
static void test_majority_hung(void **state)
{
    struct node_rig *rig = begin(state, 5);
    uint64_t began_ms;

    assert_int_equal(take(&rig->a, 0), DLOCK_OK);
    assert_int_equal(node_give(&rig->a), DLOCK_OK);
    for (unsigned i = 1; i < 4; i++)
        node_rig_pause(rig, i);
    began_ms = lock_rig_now_ms();
    assert_int_equal(take(&rig->a, 0), DLOCK_UNKNOWN);
    assert_in_range(lock_rig_now_ms() - began_ms, LONGEST_MS / 10,
                    3 * LONGEST_MS / 10 - 1);
    for (unsigned i = 1; i < 4; i++)
        node_rig_resume(rig, i);
    lock_rig_sleep_ms(100);
    assert_int_equal(node_rig_held(rig), 0);
    assert_int_equal(take(&rig->a, 0), DLOCK_OK);
}

/* Whoever did not answer may hold it all the same. */
static void test_release_goes_to_all(void **state)
{
    struct node_rig *rig = begin(state, 3);

    /* It hangs before it was ever sent a release, and does not know the script. */
    assert_int_equal(take(&rig->a, 0), DLOCK_OK);
    redis_server_ask(rig->servers[1], "SCRIPT FLUSH", NULL, 0);
    node_rig_pause(rig, 1);
    assert_int_equal(node_give(&rig->a), DLOCK_OK);
    node_rig_resume(rig, 1);
    lock_rig_sleep_ms(100);
    assert_int_equal(node_rig_held(rig), 0);
    /* It voted, and its word did not arrive. */
    node_rig_fail(rig, 1, "eval-acquire", DLOCK_AFTER, 1);
    assert_int_equal(take(&rig->a, 0), DLOCK_OK);
    assert_int_equal(node_rig_held(rig), 3);
    assert_int_equal(node_give(&rig->a), DLOCK_OK);
    assert_int_equal(node_rig_held(rig), 0);
    /* The same for an acquire that came to nothing. */
    node_rig_fail(rig, 0, "eval-acquire", DLOCK_AFTER, 1);
    node_rig_fail(rig, 1, "eval-acquire", DLOCK_AFTER, 1);
    assert_int_not_equal(take(&rig->a, 0), DLOCK_OK);
    lock_rig_sleep_ms(50);
    assert_int_equal(node_rig_held(rig), 0);
}

/* Whichever server is lost, nobody else gets in. */
static void test_loss_of_one_keeps_exclusion(void **state)
{
    struct node_rig *rig = begin(state, 3);

    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(take(&rig->a, 0), DLOCK_OK);
        node_rig_ask(rig, i, "FLUSHALL");
        assert_int_equal(take(&rig->b, 200), DLOCK_TIMEOUT);
        assert_int_equal(node_give(&rig->a), DLOCK_OK);
        assert_int_equal(node_rig_held(rig), 0);
    }
    assert_int_equal(take(&rig->a, 0), DLOCK_OK);
    node_rig_kill(rig, 1);
    assert_int_equal(take(&rig->b, 200), DLOCK_TIMEOUT);
    assert_int_equal(node_give(&rig->a), DLOCK_OK);
    assert_int_equal(take(&rig->b, 200), DLOCK_OK);
}

/* What has two names in the url has one vote; with two, it would outvote all. */
static void test_one_server_by_two_names(void **state)
{
    struct node_rig *rig = begin(state, 2);
    const char *first = redis_server_url(rig->servers[0]);
    struct dlock_error error = {""};

    (void)snprintf(rig->url, sizeof(rig->url), "%s,unix:/.%s,%s", first,
                   first + strlen("unix:"), redis_server_url(rig->servers[1]));
    node_rig_open(rig, "redlock");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            dlock_try(rig->a.session, "k", NULL, &rig->a.grant, &error),
            DLOCK_MISUSE);
        assert_non_null(strstr(error.text, "are one server"));
        assert_int_equal(node_rig_held(rig), 0);
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
