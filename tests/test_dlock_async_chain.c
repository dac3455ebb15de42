/*
 * Calls begun in the callback of the one before, and callbacks in a loop of the
 * caller's: each comes to its end.
 */
#include <poll.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/support/async_note.h"
#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"

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

static void test_callbacks_may_call(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct dlock_terms terms = {.wait_ms = 0};
    struct chain chain = {.left = 50};

    assert_ok(dlock_acquire_async(pair.session[0], "k", &terms, next_link,
                                  &chain, NULL));
    assert_ok(note_await(&chain.last));
    assert_int_equal(chain.left, 0);
    assert_ok(lock_rig_probe("redisson", "k"));
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
    enum dlock_status refusal;

    (void)status;
    (void)grant;
    (void)told;
    (void)atomic_fetch_add(&chain->links_n, 1);
    /* The next link may have been refused by now, on another thread. */
    refusal =
        dlock_acquire_async(session, "k", &terms, endless_link, chain, &error);
    if (refusal == DLOCK_OK)
        return;
    chain->refusal = refusal;
    memcpy(chain->text, error.text, sizeof(chain->text));
}

/* Without an end to the chain, this test is ended by its time limit. */
static void test_close_ends_a_chain(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct endless chain = {.refusal = DLOCK_OK};
    struct dlock_terms terms = {.wait_ms = 2};
    struct dlock_grant grant;
    uint64_t start_ms;

    assert_ok(lock_rig_take(pair.session[1], "k", 0, 0, &grant));
    assert_ok(dlock_acquire_async(pair.session[0], "k", &terms, endless_link,
                                  &chain, NULL));
    while (atomic_load(&chain.links_n) < 5)
        lock_rig_sleep_ms(1);
    start_ms = lock_rig_now_ms();
    dlock_session_close(pair.session[0]);
    assert_true(lock_rig_now_ms() - start_ms < LOCK_RIG_PROMPT_MS);
    assert_int_equal(chain.refusal, DLOCK_MISUSE);
    assert_string_equal(chain.text, "acquire: the session is being closed");
}

/* In a loop of the caller's ---------------------------------------------------- */

static bool is_readable(int fd, int timeout_ms)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};

    return poll(&poller, 1, timeout_ms) == 1 && poller.revents == POLLIN;
}

static void test_dispatch_calls_back_here(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct dlock *client = pair.client[0];
    int fd = dlock_fd(client);
    struct dlock_grant other;
    struct note note = {.n = 0};

    assert_true(fd >= 0);
    assert_int_equal(dlock_fd(client), fd);
    assert_int_equal(dlock_dispatch(client), 0);
    assert_ok(note_begin(pair.session[0], "k", 0, &note));
    assert_true(is_readable(fd, 20000));
    assert_int_equal(atomic_load(&note.n), 0);
    /* The session is the library's until its callback, ... */
    assert_int_equal(lock_hold_take(&pair, "x", 0, &other), DLOCK_MISUSE);
    /* ... and the call has its answer, which a cancel does not change. */
    dlock_cancel(pair.session[0]);
    assert_int_equal(dlock_dispatch(client), 1);
    assert_int_equal(atomic_load(&note.n), 1);
    assert_ok(note.status);
    assert_true(pthread_equal(note.thread, pthread_self()));
    assert_false(is_readable(fd, 0));
    assert_int_equal(dlock_dispatch(client), 0);
    assert_ok(dlock_release_async(pair.session[0], &note.grant, note_done,
                                  &note, NULL));
    assert_true(is_readable(fd, 20000));
    assert_int_equal(dlock_dispatch(client), 1);
    assert_ok(lock_rig_probe("redisson", "k"));
}

