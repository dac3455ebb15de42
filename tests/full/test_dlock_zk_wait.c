/*
 * Those that wait for zk and zk-fair: the herd of the one and the queue of the
 * other, and who leaves, is asleep, or is called back.
 */
#include <poll.h>
#include <string.h>

#include "tests/support/lock_party.h"
#include "tests/support/lock_rig.h"
#include "tests/support/unit_test.h"
#include "tests/support/zookeeper_server.h"

enum {
    SESSION_MS = 2000, /* nobody loses one because the machine is busy */
    LONG_MS = 20000,   /* longer than anything here takes */
    WAITERS_N = 5,
};

/* A session ends with its test, and its locks with it: the server is the same for all. */
static int fresh(void **state)
{
    return lock_trio_new(state, the_zookeeper->url, SESSION_MS, 1000);
}

/*
 * Semantic 13: a session expires while its waiter sleeps in the queue. When it
 * wakes up, its place is gone; it must not be told that it holds the lock.
 */
static void test_waiter_expires(void **state)
{
    struct lock_trio *trio = lock_trio_beside(state, 1);
    bool shows = strcmp(trio->how.strategy, "zk-fair") == 0;
    struct dlock_waiting waiting[1];
    struct dlock_grant held;
    size_t n = 1;

    assert_ok(lock_party_take(&trio->a, "k", 0));
    held = trio->a.grant;
    lock_process_tell_take(&trio->other, "k", LONG_MS);
    lock_rig_sleep_ms(200);
    lock_process_pause(&trio->other);
    for (int round = 0; shows && n > 0 && round < 100; round++) {
        lock_rig_sleep_ms(100);
        assert_ok(
            dlock_inspect_waiters(trio->a.session, "k", waiting, 1, &n, NULL));
    }
    lock_rig_sleep_ms(shows ? 0 : 2 * SESSION_MS);
    lock_process_resume(&trio->other);
    lock_rig_sleep_ms(300);
    assert_ok(lock_party_take(&trio->a, "probe", 0));
    assert_ok(lock_party_give(&trio->a));
    trio->a.grant = held;
    assert_ok(lock_party_give(&trio->a));
    assert_ok(lock_process_report(&trio->other).status);
    /* And it does hold it now, by a node that is there. */
    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_BUSY);
    assert_ok(lock_process_give(&trio->other));
}

struct waiter {
    struct lock_party party;
    pthread_t thread;
    unsigned *order; /* counts those that got it; under the lock itself */
    unsigned got;
    enum dlock_status status;
};

static void *wait_and_give(void *arg)
{
    struct waiter *waiter = arg;

    waiter->status = lock_party_take(&waiter->party, "k", LONG_MS);
    waiter->got = ++*waiter->order;
    if (waiter->status == DLOCK_OK)
        waiter->status = lock_party_give(&waiter->party);
    return NULL;
}

/* Several waiters, one after the other into the queue. Steps until each waits:
 * to create a node, and to watch one. */
static void queue_up(struct waiter waiters[], struct lock_party_terms how,
                     unsigned *order)
{
    for (size_t i = 0; i < WAITERS_N; i++) {
        lock_party_open(&waiters[i].party, &how);
        waiters[i].order = order;
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, wait_and_give,
                                        &waiters[i]),
                         0);
        step_log_await(&waiters[i].party.log, "watch", 1);
        step_log_reset(&waiters[i].party.log);
    }
}

static void join_all(struct waiter waiters[])
{
    for (size_t i = 0; i < WAITERS_N; i++) {
        (void)pthread_join(waiters[i].thread, NULL);
        assert_ok(waiters[i].status);
    }
}

static unsigned total(struct waiter waiters[], const char *step)
{
    unsigned n = 0;

    for (size_t i = 0; i < WAITERS_N; i++)
        n += step_log_count(&waiters[i].party.log, step);
    return n;
}

/*
 * The herd: a release wakes all who wait. The first to come in is stopped right
 * there, so that what is counted is one release.
 */
static void test_herd(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 1);
    struct waiter waiters[WAITERS_N];
    unsigned order = 0;

    assert_ok(lock_party_take(&trio->a, "k", 0));
    queue_up(waiters, trio->how, &order);
    for (size_t i = 0; i < WAITERS_N; i++)
        step_log_shut(&waiters[i].party.log, "delete", DLOCK_BEFORE);
    assert_ok(lock_party_give(&trio->a));
    for (size_t i = 0; i < WAITERS_N; i++)
        step_log_await(&waiters[i].party.log, "create", 1);
    assert_true(total(waiters, "create") >= WAITERS_N);
    for (size_t i = 0; i < WAITERS_N; i++)
        step_log_open(&waiters[i].party.log);
    join_all(waiters);
    print_message("# zk: %u creates for %d waiters\n", total(waiters, "create"),
                  WAITERS_N);
    assert_true(total(waiters, "create") > 2 * WAITERS_N);
    for (size_t i = 0; i < WAITERS_N; i++)
        lock_party_close(&waiters[i].party);
}

