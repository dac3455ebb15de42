/*
 * The lease of a hold, where the holder sets it anew: what the holder believes
 * never ends after what the server keeps.
 */
#include <stdatomic.h>
#include <string.h>

#include "tests/support/lock_rig.h"

/* Each lock with a lease tells whose it is, and lets nobody else set its end. */
static void test_a_hold_is_seen_and_extended(NO_STATE)
{
    static const char *const names[] = {"token-lua", "watchdog", "reentrant",
                                        "spin",      "redisson", "fenced",
                                        "fair",      "multi"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct lock_pair pair = lock_pair_open(names[i]);
        struct dlock_holder seen;

        assert_int_equal(dlock_inspect(pair.session[1], "k", &seen, NULL), 0);
        assert_false(seen.held);
        assert_int_equal(lock_pair_take(&pair, 0, 0, 5000), DLOCK_OK);
        assert_int_equal(dlock_inspect(pair.session[1], "k", &seen, NULL), 0);
        assert_true(seen.held);
        assert_string_equal(seen.owner, dlock_session_owner(pair.session[0]));
        assert_in_range(seen.remaining_ms, 4000, 5000);
        assert_int_equal(lock_pair_extend(&pair, 0, 60000), DLOCK_OK);
        assert_in_range(lock_rig_ask("PTTL k"), 50000, 60000);
        assert_in_range(lock_pair_left_ms(&pair, 0), 50000, 60000);
        assert_int_equal(lock_pair_extend(&pair, 0, 2000), DLOCK_OK);
        assert_in_range(lock_rig_ask("PTTL k"), 1, 2000);
        pair.grant[1] = pair.grant[0];
        lock_rig_pass_off(pair.session[1], &pair.grant[1]);
        assert_int_equal(lock_pair_extend(&pair, 1, 9000), DLOCK_LOST);
        lock_rig_end_lease();
        assert_int_equal(lock_pair_extend(&pair, 0, 60000), DLOCK_LOST);
        assert_int_equal(lock_pair_give(&pair, 0), DLOCK_LOST);
        lock_pair_close(&pair);
    }
}

/* All holds have one key: what one of them gives up, another may still need. */
static void test_extending_one_hold_shortens_no_other(NO_STATE)
{
    static const char *const names[] = {"fenced", "reentrant", "fair"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct lock_pair pair = lock_pair_open(names[i]);
        struct dlock_grant outer, inner;

        assert_int_equal(lock_hold_take(&pair, "k", 0, &outer), DLOCK_OK);
        assert_int_equal(lock_hold_take(&pair, "k", 5000, &inner), DLOCK_OK);
        assert_int_equal(lock_hold_extend(&pair, &inner, 3000), DLOCK_OK);
        assert_in_range(lock_hold_left_ms(&pair, &inner), 0, 3000);
        assert_true(lock_hold_left_ms(&pair, &outer) > 5000);
        assert_in_range(lock_rig_ask("PTTL k"), 3001, 10000);
        assert_int_equal(lock_hold_give(&pair, &inner), DLOCK_OK);
        /* With one hold it is the holder's to say. */
        assert_int_equal(lock_hold_extend(&pair, &outer, 3000), DLOCK_OK);
        assert_in_range(lock_rig_ask("PTTL k"), 1, 3000);
        assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_OK);
        lock_pair_close(&pair);
    }
}

/* Replies to the watchdog wait; those to an extend take some time. */
static struct slow_replies {
    atomic_bool held_up;
    atomic_bool arrived;   /* at the wait */
    atomic_uint extends_n; /* answered */
    atomic_uint nap_ms;
} slow;

static enum dlock_verdict answer_slowly(void *ctx,
                                        const struct dlock_step *step)
{
    (void)ctx;
    if (strcmp(step->name, "eval-renew") != 0 || step->phase != DLOCK_AFTER)
        return DLOCK_GO;
    if (strcmp(step->owner, "watchdog") != 0) {
        lock_rig_sleep_ms(atomic_load(&slow.nap_ms));
        (void)atomic_fetch_add(&slow.extends_n, 1);
        return DLOCK_GO;
    }
    while (atomic_load(&slow.held_up)) {
        atomic_store(&slow.arrived, true);
        lock_rig_sleep_ms(1);
    }
    return DLOCK_GO;
}

static struct lock_pair open_slow(unsigned lease_ms, struct slow_replies how)
{
    slow = how;
    rig.watchdog_lease_ms = lease_ms;
    rig.on_step = answer_slowly;
    return lock_pair_open("fenced");
}

struct extension {
    const struct lock_pair *pair;
    struct dlock_grant *grant;
    enum dlock_status status;
};

static void *extend_to_2000(void *arg)
{
    struct extension *call = arg;

    call->status =
        dlock_extend(call->pair->session[0], call->grant, 2000, NULL);
    return NULL;
}

