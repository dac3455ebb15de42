/*
 * A lock on more than half of several servers: it goes on without the others,
 * excludes without them, and what it grants is not over already.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/node_rig.h"

enum {
    LONGEST_MS = 1900,
    OF_AGE_MS = 4100, /* up for so long, a server has a vote */
    DRIFT_MS = LONGEST_MS / 100 + 2,
};

/* N servers that are old enough. */
static struct node_rig *begin(void **state, unsigned n)
{
    struct node_rig *rig = *state;

    node_rig_fresh(rig, n);
    rig->longest_lease_ms = LONGEST_MS;
    rig->watchdog_lease_ms = LONGEST_MS;
    node_rig_age(rig, OF_AGE_MS);
    return rig;
}

static enum dlock_status take(const struct node_user *user, unsigned wait_ms,
                              struct dlock_grant *grant)
{
    return lock_rig_take(user->session, "k", wait_ms, LONGEST_MS, grant);
}

static bool in_doubt(enum dlock_status status)
{
    return status == DLOCK_UNKNOWN || status == DLOCK_UNREACHABLE;
}

/*
 * What the servers say, when enough of them have said something. On a machine
 * with much to do, some are not given the processor in the time of a try, and
 * that is a matter of doubt: asked once more, they give an answer.
 */
#define ASSERT_TOLD(call, expected)                                            \
    do {                                                                       \
        uint64_t until_ms = lock_rig_now_ms() + 10000;                         \
        enum dlock_status told_status;                                         \
                                                                               \
        do                                                                     \
            told_status = (call);                                              \
        while (in_doubt(told_status) && lock_rig_now_ms() < until_ms);         \
        assert_int_equal(told_status, expected);                               \
    } while (0)

/* Servers that were not waited for do what they were told all the same. */
static void await_held(const struct node_rig *rig, unsigned n)
{
    uint64_t until_ms = lock_rig_now_ms() + 1000;

    while (node_rig_held(rig) != n && lock_rig_now_ms() < until_ms)
        lock_rig_sleep_ms(1);
    assert_int_equal(node_rig_held(rig), n);
}

/* Connections, scripts and ages: what may take long for the first time only. */
static void warm_up(const struct node_rig *rig, const struct node_user *user)
{
    struct dlock_grant grant;

    for (unsigned i = 0; i < 3; i++) {
        ASSERT_TOLD(take(user, 0, &grant), DLOCK_OK);
        ASSERT_TOLD(dlock_release(user->session, &grant, NULL), DLOCK_OK);
    }
    await_held(rig, 0);
}

static void test_a_majority_and_more(void **state)
{
    struct node_rig *rig = begin(state, 5);
    struct node_user a = node_rig_user(rig, "redlock");
    struct node_user b = node_rig_user(rig, "redlock");
    struct dlock_grant grant, other;
    struct dlock_holder holder;

    warm_up(rig, &a);
    warm_up(rig, &b);
    ASSERT_TOLD(take(&a, 0, &grant), DLOCK_OK);
    await_held(rig, 5);
    assert_in_range(dlock_remaining_ms(a.session, &grant), 1,
                    LONGEST_MS - DRIFT_MS);
    ASSERT_TOLD(dlock_inspect(b.session, "k", &holder, NULL), DLOCK_OK);
    assert_true(holder.held);
    assert_string_equal(holder.owner, dlock_session_owner(a.session));
    ASSERT_TOLD(take(&b, 0, &other), DLOCK_BUSY);
    assert_int_equal(node_rig_held(rig), 5);
    ASSERT_TOLD(dlock_release(a.session, &grant, NULL), DLOCK_OK);
    await_held(rig, 0);
    ASSERT_TOLD(dlock_release(a.session, &grant, NULL), DLOCK_LOST);
    ASSERT_TOLD(dlock_inspect(b.session, "k", &holder, NULL), DLOCK_OK);
    assert_false(holder.held);
    node_user_close(&a);
    node_user_close(&b);
}

