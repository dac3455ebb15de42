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

#define TEST(name) cmocka_unit_test_setup(name, lock_rig_fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_copy_does_not_hide_the_loss),
        TEST(test_a_lost_hold_does_not_come_back),
        TEST(test_what_is_withdrawn_is_one_hold),
    };

    return cmocka_run_group_tests(tests, lock_rig_setup, lock_rig_teardown);
}
