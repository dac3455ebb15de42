/*
 * Renewal: it keeps a living holder's lock, and ends when it has to. What a
 * holder is told of a loss is in test_dlock_loss.c. Sleeps are used where time
 * itself is what is tested.
 */
#include <stdatomic.h>
#include <stdio.h>

#include "tests/support/lock_rig.h"

/* The watchdog's lease is shorter than the outer one and must leave it be. */
static void test_renewal_keeps_the_longer_lease(NO_STATE)
{
    struct dlock_grant outer, inner;
    struct lock_pair pair;

    rig.watchdog_lease_ms = LOCK_RIG_LEASE_MS;
    pair = lock_pair_open("redisson");
    assert_int_equal(lock_hold_take(&pair, "k", 60000, &outer), 0);
    assert_int_equal(lock_hold_take(&pair, "k", 0, &inner), 0);
    step_log_await(&rig.log, "eval-renew", 2);
    assert_in_range(lock_rig_ask("PTTL k"), 50000, 60000);
}

static void test_watchdog_renews(NO_STATE)
{
    static const char *const names[] = {"redisson", "reentrant", "fair"};

    rig.watchdog_lease_ms = LOCK_RIG_LEASE_MS;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct lock_pair pair = lock_pair_held(names[i], 0);

        assert_int_equal(lock_pair_take(&pair, 1, LOCK_RIG_LEASE_MS + 500, 0),
                         DLOCK_TIMEOUT);
        assert_in_range(lock_pair_left_ms(&pair, 0), 1, LOCK_RIG_LEASE_MS);
        assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
        lock_pair_close(&pair);
    }
}

/* The answer was long on its way: that is time of the lease. */
static void test_a_lease_counts_from_the_sending(NO_STATE)
{
    enum { LEASE_MS = 3000, TAKEN_MS = 500 };
    struct lock_pair pair;
    uint64_t sent_ms;

    rig.watchdog_lease_ms = LEASE_MS;
    pair = lock_pair_open("redisson");
    step_log_shut(&rig.log, "eval-renew", DLOCK_AFTER);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), 0);
    step_log_await_gate(&rig.log, 1);
    sent_ms = lock_rig_now_ms(); /* or a little before */
    lock_rig_sleep_ms(TAKEN_MS);
    step_log_open(&rig.log);
    /* More than was left of the lease before: it counts. */
    while (lock_pair_left_ms(&pair, 0) < LEASE_MS - LEASE_MS / 3) {
        assert_true(lock_rig_now_ms() < sent_ms + LEASE_MS);
        lock_rig_sleep_ms(1);
    }
    assert_true(lock_rig_now_ms() + lock_pair_left_ms(&pair, 0) <=
                sent_ms + LEASE_MS + 20);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
}

/* All due leases go in one round trip. */
static void test_renewals_are_batched(NO_STATE)
{
    struct dlock_grant grant;
    struct lock_pair pair;
    char name[24];

    rig.watchdog_lease_ms = LOCK_RIG_LEASE_MS;
    pair = lock_pair_open("redisson");
    for (int i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof(name), "many:%d", i);
        assert_int_equal(lock_hold_take(&pair, name, 0, &grant), 0);
    }
    /* More than a batch: both of them come in time. */
    step_log_await(&rig.log, "eval-renew", 300);
    for (int i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof(name), "many:%d", i);
        assert_int_equal(lock_rig_take(pair.session[1], name, 0, 0, &grant),
                         DLOCK_BUSY);
    }
}

struct release_call {
    struct dlock_session *session;
    const struct dlock_grant *grant;
    atomic_bool done;
    enum dlock_status status;
};

static void *call_release(void *arg)
{
    struct release_call *call = arg;

    call->status = dlock_release(call->session, call->grant, NULL);
    atomic_store(&call->done, true);
    return NULL;
}

