/*
 * Several holds of one session: what is done with one of them, and what goes
 * wrong with it, is done to none of the others.
 */
#include <stdio.h>

#include "tests/support/lock_rig.h"
#include "tests/support/unit_test.h"

/* Very many of them ----------------------------------------------------------- */

#define MANY 300

static void take_many(struct dlock_session *session, char side,
                      struct dlock_grant grants[])
{
    char name[16];

    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "%c%d", side, i);
        assert_int_equal(lock_rig_take(session, name, 0, 0, &grants[i]),
                         DLOCK_OK);
    }
}

/* FROM, and each second one after it, is given back; the others are held. */
static void give_every_second(struct dlock_session *session,
                              const struct dlock_grant grants[], int from)
{
    for (int i = from; i < MANY; i += 2) {
        assert_int_equal(dlock_release(session, &grants[i], NULL), DLOCK_OK);
        assert_int_equal(dlock_release(session, &grants[i], NULL), DLOCK_LOST);
    }
}

static bool is_there(void **state, char side, int i)
{
    char command[32];

    (void)snprintf(command, sizeof(command), "EXISTS %c%d", side, i);
    return lock_rig_ask(state, command) == 1;
}

/*
 * Two sessions of a client, whose attempts have the same numbers: each grant is
 * known by its own owner, whatever is given back around it, and renewed.
 */
static void test_each_of_very_many_is_known(void **state)
{
    struct lock_rig *rig = *state;
    static struct dlock_grant of_a[MANY], of_b[MANY];
    struct dlock_session *a, *b;
    struct dlock *client;

    rig->watchdog_lease_ms = LOCK_RIG_LEASE_MS;
    client = lock_rig_client(rig, "redisson");
    a = lock_rig_session(client);
    b = lock_rig_session(client);
    take_many(a, 'a', of_a);
    take_many(b, 'b', of_b);
    give_every_second(a, of_a, 0);
    give_every_second(b, of_b, 1);
    lock_rig_sleep_ms(LOCK_RIG_LEASE_MS +
                      500); /* longer than a lease; no event tells that */
    for (int i = 0; i < MANY; i += 2) {
        assert_true(is_there(state, 'a', i + 1));
        assert_true(is_there(state, 'b', i));
        assert_true(dlock_remaining_ms(a, &of_a[i + 1]) > 0);
        assert_true(dlock_remaining_ms(b, &of_b[i]) > 0);
    }
    give_every_second(a, of_a, 1);
    give_every_second(b, of_b, 0);
    for (int i = 0; i < MANY; i++)
        assert_false(is_there(state, 'a', i) || is_there(state, 'b', i));
    dlock_session_close(a);
    dlock_session_close(b);
    dlock_close(client);
}

/* Lost, and taken anew -------------------------------------------------------- */

/* The copy of a command that began anew is told so as well. */
static void test_a_copy_does_not_hide_the_loss(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "fenced");
    struct dlock_grant outer, anew;

    assert_int_equal(lock_hold_take(&pair, "k", 0, &outer), DLOCK_OK);
    lock_rig_end_lease(state);
    step_log_fail(&rig->log, "eval-acquire", DLOCK_AFTER, 1);
    assert_int_equal(lock_hold_take(&pair, "k", 0, &anew), DLOCK_OK);
    assert_int_equal(anew.holds, 1);
    assert_true(anew.token > outer.token);
    assert_int_equal(lock_hold_left_ms(&pair, &outer), 0);
    assert_int_equal(lock_hold_give(&pair, &anew), DLOCK_OK);
    assert_false(lock_rig_is_held(state));
    assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_LOST);
    lock_pair_close(&pair);
}

/* Nobody renews what has a lease of its own, so no watchdog has found it lost. */
static void test_nothing_is_left_of_a_superseded_grant(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "fenced");
    struct dlock_grant outer, anew;

    assert_int_equal(lock_hold_take(&pair, "k", 20000, &outer), DLOCK_OK);
    lock_rig_end_lease(state);
    assert_int_equal(lock_hold_take(&pair, "k", 20000, &anew), DLOCK_OK);
    assert_int_equal(lock_hold_left_ms(&pair, &outer), 0);
    assert_true(lock_hold_left_ms(&pair, &anew) > 0);
    assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_LOST);
    assert_int_equal(lock_hold_give(&pair, &anew), DLOCK_OK);
    lock_pair_close(&pair);
}

