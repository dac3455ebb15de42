/*
 * dlock_cancel(), dlock_end_waits() and dlock_try(): whoever was cancelled holds
 * nothing and renews nothing.
 */
#include <stdatomic.h>

#include "tests/support/async_note.h"
#include "tests/support/lock_rig.h"

/* Cancelled ----------------------------------------------------------------- */

static void cancel_a_waiter(const char *strategy)
{
    struct lock_pair pair = lock_pair_open(strategy);
    struct dlock_grant grant;
    struct note note = {0};
    uint64_t start_ms;

    assert_int_equal(lock_rig_take(pair.session[1], "c", 0, 0, &grant), 0);
    assert_int_equal(note_begin(pair.session[0], "c", LOCK_RIG_LONG_MS, &note),
                     DLOCK_OK);
    lock_rig_sleep_ms(30);
    start_ms = lock_rig_now_ms();
    dlock_cancel(pair.session[0]);
    assert_int_equal(note_await(&note), DLOCK_TIMEOUT);
    assert_true(lock_rig_now_ms() - start_ms < LOCK_RIG_PROMPT_MS);
    assert_string_equal(note.text, "acquire: cancelled");
    /* It left no trace: not in the session, not in the queue. */
    assert_int_equal(dlock_release(pair.session[1], &grant, NULL), DLOCK_OK);
    assert_int_equal(lock_hold_take(&pair, "c", 0, &grant), 0);
    assert_int_equal(grant.holds, 1);
    assert_int_equal(lock_hold_give(&pair, &grant), DLOCK_OK);
}

static void test_cancelled_waiter_leaves_no_trace(NO_STATE)
{
    cancel_a_waiter("process");   /* sleeps on a condition */
    cancel_a_waiter("spin");      /* polls less and less often */
    cancel_a_waiter("fair");      /* stands in a queue */
    cancel_a_waiter("token-lua"); /* polls */
    cancel_a_waiter("redisson");  /* sleeps on a subscription */
}

/* The lock was granted, and the cancel came before the caller was told. */
static void test_cancel_after_the_grant_gives_it_back(NO_STATE)
{
    struct note note = {0};
    struct lock_pair pair;

    rig.watchdog_lease_ms = 60;
    pair = lock_pair_open("redisson");
    step_log_shut(&rig.log, "eval-acquire", DLOCK_AFTER);
    assert_int_equal(note_begin(pair.session[0], "k", 20000, &note), DLOCK_OK);
    step_log_await_gate(&rig.log, 1);
    assert_true(lock_rig_is_held());
    dlock_cancel(pair.session[0]);
    step_log_open(&rig.log);
    assert_int_equal(note_await(&note), DLOCK_TIMEOUT);
    assert_false(note.granted);
    assert_false(lock_rig_is_held());
    lock_rig_sleep_ms(60);
    assert_int_equal(step_log_count(&rig.log, "eval-renew"), 0);
}

/* The same as a second hold: the first one stays. */
static void test_cancelled_reentry_keeps_the_outer_hold(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct dlock_grant outer;
    struct note note = {0};

    assert_int_equal(lock_hold_take(&pair, "k", 0, &outer), 0);
    step_log_shut(&rig.log, "eval-acquire", DLOCK_AFTER);
    assert_int_equal(note_begin(pair.session[0], "k", 20000, &note), DLOCK_OK);
    step_log_await_gate(&rig.log, 1);
    dlock_cancel(pair.session[0]);
    step_log_open(&rig.log);
    assert_int_equal(note_await(&note), DLOCK_TIMEOUT);
    assert_int_equal(lock_rig_probe("redisson", "k"), DLOCK_BUSY);
    assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_OK);
    assert_int_equal(lock_rig_probe("redisson", "k"), DLOCK_OK);
}

/* Giving it back fails: then it is a don't know, which ends with its lease. */
static void test_cancel_that_cannot_give_back(NO_STATE)
{
    struct note note = {0};
    struct dlock_grant grant;
    struct lock_pair pair;

    rig.watchdog_lease_ms = 90;
    rig.command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    pair = lock_pair_open("redisson");
    step_log_shut(&rig.log, "eval-acquire", DLOCK_AFTER);
    step_log_fail(&rig.log, "eval-release", DLOCK_BEFORE, STEP_LOG_ALWAYS);
    assert_int_equal(note_begin(pair.session[0], "k", 20000, &note), DLOCK_OK);
    step_log_await_gate(&rig.log, 1);
    dlock_cancel(pair.session[0]);
    step_log_open(&rig.log);
    assert_int_equal(note_await(&note), DLOCK_UNKNOWN);
    assert_int_equal(lock_rig_take(pair.session[1], "k", 5000, 0, &grant),
                     DLOCK_OK);
    assert_int_equal(step_log_count(&rig.log, "eval-renew"), 0);
}