static void test_reentry(void **state)
{
    struct node_rig *rig = begin(state, 3);
    struct node_user a = node_rig_user(rig, "redlock");
    struct dlock_grant outer, inner;

    assert_int_equal(take(&a, 0, &outer), DLOCK_OK);
    assert_int_equal(take(&a, 0, &inner), DLOCK_OK);
    assert_int_equal(inner.holds, 2);
    assert_int_equal(dlock_release(a.session, &inner, NULL), DLOCK_OK);
    assert_int_equal(node_rig_held(rig), 3);
    /* Lost on too many: coming in again is coming in anew. */
    redis_server_ask(rig->servers[0], "DEL k", NULL, 0);
    redis_server_ask(rig->servers[2], "DEL k", NULL, 0);
    assert_int_equal(take(&a, 0, &inner), DLOCK_OK);
    assert_int_equal(inner.holds, 1);
    assert_int_equal(dlock_release(a.session, &inner, NULL), DLOCK_OK);
    assert_int_equal(node_rig_held(rig), 0);
    assert_int_equal(dlock_release(a.session, &outer, NULL), DLOCK_LOST);
    node_user_close(&a);
}

/* Servers that fail ------------------------------------------------------------ */

static void test_minority_down(void **state)
{
    struct node_rig *rig = begin(state, 5);
    struct node_user a = node_rig_user(rig, "redlock");
    struct node_user b = node_rig_user(rig, "redlock");
    struct dlock_grant grant, other;

    node_rig_kill(rig, 0);
    node_rig_kill(rig, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(take(&a, 0, &grant), DLOCK_OK);
        assert_int_equal(node_rig_held(rig), 3);
        assert_int_equal(take(&b, 0, &other), DLOCK_BUSY);
        assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_OK);
        assert_int_equal(node_rig_held(rig), 0);
    }
    node_user_close(&a);
    node_user_close(&b);
}

static void test_majority_down(void **state)
{
    struct node_rig *rig = begin(state, 5);
    struct node_user a = node_rig_user(rig, "redlock");
    struct dlock_grant grant;

    assert_int_equal(take(&a, 0, &grant), DLOCK_OK);
    for (unsigned i = 0; i < 3; i++)
        node_rig_kill(rig, i);
    /* Whether those three have let go, nobody can say. */
    assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_UNREACHABLE);
    assert_int_equal(node_rig_held(rig), 0);
    assert_int_equal(take(&a, 300, &grant), DLOCK_UNREACHABLE);
    assert_int_equal(node_rig_held(rig), 0);
    node_user_close(&a);
}

/* One that is up has the new lease, the others may have: it is not "no effect". */
static void test_majority_down_at_an_extension(void **state)
{
    struct node_rig *rig = begin(state, 3);
    struct node_user a = node_rig_user(rig, "redlock");
    struct dlock_grant grant;

    assert_int_equal(take(&a, 0, &grant), DLOCK_OK);
    node_rig_kill(rig, 0);
    node_rig_kill(rig, 1);
    assert_int_equal(dlock_extend(a.session, &grant, 900, NULL), DLOCK_UNKNOWN);
    assert_in_range(dlock_remaining_ms(a.session, &grant), 0, 900);
    node_user_close(&a);
}