/* The server took the extension after the renewal, and ends the lease by it. */
static void test_a_renewal_under_way_lengthens_no_extended_lease(NO_STATE)
{
    struct lock_pair pair =
        open_slow(3000, (struct slow_replies){.held_up = true});
    struct dlock_grant grant;
    struct extension call = {.pair = &pair, .grant = &grant};
    pthread_t thread;

    assert_int_equal(lock_hold_take(&pair, "k", 0, &grant), DLOCK_OK);
    while (!atomic_load(&slow.arrived))
        lock_rig_sleep_ms(1);
    assert_int_equal(pthread_create(&thread, NULL, extend_to_2000, &call), 0);
    while (atomic_load(&slow.extends_n) == 0)
        lock_rig_sleep_ms(1);
    lock_rig_sleep_ms(20);
    atomic_store(&slow.held_up, false);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(call.status, DLOCK_OK);
    lock_rig_sleep_ms(20);
    assert_in_range(lock_hold_left_ms(&pair, &grant), 1, 2000);
}

/* Nothing to see here but for the thread sanitizer. */
static void test_extending_beside_renewals(NO_STATE)
{
    uint64_t until = lock_rig_now_ms() + 400;
    struct dlock_grant grant;
    struct lock_pair pair;

    rig.watchdog_lease_ms = 3000;
    pair = lock_pair_open("fenced");
    assert_int_equal(lock_hold_take(&pair, "k", 0, &grant), DLOCK_OK);
    for (unsigned i = 0; lock_rig_now_ms() < until; i++) {
        enum dlock_status status =
            lock_hold_extend(&pair, &grant, 20 + i % 2000);

        assert_true(status == DLOCK_OK || status == DLOCK_LOST);
    }
}

/* Whether the server has the new end or the old one: the holder goes by the
 * earlier one. */
static void test_an_unknown_extension_may_have_shortened(NO_STATE)
{
    static const unsigned leases[] = {0, 9000};

    rig.command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    for (size_t i = 0; i < 2; i++) {
        struct lock_pair pair = lock_pair_open("fenced");
        struct dlock_grant grant;

        assert_int_equal(lock_hold_take(&pair, "k", leases[i], &grant),
                         DLOCK_OK);
        step_log_fail(&rig.log, "eval-renew", DLOCK_AFTER, STEP_LOG_ALWAYS);
        assert_int_equal(lock_hold_extend(&pair, &grant, 60000), DLOCK_UNKNOWN);
        assert_in_range(lock_hold_left_ms(&pair, &grant), 5000, 10000);
        assert_int_equal(lock_hold_extend(&pair, &grant, 3000), DLOCK_UNKNOWN);
        step_log_fail(&rig.log, "eval-renew", DLOCK_AFTER, 0);
        assert_in_range(lock_hold_left_ms(&pair, &grant), 0, 3000);
        assert_int_equal(lock_hold_give(&pair, &grant), DLOCK_OK);
        lock_pair_close(&pair);
    }
}

/* As of an acquire: what is over when the answer comes was not had. */
static void test_an_extension_that_is_over_is_none(NO_STATE)
{
    static const unsigned leases[] = {0, 9000};

    for (size_t i = 0; i < 2; i++) {
        struct lock_pair pair =
            open_slow(10000, (struct slow_replies){.nap_ms = 60});
        struct dlock_grant grant;

        assert_int_equal(lock_hold_take(&pair, "k", leases[i], &grant),
                         DLOCK_OK);
        assert_int_equal(lock_hold_extend(&pair, &grant, 40), DLOCK_LOST);
        assert_int_equal(lock_hold_left_ms(&pair, &grant), 0);
        if (leases[i] == 0)
            assert_int_equal(lock_rig_await_lost(1), DLOCK_LOSS_EXPIRED);
        assert_int_equal(lock_hold_left_ms(&pair, &grant), 0);
        (void)lock_hold_give(&pair, &grant);
        lock_pair_close(&pair);
    }
}

/* The server has it no more, and has said so. */
static void test_of_a_lost_lease_nothing_remains(NO_STATE)
{
    static const unsigned leases[] = {0, 20000};

    for (size_t i = 0; i < 2; i++) {
        struct lock_pair pair = lock_pair_open("redisson");
        struct dlock_grant grant;

        assert_int_equal(lock_hold_take(&pair, "k", leases[i], &grant),
                         DLOCK_OK);
        assert_int_equal(dlock_force_release(pair.session[1], "k", NULL),
                         DLOCK_OK);
        assert_int_equal(lock_hold_extend(&pair, &grant, 20000), DLOCK_LOST);
        assert_int_equal(lock_hold_left_ms(&pair, &grant), 0);
        lock_pair_close(&pair);
    }
}

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_a_hold_is_seen_and_extended),
    LOCK_TEST(test_extending_one_hold_shortens_no_other),
    LOCK_TEST(test_a_renewal_under_way_lengthens_no_extended_lease),
    LOCK_TEST(test_extending_beside_renewals),
    LOCK_TEST(test_an_unknown_extension_may_have_shortened),
    LOCK_TEST(test_an_extension_that_is_over_is_none),
    LOCK_TEST(test_of_a_lost_lease_nothing_remains),
};
LOCK_RIG_MAIN(tests)
