/*
 * Asynchronous calls, dlock_try() and dlock_cancel(): a callback comes exactly
 * once, a session does one thing at a time, and whoever was cancelled holds
 * nothing and renews nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/lock_rig.h"

/* What a callback was told. */
struct note {
    pthread_t thread;
    struct dlock_grant grant;
    atomic_uint n;
    enum dlock_status status;
    bool granted;
    bool close; /* the callback closes the session */
    char text[200];
};

static void note_done(void *ctx, struct dlock_session *session,
                      enum dlock_status status, const struct dlock_grant *grant,
                      const struct dlock_error *error)
{
    struct note *note = ctx;

    note->status = status;
    note->granted = grant != NULL;
    if (grant != NULL)
        note->grant = *grant;
    memcpy(note->text, error->text, sizeof(note->text));
    note->thread = pthread_self();
    if (note->close)
        dlock_session_close(session);
    (void)atomic_fetch_add(&note->n, 1);
}

static enum dlock_status await(struct note *note)
{
    uint64_t until = lock_rig_now_ms() + 20000;

    while (atomic_load(&note->n) == 0 && lock_rig_now_ms() < until)
        lock_rig_sleep_ms(1);
    assert_int_equal(atomic_load(&note->n), 1);
    return note->status;
}

static enum dlock_status begin(struct dlock_session *session, const char *name,
                               unsigned wait_ms, struct note *note)
{
    struct dlock_terms terms = {.wait_ms = wait_ms};

    return dlock_acquire_async(session, name, &terms, note_done, note, NULL);
}

/* Asynchronous -------------------------------------------------------------- */

static void test_callback_comes_once_on_another_thread(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct note taken = {0};
    struct note given = {0};

    assert_int_equal(begin(pair.session[0], "k", 0, &taken), DLOCK_OK);
    assert_int_equal(await(&taken), DLOCK_OK);
    assert_true(taken.granted);
    assert_string_equal(taken.grant.name, "k");
    assert_string_equal(taken.text, "");
    assert_false(pthread_equal(taken.thread, pthread_self()));
    assert_int_equal(lock_rig_probe(*state, "redisson", "k"), DLOCK_BUSY);
    assert_int_equal(dlock_release_async(pair.session[0], &taken.grant,
                                         note_done, &given, NULL),
                     DLOCK_OK);
    assert_int_equal(await(&given), DLOCK_OK);
    assert_false(given.granted);
    assert_int_equal(lock_rig_probe(*state, "redisson", "k"), DLOCK_OK);
    lock_rig_sleep_ms(20);
    assert_int_equal(atomic_load(&taken.n), 1);
    assert_int_equal(atomic_load(&given.n), 1);
    lock_pair_close(&pair);
}

static void test_busy_and_refused(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct dlock_terms terms = {.wait_ms = 0};
    struct dlock_grant grant;
    struct note note = {0};

    assert_int_equal(lock_rig_take(pair.session[1], "k", 0, 0, &grant), 0);
    assert_int_equal(begin(pair.session[0], "k", 0, &note), DLOCK_OK);
    assert_int_equal(await(&note), DLOCK_BUSY);
    assert_false(note.granted);
    assert_string_equal(note.text, "acquire: somebody else holds the lock");
    /* Refused at once: there is no callback to wait for. */
    atomic_store(&note.n, 0);
    assert_int_equal(begin(pair.session[0], "", 0, &note), DLOCK_MISUSE);
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
    assert_int_equal(begin(pair.session[0], "free", 0, &note), DLOCK_OK);
    assert_int_equal(await(&note), DLOCK_OK);
    lock_pair_close(&pair);
}