/* One step of a chain for each dispatch: the loop has its turn in between. */
static void test_dispatch_does_not_follow_a_chain(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct chain chain = {.left = 5};
    struct dlock_terms terms = {.wait_ms = 0};
    int fd = dlock_fd(pair.client[0]);
    unsigned rounds = 0;

    assert_ok(dlock_acquire_async(pair.session[0], "k", &terms, next_link,
                                  &chain, NULL));
    for (; atomic_load(&chain.last.n) == 0; rounds++) {
        assert_true(is_readable(fd, 20000));
        assert_int_equal(dlock_dispatch(pair.client[0]), 1);
    }
    assert_int_equal(rounds, 10);
    assert_int_equal(chain.left, 0);
}

/* Nobody dispatches any more: what is due is called by the close. */
static void test_close_calls_what_is_due(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct dlock_session *waiter = lock_rig_session(pair.client[0]);
    struct dlock_session *last = lock_rig_session(pair.client[0]);
    int fd = dlock_fd(pair.client[0]);
    struct note note[3] = {{.n = 0}};
    struct dlock_grant grant;

    assert_ok(lock_rig_take(pair.session[1], "k", 0, 0, &grant));
    assert_ok(note_begin(pair.session[0], "free", 0, &note[0]));
    assert_true(is_readable(fd, 20000));
    assert_ok(note_begin(waiter, "k", 20000, &note[1]));
    assert_ok(note_begin(last, "k", 20000, &note[2]));
    note[1].close = true; /* while it is being closed */
    dlock_session_close(waiter);
    assert_int_equal(atomic_load(&note[1].n), 1);
    assert_int_equal(note[1].status, DLOCK_TIMEOUT);
    assert_true(pthread_equal(note[1].thread, pthread_self()));
    assert_int_equal(atomic_load(&note[0].n), 0);
    dlock_session_close(pair.session[0]);
    assert_int_equal(atomic_load(&note[0].n), 1);
    assert_ok(note[0].status);
    lock_rig_close(pair.client[0]);
    assert_int_equal(atomic_load(&note[2].n), 1);
    assert_int_equal(dlock_fd(NULL), -1);
    assert_int_equal(dlock_dispatch(NULL), 0);
}

/* A chain whose callbacks run in dispatch ends as well. */
static void test_close_ends_a_dispatched_chain(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct endless chain = {.refusal = DLOCK_OK};
    struct dlock_terms terms = {.wait_ms = 2};
    int fd = dlock_fd(pair.client[0]);

    assert_ok(dlock_acquire_async(pair.session[0], "k", &terms, endless_link,
                                  &chain, NULL));
    for (int i = 0; i < 3; i++) {
        assert_true(is_readable(fd, 20000));
        assert_int_equal(dlock_dispatch(pair.client[0]), 1);
    }
    dlock_session_close(pair.session[0]);
    assert_int_equal(atomic_load(&chain.links_n), 4);
    assert_int_equal(chain.refusal, DLOCK_MISUSE);
}

static const struct lock_story stories[] = {
    {"every kind of lock that wakes its waiters wakes those without a thread",
     "process redisson fair fenced token-lua",
     "b takes; a begins wait=long; sleep 30; a waits; clock; b gives; a ends; "
     "took 0..prompt; a gives"},
    /* One connection, so that the first wait has begun when a2 is answered. */
    {"pauses end in the order of their ends, not of their beginnings",
     "redisson",
     "b takes long; clock; a begins wait=59000; a2 begins name=free; a2 ends; "
     "a2 begins wait=100; a2 ends -> timeout; took 0..prompt; a waits; "
     "a cancels; a ends -> timeout"},
};
LOCK_STORIES_TEST

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_callbacks_may_call),
    LOCK_TEST(test_close_ends_a_chain),
    LOCK_TEST(test_dispatch_calls_back_here),
    LOCK_TEST(test_dispatch_does_not_follow_a_chain),
    LOCK_TEST(test_close_calls_what_is_due),
    LOCK_TEST(test_close_ends_a_dispatched_chain),
    cmocka_unit_test(test_stories),
};
LOCK_RIG_MAIN(tests)
