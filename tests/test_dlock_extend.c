/*
 * The lease of a hold, where the holder sets it anew: what the holder believes
 * never ends after what the server keeps.
 */
#include <stdatomic.h>
#include <string.h>

#include "tests/support/lock_rig.h"
#include "tests/support/unit_test.h"

/* All holds have one key: what one of them gives up, another may still need. */
static void test_extending_one_hold_shortens_no_other(void **state)
{
    static const char *const names[] = {"fenced", "reentrant", "fair"};
    struct lock_rig *rig = *state;

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct lock_pair pair = lock_pair_open(rig, names[i]);
        struct dlock_grant outer, inner;

        assert_int_equal(lock_hold_take(&pair, "k", 0, &outer), DLOCK_OK);
        assert_int_equal(lock_hold_take(&pair, "k", 5000, &inner), DLOCK_OK);
        assert_int_equal(dlock_extend(pair.session[0], &inner, 3000, NULL),
                         DLOCK_OK);
        assert_in_range(lock_hold_left_ms(&pair, &inner), 0, 3000);
        assert_true(lock_hold_left_ms(&pair, &outer) > 5000);
        assert_in_range(lock_rig_ask(state, "PTTL k"), 3001, 10000);
        assert_int_equal(lock_hold_give(&pair, &inner), DLOCK_OK);
        /* With one hold it is the holder's to say. */
        assert_int_equal(dlock_extend(pair.session[0], &outer, 3000, NULL),
                         DLOCK_OK);
        assert_in_range(lock_rig_ask(state, "PTTL k"), 1, 3000);
        assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_OK);
        lock_pair_close(&pair);
    }
}

/* Replies to the watchdog wait; those to an extend take some time. */
struct slow_replies {
    atomic_bool held_up;
    atomic_bool arrived;   /* at the wait */
    atomic_uint extends_n; /* answered */
    atomic_uint nap_ms;
    atomic_uint losses_n;
};

static enum dlock_verdict answer_slowly(void *ctx,
                                        const struct dlock_step *step)
{
    struct slow_replies *slow = ctx;

    if (strcmp(step->name, "eval-renew") != 0 || step->phase != DLOCK_AFTER)
        return DLOCK_GO;
    if (strcmp(step->owner, "watchdog") != 0) {
        lock_rig_sleep_ms(atomic_load(&slow->nap_ms));
        (void)atomic_fetch_add(&slow->extends_n, 1);
        return DLOCK_GO;
    }
    while (atomic_load(&slow->held_up)) {
        atomic_store(&slow->arrived, true);
        lock_rig_sleep_ms(1);
    }
    return DLOCK_GO;
}

static void count_loss(void *ctx, const char *name, const char *owner,
                       enum dlock_loss reason)
{
    struct slow_replies *slow = ctx;

    (void)name;
    (void)owner;
    assert_int_equal(reason, DLOCK_LOSS_EXPIRED);
    (void)atomic_fetch_add(&slow->losses_n, 1);
}

static struct lock_pair open_slow(struct lock_rig *rig, unsigned lease_ms,
                                  struct slow_replies *slow)
{
    struct dlock_options options = {.url = redis_server_url(rig->server),
                                    .watchdog_lease_ms = lease_ms,
                                    .on_step = answer_slowly,
                                    .on_step_ctx = slow,
                                    .on_lost = count_loss,
                                    .on_lost_ctx = slow};
    struct lock_pair pair;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(dlock_open(&options, &pair.client[i], NULL), DLOCK_OK);
        pair.session[i] = lock_rig_session(pair.client[i]);
    }
    return pair;
}