static void test_a_session_does_one_thing_at_a_time(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct dlock_session *busy = pair.session[0];
    struct dlock_error error = {""};
    struct dlock_grant held, grant;
    struct dlock_holder holder;
    struct note first = {0};
    struct note second = {0};

    assert_int_equal(lock_rig_take(pair.session[1], "k", 0, 0, &held), 0);
    assert_int_equal(begin(busy, "k", 10000, &first), DLOCK_OK);
    assert_int_equal(begin(busy, "other", 0, &second), DLOCK_MISUSE);
    assert_int_equal(dlock_try(busy, "other", NULL, &grant, &error),
                     DLOCK_MISUSE);
    assert_string_equal(error.text, "acquire: the session is in another call");
    assert_int_equal(dlock_release(busy, &held, NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_extend(busy, &held, 100, NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_inspect(busy, "k", &holder, NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_force_release(busy, "k", NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_release(pair.session[1], &held, NULL), DLOCK_OK);
    assert_int_equal(await(&first), DLOCK_OK);
    assert_int_equal(dlock_release(busy, &first.grant, NULL), DLOCK_OK);
    assert_int_equal(atomic_load(&second.n), 0);
    lock_pair_close(&pair);
}

/* A chain of calls, each begun in the callback of the one before. */
struct chain {
    unsigned left;
    struct note last;
};

static void next_link(void *ctx, struct dlock_session *session,
                      enum dlock_status status, const struct dlock_grant *grant,
                      const struct dlock_error *error)
{
    struct chain *chain = ctx;

    if (grant != NULL &&
        dlock_release_async(session, grant, next_link, chain, NULL) == DLOCK_OK)
        return;
    if (status == DLOCK_OK && --chain->left > 0 &&
        dlock_acquire_async(session, "k", &(struct dlock_terms){.wait_ms = 0},
                            next_link, chain, NULL) == DLOCK_OK)
        return;
    note_done(&chain->last, session, status, grant, error);
}

static void test_callbacks_may_call(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct dlock_terms terms = {.wait_ms = 0};
    struct chain chain = {.left = 50};

    assert_int_equal(dlock_acquire_async(pair.session[0], "k", &terms,
                                         next_link, &chain, NULL),
                     DLOCK_OK);
    assert_int_equal(await(&chain.last), DLOCK_OK);
    assert_int_equal(chain.left, 0);
    assert_int_equal(lock_rig_probe(*state, "redisson", "k"), DLOCK_OK);
    lock_pair_close(&pair);
}

static void test_callback_may_close_the_session(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct note note = {.close = true};

    assert_int_equal(begin(pair.session[0], "k", 0, &note), DLOCK_OK);
    assert_int_equal(await(&note), DLOCK_OK);
    pair.session[0] = NULL;
    lock_pair_close(&pair);
}

/* All the acquires that may wait do; a release still finds a thread. */
static void test_calls_under_way_are_bounded(void **state)
{
    enum { N = DLOCK_ASYNC_ACQUIRES_MAX };
    struct dlock *client = lock_rig_client(*state, "redisson");
    struct dlock_session *holder = lock_rig_session(client);
    struct dlock_session *waiting[N + 1];
    static struct note notes[N + 1];
    struct note given = {0};
    struct dlock_grant grant;

    memset(notes, 0, sizeof(notes));
    assert_int_equal(lock_rig_take(holder, "k", 0, 0, &grant), 0);
    for (int i = 0; i <= N; i++)
        waiting[i] = lock_rig_session(client);
    for (int i = 0; i < N; i++)
        assert_int_equal(begin(waiting[i], "k", 20000, &notes[i]), DLOCK_OK);
    assert_int_equal(begin(waiting[N], "k", 20000, &notes[N]),
                     DLOCK_UNREACHABLE);
    assert_int_equal(
        dlock_release_async(holder, &grant, note_done, &given, NULL), DLOCK_OK);
    assert_int_equal(await(&given), DLOCK_OK);
    for (int i = 0; i <= N; i++)
        dlock_session_close(waiting[i]);
    for (int i = 0; i < N; i++)
        assert_int_equal(atomic_load(&notes[i].n), 1);
    assert_int_equal(atomic_load(&notes[N].n), 0);
    dlock_session_close(holder);
    dlock_close(client);
}

static void test_close_cancels_and_waits(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct dlock_grant grant;
    struct note note = {0};
    uint64_t start_ms;

    assert_int_equal(lock_rig_take(pair.session[1], "k", 0, 0, &grant), 0);
    assert_int_equal(begin(pair.session[0], "k", 20000, &note), DLOCK_OK);
    start_ms = lock_rig_now_ms();
    dlock_session_close(pair.session[0]);
    assert_int_equal(atomic_load(&note.n), 1);
    assert_int_equal(note.status, DLOCK_TIMEOUT);
    assert_true(lock_rig_now_ms() - start_ms < 5000);
    pair.session[0] = NULL;
    lock_pair_close(&pair);
}

/* Each callback begins the next call, until one is refused. */
struct endless {
    atomic_uint links_n;
    enum dlock_status refusal;
    char text[200];
};

static void endless_link(void *ctx, struct dlock_session *session,
                         enum dlock_status status,
                         const struct dlock_grant *grant,
                         const struct dlock_error *told)
{
    struct endless *chain = ctx;
    struct dlock_terms terms = {.wait_ms = 2};
    struct dlock_error error = {""};

    (void)status;
    (void)grant;
    (void)told;
    (void)atomic_fetch_add(&chain->links_n, 1);
    chain->refusal =
        dlock_acquire_async(session, "k", &terms, endless_link, chain, &error);
    memcpy(chain->text, error.text, sizeof(chain->text));
}

/* Without an end to the chain, this test is ended by its time limit. */
static void test_close_ends_a_chain(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct endless chain = {.refusal = DLOCK_OK};
    struct dlock_terms terms = {.wait_ms = 2};
    struct dlock_grant grant;
    uint64_t start_ms;

    assert_int_equal(lock_rig_take(pair.session[1], "k", 0, 0, &grant), 0);
    assert_int_equal(dlock_acquire_async(pair.session[0], "k", &terms,
                                         endless_link, &chain, NULL),
                     DLOCK_OK);
    while (atomic_load(&chain.links_n) < 5)
        lock_rig_sleep_ms(1);
    start_ms = lock_rig_now_ms();
    dlock_session_close(pair.session[0]);
    assert_true(lock_rig_now_ms() - start_ms < 5000);
    assert_int_equal(chain.refusal, DLOCK_MISUSE);
    assert_string_equal(chain.text, "acquire: the session is being closed");
    pair.session[0] = NULL;
    lock_pair_close(&pair);
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
    note->status = lock_rig_take(session, "k", 20000, 0, &other);
}

static void test_close_ends_a_wait_inside_a_callback(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct dlock_terms terms = {.wait_ms = 0};
    struct note note = {.n = 0};
    struct dlock_grant grant;
    uint64_t start_ms;

    assert_int_equal(lock_rig_take(pair.session[1], "k", 0, 0, &grant), 0);
    assert_int_equal(dlock_acquire_async(pair.session[0], "k", &terms,
                                         wait_inside, &note, NULL),
                     DLOCK_OK);
    while (atomic_load(&note.n) == 0)
        lock_rig_sleep_ms(1);
    start_ms = lock_rig_now_ms();
    dlock_session_close(pair.session[0]);
    assert_true(lock_rig_now_ms() - start_ms < 5000);
    assert_int_equal(note.status, DLOCK_TIMEOUT);
    pair.session[0] = NULL;
    lock_pair_close(&pair);
}

/* Cancelled ----------------------------------------------------------------- */

static void cancel_a_waiter(struct lock_rig *rig, const char *strategy)
{
    struct lock_pair pair = lock_pair_open(rig, strategy);
    struct dlock_grant grant;
    struct note note = {0};
    uint64_t start_ms;

    assert_int_equal(lock_rig_take(pair.session[1], "c", 0, 0, &grant), 0);
    assert_int_equal(begin(pair.session[0], "c", 20000, &note), DLOCK_OK);
    lock_rig_sleep_ms(30);
    start_ms = lock_rig_now_ms();
    dlock_cancel(pair.session[0]);
    assert_int_equal(await(&note), DLOCK_TIMEOUT);
    assert_true(lock_rig_now_ms() - start_ms < 2000);
    assert_string_equal(note.text, "acquire: cancelled");
    /* It left no trace: not in the session, not in the queue. */
    assert_int_equal(dlock_release(pair.session[1], &grant, NULL), DLOCK_OK);
    assert_int_equal(lock_rig_take(pair.session[0], "c", 0, 0, &grant), 0);
    assert_int_equal(grant.holds, 1);
    assert_int_equal(dlock_release(pair.session[0], &grant, NULL), DLOCK_OK);
    lock_pair_close(&pair);
}

static void test_cancelled_waiter_leaves_no_trace(void **state)
{
    cancel_a_waiter(*state, "process");   /* sleeps on a condition */
    cancel_a_waiter(*state, "spin");      /* polls less and less often */
    cancel_a_waiter(*state, "fair");      /* stands in a queue */
    cancel_a_waiter(*state, "token-lua"); /* polls */
    cancel_a_waiter(*state, "redisson");  /* sleeps on a subscription */
}

/* The lock was granted, and the cancel came before the caller was told. */
static void test_cancel_after_the_grant_gives_it_back(void **state)
{
    struct lock_rig *rig = *state;
    struct note note = {0};
    struct lock_pair pair;

    rig->watchdog_lease_ms = 60;
    pair = lock_pair_open(rig, "redisson");
    step_log_shut(&rig->log, "eval-acquire", DLOCK_AFTER);
    assert_int_equal(begin(pair.session[0], "k", 20000, &note), DLOCK_OK);
    step_log_await_gate(&rig->log, 1);
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 1);
    dlock_cancel(pair.session[0]);
    step_log_open(&rig->log);
    assert_int_equal(await(&note), DLOCK_TIMEOUT);
    assert_false(note.granted);
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 0);
    lock_rig_sleep_ms(60);
    assert_int_equal(step_log_count(&rig->log, "eval-renew"), 0);
    lock_pair_close(&pair);
}

/* The same as a second hold: the first one stays. */
static void test_cancelled_reentry_keeps_the_outer_hold(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");
    struct dlock_grant outer;
    struct note note = {0};

    assert_int_equal(lock_rig_take(pair.session[0], "k", 0, 0, &outer), 0);
    step_log_shut(&rig->log, "eval-acquire", DLOCK_AFTER);
    assert_int_equal(begin(pair.session[0], "k", 20000, &note), DLOCK_OK);
    step_log_await_gate(&rig->log, 1);
    dlock_cancel(pair.session[0]);
    step_log_open(&rig->log);
    assert_int_equal(await(&note), DLOCK_TIMEOUT);
    assert_int_equal(lock_rig_probe(rig, "redisson", "k"), DLOCK_BUSY);
    assert_int_equal(dlock_release(pair.session[0], &outer, NULL), DLOCK_OK);
    assert_int_equal(lock_rig_probe(rig, "redisson", "k"), DLOCK_OK);
    lock_pair_close(&pair);
}

/* Giving it back fails: then it is a don't know, which ends with its lease. */
static void test_cancel_that_cannot_give_back(void **state)
{
    struct lock_rig *rig = *state;
    struct note note = {0};
    struct dlock_grant grant;
    struct lock_pair pair;

    rig->watchdog_lease_ms = 90;
    pair = lock_pair_open(rig, "redisson");
    step_log_shut(&rig->log, "eval-acquire", DLOCK_AFTER);
    step_log_fail(&rig->log, "eval-release", DLOCK_BEFORE, 1);
    assert_int_equal(begin(pair.session[0], "k", 20000, &note), DLOCK_OK);
    step_log_await_gate(&rig->log, 1);
    dlock_cancel(pair.session[0]);
    step_log_open(&rig->log);
    assert_int_equal(await(&note), DLOCK_UNKNOWN);
    assert_int_equal(lock_rig_take(pair.session[1], "k", 5000, 0, &grant),
                     DLOCK_OK);
    assert_int_equal(step_log_count(&rig->log, "eval-renew"), 0);
    lock_pair_close(&pair);
}

/* At any moment of an acquire that succeeds: granted, or gone; never both. */
static void test_cancel_at_any_moment(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");
    unsigned cancelled = 0;

    for (unsigned i = 0; i < 200; i++) {
        struct note note = {.n = 0};

        assert_int_equal(begin(pair.session[0], "k", 20000, &note), DLOCK_OK);
        for (volatile unsigned spin = 0; spin < i * 200; spin++)
            ;
        dlock_cancel(pair.session[0]);
        if (await(&note) == DLOCK_TIMEOUT) {
            cancelled++;
            assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 0);
            continue;
        }
        assert_int_equal(note.status, DLOCK_OK);
        assert_int_equal(note.grant.holds, 1);
        assert_int_equal(dlock_release(pair.session[0], &note.grant, NULL),
                         DLOCK_OK);
    }
    assert_int_not_equal(cancelled, 0);
    lock_pair_close(&pair);
}

/* A client that ends all waits ends those of its threads as well. */
static void test_ended_waits_call_back(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct dlock_grant grant;
    struct note note = {.n = 0};

    assert_int_equal(lock_rig_take(pair.session[1], "k", 0, 0, &grant), 0);
    assert_int_equal(begin(pair.session[0], "k", 20000, &note), DLOCK_OK);
    lock_rig_sleep_ms(20);
    dlock_end_waits(pair.client[0]);
    assert_int_equal(await(&note), DLOCK_TIMEOUT);
    lock_pair_close(&pair);
}

static void *cancel_soon(void *arg)
{
    lock_rig_sleep_ms(30);
    dlock_cancel(arg);
    return NULL;
}

/* A cancel concerns the call under way, synchronous ones too, and no other. */
static void test_cancel_of_the_call_under_way_only(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
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
    lock_pair_close(&pair);
}

/* Waiters of the same client are woken by somebody's cancel, and sleep on. */
static void test_cancel_leaves_the_others_waiting(void **state)
{
    struct dlock *client = lock_rig_client(*state, "redisson");
    struct dlock_session *session[3];
    struct dlock_grant grant;
    struct note note[3] = {{0}};

    for (int i = 0; i < 3; i++)
        session[i] = lock_rig_session(client);
    assert_int_equal(lock_rig_take(session[0], "k", 0, 0, &grant), DLOCK_OK);
    assert_int_equal(begin(session[1], "k", 20000, &note[1]), DLOCK_OK);
    assert_int_equal(begin(session[2], "k", 20000, &note[2]), DLOCK_OK);
    lock_rig_sleep_ms(30);
    dlock_cancel(session[1]);
    assert_int_equal(await(&note[1]), DLOCK_TIMEOUT);
    lock_rig_sleep_ms(30);
    assert_int_equal(atomic_load(&note[2].n), 0);
    assert_int_equal(dlock_release(session[0], &grant, NULL), DLOCK_OK);
    assert_int_equal(await(&note[2]), DLOCK_OK);
    for (int i = 0; i < 3; i++)
        dlock_session_close(session[i]);
    dlock_close(client);
}

/* Trying ---------------------------------------------------------------------- */

static void test_try_does_not_wait(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");
    struct dlock_terms terms = {.wait_ms = 20000, .lease_ms = 5000};
    struct dlock_grant grant, other;

    assert_int_equal(dlock_try(pair.session[0], "k", &terms, &grant, NULL),
                     DLOCK_OK);
    assert_in_range(dlock_remaining_ms(pair.session[0], &grant), 1, 5000);
    step_log_reset(&rig->log);
    assert_int_equal(dlock_try(pair.session[1], "k", &terms, &other, NULL),
                     DLOCK_BUSY);
    assert_int_equal(step_log_count(&rig->log, "eval-acquire"), 1);
    assert_int_equal(step_log_count(&rig->log, "subscribe"), 0);
    assert_int_equal(dlock_release(pair.session[0], &grant, NULL), DLOCK_OK);
    assert_int_equal(dlock_try(pair.session[1], "k", NULL, &other, NULL),
                     DLOCK_OK);
    assert_int_equal(dlock_try(pair.session[1], "k", NULL, NULL, NULL),
                     DLOCK_MISUSE);
    lock_pair_close(&pair);
}

#define TEST(name) cmocka_unit_test_setup(name, lock_rig_fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_callback_comes_once_on_another_thread),
        TEST(test_busy_and_refused),
        TEST(test_a_session_does_one_thing_at_a_time),
        TEST(test_callbacks_may_call),
        TEST(test_callback_may_close_the_session),
        TEST(test_calls_under_way_are_bounded),
        TEST(test_close_cancels_and_waits),
        TEST(test_close_ends_a_chain),
        TEST(test_close_ends_a_wait_inside_a_callback),
        TEST(test_cancelled_waiter_leaves_no_trace),
        TEST(test_cancel_after_the_grant_gives_it_back),
        TEST(test_cancelled_reentry_keeps_the_outer_hold),
        TEST(test_cancel_that_cannot_give_back),
        TEST(test_cancel_at_any_moment),
        TEST(test_ended_waits_call_back),
        TEST(test_cancel_of_the_call_under_way_only),
        TEST(test_cancel_leaves_the_others_waiting),
        TEST(test_try_does_not_wait),
    };

    return cmocka_run_group_tests(tests, lock_rig_setup, lock_rig_teardown);
}
