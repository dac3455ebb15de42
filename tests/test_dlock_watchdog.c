/*
 * Renewal: it keeps a living holder's lock, and ends when it has to. What a
 * holder is told of a loss is in test_dlock_loss.c. Sleeps are used where time
 * itself is what is tested.
 */
#include <stdatomic.h>
#include <stdio.h>

#include "tests/support/lock_rig.h"
#include "tests/support/unit_test.h"

/* The watchdog's lease is shorter than the outer one and must leave it be. */
static void test_renewal_keeps_the_longer_lease(void **state)
{
    struct lock_rig *rig = *state;
    struct dlock_grant outer, inner;
    struct lock_pair pair;

    rig->watchdog_lease_ms = LOCK_RIG_LEASE_MS;
    pair = lock_pair_open(rig, "redisson");
    assert_int_equal(lock_hold_take(&pair, "k", 60000, &outer), 0);
    assert_int_equal(lock_hold_take(&pair, "k", 0, &inner), 0);
    step_log_await(&rig->log, "eval-renew", 2);
    assert_in_range(redis_server_number(rig->server, "PTTL k"), 50000, 60000);
    lock_pair_close(&pair);
}

static void test_watchdog_renews(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair;

    rig->watchdog_lease_ms = LOCK_RIG_LEASE_MS;
    pair = lock_pair_held(rig, "redisson", 0);
    step_log_await(&rig->log, "eval-renew", 4); /* longer than a lease */
    assert_int_equal(lock_rig_probe(rig, "redisson", "k"), DLOCK_BUSY);
    assert_in_range(lock_pair_left_ms(&pair, 0), 1, LOCK_RIG_LEASE_MS);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    lock_pair_close(&pair);
}

/* The answer was long on its way: that is time of the lease. */
static void test_a_lease_counts_from_the_sending(void **state)
{
    enum { LEASE_MS = 3000, TAKEN_MS = 500 };
    struct lock_rig *rig = *state;
    struct lock_pair pair;
    uint64_t sent_ms;

    rig->watchdog_lease_ms = LEASE_MS;
    pair = lock_pair_open(rig, "redisson");
    step_log_shut(&rig->log, "eval-renew", DLOCK_AFTER);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), 0);
    step_log_await_gate(&rig->log, 1);
    sent_ms = lock_rig_now_ms(); /* or a little before */
    lock_rig_sleep_ms(TAKEN_MS);
    step_log_open(&rig->log);
    /* More than was left of the lease before: it counts. */
    while (lock_pair_left_ms(&pair, 0) < LEASE_MS - LEASE_MS / 3) {
        assert_true(lock_rig_now_ms() < sent_ms + LEASE_MS);
        lock_rig_sleep_ms(1);
    }
    assert_true(lock_rig_now_ms() + lock_pair_left_ms(&pair, 0) <=
                sent_ms + LEASE_MS + 20);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    lock_pair_close(&pair);
}

/* All due leases go in one round trip. */
static void test_renewals_are_batched(void **state)
{
    struct lock_rig *rig = *state;
    struct dlock_grant grant;
    struct lock_pair pair;
    char name[24];

    rig->watchdog_lease_ms = LOCK_RIG_LEASE_MS;
    pair = lock_pair_open(rig, "redisson");
    for (int i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof(name), "many:%d", i);
        assert_int_equal(lock_rig_take(pair.session[0], name, 0, 0, &grant), 0);
    }
    /* More than a batch: both of them come in time. */
    step_log_await(&rig->log, "eval-renew", 300);
    for (int i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof(name), "many:%d", i);
        assert_int_equal(lock_rig_take(pair.session[1], name, 0, 0, &grant),
                         DLOCK_BUSY);
    }
    lock_pair_close(&pair);
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
static void test_release_waits_for_the_renewal(void **state)
{
    struct lock_rig *rig = *state;
    struct release_call call = {.status = DLOCK_MISUSE};
    struct lock_pair pair;
    pthread_t thread;

    rig->watchdog_lease_ms = 90;
    pair = lock_pair_open(rig, "redisson");
    step_log_shut(&rig->log, "eval-renew", DLOCK_BEFORE);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), 0);
    step_log_await_gate(&rig->log, 1);
    call.session = pair.session[0];
    call.grant = &pair.grant[0];
    assert_int_equal(pthread_create(&thread, NULL, call_release, &call), 0);
    lock_rig_sleep_ms(20);
    assert_false(atomic_load(&call.done));
    assert_int_equal(step_log_count(&rig->log, "eval-release"), 0);
    step_log_open(&rig->log);
    assert_int_equal(pthread_join(thread, NULL), 0);
    step_log_reset(&rig->log);
    lock_rig_sleep_ms(120);
    assert_int_equal(step_log_count(&rig->log, "eval-renew"), 0);
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 0);
    lock_pair_close(&pair);
}

/* The hook wants a mutex that the holder has while it gives back. */
struct hook_mutex {
    pthread_mutex_t mutex;
    atomic_bool is_wanted;
};

static void lock_in_hook(void *ctx, const char *name, const char *owner,
                         enum dlock_loss reason)
{
    struct hook_mutex *hook = ctx;

    (void)name;
    (void)owner;
    (void)reason;
    atomic_store(&hook->is_wanted, true);
    (void)pthread_mutex_lock(&hook->mutex);
    (void)pthread_mutex_unlock(&hook->mutex);
}

static void *extend_and_release(void *arg)
{
    struct release_call *call = arg;
    struct dlock_grant grant = *call->grant;

    (void)dlock_extend(call->session, &grant, 5000, NULL);
    return call_release(arg);
}

/* Ends both, or lets the hook go after a time: a test does not hang. */
static void test_release_does_not_wait_for_the_hook(void **state)
{
    struct lock_rig *rig = *state;
    struct hook_mutex hook = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct release_call call = {.status = DLOCK_MISUSE};
    uint64_t until_ms;
    struct lock_pair pair;
    pthread_t thread;
    bool done;

    rig->watchdog_lease_ms = 90;
    rig->on_lost = lock_in_hook;
    rig->on_lost_ctx = &hook;
    pair = lock_pair_held(rig, "redisson", 0);
    assert_int_equal(pthread_mutex_lock(&hook.mutex), 0);
    redis_server_ask(rig->server, "DEL k", NULL, 0);
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
    lock_pair_close(&pair);
}

/* Even if the release gets through to nobody, renewal has ended. */
static void test_failed_release_ends_renewal(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair;

    rig->watchdog_lease_ms = 90;
    rig->command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    pair = lock_pair_held(rig, "redisson", 0);
    step_log_fail(&rig->log, "eval-release", DLOCK_BEFORE, STEP_LOG_ALWAYS);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_UNREACHABLE);
    assert_int_equal(lock_pair_take(&pair, 1, 1000, 0), DLOCK_OK);
    lock_pair_close(&pair);
}

#define TEST(name) cmocka_unit_test_setup(name, lock_rig_fresh)

static const struct CMUnitTest tests[] = {
    TEST(test_renewal_keeps_the_longer_lease),
    TEST(test_watchdog_renews),
    TEST(test_a_lease_counts_from_the_sending),
    TEST(test_renewals_are_batched),
    TEST(test_release_waits_for_the_renewal),
    TEST(test_release_does_not_wait_for_the_hook),
    TEST(test_failed_release_ends_renewal),
};
TEST_MAIN_WITHIN(tests, lock_rig_setup, lock_rig_teardown)