/* They cost a moment, and when they wake up, nothing is left on them. */
static void test_minority_hung(void **state)
{
    struct node_rig *rig = begin(state, 5);
    struct node_user a = node_rig_user(rig, "redlock");
    struct dlock_grant grant;
    uint64_t began_ms;

    assert_int_equal(take(&a, 0, &grant), DLOCK_OK);
    assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_OK);
    node_rig_pause(rig, 1);
    node_rig_pause(rig, 2);
    began_ms = lock_rig_now_ms();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(take(&a, 0, &grant), DLOCK_OK);
        assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_OK);
    }
    assert_true(lock_rig_now_ms() - began_ms < 1000);
    node_rig_resume(rig, 1);
    node_rig_resume(rig, 2);
    lock_rig_sleep_ms(100);
    assert_int_equal(node_rig_held(rig), 0);
    node_user_close(&a);
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
    /* Where a test fails, its client goes on. */
    static atomic_uint ahead_ms;
    static const struct dlock_clock clock = {
        .now_ms = ahead, .random = no_dice, .ctx = &ahead_ms};
    struct dlock_grant grant;
    struct node_user a;
    uint64_t began_ms;

    rig->longest_lease_ms = 0;
    rig->watchdog_lease_ms = 0;
    rig->clock = &clock;
    a = node_rig_user(rig, "redlock");
    /* The default lease is above their age. */
    assert_int_equal(lock_rig_take(a.session, "k", 0, 0, &grant),
                     DLOCK_UNREACHABLE);
    atomic_store(&ahead_ms, OLD_MS);
    node_rig_pause(rig, 1);
    began_ms = lock_rig_now_ms();
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(lock_rig_take(a.session, "k", i % 2 * 500, 0, &grant),
                         DLOCK_OK);
        assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_OK);
    }
    assert_in_range(lock_rig_now_ms() - began_ms, 0, 1000);
    node_rig_resume(rig, 1);
    node_user_close(&a);
}

/* A new session finds one of the servers hung, and asks for all ages. */
static void test_minority_hung_from_the_start(void **state)
{
    struct node_rig *rig = begin(state, 3);
    struct dlock_grant grant;
    struct node_user a;
    uint64_t began_ms;

    node_rig_pause(rig, 0);
    a = node_rig_user(rig, "redlock");
    began_ms = lock_rig_now_ms();
    assert_int_equal(take(&a, 0, &grant), DLOCK_OK);
    assert_in_range(lock_rig_now_ms() - began_ms, 0, LONGEST_MS / 10);
    assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_OK);
    node_rig_resume(rig, 0);
    node_user_close(&a);
}

/* One timeout for all of them together, and a small one. */
static void test_majority_hung(void **state)
{
    struct node_rig *rig = begin(state, 5);
    struct node_user a = node_rig_user(rig, "redlock");
    struct dlock_grant grant;
    uint64_t began_ms;

    assert_int_equal(take(&a, 0, &grant), DLOCK_OK);
    assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_OK);
    for (unsigned i = 1; i < 4; i++)
        node_rig_pause(rig, i);
    began_ms = lock_rig_now_ms();
    assert_int_equal(take(&a, 0, &grant), DLOCK_UNKNOWN);
    assert_in_range(lock_rig_now_ms() - began_ms, LONGEST_MS / 10,
                    2 * LONGEST_MS / 10);
    for (unsigned i = 1; i < 4; i++)
        node_rig_resume(rig, i);
    lock_rig_sleep_ms(100);
    assert_int_equal(node_rig_held(rig), 0);
    assert_int_equal(take(&a, 0, &grant), DLOCK_OK);
    node_user_close(&a);
}

/* Whoever did not answer may hold it all the same. */
static void test_release_goes_to_all(void **state)
{
    struct node_rig *rig = begin(state, 3);
    struct node_user a = node_rig_user(rig, "redlock");
    struct dlock_grant grant;

    /* It hangs before it was ever sent a release. */
    assert_int_equal(take(&a, 0, &grant), DLOCK_OK);
    node_rig_pause(rig, 1);
    assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_OK);
    node_rig_resume(rig, 1);
    lock_rig_sleep_ms(100);
    assert_int_equal(node_rig_held(rig), 0);
    /* It voted, and its word did not arrive. */
    node_rig_fail(rig, 1, "eval-acquire", DLOCK_AFTER, 1);
    assert_int_equal(take(&a, 0, &grant), DLOCK_OK);
    assert_int_equal(node_rig_held(rig), 3);
    assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_OK);
    assert_int_equal(node_rig_held(rig), 0);
    /* The same for an acquire that came to nothing. */
    node_rig_fail(rig, 0, "eval-acquire", DLOCK_AFTER, 1);
    node_rig_fail(rig, 1, "eval-acquire", DLOCK_AFTER, 1);
    assert_int_not_equal(take(&a, 0, &grant), DLOCK_OK);
    lock_rig_sleep_ms(50);
    assert_int_equal(node_rig_held(rig), 0);
    node_user_close(&a);
}