/* What is withdrawn does not go to a hold that was lost before. */
static void test_a_lost_hold_does_not_come_back(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "fenced");
    uint64_t until = lock_rig_now_ms() + LOCK_RIG_LONG_MS;
    struct dlock_grant outer, none;

    assert_int_equal(lock_hold_take(&pair, "k", 0, &outer), DLOCK_OK);
    lock_rig_end_lease(state);
    step_log_fail(&rig->log, "eval-acquire", DLOCK_AFTER, 3);
    assert_int_equal(lock_hold_take(&pair, "k", 0, &none), DLOCK_UNKNOWN);
    while (lock_rig_is_held(state) && lock_rig_now_ms() < until)
        lock_rig_sleep_ms(1);
    assert_false(lock_rig_is_held(state));
    assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_LOST);
    lock_pair_close(&pair);
}

/* And a hold that was not lost stays. */
static void test_what_is_withdrawn_is_one_hold(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "fenced");
    uint64_t until = lock_rig_now_ms() + LOCK_RIG_LONG_MS;
    struct dlock_grant outer, none;
    struct dlock_holder holder = {.holds = 2};

    assert_int_equal(lock_hold_take(&pair, "k", 60000, &outer), DLOCK_OK);
    step_log_fail(&rig->log, "eval-acquire", DLOCK_AFTER, 3);
    assert_int_equal(lock_hold_take(&pair, "k", 60000, &none), DLOCK_UNKNOWN);
    while (holder.holds != 1 && lock_rig_now_ms() < until)
        assert_int_equal(dlock_inspect(pair.session[1], "k", &holder, NULL),
                         DLOCK_OK);
    assert_true(holder.held);
    assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_OK);
    lock_pair_close(&pair);
}

/* Releases without an answer -------------------------------------------------------- */

/* Of several that were not answered, each is known again when it is repeated. */
static void test_each_unknown_release_is_known_again(void **state)
{
    struct lock_rig *rig = *state;
    struct dlock_grant outer, inner, other;
    struct lock_pair pair;

    rig->command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    pair = lock_pair_open(rig, "fenced");
    assert_int_equal(lock_hold_take(&pair, "k", 60000, &outer), DLOCK_OK);
    assert_int_equal(lock_hold_take(&pair, "k", 60000, &inner), DLOCK_OK);
    assert_int_equal(lock_hold_take(&pair, "other", 60000, &other), DLOCK_OK);
    step_log_fail(&rig->log, "eval-release", DLOCK_BEFORE, STEP_LOG_ALWAYS);
    assert_int_equal(lock_hold_give(&pair, &inner), DLOCK_UNREACHABLE);
    assert_int_equal(lock_hold_give(&pair, &other), DLOCK_UNREACHABLE);
    step_log_fail(&rig->log, "eval-release", DLOCK_BEFORE, 0);
    assert_int_equal(lock_hold_give(&pair, &inner), DLOCK_OK);
    assert_int_equal(lock_rig_probe(rig, "fenced", "k"), DLOCK_BUSY);
    assert_int_equal(lock_hold_give(&pair, &other), DLOCK_OK);
    assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_OK);
    assert_int_equal(lock_rig_ask(state, "EXISTS k other"), 0);
    lock_pair_close(&pair);
}

/* Carried out, the reply lost, and repeated when the outer hold has gone too. */
static void test_an_unknown_release_after_the_outer_hold(void **state)
{
    struct lock_rig *rig = *state;
    struct dlock_grant outer, inner;
    struct lock_pair pair;

    rig->command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    pair = lock_pair_open(rig, "fenced");
    assert_int_equal(lock_hold_take(&pair, "k", 60000, &outer), DLOCK_OK);
    assert_int_equal(lock_hold_take(&pair, "k", 60000, &inner), DLOCK_OK);
    step_log_fail(&rig->log, "eval-release", DLOCK_AFTER, STEP_LOG_ALWAYS);
    assert_int_equal(lock_hold_give(&pair, &inner), DLOCK_UNKNOWN);
    step_log_fail(&rig->log, "eval-release", DLOCK_AFTER, 0);
    assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_OK);
    assert_int_equal(lock_hold_give(&pair, &inner), DLOCK_OK);
    lock_pair_close(&pair);
}

