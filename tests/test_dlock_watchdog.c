/*
 * Renewal: it keeps a living holder's lock, and ends when it has to. What a
 * holder is told of a loss is in test_dlock_loss.c. Sleeps are used where time
 * itself is what is tested.
 */
#include <stdatomic.h>

#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"

/* The answer was long on its way: that is time of the lease. */
LOCK_TEST(test_a_lease_counts_from_the_sending)
{
    enum { LEASE_MS = 3000, TAKEN_MS = 500 };
    struct lock_pair pair;
    uint64_t sent_ms;

    rig.watchdog_lease_ms = LEASE_MS;
    pair = lock_pair_open("redisson");
    step_log_shut(&rig.log, "eval-renew", DLOCK_AFTER);
    assert_ok(lock_pair_take(&pair, 0, 0, 0));
    step_log_await_gate(&rig.log, 1);
    sent_ms = lock_rig_now_ms(); /* or a little before */
    lock_rig_sleep_ms(TAKEN_MS);
    step_log_open(&rig.log);
    /* More than was left of the lease before: it counts. */
    while (dlock_remaining_ms(pair.session[0], &pair.grant[0]) <
           LEASE_MS - LEASE_MS / 3) {
        assert_true(lock_rig_now_ms() < sent_ms + LEASE_MS);
        lock_rig_sleep_ms(1);
    }
    assert_true(lock_rig_now_ms() +
                    dlock_remaining_ms(pair.session[0], &pair.grant[0]) <=
                sent_ms + LEASE_MS + 20);
    assert_ok(lock_pair_give(&pair, 0));
}

struct release_call {
    struct dlock_session *session;
    const struct dlock_grant *grant;
    atomic_bool done;
    enum dlock_status status;
};

/* The hook wants a mutex that the holder has while it gives back. */
static struct hook_mutex {
    pthread_mutex_t mutex;
    atomic_bool is_wanted;
} hook = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void lock_in_hook(void *ctx, const char *name, const char *owner,
                         enum dlock_loss reason)
{
    atomic_store(&hook.is_wanted, true);
    (void)pthread_mutex_lock(&hook.mutex);
    (void)pthread_mutex_unlock(&hook.mutex);
}

static void *extend_and_release(void *arg)
{
    struct release_call *call = arg;
    struct dlock_grant grant = *call->grant;

    (void)dlock_extend(call->session, &grant, 5000, NULL);
    call->status = dlock_release(call->session, call->grant, NULL);
    atomic_store(&call->done, true);
    return NULL;
}

/* Whether the first of PAIR gets its extend and its release done on THREAD, in time. If not,
 * what they wait for must be let go before the thread is joined: a test does not hang. */
static bool ends_in_time(struct release_call *call,
                         const struct lock_pair *pair, pthread_t *thread)
{
    uint64_t until_ms = lock_rig_now_ms() + LOCK_RIG_PROMPT_MS;

    call->session = pair->session[0];
    call->grant = &pair->grant[0];
    assert_int_equal(pthread_create(thread, NULL, extend_and_release, call), 0);
    while (!atomic_load(&call->done) && lock_rig_now_ms() < until_ms)
        lock_rig_sleep_ms(1);
    return atomic_load(&call->done);
}

LOCK_TEST(test_release_does_not_wait_for_the_hook)
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
    done = ends_in_time(&call, &pair, &thread);
    assert_int_equal(pthread_mutex_unlock(&hook.mutex), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(done);
    assert_int_equal(call.status, DLOCK_LOST);
}

static atomic_bool is_slow;
static atomic_uint renewals_n;

static enum dlock_verdict slow_renewal(void *ctx, const struct dlock_step *step)
{
    if (step->phase == DLOCK_BEFORE && strcmp(step->name, "eval-renew") == 0) {
        atomic_fetch_add(&renewals_n, 1);
        if (atomic_load(&is_slow))
            lock_rig_sleep_ms(rig.watchdog_lease_ms / 2);
    }
    return DLOCK_GO;
}

/* Each renewal takes longer than a third of the lease: the next one is due at once. */
LOCK_TEST(test_release_comes_between_two_renewals)
{
    struct release_call call = {.status = DLOCK_MISUSE};
    uint64_t until_ms;
    struct lock_pair pair;
    pthread_t thread;
    bool done;

    rig.watchdog_lease_ms = 900;
    rig.on_step = slow_renewal;
    atomic_store(&is_slow, true);
    pair = lock_pair_held("redisson", 0);
    until_ms = lock_rig_now_ms() + LOCK_RIG_PROMPT_MS;
    while (atomic_load(&renewals_n) < 2 && lock_rig_now_ms() < until_ms)
        lock_rig_sleep_ms(1);
    done = ends_in_time(&call, &pair, &thread);
    atomic_store(&is_slow, false);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(done);
}

static const struct lock_story stories[] = {
    /* The watchdog's lease is shorter than the outer one and must leave it be. */
    {"a renewal keeps the longer lease", "redisson",
     "watchdog lease; a takes outer 60000; a takes inner; await eval-renew 2; "
     "PTTL k -> 50000..60000"},
    {"and the holder counts on it", "redisson",
     "watchdog lease; a takes; a extends 60000; more eval-renew 2; "
     "a has left=50000..60000; a gives"},
    {"the watchdog renews", "redisson reentrant fair",
     "watchdog lease; a takes; b takes wait=lease+500 -> timeout; "
     "a has left=1..lease; a gives"},
    {"a release waits for the renewal on its way, and none follows", "redisson",
     "watchdog 600; shut eval-renew before; a takes; gate; "
     "& a gives -> ok|lost; sleep 20; still; steps eval-release 0; open; join; "
     "forget; sleep 300; steps eval-renew 0; free"},
    {"renewal ends, even if the release gets through to nobody", "redisson",
     "watchdog 600; commands timeout; a takes; fail eval-release before "
     "always; a gives -> unreachable; b takes wait=long"},
};
LOCK_STORIES_TEST

LOCK_RIG_MAIN