/* A renewal is on its way: release must wait for it, and none may follow. */
static void test_release_waits_for_the_renewal(NO_STATE)
{
    struct release_call call = {.status = DLOCK_MISUSE};
    struct lock_pair pair;
    pthread_t thread;

    rig.watchdog_lease_ms = 90;
    pair = lock_pair_open("redisson");
    step_log_shut(&rig.log, "eval-renew", DLOCK_BEFORE);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), 0);
    step_log_await_gate(&rig.log, 1);
    call.session = pair.session[0];
    call.grant = &pair.grant[0];
    assert_int_equal(pthread_create(&thread, NULL, call_release, &call), 0);
    lock_rig_sleep_ms(20);
    assert_false(atomic_load(&call.done));
    assert_int_equal(step_log_count(&rig.log, "eval-release"), 0);
    step_log_open(&rig.log);
    assert_int_equal(pthread_join(thread, NULL), 0);
    step_log_reset(&rig.log);
    lock_rig_sleep_ms(120);
    assert_int_equal(step_log_count(&rig.log, "eval-renew"), 0);
    assert_false(lock_rig_is_held());
}

/* The hook wants a mutex that the holder has while it gives back. */
static struct hook_mutex {
    pthread_mutex_t mutex;
    atomic_bool is_wanted;
} hook = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void lock_in_hook(void *ctx, const char *name, const char *owner,
                         enum dlock_loss reason)
{
    (void)ctx;
    (void)name;
    (void)owner;
    (void)reason;
    atomic_store(&hook.is_wanted, true);
    (void)pthread_mutex_lock(&hook.mutex);
    (void)pthread_mutex_unlock(&hook.mutex);
}

static void *extend_and_release(void *arg)
{
    struct release_call *call = arg;
    struct dlock_grant grant = *call->grant;

    (void)dlock_extend(call->session, &grant, 5000, NULL);
    return call_release(arg);
}

/* Ends both, or lets the hook go after a time: a test does not hang. */
static void test_release_does_not_wait_for_the_hook(NO_STATE)
{
    struct release_call call = {.status = DLOCK_MISUSE};
    uint64_t until_ms;
    struct lock_pair pair;
    pthread_t thread;
    bool done;

    rig.watchdog_lease_ms = 90;
    rig.on_lost = lock_in_hook;
    pair = lock_pair_held("redisson", 0);
    assert_int_equal(pthread_mutex_lock(&hook.mutex), 0);
    lock_rig_tell("DEL k");
    until_ms = lock_rig_now_ms() + LOCK_RIG_PROMPT_MS;
    while (!atomic_load(&hook.is_wanted) && lock_rig_now_ms() < until_ms)
        lock_rig_sleep_ms(1);
    assert_true(atomic_load(&hook.is_wanted));
    call.session = pair.session[0];
    call.grant = &pair.grant[0];
    assert_int_equal(pthread_create(&thread, NULL, extend_and_release, &call),
                     0);
    until_ms = lock_rig_now_ms() + LOCK_RIG_PROMPT_MS;
    while (!atomic_load(&call.done) && lock_rig_now_ms() < until_ms)
        lock_rig_sleep_ms(1);
    done = atomic_load(&call.done);
    assert_int_equal(pthread_mutex_unlock(&hook.mutex), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(done);
    assert_int_equal(call.status, DLOCK_LOST);
}

/* Even if the release gets through to nobody, renewal has ended. */
static void test_failed_release_ends_renewal(NO_STATE)
{
    struct lock_pair pair;

    rig.watchdog_lease_ms = 90;
    rig.command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    pair = lock_pair_held("redisson", 0);
    step_log_fail(&rig.log, "eval-release", DLOCK_BEFORE, STEP_LOG_ALWAYS);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_UNREACHABLE);
    assert_int_equal(lock_pair_take(&pair, 1, 1000, 0), DLOCK_OK);
}

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_renewal_keeps_the_longer_lease),
    LOCK_TEST(test_watchdog_renews),
    LOCK_TEST(test_a_lease_counts_from_the_sending),
    LOCK_TEST(test_renewals_are_batched),
    LOCK_TEST(test_release_waits_for_the_renewal),
    LOCK_TEST(test_release_does_not_wait_for_the_hook),
    LOCK_TEST(test_failed_release_ends_renewal),
};
LOCK_RIG_MAIN(tests)
