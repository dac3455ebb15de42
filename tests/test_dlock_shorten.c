/*
 * A lease that is made shorter by hand: those that wait for the lock have gone to
 * sleep until its old end, and have to hear of the new one.
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/support/lock_rig.h"

enum { LONG_MS = 60000, SHORT_MS = 400, SOON_MS = 10000, MOMENT_MS = 50 };

/* Holds "k" by session 0, and lets session 1 wait for it in a thread. */
struct shortened {
    struct lock_pair pair;
    pthread_t thread;
    enum dlock_status status;
    uint64_t taken_at_ms;
    int listener; /* to what would wake the one that waits */
};

static void *wait_for_it(void *arg)
{
    struct shortened *test = arg;

    test->status = lock_pair_take(&test->pair, 1, LONG_MS, LONG_MS);
    test->taken_at_ms = lock_rig_now_ms();
    return NULL;
}

static void begin(const char *strategy, bool by_owner, struct shortened *test)
{
    char channel[100];

    test->pair = lock_pair_open(strategy);
    (void)snprintf(channel, sizeof(channel), "{k}:dlock-%s%s",
                   by_owner ? "turn:" : "freed",
                   by_owner ? dlock_session_owner(test->pair.session[1]) : "");
    test->listener = redis_server_listen(rig.server, channel);
    assert_int_equal(lock_pair_take(&test->pair, 0, 0, LONG_MS), DLOCK_OK);
    step_log_reset(&rig.log);
    assert_int_equal(pthread_create(&test->thread, NULL, wait_for_it, test), 0);
    /* The second one after it has subscribed: it sleeps, or is about to. */
    step_log_await(&rig.log, "eval-acquire", 2);
}

static enum dlock_status extend(struct shortened *test, unsigned lease_ms)
{
    return dlock_extend(test->pair.session[0], &test->pair.grant[0], lease_ms,
                        NULL);
}

static void shorten(const char *strategy, bool by_owner)
{
    struct shortened test = {.status = DLOCK_MISUSE};
    uint64_t shortened_at_ms;

    begin(strategy, by_owner, &test);
    assert_int_equal(extend(&test, 2 * LONG_MS), DLOCK_OK);
    assert_false(redis_server_heard(test.listener, MOMENT_MS));
    shortened_at_ms = lock_rig_now_ms();
    assert_int_equal(extend(&test, SHORT_MS), DLOCK_OK);
    assert_true(redis_server_heard(test.listener, SOON_MS));
    assert_int_equal(pthread_join(test.thread, NULL), 0);
    assert_int_equal(test.status, DLOCK_OK);
    assert_in_range(test.taken_at_ms - shortened_at_ms, SHORT_MS - 1, SOON_MS);
    assert_int_equal(lock_pair_give(&test.pair, 0), DLOCK_LOST);
    assert_int_equal(lock_pair_give(&test.pair, 1), DLOCK_OK);
    (void)close(test.listener);
    lock_pair_close(&test.pair);
}

static void test_redisson(NO_STATE)
{
    shorten("redisson", false);
}

static void test_fenced(NO_STATE)
{
    shorten("fenced", true);
}

static void test_fair(NO_STATE)
{
    shorten("fair", true);
}

struct waiter {
    struct dlock_session *session;
    pthread_t thread;
    enum dlock_status status;
};

static void *wait_and_give(void *arg)
{
    struct waiter *waiter = arg;
    struct dlock_grant grant;

    waiter->status =
        lock_rig_take(waiter->session, "k", LONG_MS, LONG_MS, &grant);
    if (waiter->status == DLOCK_OK)
        waiter->status = dlock_release(waiter->session, &grant, NULL);
    return NULL;
}

/* The first may leave before the new end: the others must not sleep beyond it. */
static void test_all_waiters_of_a_client_are_told(NO_STATE)
{
    enum { WAITERS_N = 3, TRIES = 2 };
    struct lock_pair pair = lock_pair_open("redisson");
    struct waiter waiters[WAITERS_N];

    assert_int_equal(lock_pair_take(&pair, 0, 0, LONG_MS), DLOCK_OK);
    step_log_reset(&rig.log);
    for (unsigned i = 0; i < WAITERS_N; i++) {
        waiters[i].session = lock_rig_session(pair.client[1]);
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, wait_and_give,
                                        &waiters[i]),
                         0);
    }
    /* Each tries once more when its subscription stands. */
    step_log_await(&rig.log, "eval-acquire", WAITERS_N * TRIES);
    step_log_reset(&rig.log);
    assert_int_equal(lock_pair_extend(&pair, 0, LONG_MS / 2), DLOCK_OK);
    step_log_await(&rig.log, "eval-acquire", WAITERS_N);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    for (unsigned i = 0; i < WAITERS_N; i++) {
        assert_int_equal(pthread_join(waiters[i].thread, NULL), 0);
        assert_int_equal(waiters[i].status, DLOCK_OK);
    }
}

/* What a second hold needs stays, so there is no earlier end to tell of. */
static void test_an_inner_hold_tells_nobody(NO_STATE)
{
    struct shortened test = {.status = DLOCK_MISUSE};
    struct dlock_grant inner;

    begin("fenced", true, &test);
    assert_int_equal(
        lock_rig_take(test.pair.session[0], "k", 0, LONG_MS, &inner), DLOCK_OK);
    assert_int_equal(extend(&test, SHORT_MS), DLOCK_OK);
    assert_false(redis_server_heard(test.listener, MOMENT_MS));
    assert_int_equal(dlock_release(test.pair.session[0], &inner, NULL),
                     DLOCK_OK);
    assert_int_equal(lock_pair_give(&test.pair, 0), DLOCK_OK);
    assert_int_equal(pthread_join(test.thread, NULL), 0);
    assert_int_equal(test.status, DLOCK_OK);
    (void)close(test.listener);
    lock_pair_close(&test.pair);
}

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_redisson),
    LOCK_TEST(test_fenced),
    LOCK_TEST(test_fair),
    LOCK_TEST(test_all_waiters_of_a_client_are_told),
    LOCK_TEST(test_an_inner_hold_tells_nobody),
};
LOCK_RIG_MAIN(tests)
