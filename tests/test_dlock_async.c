/*
 * Asynchronous calls: a callback comes exactly once, a session does one thing at a
 * time, and a close waits for the callbacks and no longer. Calls begun in the callback of
 * the one before, and callbacks in a loop of the caller's, come to their end. And
 * dlock_cancel(), dlock_end_waits() and dlock_try(): whoever was cancelled holds nothing
 * and renews nothing.
 */
#include <poll.h>
#include <stdatomic.h>

#include "tests/support/async_note.h"
#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"

LOCK_TEST(test_callback_comes_once_on_another_thread)
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

LOCK_TEST(test_busy_and_refused)
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

LOCK_TEST(test_a_session_does_one_thing_at_a_time)
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

LOCK_TEST(test_callback_may_close_the_session)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct note note = {.close = true};

    assert_ok(note_begin(pair.session[0], "k", 0, &note));
    assert_ok(note_await(&note));
}

LOCK_TEST(test_close_cancels_and_waits)
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
ASYNC_CALLBACK(wait_inside)
{
    struct note *note = ctx;
    struct dlock_grant other;

    (void)atomic_fetch_add(&note->n, 1);
    note->status = lock_rig_take(session, "k", LOCK_RIG_LONG_MS, 0, &other);
}

LOCK_TEST(test_close_ends_a_wait_inside_a_callback)
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

/* Two callbacks of one session: the second one closes it, and waits for the first. */
struct couple {
    struct note other; /* of a session that only the client's close ends */
    atomic_bool second;
    atomic_bool closing;
    unsigned others_n; /* callbacks of it, as the first one has seen */
};

ASYNC_CALLBACK(close_it)
{
    struct couple *couple = ctx;

    atomic_store(&couple->second, true);
    dlock_session_close(session);
}

ASYNC_CALLBACK(await_other)
{
    const struct dlock_terms terms = {.wait_ms = 0};
    struct couple *couple = ctx;
    struct dlock_grant other;
    uint64_t until_ms;

    (void)dlock_acquire_async(session, "k", &terms, close_it, couple, NULL);
    while (!atomic_load(&couple->second))
        lock_rig_sleep_ms(1);
    /* From now on the session waits for nothing: it is being closed. */
    (void)lock_rig_take(session, "k", LOCK_RIG_LONG_MS, 0, &other);
    atomic_store(&couple->closing, true);
    until_ms = lock_rig_now_ms() + LOCK_RIG_PROMPT_MS;
    while (atomic_load(&couple->other.n) == 0 && lock_rig_now_ms() < until_ms)
        lock_rig_sleep_ms(1);
    couple->others_n = atomic_load(&couple->other.n);
}

/* The client's close goes on to the other session, and is not over before. */
LOCK_TEST(test_client_is_closed_while_a_callback_closes_its_session)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct dlock_session *last = lock_rig_session(pair.client[0]);
    struct dlock_terms terms = {.wait_ms = 0};
    struct couple couple = {.second = false};

    assert_ok(lock_pair_take(&pair, 1, 0, 0));
    assert_ok(
        note_begin(pair.session[0], "k", LOCK_RIG_LONG_MS, &couple.other));
    assert_ok(
        dlock_acquire_async(last, "k", &terms, await_other, &couple, NULL));
    while (!atomic_load(&couple.closing))
        lock_rig_sleep_ms(1);
    lock_rig_close(pair.client[0]);
    assert_int_equal(couple.others_n, 1);
    assert_int_equal(couple.other.status, DLOCK_TIMEOUT);
}

/* Chains ---------------------------------------------------------------------- */

/* Each callback begins the next call, until one is refused. */
struct endless {
    atomic_uint links_n;
    enum dlock_status refusal;
    char text[200];
};

