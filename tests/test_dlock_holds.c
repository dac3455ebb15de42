/*
 * Several holds of one session: what is done with one of them, and what goes
 * wrong with it, is done to none of the others.
 */
#include <stdio.h>

#include "tests/support/lock_rig.h"

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

static bool is_there(char side, int i)
{
    char command[32];

    (void)snprintf(command, sizeof(command), "EXISTS %c%d", side, i);
    return lock_rig_ask(command) == 1;
}

/*
 * Two sessions of a client, whose attempts have the same numbers: each grant is
 * known by its own owner, whatever is given back around it, and renewed.
 */
static void test_each_of_very_many_is_known(NO_STATE)
{
    static struct dlock_grant of_a[MANY], of_b[MANY];
    struct dlock_session *a, *b;
    struct dlock *client;

    rig.watchdog_lease_ms = LOCK_RIG_LEASE_MS;
    client = lock_rig_client("redisson");
    a = lock_rig_session(client);
    b = lock_rig_session(client);
    take_many(a, 'a', of_a);
    take_many(b, 'b', of_b);
    give_every_second(a, of_a, 0);
    give_every_second(b, of_b, 1);
    lock_rig_sleep_ms(LOCK_RIG_LEASE_MS +
                      500); /* longer than a lease; no event tells that */
    for (int i = 0; i < MANY; i += 2) {
        assert_true(is_there('a', i + 1));
        assert_true(is_there('b', i));
        assert_true(dlock_remaining_ms(a, &of_a[i + 1]) > 0);
        assert_true(dlock_remaining_ms(b, &of_b[i]) > 0);
    }
    give_every_second(a, of_a, 1);
    give_every_second(b, of_b, 0);
    for (int i = 0; i < MANY; i++)
        assert_false(is_there('a', i) || is_there('b', i));
}

/* Lost, and taken anew -------------------------------------------------------- */

/* The copy of a command that began anew is told so as well. */
static void test_a_copy_does_not_hide_the_loss(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("fenced");
    struct dlock_grant outer, anew;

    assert_int_equal(lock_hold_take(&pair, "k", 0, &outer), DLOCK_OK);
    lock_rig_end_lease();
    step_log_fail(&rig.log, "eval-acquire", DLOCK_AFTER, 1);
    assert_int_equal(lock_hold_take(&pair, "k", 0, &anew), DLOCK_OK);
    assert_int_equal(anew.holds, 1);
    assert_true(anew.token > outer.token);
    assert_int_equal(lock_hold_left_ms(&pair, &outer), 0);
    assert_int_equal(lock_hold_give(&pair, &anew), DLOCK_OK);
    assert_false(lock_rig_is_held());
    assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_LOST);
}

/* Nobody renews what has a lease of its own, so no watchdog has found it lost. */
static void test_nothing_is_left_of_a_superseded_grant(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("fenced");
    struct dlock_grant outer, anew;

    assert_int_equal(lock_hold_take(&pair, "k", 20000, &outer), DLOCK_OK);
    lock_rig_end_lease();
    assert_int_equal(lock_hold_take(&pair, "k", 20000, &anew), DLOCK_OK);
    assert_int_equal(lock_hold_left_ms(&pair, &outer), 0);
    assert_true(lock_hold_left_ms(&pair, &anew) > 0);
    assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_LOST);
    assert_int_equal(lock_hold_give(&pair, &anew), DLOCK_OK);
}

/* What is withdrawn does not go to a hold that was lost before. */
static void test_a_lost_hold_does_not_come_back(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("fenced");
    uint64_t until = lock_rig_now_ms() + LOCK_RIG_LONG_MS;
    struct dlock_grant outer, none;

    assert_int_equal(lock_hold_take(&pair, "k", 0, &outer), DLOCK_OK);
    lock_rig_end_lease();
    step_log_fail(&rig.log, "eval-acquire", DLOCK_AFTER, 3);
    assert_int_equal(lock_hold_take(&pair, "k", 0, &none), DLOCK_UNKNOWN);
    while (lock_rig_is_held() && lock_rig_now_ms() < until)
        lock_rig_sleep_ms(1);
    assert_false(lock_rig_is_held());
    assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_LOST);
}

/* And a hold that was not lost stays. */
static void test_what_is_withdrawn_is_one_hold(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("fenced");
    uint64_t until = lock_rig_now_ms() + LOCK_RIG_LONG_MS;
    struct dlock_grant outer, none;
    struct dlock_holder holder = {.holds = 2};

    assert_int_equal(lock_hold_take(&pair, "k", 60000, &outer), DLOCK_OK);
    step_log_fail(&rig.log, "eval-acquire", DLOCK_AFTER, 3);
    assert_int_equal(lock_hold_take(&pair, "k", 60000, &none), DLOCK_UNKNOWN);
    while (holder.holds != 1 && lock_rig_now_ms() < until)
        assert_int_equal(dlock_inspect(pair.session[1], "k", &holder, NULL),
                         DLOCK_OK);
    assert_true(holder.held);
    assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_OK);
}

/* Releases without an answer -------------------------------------------------------- */