/* Holds given back twice -------------------------------------------------------- */

static const char *const reentrant[] = {
    "reentrant-local", "reentrant", "spin", "redisson", "fair", "fenced"};
enum { REENTRANT_N = COUNT_OF(reentrant) };

/* The second release of an inner hold is told so, and the outer one stays. */
static void test_a_hold_is_given_back_once(void **state)
{
    struct lock_rig *rig = *state;

    for (size_t i = 0; i < REENTRANT_N; i++) {
        struct lock_pair pair = lock_pair_open(rig, reentrant[i]);
        struct dlock_grant outer, inner, last;

        assert_int_equal(lock_hold_take(&pair, "k", 0, &outer), DLOCK_OK);
        assert_int_equal(lock_hold_take(&pair, "k", 0, &inner), DLOCK_OK);
        assert_int_equal(lock_hold_take(&pair, "k", 0, &last), DLOCK_OK);
        assert_int_equal(lock_hold_give(&pair, &inner), DLOCK_OK);
        assert_int_equal(lock_hold_give(&pair, &inner), DLOCK_LOST);
        assert_int_equal(lock_hold_give(&pair, &inner), DLOCK_LOST);
        assert_int_equal(dlock_extend(pair.session[0], &inner, 5000, NULL),
                         DLOCK_LOST);
        assert_int_equal(lock_rig_probe(rig, reentrant[i], "k"), DLOCK_BUSY);
        /* In which order does not matter. */
        assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_OK);
        assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_LOST);
        assert_int_equal(lock_rig_probe(rig, reentrant[i], "k"), DLOCK_BUSY);
        assert_int_equal(lock_hold_give(&pair, &last), DLOCK_OK);
        assert_int_equal(lock_rig_probe(rig, reentrant[i], "k"), DLOCK_OK);
        lock_pair_close(&pair);
    }
}

/* A release that had worked is repeated: it gives back no second hold. */
static void test_an_unknown_release_gives_back_one_hold(void **state)
{
    struct lock_rig *rig = *state;

    for (size_t i = 0; i < REENTRANT_N; i++) {
        struct lock_pair pair = lock_pair_open(rig, reentrant[i]);
        struct dlock_grant outer, inner;

        assert_int_equal(lock_hold_take(&pair, "k", 0, &outer), DLOCK_OK);
        assert_int_equal(lock_hold_take(&pair, "k", 0, &inner), DLOCK_OK);
        step_log_fail(&rig->log, "eval-release", DLOCK_AFTER, 3);
        (void)lock_hold_give(&pair, &inner);
        step_log_fail(&rig->log, "eval-release", DLOCK_AFTER, 0);
        (void)lock_hold_give(&pair, &inner);
        assert_int_equal(lock_rig_probe(rig, reentrant[i], "k"), DLOCK_BUSY);
        assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_OK);
        assert_int_equal(lock_rig_probe(rig, reentrant[i], "k"), DLOCK_OK);
        lock_pair_close(&pair);
    }
}

#define TEST(name) cmocka_unit_test_setup(name, lock_rig_fresh)

static const struct CMUnitTest tests[] = {
    TEST(test_each_of_very_many_is_known),
    TEST(test_a_copy_does_not_hide_the_loss),
    TEST(test_nothing_is_left_of_a_superseded_grant),
    TEST(test_a_lost_hold_does_not_come_back),
    TEST(test_what_is_withdrawn_is_one_hold),
    TEST(test_each_unknown_release_is_known_again),
    TEST(test_an_unknown_release_after_the_outer_hold),
    TEST(test_a_hold_is_given_back_once),
    TEST(test_an_unknown_release_gives_back_one_hold),
};
TEST_MAIN_WITHIN(tests, lock_rig_setup, lock_rig_teardown)