ASYNC_CALLBACK(endless_link)
{
    struct endless *chain = ctx;
    struct dlock_terms terms = {.wait_ms = 2};
    struct dlock_error why = {""};
    enum dlock_status refusal;

    (void)atomic_fetch_add(&chain->links_n, 1);
    /* The next link may have been refused by now, on another thread. */
    refusal =
        dlock_acquire_async(session, "k", &terms, endless_link, chain, &why);
    if (refusal == DLOCK_OK)
        return;
    chain->refusal = refusal;
    memcpy(chain->text, why.text, sizeof(chain->text));
}

/* Without an end to the chain, this test is ended by its time limit. */
LOCK_TEST(test_close_ends_a_chain)
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

LOCK_TEST(test_dispatch_calls_back_here)
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
    assert_int_equal(lock_rig_take(pair.session[0], "x", 0, 0, &other),
                     DLOCK_MISUSE);
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

/* A callback that begins another call, and waits until that is due. */
struct nested {
    struct dlock_session *session;
    int fd;
    bool is_due;
    struct note note;
};

ASYNC_CALLBACK(begin_nested)
{
    struct nested *nested = ctx;

    if (note_begin(nested->session, "other", 0, &nested->note) == DLOCK_OK)
        nested->is_due = is_readable(nested->fd, 20000);
}

/* One step of a chain for each dispatch: the loop has its turn in between. */
LOCK_TEST(test_dispatch_does_not_follow_a_chain)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct dlock *client = pair.client[0];
    struct nested nested = {.session = lock_rig_session(client),
                            .fd = dlock_fd(client)};
    struct dlock_terms terms = {.wait_ms = 0};

    assert_ok(dlock_acquire_async(pair.session[0], "k", &terms, begin_nested,
                                  &nested, NULL));
    assert_true(is_readable(nested.fd, 20000));
    assert_int_equal(dlock_dispatch(client), 1);
    assert_true(nested.is_due);
    assert_int_equal(atomic_load(&nested.note.n), 0);
    assert_true(is_readable(nested.fd, 0));
    assert_int_equal(dlock_dispatch(client), 1);
    assert_ok(nested.note.status);
}

ASYNC_CALLBACK(test_cancel)
{
    pthread_testcancel();
    note_done(ctx, session, status, grant, error);
}

/* A thread that is cancelled before its call. */
static void *dispatch_cancelled(void *client)
{
    int before;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    (void)pthread_cancel(pthread_self());
    (void)pthread_setcancelstate(before, NULL);
    (void)dlock_dispatch(client);
    pthread_testcancel();
    return NULL;
}

LOCK_TEST(test_dispatch_ends_before_its_thread)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct dlock_terms terms = {.wait_ms = 0};
    int fd = dlock_fd(pair.client[0]);
    struct note note = {.n = 0};
    void *result = NULL;
    pthread_t thread;

    assert_ok(dlock_acquire_async(pair.session[0], "k", &terms, test_cancel,
                                  &note, NULL));
    assert_true(is_readable(fd, LOCK_RIG_LONG_MS));
    assert_int_equal(
        pthread_create(&thread, NULL, dispatch_cancelled, pair.client[0]), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    assert_int_equal(atomic_load(&note.n), 1);
    assert_int_equal(dlock_dispatch(pair.client[0]), 0);
}

/* Closes its session, and goes on for a moment. */
ASYNC_CALLBACK(close_and_linger)
{
    struct couple *couple = ctx;

    dlock_session_close(session);
    atomic_store(&couple->closing, true);
    lock_rig_sleep_ms(100);
    atomic_store(&couple->second, true);
}