/* Of several that were not answered, each is known again when it is repeated. */
static void test_each_unknown_release_is_known_again(NO_STATE)
{
    struct dlock_grant outer, inner, other;
    struct lock_pair pair;

    rig.command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    pair = lock_pair_open("fenced");
    assert_int_equal(lock_hold_take(&pair, "k", 60000, &outer), DLOCK_OK);
    assert_int_equal(lock_hold_take(&pair, "k", 60000, &inner), DLOCK_OK);
    assert_int_equal(lock_hold_take(&pair, "other", 60000, &other), DLOCK_OK);
    step_log_fail(&rig.log, "eval-release", DLOCK_BEFORE, STEP_LOG_ALWAYS);
    assert_int_equal(lock_hold_give(&pair, &inner), DLOCK_UNREACHABLE);
    assert_int_equal(lock_hold_give(&pair, &other), DLOCK_UNREACHABLE);
    step_log_fail(&rig.log, "eval-release", DLOCK_BEFORE, 0);
    assert_int_equal(lock_hold_give(&pair, &inner), DLOCK_OK);
    assert_int_equal(lock_rig_probe("fenced", "k"), DLOCK_BUSY);
    assert_int_equal(lock_hold_give(&pair, &other), DLOCK_OK);
    assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_OK);
    assert_int_equal(lock_rig_ask("EXISTS k other"), 0);
}

/* Carried out, the reply lost, and repeated when the outer hold has gone too. */
static void test_an_unknown_release_after_the_outer_hold(NO_STATE)
{
    struct dlock_grant outer, inner;
    struct lock_pair pair;

    rig.command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    pair = lock_pair_open("fenced");
    assert_int_equal(lock_hold_take(&pair, "k", 60000, &outer), DLOCK_OK);
    assert_int_equal(lock_hold_take(&pair, "k", 60000, &inner), DLOCK_OK);
    step_log_fail(&rig.log, "eval-release", DLOCK_AFTER, STEP_LOG_ALWAYS);
    assert_int_equal(lock_hold_give(&pair, &inner), DLOCK_UNKNOWN);
    step_log_fail(&rig.log, "eval-release", DLOCK_AFTER, 0);
    assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_OK);
    assert_int_equal(lock_hold_give(&pair, &inner), DLOCK_OK);
}

/* Holds given back twice -------------------------------------------------------- */

static const char *const reentrant[] = {
    "reentrant-local", "reentrant", "spin", "redisson", "fair", "fenced"};
enum { REENTRANT_N = COUNT_OF(reentrant) };

/* The second release of an inner hold is told so, and the outer one stays. */
static void test_a_hold_is_given_back_once(NO_STATE)
{
    for (size_t i = 0; i < REENTRANT_N; i++) {
        struct lock_pair pair = lock_pair_open(reentrant[i]);
        struct dlock_grant outer, inner, last;

        assert_int_equal(lock_hold_take(&pair, "k", 0, &outer), DLOCK_OK);
        assert_int_equal(lock_hold_take(&pair, "k", 0, &inner), DLOCK_OK);
        assert_int_equal(lock_hold_take(&pair, "k", 0, &last), DLOCK_OK);
        assert_int_equal(lock_hold_give(&pair, &inner), DLOCK_OK);
        assert_int_equal(lock_hold_give(&pair, &inner), DLOCK_LOST);
        assert_int_equal(lock_hold_give(&pair, &inner), DLOCK_LOST);
        assert_int_equal(lock_hold_extend(&pair, &inner, 5000), DLOCK_LOST);
        assert_int_equal(lock_rig_probe(reentrant[i], "k"), DLOCK_BUSY);
        /* In which order does not matter. */
        assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_OK);
        assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_LOST);
        assert_int_equal(lock_rig_probe(reentrant[i], "k"), DLOCK_BUSY);
        assert_int_equal(lock_hold_give(&pair, &last), DLOCK_OK);
        assert_int_equal(lock_rig_probe(reentrant[i], "k"), DLOCK_OK);
        lock_pair_close(&pair);
    }
}

/* A release that had worked is repeated: it gives back no second hold. */
static void test_an_unknown_release_gives_back_one_hold(NO_STATE)
{
    for (size_t i = 0; i < REENTRANT_N; i++) {
        struct lock_pair pair = lock_pair_open(reentrant[i]);
        struct dlock_grant outer, inner;

        assert_int_equal(lock_hold_take(&pair, "k", 0, &outer), DLOCK_OK);
        assert_int_equal(lock_hold_take(&pair, "k", 0, &inner), DLOCK_OK);
        step_log_fail(&rig.log, "eval-release", DLOCK_AFTER, 3);
        (void)lock_hold_give(&pair, &inner);
        step_log_fail(&rig.log, "eval-release", DLOCK_AFTER, 0);
        (void)lock_hold_give(&pair, &inner);
        assert_int_equal(lock_rig_probe(reentrant[i], "k"), DLOCK_BUSY);
        assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_OK);
        assert_int_equal(lock_rig_probe(reentrant[i], "k"), DLOCK_OK);
        lock_pair_close(&pair);
    }
}

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_each_of_very_many_is_known),
    LOCK_TEST(test_a_copy_does_not_hide_the_loss),
    LOCK_TEST(test_nothing_is_left_of_a_superseded_grant),
    LOCK_TEST(test_a_lost_hold_does_not_come_back),
    LOCK_TEST(test_what_is_withdrawn_is_one_hold),
    LOCK_TEST(test_each_unknown_release_is_known_again),
    LOCK_TEST(test_an_unknown_release_after_the_outer_hold),
    LOCK_TEST(test_a_hold_is_given_back_once),
    LOCK_TEST(test_an_unknown_release_gives_back_one_hold),
};
LOCK_RIG_MAIN(tests)