/* F, and no herd: each is woken once, when it is its turn. */
static void test_queue(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 1);
    struct waiter waiters[WAITERS_N];
    struct dlock_waiting waiting[WAITERS_N];
    unsigned order = 0;
    size_t n = 0;

    assert_ok(lock_party_take(&trio->a, "k", 0));
    queue_up(waiters, trio->how, &order);
    assert_ok(dlock_inspect_waiters(trio->a.session, "k", waiting, WAITERS_N,
                                    &n, NULL));
    assert_int_equal(n, WAITERS_N);
    for (size_t i = 0; i < WAITERS_N; i++)
        assert_string_equal(waiting[i].owner,
                            dlock_session_owner(waiters[i].party.session));
    assert_ok(lock_party_give(&trio->a));
    join_all(waiters);
    print_message("# zk-fair: %u looks for %d waiters\n",
                  total(waiters, "children"), WAITERS_N);
    assert_int_equal(total(waiters, "children"), WAITERS_N);
    assert_int_equal(total(waiters, "create"), 0);
    for (size_t i = 0; i < WAITERS_N; i++) {
        assert_int_equal(waiters[i].got, i + 1);
        lock_party_close(&waiters[i].party);
    }
}

/* A waiter that leaves does not stand in the way of those behind it. */
static void test_waiter_leaves(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 3);
    struct dlock_holder held;

    assert_ok(lock_party_take(&trio->a, "k", 0));
    assert_int_equal(lock_party_take(&trio->b, "k", 50), DLOCK_TIMEOUT);
    assert_int_equal(lock_party_take(&trio->b, "k", 0), DLOCK_BUSY);
    assert_ok(dlock_inspect(trio->b.session, "k", &held, NULL));
    assert_string_equal(held.owner, dlock_session_owner(trio->a.session));
    assert_ok(lock_party_give(&trio->a));
    assert_ok(lock_party_take(&trio->c, "k", 0));
    /* A waiter that cannot delete its node does not block either. */
    step_log_fail(&trio->b.log, "delete", DLOCK_BEFORE, 1);
    assert_int_equal(lock_party_take(&trio->b, "k", 50), DLOCK_TIMEOUT);
    assert_ok(lock_party_give(&trio->c));
    assert_ok(lock_party_take(&trio->a, "k", 2 * SESSION_MS + 2000));
    assert_ok(lock_party_give(&trio->a));
}

static void *end_soon(void *arg)
{
    struct lock_party *party = arg;

    step_log_await(&party->log, "watch", 1);
    dlock_end_waits(party->client);
    return NULL;
}

static void test_end_waits(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 2);
    pthread_t thread;

    assert_ok(lock_party_take(&trio->a, "k", 0));
    assert_int_equal(pthread_create(&thread, NULL, end_soon, &trio->b), 0);
    assert_int_equal(lock_party_take(&trio->b, "k", LONG_MS), DLOCK_TIMEOUT);
    (void)pthread_join(thread, NULL);
    assert_ok(lock_party_give(&trio->a));
}

static void note_parked(void *ctx, struct dlock_session *session,
                        enum dlock_status status,
                        const struct dlock_grant *grant,
                        const struct dlock_error *error)
{
    struct lock_party *party = ctx;

    (void)session;
    (void)error;
    assert_ok(status);
    party->grant = *grant;
}

/* An asynchronous acquire waits without a thread: the watch calls it back. */
static void test_parked_waiter_is_woken(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 2);
    struct dlock_terms terms = {.wait_ms = LONG_MS};
    struct pollfd poller = {.fd = dlock_fd(trio->b.client), .events = POLLIN};

    assert_ok(lock_party_take(&trio->a, "k", 0));
    assert_ok(dlock_acquire_async(trio->b.session, "k", &terms, note_parked,
                                  &trio->b, NULL));
    assert_int_equal(poll(&poller, 1, 100), 0);
    assert_ok(lock_party_give(&trio->a));
    assert_int_equal(poll(&poller, 1, LONG_MS / 4), 1);
    assert_int_equal(dlock_dispatch(trio->b.client), 1);
    assert_ok(lock_party_give(&trio->b));
}

static const struct CMUnitTest tests[] = {
    LOCK_TRIO_ZK(test_waiter_expires),
    LOCK_TRIO_TEST(test_herd, "zk"),
    LOCK_TRIO_TEST(test_queue, "zk-fair"),
    LOCK_TRIO_TEST(test_waiter_leaves, "zk-fair"),
    LOCK_TRIO_ZK(test_end_waits),
    LOCK_TRIO_ZK(test_parked_waiter_is_woken),
};
TEST_MAIN_WITHIN(tests, zookeeper_server_set_up, zookeeper_server_tear_down)