/* Though no thread of the library's is in it. */
LOCK_TEST(test_client_close_waits_for_a_callback)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct dlock_terms terms = {.wait_ms = 0};
    struct couple couple = {.second = false};
    int fd = dlock_fd(pair.client[0]);
    pthread_t thread;

    assert_ok(dlock_acquire_async(pair.session[0], "k", &terms,
                                  close_and_linger, &couple, NULL));
    assert_true(is_readable(fd, LOCK_RIG_LONG_MS));
    assert_int_equal(
        pthread_create(&thread, NULL, dispatch_cancelled, pair.client[0]), 0);
    while (!atomic_load(&couple.closing))
        lock_rig_sleep_ms(1);
    lock_rig_close(pair.client[0]);
    assert_true(atomic_load(&couple.second));
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Nobody dispatches any more: what is due is called by the close. */
LOCK_TEST(test_close_calls_what_is_due)
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
LOCK_TEST(test_close_ends_a_dispatched_chain)
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

/* Cancelling ------------------------------------------------------------------ */

/* At any moment of an acquire that succeeds: granted, or gone; never both. */
LOCK_TEST(test_cancel_at_any_moment)
{
    struct lock_pair pair = lock_pair_open("redisson");
    unsigned cancelled = 0;

    for (unsigned i = 0; i < 200; i++) {
        struct note note = {.n = 0};

        assert_ok(note_begin(pair.session[0], "k", 20000, &note));
        for (volatile unsigned spin = 0; spin < i * 200; spin++)
            ;
        dlock_cancel(pair.session[0]);
        if (note_await(&note) == DLOCK_TIMEOUT) {
            cancelled++;
            assert_false(lock_rig_is_held());
            continue;
        }
        assert_ok(note.status);
        assert_int_equal(note.grant.holds, 1);
        assert_ok(dlock_release(pair.session[0], &note.grant, NULL));
    }
    assert_int_not_equal(cancelled, 0);
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
    /* Not in the session, not in the queue: whether it sleeps on a condition or on a
     * subscription, polls, or stands in a queue. */
    {"a cancelled waiter leaves no trace",
     "process spin fair token-lua redisson",
     "b takes; a begins wait=long; sleep 30; clock; a cancels; "
     "a ends -> timeout 'acquire: cancelled'; took 0..prompt; b gives; "
     "a takes holds=1; a gives"},
    {"a cancel before the caller was told of the grant gives it back",
     "redisson",
     "watchdog 600; shut eval-acquire after; a begins wait=20000; gate; held; "
     "a cancels; open; a ends -> timeout; free; sleep 300; steps eval-renew 0"},
    {"of a second hold, the first one stays", "redisson",
     "a takes; shut eval-acquire after; a begins wait=20000; gate; a cancels; "
     "open; a ends -> timeout; probe -> busy; a gives; probe"},
    {"what cannot be given back is a don't know, which ends with its lease",
     "redisson",
     "watchdog 600; commands timeout; shut eval-acquire after; "
     "fail eval-release before always; a begins wait=20000; gate; a cancels; "
     "open; a ends -> unknown; b takes wait=5000; steps eval-renew 0"},
    {"a client that ends all waits ends asynchronous ones as well", "redisson",
     "b takes; a begins wait=20000; sleep 20; a stops; a ends -> timeout"},
    {"a cancel is of the call under way, synchronous ones too, and no other",
     "redisson",
     "a cancels; a takes wait=10; & b takes wait=20000 -> timeout; sleep 30; "
     "b cancels; join"},
    /* The error of the last try is told, whichever thread had it. */
    {"of a server that is away it is told", "redisson",
     "server kill; a begins wait=60000; await eval-acquire 1; a stops; "
     "a ends -> timeout '..connect'; server restart"},
    /* They are woken by somebody's cancel, and sleep on. */
    {"other waiters of the client go on waiting", "redisson",
     "a takes; b begins wait=20000; b2 begins wait=20000; sleep 30; b cancels; "
     "b ends -> timeout; sleep 30; b2 waits; a gives; b2 ends"},
    {"a try does not wait", "redisson",
     "a tries 5000 wait=20000; a has left=1..5000; forget; "
     "b tries 5000 wait=20000 -> busy; steps eval-acquire 1; "
     "steps subscribe 0; a gives; b tries"},
};
LOCK_STORIES_TEST

LOCK_RIG_MAIN
