/*
 * Release by force: the name is free at once, the next waiter is woken, and
 * the holder is told that it was force, not an accident, within one renewal
 * period.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/support/lock_rig.h"

enum { LEASE_MS = LOCK_RIG_LEASE_MS / 2, PERIOD_MS = LEASE_MS / 3 };

struct lost_note {
    atomic_uint n;
    atomic_int reason;
};

static void note_lost(void *ctx, const char *name, const char *owner,
                      enum dlock_loss reason)
{
    struct lost_note *note = ctx;

    (void)owner;
    if (strcmp(name, "k") != 0)
        return;
    atomic_store(&note->reason, (int)reason);
    (void)atomic_fetch_add(&note->n, 1);
}

static void watch_losses(struct lock_rig *rig, struct lost_note *note)
{
    rig->watchdog_lease_ms = LEASE_MS;
    rig->on_lost = note_lost;
    rig->on_lost_ctx = note;
}

static void await_lost(struct lost_note *note)
{
    uint64_t until = lock_rig_now_ms() + LOCK_RIG_LONG_MS;

    while (atomic_load(&note->n) == 0 && lock_rig_now_ms() < until)
        lock_rig_sleep_ms(1);
    assert_int_equal(atomic_load(&note->n), 1);
}

static void test_holder_is_told(void **state)
{
    struct lock_rig *rig = *state;
    struct lost_note note = {0};
    struct dlock_grant grant, inner;
    struct lock_pair pair;

    watch_losses(rig, &note);
    pair = lock_pair_open(rig, "redisson");
    assert_int_equal(lock_rig_take(pair.session[0], "k", 0, 0, &grant), 0);
    assert_int_equal(lock_rig_take(pair.session[0], "k", 0, 5000, &inner), 0);
    assert_int_equal(dlock_force_release(pair.session[1], "k", NULL), DLOCK_OK);
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 0);
    await_lost(&note);
    /* By a renewal: when the lease ends, the reason would be that. */
    assert_int_equal(atomic_load(&note.reason), DLOCK_LOSS_FORCED);
    assert_int_equal(dlock_remaining_ms(pair.session[0], &grant), 0);
    assert_int_equal(dlock_release(pair.session[0], &inner, NULL), DLOCK_LOST);
    assert_int_equal(dlock_release(pair.session[0], &grant, NULL), DLOCK_LOST);
    lock_pair_close(&pair);
}

static void note_grant(void *ctx, struct dlock_session *session,
                       enum dlock_status status,
                       const struct dlock_grant *grant,
                       const struct dlock_error *error)
{
    _Atomic uint64_t *token = ctx;

    (void)session;
    (void)status;
    (void)error;
    atomic_store(token, grant == NULL ? UINT64_MAX : grant->token);
}

/* Also if somebody else has it by then: force is why, not the somebody. */
static void test_waiter_is_woken(void **state)
{
    struct lock_rig *rig = *state;
    struct lost_note note = {0};
    struct dlock_grant grant;
    struct lock_pair pair;
    struct dlock_terms terms = {.wait_ms = 20000};
    _Atomic uint64_t token = 0;
    uint64_t forced_ms;
    struct dlock *third;
    struct dlock_session *force;

    watch_losses(rig, &note);
    pair = lock_pair_open(rig, "fenced");
    third = lock_rig_client(rig, "fenced");
    force = lock_rig_session(third);
    assert_int_equal(lock_rig_take(pair.session[0], "k", 0, 0, &grant), 0);
    assert_int_equal(dlock_acquire_async(pair.session[1], "k", &terms,
                                         note_grant, &token, NULL),
                     DLOCK_OK);
    step_log_await(&rig->log, "subscribe", 1);
    lock_rig_sleep_ms(20);
    forced_ms = lock_rig_now_ms();
    assert_int_equal(dlock_force_release(force, "k", NULL), DLOCK_OK);
    while (atomic_load(&token) == 0 &&
           lock_rig_now_ms() < forced_ms + LOCK_RIG_LONG_MS)
        lock_rig_sleep_ms(1);
    assert_int_equal(atomic_load(&token), grant.token + 1);
    /* Not only when the lease would have ended. */
    assert_in_range(lock_rig_now_ms() - forced_ms, 0, 2 * PERIOD_MS);
    await_lost(&note);
    assert_int_equal(atomic_load(&note.reason), DLOCK_LOSS_FORCED);
    assert_int_equal(dlock_release(pair.session[0], &grant, NULL), DLOCK_LOST);
    dlock_session_close(force);
    dlock_close(third);
    lock_pair_close(&pair);
}