/* At any moment of an acquire that succeeds: granted, or gone; never both. */
static void test_cancel_at_any_moment(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    unsigned cancelled = 0;

    for (unsigned i = 0; i < 200; i++) {
        struct note note = {.n = 0};

        assert_int_equal(note_begin(pair.session[0], "k", 20000, &note),
                         DLOCK_OK);
        for (volatile unsigned spin = 0; spin < i * 200; spin++)
            ;
        dlock_cancel(pair.session[0]);
        if (note_await(&note) == DLOCK_TIMEOUT) {
            cancelled++;
            assert_false(lock_rig_is_held());
            continue;
        }
        assert_int_equal(note.status, DLOCK_OK);
        assert_int_equal(note.grant.holds, 1);
        assert_int_equal(dlock_release(pair.session[0], &note.grant, NULL),
                         DLOCK_OK);
    }
    assert_int_not_equal(cancelled, 0);
}

/* A client that ends all waits ends those of its threads as well. */
static void test_ended_waits_call_back(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct dlock_grant grant;
    struct note note = {.n = 0};

    assert_int_equal(lock_rig_take(pair.session[1], "k", 0, 0, &grant), 0);
    assert_int_equal(note_begin(pair.session[0], "k", 20000, &note), DLOCK_OK);
    lock_rig_sleep_ms(20);
    dlock_end_waits(pair.client[0]);
    assert_int_equal(note_await(&note), DLOCK_TIMEOUT);
}

static void *cancel_soon(void *arg)
{
    lock_rig_sleep_ms(30);
    dlock_cancel(arg);
    return NULL;
}

/* A cancel concerns the call under way, synchronous ones too, and no other. */
static void test_cancel_of_the_call_under_way_only(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct dlock_grant grant, other;
    pthread_t thread;

    dlock_cancel(NULL);
    dlock_cancel(pair.session[0]);
    assert_int_equal(lock_rig_take(pair.session[0], "k", 10, 0, &grant), 0);
    assert_int_equal(
        pthread_create(&thread, NULL, cancel_soon, pair.session[1]), 0);
    assert_int_equal(lock_rig_take(pair.session[1], "k", 20000, 0, &other),
                     DLOCK_TIMEOUT);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Waiters of the same client are woken by somebody's cancel, and sleep on. */
static void test_cancel_leaves_the_others_waiting(NO_STATE)
{
    struct dlock *client = lock_rig_client("redisson");
    struct dlock_session *session[3];
    struct dlock_grant grant;
    struct note note[3] = {{0}};

    for (int i = 0; i < 3; i++)
        session[i] = lock_rig_session(client);
    assert_int_equal(lock_rig_take(session[0], "k", 0, 0, &grant), DLOCK_OK);
    assert_int_equal(note_begin(session[1], "k", 20000, &note[1]), DLOCK_OK);
    assert_int_equal(note_begin(session[2], "k", 20000, &note[2]), DLOCK_OK);
    lock_rig_sleep_ms(30);
    dlock_cancel(session[1]);
    assert_int_equal(note_await(&note[1]), DLOCK_TIMEOUT);
    lock_rig_sleep_ms(30);
    assert_int_equal(atomic_load(&note[2].n), 0);
    assert_int_equal(dlock_release(session[0], &grant, NULL), DLOCK_OK);
    assert_int_equal(note_await(&note[2]), DLOCK_OK);
}

/* Trying ---------------------------------------------------------------------- */

static void test_try_does_not_wait(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct dlock_terms terms = {.wait_ms = 20000, .lease_ms = 5000};
    struct dlock_grant grant, other;

    assert_int_equal(dlock_try(pair.session[0], "k", &terms, &grant, NULL),
                     DLOCK_OK);
    assert_in_range(dlock_remaining_ms(pair.session[0], &grant), 1, 5000);
    step_log_reset(&rig.log);
    assert_int_equal(dlock_try(pair.session[1], "k", &terms, &other, NULL),
                     DLOCK_BUSY);
    assert_int_equal(step_log_count(&rig.log, "eval-acquire"), 1);
    assert_int_equal(step_log_count(&rig.log, "subscribe"), 0);
    assert_int_equal(lock_hold_give(&pair, &grant), DLOCK_OK);
    assert_int_equal(dlock_try(pair.session[1], "k", NULL, &other, NULL),
                     DLOCK_OK);
    assert_int_equal(dlock_try(pair.session[1], "k", NULL, NULL, NULL),
                     DLOCK_MISUSE);
}

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_cancelled_waiter_leaves_no_trace),
    LOCK_TEST(test_cancel_after_the_grant_gives_it_back),
    LOCK_TEST(test_cancelled_reentry_keeps_the_outer_hold),
    LOCK_TEST(test_cancel_that_cannot_give_back),
    LOCK_TEST(test_cancel_at_any_moment),
    LOCK_TEST(test_ended_waits_call_back),
    LOCK_TEST(test_cancel_of_the_call_under_way_only),
    LOCK_TEST(test_cancel_leaves_the_others_waiting),
    LOCK_TEST(test_try_does_not_wait),
};
LOCK_RIG_MAIN(tests)
