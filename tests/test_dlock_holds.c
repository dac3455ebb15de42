/*
 * Several holds of one session: what is done with one of them, and what goes
 * wrong with it, is done to none of the others. And the lease of a hold, where
 * the holder sets it anew: what the holder believes never ends after what the
 * server keeps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>

#include "tests/support/lock_rig.h"

static enum dlock_status take(const struct lock_pair *pair, const char *name,
                              unsigned lease_ms, struct dlock_grant *grant)
{
    return lock_rig_take(pair->session[0], name, 0, lease_ms, grant);
}

static enum dlock_status give(const struct lock_pair *pair,
                              const struct dlock_grant *grant)
{
    return dlock_release(pair->session[0], grant, NULL);
}

static uint64_t left(const struct lock_pair *pair,
                     const struct dlock_grant *grant)
{
    return dlock_remaining_ms(pair->session[0], grant);
}

static long long ask(void **state, const char *command)
{
    const struct lock_rig *rig = *state;

    return redis_server_number(rig->server, command);
}

/* Lost, and taken anew -------------------------------------------------------- */

/* The copy of a command that began anew is told so as well. */
static void test_a_copy_does_not_hide_the_loss(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "fenced");
    struct dlock_grant outer, anew;

    assert_int_equal(take(&pair, "k", 0, &outer), DLOCK_OK);
    assert_int_equal(ask(state, "DEL k"), 1);
    step_log_fail(&rig->log, "eval-acquire", DLOCK_AFTER, 1);
    assert_int_equal(take(&pair, "k", 0, &anew), DLOCK_OK);
    assert_int_equal(anew.holds, 1);
    assert_true(anew.token > outer.token);
    assert_int_equal(left(&pair, &outer), 0);
    assert_int_equal(give(&pair, &anew), DLOCK_OK);
    assert_int_equal(ask(state, "EXISTS k"), 0);
    assert_int_equal(give(&pair, &outer), DLOCK_LOST);
    lock_pair_close(&pair);
}

/* What is withdrawn does not go to a hold that was lost before. */
static void test_a_lost_hold_does_not_come_back(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "fenced");
    uint64_t until = lock_rig_now_ms() + 5000;
    struct dlock_grant outer, none;

    assert_int_equal(take(&pair, "k", 0, &outer), DLOCK_OK);
    assert_int_equal(ask(state, "DEL k"), 1);
    step_log_fail(&rig->log, "eval-acquire", DLOCK_AFTER, 3);
    assert_int_equal(take(&pair, "k", 0, &none), DLOCK_UNKNOWN);
    while (ask(state, "EXISTS k") == 1 && lock_rig_now_ms() < until)
        lock_rig_sleep_ms(1);
    assert_int_equal(ask(state, "EXISTS k"), 0);
    assert_int_equal(give(&pair, &outer), DLOCK_LOST);
    lock_pair_close(&pair);
}

/* And a hold that was not lost stays. */
static void test_what_is_withdrawn_is_one_hold(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "fenced");
    uint64_t until = lock_rig_now_ms() + 5000;
    struct dlock_grant outer, none;
    struct dlock_holder holder = {.holds = 2};

    assert_int_equal(take(&pair, "k", 60000, &outer), DLOCK_OK);
    step_log_fail(&rig->log, "eval-acquire", DLOCK_AFTER, 3);
    assert_int_equal(take(&pair, "k", 60000, &none), DLOCK_UNKNOWN);
    while (holder.holds != 1 && lock_rig_now_ms() < until)
        assert_int_equal(dlock_inspect(pair.session[1], "k", &holder, NULL),
                         DLOCK_OK);
    assert_true(holder.held);
    assert_int_equal(give(&pair, &outer), DLOCK_OK);
    lock_pair_close(&pair);
}

/* Releases in doubt ------------------------------------------------------------ */

/* Of several that were not answered, each is known again when it is repeated. */
static void test_each_release_in_doubt_is_known_again(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "fenced");
    struct dlock_grant outer, inner, other;

    assert_int_equal(take(&pair, "k", 60000, &outer), DLOCK_OK);
    assert_int_equal(take(&pair, "k", 60000, &inner), DLOCK_OK);
    assert_int_equal(take(&pair, "other", 60000, &other), DLOCK_OK);
    step_log_fail(&rig->log, "eval-release", DLOCK_BEFORE, 2);
    assert_int_equal(give(&pair, &inner), DLOCK_UNREACHABLE);
    assert_int_equal(give(&pair, &other), DLOCK_UNREACHABLE);
    assert_int_equal(give(&pair, &inner), DLOCK_OK);
    assert_int_equal(lock_rig_probe(rig, "fenced", "k"), DLOCK_BUSY);
    assert_int_equal(give(&pair, &other), DLOCK_OK);
    assert_int_equal(give(&pair, &outer), DLOCK_OK);
    assert_int_equal(ask(state, "EXISTS k other"), 0);
    lock_pair_close(&pair);
}

/* Carried out, the reply lost, and repeated when the outer hold has gone too. */
static void test_a_doubt_outlives_the_outer_hold(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "fenced");
    struct dlock_grant outer, inner;

    assert_int_equal(take(&pair, "k", 60000, &outer), DLOCK_OK);
    assert_int_equal(take(&pair, "k", 60000, &inner), DLOCK_OK);
    step_log_fail(&rig->log, "eval-release", DLOCK_AFTER, 3);
    assert_int_equal(give(&pair, &inner), DLOCK_UNKNOWN);
    assert_int_equal(give(&pair, &outer), DLOCK_OK);
    assert_int_equal(give(&pair, &inner), DLOCK_OK);
    lock_pair_close(&pair);
}

/* The lease of a hold ------------------------------------------------------------ */

/* All holds have one key: what one of them gives up, another may still need. */
static void test_extending_one_hold_shortens_no_other(void **state)
{
    static const char *const names[] = {"fenced", "reentrant", "fair"};
    struct lock_rig *rig = *state;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct lock_pair pair = lock_pair_open(rig, names[i]);
        struct dlock_grant outer, inner;

        assert_int_equal(take(&pair, "k", 0, &outer), DLOCK_OK);
        assert_int_equal(take(&pair, "k", 5000, &inner), DLOCK_OK);
        assert_int_equal(dlock_extend(pair.session[0], &inner, 3000, NULL),
                         DLOCK_OK);
        assert_in_range(left(&pair, &inner), 0, 3000);
        assert_true(left(&pair, &outer) > 5000);
        assert_in_range(ask(state, "PTTL k"), 5000, 10000);
        assert_int_equal(give(&pair, &inner), DLOCK_OK);
        /* With one hold it is the holder's to say. */
        assert_int_equal(dlock_extend(pair.session[0], &outer, 3000, NULL),
                         DLOCK_OK);
        assert_in_range(ask(state, "PTTL k"), 1, 3000);
        assert_int_equal(give(&pair, &outer), DLOCK_OK);
        lock_pair_close(&pair);
    }
}

#define TEST(name) cmocka_unit_test_setup(name, lock_rig_fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_copy_does_not_hide_the_loss),
        TEST(test_a_lost_hold_does_not_come_back),
        TEST(test_what_is_withdrawn_is_one_hold),
        TEST(test_each_release_in_doubt_is_known_again),
        TEST(test_a_doubt_outlives_the_outer_hold),
        TEST(test_extending_one_hold_shortens_no_other),
    };

    return cmocka_run_group_tests(tests, lock_rig_setup, lock_rig_teardown);
}