/* The word is not for the next owner, and does not stay for ever. */
static void test_word_names_the_owner(void **state)
{
    struct lock_rig *rig = *state;
    struct lost_note note = {0};
    struct dlock_grant grant;
    struct lock_pair pair;

    watch_losses(rig, &note);
    pair = lock_pair_open(rig, "redisson");
    assert_int_equal(lock_rig_take(pair.session[0], "k", 0, 5000, &grant), 0);
    assert_int_equal(dlock_force_release(pair.session[1], "k", NULL), DLOCK_OK);
    assert_in_range(redis_server_number(rig->server, "PTTL {k}:dlock-forced"),
                    60000, 65000);
    assert_int_equal(lock_rig_take(pair.session[1], "k", 0, 0, &grant), 0);
    redis_server_ask(rig->server, "DEL k", NULL, 0);
    await_lost(&note);
    assert_int_equal(atomic_load(&note.reason), DLOCK_LOSS_FLUSHED);
    lock_pair_close(&pair);
}

/* Takes it, and sleeps through the lease: in a renewal of another lock. */
static enum dlock_loss expire(struct lock_rig *rig, struct lock_pair *pair,
                              struct lost_note *note)
{
    struct dlock_grant grant, other;

    atomic_store(&note->n, 0);
    step_log_shut(&rig->log, "eval-renew", DLOCK_BEFORE);
    assert_int_equal(lock_rig_take(pair->session[0], "j", 0, 0, &other), 0);
    step_log_await_gate(&rig->log, 1);
    assert_int_equal(lock_rig_take(pair->session[0], "k", 0, 0, &grant), 0);
    lock_rig_sleep_ms(LEASE_MS + 50);
    step_log_open(&rig->log);
    await_lost(note);
    assert_int_equal(dlock_release(pair->session[0], &grant, NULL), DLOCK_LOST);
    return (enum dlock_loss)atomic_load(&note->reason);
}

/* The same session gets it again: that grant is not ended by the old force. */
static void test_word_is_not_for_the_next_grant(void **state)
{
    static const char *const locks[] = {"redisson", "fair",      "watchdog",
                                        "spin",     "reentrant", "fenced"};
    struct lock_rig *rig = *state;

    for (size_t i = 0; i < sizeof(locks) / sizeof(locks[0]); i++) {
        struct lost_note note = {0};
        struct dlock_grant grant;
        struct lock_pair pair;

        watch_losses(rig, &note);
        pair = lock_pair_open(rig, locks[i]);
        assert_int_equal(lock_rig_take(pair.session[0], "k", 0, 0, &grant), 0);
        assert_int_equal(dlock_force_release(pair.session[1], "k", NULL), 0);
        await_lost(&note);
        assert_int_equal(atomic_load(&note.reason), DLOCK_LOSS_FORCED);
        assert_int_equal(dlock_release(pair.session[0], &grant, NULL),
                         DLOCK_LOST);
        assert_int_equal(expire(rig, &pair, &note), DLOCK_LOSS_EXPIRED);
        lock_pair_close(&pair);
        redis_server_ask(rig->server, "FLUSHALL", NULL, 0);
    }
}

/* Nor if the old grant has not heard of it yet: each has its own reason. */
static void test_word_is_for_the_old_grant(void **state)
{
    struct lock_rig *rig = *state;
    struct lost_note note = {0};
    struct dlock_grant old, grant;
    struct lock_pair pair;

    watch_losses(rig, &note);
    pair = lock_pair_open(rig, "redisson");
    assert_int_equal(lock_rig_take(pair.session[0], "k", 0, 0, &old), 0);
    assert_int_equal(dlock_force_release(pair.session[1], "k", NULL), DLOCK_OK);
    assert_int_equal(lock_rig_take(pair.session[0], "k", 0, 0, &grant), 0);
    await_lost(&note);
    assert_int_equal(atomic_load(&note.reason), DLOCK_LOSS_FORCED);
    assert_int_equal(dlock_remaining_ms(pair.session[0], &old), 0);
    assert_int_equal(dlock_release(pair.session[0], &old, NULL), DLOCK_LOST);
    atomic_store(&note.n, 0);
    redis_server_ask(rig->server, "DEL k", NULL, 0);
    await_lost(&note);
    assert_int_equal(atomic_load(&note.reason), DLOCK_LOSS_FLUSHED);
    assert_int_equal(dlock_release(pair.session[0], &grant, NULL), DLOCK_LOST);
    lock_pair_close(&pair);
}