/* Whichever server is lost, nobody else gets in. */
static void test_loss_of_one_keeps_exclusion(void **state)
{
    struct node_rig *rig = begin(state, 3);
    struct node_user a = node_rig_user(rig, "redlock");
    struct node_user b = node_rig_user(rig, "redlock");
    struct dlock_grant grant, other;

    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(take(&a, 0, &grant), DLOCK_OK);
        redis_server_ask(rig->servers[i], "FLUSHALL", NULL, 0);
        assert_int_equal(take(&b, 200, &other), DLOCK_TIMEOUT);
        assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_OK);
        assert_int_equal(node_rig_held(rig), 0);
    }
    assert_int_equal(take(&a, 0, &grant), DLOCK_OK);
    node_rig_kill(rig, 1);
    assert_int_equal(take(&b, 200, &other), DLOCK_TIMEOUT);
    assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_OK);
    assert_int_equal(take(&b, 200, &other), DLOCK_OK);
    node_user_close(&a);
    node_user_close(&b);
}

/* Time --------------------------------------------------------------------------- */

static void nap(void *ctx)
{
    lock_rig_sleep_ms(*(unsigned *)ctx);
}

static void test_validity_is_honest(void **state)
{
    struct node_rig *rig = begin(state, 3);
    struct node_user a = node_rig_user(rig, "redlock");
    struct dlock_grant grant;
    unsigned nap_ms = 300;

    assert_int_equal(take(&a, 0, &grant), DLOCK_OK);
    assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_OK);
    node_rig_call(rig, 0, "eval-acquire", DLOCK_AFTER, nap, &nap_ms);
    assert_int_equal(take(&a, 0, &grant), DLOCK_OK);
    assert_in_range(dlock_remaining_ms(a.session, &grant), 500,
                    LONGEST_MS - DRIFT_MS - nap_ms);
    assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_OK);
    node_rig_call(rig, 2, "eval-acquire", DLOCK_BEFORE, nap, &nap_ms);
    assert_int_equal(lock_rig_take(a.session, "k", 0, 250, &grant), DLOCK_LOST);
    assert_int_equal(node_rig_held(rig), 0);
    node_user_close(&a);
}

/* The lease does not begin with the first of many tries. */
static void test_the_clock_starts_with_the_try(void **state)
{
    struct node_rig *rig = begin(state, 3);
    struct node_user a = node_rig_user(rig, "redlock");
    struct node_user b = node_rig_user(rig, "redlock");
    struct dlock_grant grant, other;

    assert_int_equal(take(&a, 0, &grant), DLOCK_OK);
    assert_int_equal(lock_rig_take(b.session, "k", 9000, 1000, &other),
                     DLOCK_OK);
    /* With the first, it would be over by now. */
    assert_in_range(dlock_remaining_ms(b.session, &other), 1, 1000 - 12);
    assert_int_equal(dlock_remaining_ms(a.session, &grant), 0);
    assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_LOST);
    /* One may still have kept a's lease when b had enough. */
    assert_in_range(node_rig_held(rig), 2, 3);
    node_user_close(&a);
    node_user_close(&b);
}

static void test_restarted_servers_have_no_vote(void **state)
{
    struct node_rig *rig = begin(state, 3);
    struct node_user a = node_rig_user(rig, "redlock");
    struct dlock_terms terms = {.lease_ms = LONGEST_MS};
    struct dlock_error error = {""};
    enum dlock_status status;
    struct dlock_grant grant;
    uint64_t give_up_ms;

    assert_int_equal(take(&a, 0, &grant), DLOCK_OK);
    assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_OK);
    node_rig_restart(rig, 0);
    assert_int_equal(take(&a, 0, &grant), DLOCK_OK);
    assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_OK);
    node_rig_restart(rig, 1);
    give_up_ms = lock_rig_now_ms() + OF_AGE_MS + OF_AGE_MS;
    assert_int_equal(dlock_acquire(a.session, "k", &terms, &grant, &error),
                     DLOCK_UNREACHABLE);
    assert_non_null(strstr(error.text, "longest lease"));
    assert_int_equal(node_rig_held(rig), 0);
    do {
        lock_rig_sleep_ms(50);
        status = dlock_acquire(a.session, "k", &terms, &grant, &error);
    } while (status == DLOCK_UNREACHABLE && lock_rig_now_ms() < give_up_ms);
    assert_int_equal(status, DLOCK_OK);
    assert_in_range(lock_rig_now_ms() - rig->started_at_ms[0], LONGEST_MS,
                    OF_AGE_MS + 500);
    node_user_close(&a);
}

