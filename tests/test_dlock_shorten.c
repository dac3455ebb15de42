/*
 * A lease that is made shorter by hand: those that wait for the lock have gone to
 * sleep until its old end, and have to hear of the new one.
 */
#include <stdio.h>
#include <unistd.h>

#include "tests/support/lock_waiter.h"

enum { LONG_MS = 60000, SHORT_MS = 400, SOON_MS = 10000, MOMENT_MS = 50 };

static struct lock_pair pair;
static struct lock_waiter waiter;
static int listener; /* to what would wake the one that waits */

/* The first of the pair holds "k", and the second waits for it, in a thread. */
static void begin(const char *strategy, bool by_owner)
{
    char channel[100];

    pair = lock_pair_held(strategy, LONG_MS);
    waiter = (struct lock_waiter){
        .session = pair.session[1], .wait_ms = LONG_MS, .lease_ms = LONG_MS};
    (void)snprintf(channel, sizeof(channel), "{k}:dlock-%s%s",
                   by_owner ? "turn:" : "freed",
                   by_owner ? dlock_session_owner(pair.session[1]) : "");
    listener = redis_server_listen(rig.server, channel);
    step_log_reset(&rig.log);
    lock_waiter_start(&waiter);
    /* The second one after it has subscribed: it sleeps, or is about to. */
    step_log_await(&rig.log, "eval-acquire", 2);
}

/* It gets the lock, and gives it back. */
static void end(void)
{
    lock_waiter_join(&waiter);
    assert_ok(waiter.status);
    assert_false(lock_rig_is_held());
    (void)close(listener);
}

static void shorten(const char *strategy, bool by_owner)
{
    uint64_t shortened_at_ms;

    begin(strategy, by_owner);
    assert_ok(lock_pair_extend(&pair, 0, 2 * LONG_MS));
    assert_false(redis_server_heard(listener, MOMENT_MS));
    shortened_at_ms = lock_rig_now_ms();
    assert_ok(lock_pair_extend(&pair, 0, SHORT_MS));
    assert_true(redis_server_heard(listener, SOON_MS));
    end();
    assert_in_range(waiter.done_at_ms - shortened_at_ms, SHORT_MS - 1, SOON_MS);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_LOST);
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

/* The first may leave before the new end: the others must not sleep beyond it. */
static void test_all_waiters_of_a_client_are_told(NO_STATE)
{
    enum { WAITERS_N = 3, TRIES = 2 };
    struct lock_waiter waiters[WAITERS_N];

    pair = lock_pair_held("redisson", LONG_MS);
    step_log_reset(&rig.log);
    for (unsigned i = 0; i < WAITERS_N; i++) {
        waiters[i] = (struct lock_waiter){
            .session = lock_rig_session(pair.client[1]), .wait_ms = LONG_MS};
        lock_waiter_start(&waiters[i]);
    }
    /* Each tries once more when its subscription stands. */
    step_log_await(&rig.log, "eval-acquire", WAITERS_N * TRIES);
    step_log_reset(&rig.log);
    assert_ok(lock_pair_extend(&pair, 0, LONG_MS / 2));
    step_log_await(&rig.log, "eval-acquire", WAITERS_N);
    assert_ok(lock_pair_give(&pair, 0));
    for (unsigned i = 0; i < WAITERS_N; i++) {
        lock_waiter_join(&waiters[i]);
        assert_ok(waiters[i].status);
    }
}

/* What a second hold needs stays, so there is no earlier end to tell of. */
static void test_an_inner_hold_tells_nobody(NO_STATE)
{
    struct dlock_grant inner;

    begin("fenced", true);
    assert_ok(lock_hold_take(&pair, "k", LONG_MS, &inner));
    assert_ok(lock_pair_extend(&pair, 0, SHORT_MS));
    assert_false(redis_server_heard(listener, MOMENT_MS));
    assert_ok(lock_hold_give(&pair, &inner));
    assert_ok(lock_pair_give(&pair, 0));
    end();
}

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_redisson),
    LOCK_TEST(test_fenced),
    LOCK_TEST(test_fair),
    LOCK_TEST(test_all_waiters_of_a_client_are_told),
    LOCK_TEST(test_an_inner_hold_tells_nobody),
};
LOCK_RIG_MAIN(tests)
