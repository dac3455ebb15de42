/*
 * Asynchronous calls: a callback comes exactly once, a session does one thing at a
 * time, and a close waits for the callbacks and no longer.
 */
#include <stdatomic.h>
#include <string.h>

#include "tests/support/async_note.h"
#include "tests/support/lock_rig.h"

static void test_callback_comes_once_on_another_thread(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct note taken = {0};
    struct note given = {0};

    assert_ok(note_begin(pair.session[0], "k", 0, &taken));
    assert_ok(note_await(&taken));
    assert_true(taken.granted);
    assert_string_equal(taken.grant.name, "k");
    assert_string_equal(taken.text, "");
    assert_false(pthread_equal(taken.thread, pthread_self()));
    assert_int_equal(lock_rig_probe("redisson", "k"), DLOCK_BUSY);
    assert_ok(dlock_release_async(pair.session[0], &taken.grant, note_done,
                                  &given, NULL));
    assert_ok(note_await(&given));
    assert_false(given.granted);
    assert_ok(lock_rig_probe("redisson", "k"));
    lock_rig_sleep_ms(20);
    assert_int_equal(atomic_load(&taken.n), 1);
    assert_int_equal(atomic_load(&given.n), 1);
}

static void test_busy_and_refused(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct dlock_terms terms = {.wait_ms = 0};
    struct dlock_grant grant;
    struct note note = {0};

    assert_ok(lock_rig_take(pair.session[1], "k", 0, 0, &grant));
    assert_ok(note_begin(pair.session[0], "k", 0, &note));
    assert_int_equal(note_await(&note), DLOCK_BUSY);
    assert_false(note.granted);
    assert_string_equal(note.text, "acquire: somebody else holds the lock");
    /* Refused at once: there is no callback to wait for. */
    atomic_store(&note.n, 0);
    assert_int_equal(note_begin(pair.session[0], "", 0, &note), DLOCK_MISUSE);
    assert_int_equal(
        dlock_acquire_async(pair.session[0], "k", &terms, NULL, NULL, NULL),
        DLOCK_MISUSE);
    assert_int_equal(
        dlock_release_async(pair.session[0], NULL, note_done, &note, NULL),
        DLOCK_MISUSE);
    assert_int_equal(
        dlock_acquire_async(NULL, "k", &terms, note_done, &note, NULL),
        DLOCK_MISUSE);
    /* And a refused session is idle again. */
    assert_ok(note_begin(pair.session[0], "free", 0, &note));
    assert_ok(note_await(&note));
}

static void test_a_session_does_one_thing_at_a_time(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct dlock_session *busy = pair.session[0];
    struct dlock_error error = {""};
    struct dlock_grant held, grant;
    struct dlock_holder holder;
    struct note first = {0};
    struct note second = {0};

    assert_ok(lock_rig_take(pair.session[1], "k", 0, 0, &held));
    assert_ok(note_begin(busy, "k", 10000, &first));
    assert_int_equal(note_begin(busy, "other", 0, &second), DLOCK_MISUSE);
    assert_int_equal(dlock_try(busy, "other", NULL, &grant, &error),
                     DLOCK_MISUSE);
    assert_string_equal(error.text, "acquire: the session is in another call");
    assert_int_equal(dlock_release(busy, &held, NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_extend(busy, &held, 100, NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_inspect(busy, "k", &holder, NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_force_release(busy, "k", NULL), DLOCK_MISUSE);
    assert_ok(dlock_release(pair.session[1], &held, NULL));
    assert_ok(note_await(&first));
    assert_ok(dlock_release(busy, &first.grant, NULL));
    assert_int_equal(atomic_load(&second.n), 0);
}

static void test_callback_may_close_the_session(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct note note = {.close = true};

    assert_ok(note_begin(pair.session[0], "k", 0, &note));
    assert_ok(note_await(&note));
}

static void test_close_cancels_and_waits(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct dlock_grant grant;
    struct note note = {0};
    uint64_t start_ms;

    assert_ok(lock_rig_take(pair.session[1], "k", 0, 0, &grant));
    assert_ok(note_begin(pair.session[0], "k", LOCK_RIG_LONG_MS, &note));
    start_ms = lock_rig_now_ms();
    dlock_session_close(pair.session[0]);
    assert_int_equal(atomic_load(&note.n), 1);
    assert_int_equal(note.status, DLOCK_TIMEOUT);
    assert_true(lock_rig_now_ms() - start_ms < LOCK_RIG_PROMPT_MS);
}

/* A callback that waits for a lock by itself does not keep a close waiting. */
static void wait_inside(void *ctx, struct dlock_session *session,
                        enum dlock_status status,
                        const struct dlock_grant *grant,
                        const struct dlock_error *error)
{
    struct note *note = ctx;
    struct dlock_grant other;

    (void)status;
    (void)grant;
    (void)error;
    (void)atomic_fetch_add(&note->n, 1);
    note->status = lock_rig_take(session, "k", LOCK_RIG_LONG_MS, 0, &other);
}

static void test_close_ends_a_wait_inside_a_callback(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct dlock_terms terms = {.wait_ms = 0};
    struct note note = {.n = 0};
    struct dlock_grant grant;
    uint64_t start_ms;

    assert_ok(lock_rig_take(pair.session[1], "k", 0, 0, &grant));
    assert_ok(dlock_acquire_async(pair.session[0], "k", &terms, wait_inside,
                                  &note, NULL));
    while (atomic_load(&note.n) == 0)
        lock_rig_sleep_ms(1);
    start_ms = lock_rig_now_ms();
    dlock_session_close(pair.session[0]);
    assert_true(lock_rig_now_ms() - start_ms < LOCK_RIG_PROMPT_MS);
    assert_int_equal(note.status, DLOCK_TIMEOUT);
}

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_callback_comes_once_on_another_thread),
    LOCK_TEST(test_busy_and_refused),
    LOCK_TEST(test_a_session_does_one_thing_at_a_time),
    LOCK_TEST(test_callback_may_close_the_session),
    LOCK_TEST(test_close_cancels_and_waits),
    LOCK_TEST(test_close_ends_a_wait_inside_a_callback),
};
LOCK_RIG_MAIN(tests)