/* Why: a holds two of three. One of these forgets, and would let b in. */
static void test_nobody_votes_twice(void **state)
{
    struct node_rig *rig = begin(state, 3);
    struct node_user a = node_rig_user(rig, "redlock");
    struct node_user b = node_rig_user(rig, "redlock");
    struct dlock_grant grant, other;

    node_rig_fail(rig, 2, "eval-acquire", DLOCK_BEFORE, UINT_MAX);
    ASSERT_TOLD(take(&a, 0, &grant), DLOCK_OK);
    node_rig_mend(rig);
    node_rig_restart(rig, 1);
    ASSERT_TOLD(take(&b, 5000, &other), DLOCK_OK);
    assert_int_equal(dlock_remaining_ms(a.session, &grant), 0);
    node_user_close(&a);
    node_user_close(&b);
}

static void test_leases_above_the_longest(void **state)
{
    struct node_rig *rig = begin(state, 3);
    struct dlock_options options = {.strategy = "redlock",
                                    .url = rig->url,
                                    .longest_lease_ms = 1000,
                                    .watchdog_lease_ms = 2000};
    struct node_user a = node_rig_user(rig, "redlock");
    struct dlock *client = NULL;
    struct dlock_grant grant;

    assert_int_equal(lock_rig_take(a.session, "k", 0, LONGEST_MS + 1, &grant),
                     DLOCK_MISUSE);
    assert_int_equal(take(&a, 0, &grant), DLOCK_OK);
    assert_int_equal(dlock_extend(a.session, &grant, LONGEST_MS + 1, NULL),
                     DLOCK_MISUSE);
    assert_int_equal(dlock_extend(a.session, &grant, 1000, NULL), DLOCK_OK);
    assert_in_range(dlock_remaining_ms(a.session, &grant), 100, 1000 - 12);
    assert_int_equal(dlock_open(&options, &client, NULL), DLOCK_MISUSE);
    node_user_close(&a);
}

/* What has two names in the url has one vote; with two, it would outvote all. */
static void test_one_server_by_two_names(void **state)
{
    struct node_rig *rig = begin(state, 2);
    const char *first = redis_server_url(rig->servers[0]);
    struct dlock_error error = {""};
    struct dlock_grant grant;
    struct node_user a;

    (void)snprintf(rig->url, sizeof(rig->url), "%s,unix:/.%s,%s", first,
                   first + strlen("unix:"), redis_server_url(rig->servers[1]));
    a = node_rig_user(rig, "redlock");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dlock_try(a.session, "k", NULL, &grant, &error),
                         DLOCK_MISUSE);
        assert_non_null(strstr(error.text, "are one server"));
        assert_int_equal(node_rig_held(rig), 0);
    }
    node_user_close(&a);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_majority_and_more),
        TEST(test_reentry),
        TEST(test_minority_down),
        TEST(test_majority_down),
        TEST(test_majority_down_at_an_extension),
        TEST(test_minority_hung),
        TEST(test_minority_hung_by_default),
        TEST(test_minority_hung_from_the_start),
        TEST(test_majority_hung),
        TEST(test_release_goes_to_all),
        TEST(test_loss_of_one_keeps_exclusion),
        TEST(test_validity_is_honest),
        TEST(test_the_clock_starts_with_the_try),
        TEST(test_restarted_servers_have_no_vote),
        TEST(test_nobody_votes_twice),
        TEST(test_leases_above_the_longest),
        TEST(test_one_server_by_two_names),
    };

    return cmocka_run_group_tests(tests, node_rig_setup, node_rig_teardown);
}
