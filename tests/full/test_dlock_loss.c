/*
 * What a holder is told when its lock is lost: why, once, and at once; and that
 * nothing of the lost grant is done to the next one. Sleeps are used where time
 * itself is what is tested.
 */
#include "lock/core/strategy.h"
#include "tests/support/fake_clock.h"
#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"

static void count_unreachable(void *ctx, const char *name, const char *owner,
                              enum dlock_loss reason)
{
    (void)name;
    (void)owner;
    (void)atomic_fetch_add((atomic_uint *)ctx,
                           reason == DLOCK_LOSS_UNREACHABLE);
}

/* More of them than go in one pass: none waits for the timeout of others. */
LOCK_TEST(test_of_many_only_the_first_wait_for_a_silent_server)
{
    enum { MANY = 3 * DLOCK_PASS_MAX };
    uint64_t until_ms;
    atomic_uint told_n = 0;
    struct lock_single single;
    struct fake_clock clock;
    char name[16];

    fake_clock_init(&clock, 1);
    rig.clock = &clock.face;
    rig.on_lost = count_unreachable;
    rig.hooks_ctx = &told_n;
    single =
        lock_single_open_by("redisson", LOCK_RIG_LEASE_MS, LOCK_RIG_TIMEOUT_MS);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "k%d", i);
        assert_ok(lock_single_take_name(&single, name, 0));
    }
    redis_server_pause(rig.server);
    fake_clock_advance(&clock, LOCK_RIG_LEASE_MS);
    until_ms = lock_rig_now_ms() + LOCK_RIG_PROMPT_MS;
    while (atomic_load(&told_n) < MANY && lock_rig_now_ms() < until_ms)
        lock_rig_sleep_ms(10);
    redis_server_resume(rig.server);
    lock_single_close(&single);
    assert_int_equal(atomic_load(&told_n), MANY);
    assert_int_equal(step_log_count(&rig.log, "eval-renew"), DLOCK_PASS_MAX);
}

/* Of "k", which has been held too long, the lease ends while the server is asked about
 * another one, whose lease has time. */
LOCK_TEST(test_a_pass_ends_with_the_lease_of_who_is_not_in_it)
{
    enum { LEASE_MS = 6000, LATER_MS = 2500 };
    const struct dlock_terms terms = {.max_hold_ms = 1};
    struct lock_single party =
        lock_single_open_by("redisson", LEASE_MS, LOCK_RIG_LONG_MS);
    struct dlock_grant grant;

    assert_ok(dlock_acquire(party.session, "k", &terms, &grant, NULL));
    lock_rig_sleep_ms(LATER_MS);
    assert_ok(lock_single_take_name(&party, "other", 0));
    redis_server_pause(rig.server);
    assert_int_equal(lock_rig_await_lost(1), DLOCK_LOSS_OVERHELD);
    assert_true(dlock_remaining_ms(party.session, &party.grant) > 0);
    redis_server_resume(rig.server);
    lock_single_close(&party);
}

static const struct lock_story stories[] = {
    {"it was held too long", "redisson",
     "watchdog lease; clock; a takes max=lease+400; b takes wait=long; "
     "took 2790..prompt; lost 1 held; a has left=0; a gives -> lost"},
    /* Once: one renewal more says nothing. */
    {"the server lost it, as our clock says that the lease runs", "redisson",
     "watchdog lease; a takes; FLUSHALL; lost 1 gone; a has left=0; "
     "sleep 1200; lost 1"},
    {"it is somebody else's", "redisson reentrant",
     "HSET strangers x 1; watchdog lease; a takes; RENAME strangers k; "
     "lost 1 taken; a has left=0; sleep 1200; lost 1"},
    {"the holder slept through its lease", "redisson",
     "watchdog lease; shut eval-renew before; a takes; gate; sleep lease+30; "
     "open; lost 1 expired"},
    /* Nobody looks meanwhile: the renewals of the first grant would find the session's
     * own id there. What is done with the first is not done to the second. */
    {"it is taken anew", "redisson",
     "watchdog lease; a takes first; DEL k; a takes second holds=1; "
     "a has first left=0; lost 1 gone; a extends first 60000 -> lost; "
     "a gives first -> lost; forget; await eval-renew 4; PTTL k -> 1..lease; "
     "a has second left=1..lease; a gives second; lost 1"},
    {"no renewal of the first grant prolongs the second", "redisson",
     "watchdog lease; a takes first; DEL k; a takes second 2000; "
     "b takes wait=long; lost 1; a gives first -> lost; "
     "a gives second -> lost; b gives"},
    {"one is on its way when the second comes", "redisson",
     "watchdog lease; shut eval-renew before; a takes first; gate; DEL k; "
     "a takes second long; open; lost 1; a has first left=0; "
     "a gives first -> lost; a gives second"},
    /* At the end of the lease, not a command timeout later. */
    {"the server is silent", "redisson",
     "commands long; watchdog lease; a takes; clock; server pause; "
     "lost 1 unreachable; a extends 60000 -> lost; server resume; "
     "took 1200..prompt; a has left=0"},
    /* It was told that the server cannot be reached: no need to find that out twice. */
    {"a release after that does not wait twice", "fenced",
     "commands 3000; watchdog lease; a takes; server pause; "
     "lost 1 unreachable; clock; a gives -> unknown|unreachable; took 0..5900; "
     "server resume; a gives -> lost"},
    {"a short outage costs nothing: two thirds are in reserve", "redisson",
     "watchdog lease; fail eval-renew after 2; a takes; await eval-renew 5; "
     "lost 0; a gives"},
};
LOCK_STORIES_TEST

LOCK_RIG_MAIN