static void test_nothing_to_force(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct lock_pair none = lock_pair_open(*state, "none");
    struct dlock_error error = {""};

    assert_int_equal(dlock_force_release(pair.session[0], "k", NULL),
                     DLOCK_LOST);
    assert_int_equal(dlock_force_release(pair.session[0], "", NULL),
                     DLOCK_MISUSE);
    assert_int_equal(dlock_force_release(NULL, "k", NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_force_release(none.session[0], "k", &error),
                     DLOCK_MISUSE);
    assert_string_equal(error.text, "force: strategy none cannot");
    lock_pair_close(&none);
    lock_pair_close(&pair);
}

static void *wait_for_it(void *session)
{
    struct dlock_grant grant;

    assert_int_equal(lock_rig_take(session, "k", 10000, 0, &grant), DLOCK_OK);
    assert_int_equal(dlock_release(session, &grant, NULL), DLOCK_OK);
    return NULL;
}

/* Where waiters are woken but do not queue they are counted, without names. */
static void test_who_waits_without_a_queue_is_counted(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct dlock_waiting waiters[2] = {{"x"}};
    struct dlock_grant grant;
    pthread_t thread;
    size_t n = 7;

    assert_int_equal(
        dlock_inspect_waiters(pair.session[0], "k", waiters, 2, &n, NULL),
        DLOCK_OK);
    assert_int_equal(n, 0);
    assert_int_equal(lock_rig_take(pair.session[0], "k", 0, 0, &grant),
                     DLOCK_OK);
    pthread_create(&thread, NULL, wait_for_it, pair.session[1]);
    while (n == 0)
        assert_int_equal(
            dlock_inspect_waiters(pair.session[0], "k", waiters, 2, &n, NULL),
            DLOCK_OK);
    assert_int_equal(n, 1);
    assert_string_equal(waiters[0].owner, "");
    assert_int_equal(dlock_release(pair.session[0], &grant, NULL), DLOCK_OK);
    pthread_join(thread, NULL);
    lock_pair_close(&pair);
}

static void test_bad_questions_about_waiters(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct lock_pair polls = lock_pair_open(*state, "spin");
    struct dlock_waiting waiters[2];
    struct dlock_error error;
    size_t n = 7;

    assert_int_equal(
        dlock_inspect_waiters(pair.session[0], "k", NULL, 2, &n, NULL),
        DLOCK_MISUSE);
    assert_int_equal(
        dlock_inspect_waiters(pair.session[0], "\n", waiters, 2, &n, NULL),
        DLOCK_MISUSE);
    assert_int_equal(
        dlock_inspect_waiters(polls.session[0], "k", waiters, 2, &n, &error),
        DLOCK_MISUSE);
    assert_string_equal(error.text, "waiters: strategy spin cannot");
    lock_pair_close(&polls);
    lock_pair_close(&pair);
}

static void test_losses_have_texts(void **state)
{
    (void)state;
    for (int i = 0; i < DLOCK_LOSS_N; i++)
        assert_true(strlen(dlock_loss_text((enum dlock_loss)i)) > 10);
    assert_string_equal(dlock_loss_text(DLOCK_LOSS_FORCED),
                        "released by force");
    assert_non_null(dlock_loss_text(DLOCK_LOSS_N));
}

#define TEST(name) cmocka_unit_test_setup(name, lock_rig_fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_holder_is_told),
        TEST(test_waiter_is_woken),
        TEST(test_word_names_the_owner),
        TEST(test_nothing_to_force),
        TEST(test_word_is_not_for_the_next_grant),
        TEST(test_word_is_for_the_old_grant),
        TEST(test_who_waits_without_a_queue_is_counted),
        TEST(test_bad_questions_about_waiters),
        TEST(test_losses_have_texts),
    };

    return cmocka_run_group_tests(tests, lock_rig_setup, lock_rig_teardown);
}