static bool comes_true(const atomic_uint *count)
{
    uint64_t until = lock_rig_now_ms() + LOCK_RIG_LONG_MS;

    while (atomic_load(count) == 0 && lock_rig_now_ms() < until)
        lock_rig_sleep_ms(1);
    return atomic_load(count) != 0;
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
static void test_a_renewal_under_way_lengthens_no_extended_lease(void **state)
{
    struct slow_replies slow = {.held_up = true};
    struct lock_pair pair = open_slow(*state, 3000, &slow);
    struct dlock_grant grant;
    struct extension call = {.pair = &pair, .grant = &grant};
    pthread_t thread;

    assert_int_equal(lock_hold_take(&pair, "k", 0, &grant), DLOCK_OK);
    while (!atomic_load(&slow.arrived))
        lock_rig_sleep_ms(1);
    assert_int_equal(pthread_create(&thread, NULL, extend_to_2000, &call), 0);
    assert_true(comes_true(&slow.extends_n));
    lock_rig_sleep_ms(20);
    atomic_store(&slow.held_up, false);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(call.status, DLOCK_OK);
    lock_rig_sleep_ms(20);
    assert_in_range(lock_hold_left_ms(&pair, &grant), 1, 2000);
    lock_pair_close(&pair);
}

/* Nothing to see here but for the thread sanitizer. */
static void test_extending_beside_renewals(void **state)
{
    struct lock_rig *rig = *state;
    uint64_t until = lock_rig_now_ms() + 400;
    struct dlock_grant grant;
    struct lock_pair pair;

    rig->watchdog_lease_ms = 3000;
    pair = lock_pair_open(rig, "fenced");
    assert_int_equal(lock_hold_take(&pair, "k", 0, &grant), DLOCK_OK);
    for (unsigned i = 0; lock_rig_now_ms() < until; i++) {
        enum dlock_status status =
            dlock_extend(pair.session[0], &grant, 20 + i % 2000, NULL);

        assert_true(status == DLOCK_OK || status == DLOCK_LOST);
    }
    lock_pair_close(&pair);
}

/* Whether the server has the new end or the old one: the holder goes by the
 * earlier one. */
static void test_an_unknown_extension_may_have_shortened(void **state)
{
    static const unsigned leases[] = {0, 9000};
    struct lock_rig *rig = *state;

    rig->command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    for (size_t i = 0; i < 2; i++) {
        struct lock_pair pair = lock_pair_open(rig, "fenced");
        struct dlock_grant grant;

        assert_int_equal(lock_hold_take(&pair, "k", leases[i], &grant),
                         DLOCK_OK);
        step_log_fail(&rig->log, "eval-renew", DLOCK_AFTER, STEP_LOG_ALWAYS);
        assert_int_equal(dlock_extend(pair.session[0], &grant, 60000, NULL),
                         DLOCK_UNKNOWN);
        assert_in_range(lock_hold_left_ms(&pair, &grant), 5000, 10000);
        assert_int_equal(dlock_extend(pair.session[0], &grant, 3000, NULL),
                         DLOCK_UNKNOWN);
        step_log_fail(&rig->log, "eval-renew", DLOCK_AFTER, 0);
        assert_in_range(lock_hold_left_ms(&pair, &grant), 0, 3000);
        assert_int_equal(lock_hold_give(&pair, &grant), DLOCK_OK);
        lock_pair_close(&pair);
    }
}

/* As of an acquire: what is over when the answer comes was not had. */
static void test_an_extension_that_is_over_is_none(void **state)
{
    static const unsigned leases[] = {0, 9000};

    for (size_t i = 0; i < 2; i++) {
        struct slow_replies slow = {.nap_ms = 60};
        struct lock_pair pair = open_slow(*state, 10000, &slow);
        struct dlock_grant grant;

        assert_int_equal(lock_hold_take(&pair, "k", leases[i], &grant),
                         DLOCK_OK);
        assert_int_equal(dlock_extend(pair.session[0], &grant, 40, NULL),
                         DLOCK_LOST);
        assert_int_equal(lock_hold_left_ms(&pair, &grant), 0);
        if (leases[i] == 0)
            assert_true(comes_true(&slow.losses_n));
        assert_int_equal(lock_hold_left_ms(&pair, &grant), 0);
        (void)lock_hold_give(&pair, &grant);
        lock_pair_close(&pair);
    }
}

/* The server has it no more, and has said so. */
static void test_of_a_lost_lease_nothing_remains(void **state)
{
    static const unsigned leases[] = {0, 20000};

    for (size_t i = 0; i < 2; i++) {
        struct lock_pair pair = lock_pair_open(*state, "redisson");
        struct dlock_grant grant;

        assert_int_equal(lock_hold_take(&pair, "k", leases[i], &grant),
                         DLOCK_OK);
        assert_int_equal(dlock_force_release(pair.session[1], "k", NULL),
                         DLOCK_OK);
        assert_int_equal(dlock_extend(pair.session[0], &grant, 20000, NULL),
                         DLOCK_LOST);
        assert_int_equal(lock_hold_left_ms(&pair, &grant), 0);
        lock_pair_close(&pair);
    }
}

#define TEST(name) cmocka_unit_test_setup(name, lock_rig_fresh)

static const struct CMUnitTest tests[] = {
    TEST(test_extending_one_hold_shortens_no_other),
    TEST(test_a_renewal_under_way_lengthens_no_extended_lease),
    TEST(test_extending_beside_renewals),
    TEST(test_an_unknown_extension_may_have_shortened),
    TEST(test_an_extension_that_is_over_is_none),
    TEST(test_of_a_lost_lease_nothing_remains),
};
TEST_MAIN_WITHIN(tests, lock_rig_setup, lock_rig_teardown)
