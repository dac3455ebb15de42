/*
 * zk and zk-fair against a real ZooKeeper: what they hold, the herd of the one
 * and the queue of the other, lost replies, and sessions that expire.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/lock_party.h"
#include "tests/support/lock_rig.h"
#include "tests/support/unit_test.h"
#include "tests/support/zookeeper_server.h"

enum {
    SESSION_MS = 600,
    LONG_MS = 20000, /* longer than anything here takes */
    WAITERS_N = 5,
};

static struct zookeeper_server *server;

static int setup(NO_STATE)
{
    server = zookeeper_server_start();
    return 0;
}

static int teardown(NO_STATE)
{
    zookeeper_server_stop(server);
    return 0;
}

/* A test that fails leaves locks behind; they are not for the next one. */
static int fresh(void **state)
{
    zookeeper_server_restart_empty(server);
    return lock_trio_new(state, server->url, SESSION_MS, 1000);
}

/* X2, and W: the waiter gets it when it is given back, not later. */
static void test_two_processes(void **state)
{
    struct lock_trio *trio = lock_trio_beside(state, 1);
    uint64_t began;

    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_OK);
    assert_int_equal(lock_process_take(&trio->other, "k", 0), DLOCK_BUSY);
    assert_int_equal(lock_process_take(&trio->other, "k", 50), DLOCK_TIMEOUT);
    assert_int_equal(lock_process_take(&trio->other, "K", 0), DLOCK_OK);
    assert_int_equal(lock_process_give(&trio->other), DLOCK_OK);
    lock_process_tell_take(&trio->other, "k", LONG_MS);
    lock_rig_sleep_ms(100);
    began = lock_rig_now_ms();
    assert_int_equal(lock_party_give(&trio->a), DLOCK_OK);
    assert_int_equal(lock_process_report(&trio->other).status, DLOCK_OK);
    assert_in_range(lock_rig_now_ms() - began, 0, 1000);
    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_BUSY);
    assert_int_equal(lock_party_give(&trio->a), DLOCK_LOST);
    assert_int_equal(lock_process_give(&trio->other), DLOCK_OK);
}

/* C: within the session's timeout, not before, and nobody has to ask. */
static void test_holder_crashes(void **state)
{
    struct lock_trio *trio = lock_trio_beside(state, 1);
    uint64_t began;

    assert_int_equal(lock_process_take(&trio->other, "k", 0), DLOCK_OK);
    lock_process_kill(&trio->other);
    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_BUSY);
    began = lock_rig_now_ms();
    assert_int_equal(lock_party_take(&trio->a, "k", LONG_MS), DLOCK_OK);
    assert_in_range(lock_rig_now_ms() - began, 50, SESSION_MS + 2000);
    assert_int_equal(lock_party_give(&trio->a), DLOCK_OK);
}

/* P: stopped for longer than its session, it is told, and frees nobody's. */
static void test_holder_pauses(void **state)
{
    struct lock_trio *trio = lock_trio_beside(state, 1);
    struct lock_process_report report;

    assert_int_equal(lock_process_take(&trio->other, "k", 0), DLOCK_OK);
    lock_process_pause(&trio->other);
    assert_int_equal(lock_party_take(&trio->a, "k", LONG_MS), DLOCK_OK);
    lock_process_resume(&trio->other);
    do {
        lock_process_tell_take(&trio->other, "k", 20);
        report = lock_process_report(&trio->other);
        assert_int_not_equal(report.status, DLOCK_OK);
    } while (report.lost_n == 0);
    assert_int_equal(report.lost_n, 1);
    assert_int_equal(lock_process_give(&trio->other), DLOCK_LOST);
    assert_int_equal(lock_party_give(&trio->a), DLOCK_OK);
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

    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_OK);
    held = trio->a.grant;
    lock_process_tell_take(&trio->other, "k", LONG_MS);
    lock_rig_sleep_ms(200);
    lock_process_pause(&trio->other);
    for (int round = 0; shows && n > 0 && round < 100; round++) {
        lock_rig_sleep_ms(100);
        assert_int_equal(
            dlock_inspect_waiters(trio->a.session, "k", waiting, 1, &n, NULL),
            DLOCK_OK);
    }
    lock_rig_sleep_ms(shows ? 0 : 2 * SESSION_MS);
    lock_process_resume(&trio->other);
    lock_rig_sleep_ms(300);
    assert_int_equal(lock_party_take(&trio->a, "probe", 0), DLOCK_OK);
    assert_int_equal(lock_party_give(&trio->a), DLOCK_OK);
    trio->a.grant = held;
    assert_int_equal(lock_party_give(&trio->a), DLOCK_OK);
    assert_int_equal(lock_process_report(&trio->other).status, DLOCK_OK);
    /* And it does hold it now, by a node that is there. */
    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_BUSY);
    assert_int_equal(lock_process_give(&trio->other), DLOCK_OK);
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
        assert_int_equal(waiters[i].status, DLOCK_OK);
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

    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_OK);
    queue_up(waiters, trio->how, &order);
    for (size_t i = 0; i < WAITERS_N; i++)
        step_log_shut(&waiters[i].party.log, "delete", DLOCK_BEFORE);
    assert_int_equal(lock_party_give(&trio->a), DLOCK_OK);
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

    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_OK);
    queue_up(waiters, trio->how, &order);
    assert_int_equal(dlock_inspect_waiters(trio->a.session, "k", waiting,
                                           WAITERS_N, &n, NULL),
                     DLOCK_OK);
    assert_int_equal(n, WAITERS_N);
    for (size_t i = 0; i < WAITERS_N; i++)
        assert_string_equal(waiting[i].owner,
                            dlock_session_owner(waiters[i].party.session));
    assert_int_equal(lock_party_give(&trio->a), DLOCK_OK);
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

    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_OK);
    assert_int_equal(lock_party_take(&trio->b, "k", 50), DLOCK_TIMEOUT);
    assert_int_equal(lock_party_take(&trio->b, "k", 0), DLOCK_BUSY);
    assert_int_equal(dlock_inspect(trio->b.session, "k", &held, NULL),
                     DLOCK_OK);
    assert_string_equal(held.owner, dlock_session_owner(trio->a.session));
    assert_int_equal(lock_party_give(&trio->a), DLOCK_OK);
    assert_int_equal(lock_party_take(&trio->c, "k", 0), DLOCK_OK);
    /* A waiter that cannot delete its node does not block either. */
    step_log_fail(&trio->b.log, "delete", DLOCK_BEFORE, 1);
    assert_int_equal(lock_party_take(&trio->b, "k", 50), DLOCK_TIMEOUT);
    assert_int_equal(lock_party_give(&trio->c), DLOCK_OK);
    assert_int_equal(lock_party_take(&trio->a, "k", 2 * SESSION_MS + 2000),
                     DLOCK_OK);
    assert_int_equal(lock_party_give(&trio->a), DLOCK_OK);
}

/* The node is there, only nobody said so: it is found, and is one. */
static void test_lost_create(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 2);

    assert_int_equal(lock_party_take(&trio->b, "lost", 0), DLOCK_OK);
    assert_int_equal(lock_party_give(&trio->b), DLOCK_OK);
    step_log_fail(&trio->a.log, "create", DLOCK_AFTER, 1);
    assert_int_equal(lock_party_take(&trio->a, "lost", 0), DLOCK_OK);
    assert_int_equal(lock_party_take(&trio->b, "lost", 0), DLOCK_BUSY);
    assert_int_equal(lock_party_give(&trio->a), DLOCK_OK);
    assert_int_equal(lock_party_take(&trio->b, "lost", 0), DLOCK_OK);
    assert_int_equal(lock_party_give(&trio->b), DLOCK_OK);
}

/*
 * The same, and it cannot be asked for either: not known. It does not stay,
 * whether the session holds something else or not.
 */
static void test_lost_create_is_swept(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 2);
    bool is_fair = strcmp(trio->how.strategy, "zk-fair") == 0;
    struct dlock_grant kept;

    assert_int_equal(lock_party_take(&trio->b, "swept", 0), DLOCK_OK);
    assert_int_equal(lock_party_give(&trio->b), DLOCK_OK);
    for (int keeps = 0; keeps < 2; keeps++) {
        if (keeps)
            assert_int_equal(lock_party_take(&trio->a, "kept", 0), DLOCK_OK);
        kept = trio->a.grant;
        step_log_fail(&trio->a.log, "create", DLOCK_AFTER, 1);
        step_log_fail_also(&trio->a.log, is_fair ? "children" : "get",
                           DLOCK_BEFORE, 1);
        assert_int_equal(lock_party_take(&trio->a, "swept", 0), DLOCK_UNKNOWN);
        assert_int_equal(lock_party_take(&trio->b, "swept", 2000), DLOCK_OK);
        assert_int_equal(lock_party_give(&trio->b), DLOCK_OK);
        if (keeps)
            assert_int_equal(dlock_release(trio->a.session, &kept, NULL),
                             DLOCK_OK);
    }
}

/* A release without an answer: it is no loss, and the lock does not stay. */
static void test_lost_release(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 2);

    for (int phase = DLOCK_BEFORE; phase <= DLOCK_AFTER; phase++) {
        assert_int_equal(lock_party_take(&trio->a, "k", 2000), DLOCK_OK);
        step_log_fail(&trio->a.log, "delete", (enum dlock_phase)phase, 1);
        step_log_fail_also(&trio->a.log, "sync", DLOCK_BEFORE, 1);
        assert_int_equal(lock_party_give(&trio->a), phase == DLOCK_BEFORE
                                                        ? DLOCK_UNREACHABLE
                                                        : DLOCK_UNKNOWN);
        /* Without another word from a. */
        assert_int_equal(lock_party_take(&trio->b, "k", 2000), DLOCK_OK);
        assert_int_equal(lock_party_give(&trio->a), DLOCK_OK);
        assert_int_equal(lock_party_give(&trio->b), DLOCK_OK);
    }
    assert_int_equal(atomic_load(&trio->a.lost_n), 0);
}

/* The tokens of a queue rise, over sessions and over lost data. */
static void test_tokens_rise(void **state)
{
    struct lock_trio *trio = *state;
    struct dlock_terms ask = {.wait_ms = 5000};
    uint64_t last = 0;

    for (int round = 0; round < 3; round++) {
        struct lock_party a;

        lock_party_open(&a, &trio->how);
        for (int i = 0; i < 4; i++) {
            ask.fence_floor = round == 2 ? last : 0;
            assert_int_equal(
                dlock_acquire(a.session, "t", &ask, &a.grant, &a.error),
                DLOCK_OK);
            assert_true(a.grant.token > last);
            last = a.grant.token;
            assert_int_equal(lock_party_give(&a), DLOCK_OK);
        }
        /* Then it forgets, and begins at 1 again: the floor says from where. */
        if (round == 1) {
            last += 1000000;
            zookeeper_server_restart_empty(server);
        }
        lock_party_close(&a);
    }
}

/* All who wait are given up, and held locks are told lost. */
static void test_data_lost(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 1);

    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_OK);
    zookeeper_server_restart_empty(server);
    for (int j = 0; j < 100 && atomic_load(&trio->a.lost_n) == 0; j++)
        lock_rig_sleep_ms(100);
    assert_int_equal(atomic_load(&trio->a.lost_n), 1);
    assert_int_equal(lock_party_give(&trio->a), DLOCK_LOST);
    assert_int_equal(lock_party_take(&trio->a, "k", 5000), DLOCK_OK);
    assert_int_equal(lock_party_give(&trio->a), DLOCK_OK);
}

/* A restart with its data: the session goes on, and so does the lock. */
static void test_restart(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 2);
    enum dlock_status status;

    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_OK);
    server_proc_kill(&server->proc);
    assert_int_equal(lock_party_take(&trio->b, "k", 0), DLOCK_UNREACHABLE);
    zookeeper_server_restart(server);
    /* The library looks for the server about once a second. */
    do
        status = lock_party_take(&trio->b, "k", 0);
    while (status == DLOCK_UNREACHABLE);
    assert_int_equal(status, DLOCK_BUSY);
    assert_int_equal(lock_party_give(&trio->a), DLOCK_OK);
    assert_int_equal(atomic_load(&trio->a.lost_n), 0);
    assert_int_equal(lock_party_take(&trio->b, "k", 0), DLOCK_OK);
    assert_int_equal(lock_party_give(&trio->b), DLOCK_OK);
}

/* Stopped: no answer, within the timeout; and afterwards nothing is left. */
static void test_server_stopped(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 2);
    uint64_t began;

    assert_int_equal(lock_party_take(&trio->a, "warm-up", 0), DLOCK_OK);
    assert_int_equal(lock_party_give(&trio->a), DLOCK_OK);
    server_proc_pause(&server->proc);
    began = lock_rig_now_ms();
    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_UNKNOWN);
    assert_in_range(lock_rig_now_ms() - began, 250, 3000);
    server_proc_resume(&server->proc);
    assert_int_equal(lock_party_take(&trio->b, "k", 5000), DLOCK_OK);
    assert_int_equal(lock_party_give(&trio->b), DLOCK_OK);
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

    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_OK);
    assert_int_equal(pthread_create(&thread, NULL, end_soon, &trio->b), 0);
    assert_int_equal(lock_party_take(&trio->b, "k", LONG_MS), DLOCK_TIMEOUT);
    (void)pthread_join(thread, NULL);
    assert_int_equal(lock_party_give(&trio->a), DLOCK_OK);
}

static void test_odd_names(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 1);
    static const char *const odd[] = {"a/b", "a%2Fb", ".",        "..",
                                      "/",   "a b",   "zookeeper"};
    char longest[DLOCK_NAME_BYTES_MAX + 1];

    memset(longest, '/', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    for (size_t j = 0; j < COUNT_OF(odd); j++)
        assert_int_equal(lock_party_take(&trio->a, odd[j], 0), DLOCK_OK);
    assert_int_equal(lock_party_take(&trio->a, longest, 0), DLOCK_OK);
    assert_int_equal(lock_party_give(&trio->a), DLOCK_OK);
}

static void test_urls(NO_STATE)
{
    static const char *const wrong[] = {
        NULL,     "zk:",     "zk:h",     "h:1",         "zk::1",
        "zk:h:x", "zk:h:1,", "zk:h:1,g", "zk:h:123456", "unix:/x:1"};

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct dlock_options options = {.strategy = "zk", .url = wrong[i]};
        struct dlock *client = NULL;

        assert_int_equal(dlock_open(&options, &client, NULL), DLOCK_MISUSE);
    }
}

static void note_parked(void *ctx, struct dlock_session *session,
                        enum dlock_status status,
                        const struct dlock_grant *grant,
                        const struct dlock_error *error)
{
    struct lock_party *party = ctx;

    (void)session;
    (void)error;
    assert_int_equal(status, DLOCK_OK);
    party->grant = *grant;
}

/* An asynchronous acquire waits without a thread: the watch calls it back. */
static void test_parked_waiter_is_woken(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 2);
    struct dlock_terms terms = {.wait_ms = LONG_MS};
    struct pollfd poller = {.fd = dlock_fd(trio->b.client), .events = POLLIN};

    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_OK);
    assert_int_equal(dlock_acquire_async(trio->b.session, "k", &terms,
                                         note_parked, &trio->b, NULL),
                     DLOCK_OK);
    assert_int_equal(poll(&poller, 1, 100), 0);
    assert_int_equal(lock_party_give(&trio->a), DLOCK_OK);
    assert_int_equal(poll(&poller, 1, LONG_MS / 4), 1);
    assert_int_equal(dlock_dispatch(trio->b.client), 1);
    assert_int_equal(lock_party_give(&trio->b), DLOCK_OK);
}

#define BOTH(name, ...)                                                        \
    LOCK_TRIO_TEST(name, "zk", __VA_ARGS__),                                   \
        LOCK_TRIO_TEST(name, "zk-fair", __VA_ARGS__)

static const struct CMUnitTest tests[] = {
    BOTH(test_two_processes),
    BOTH(test_holder_crashes),
    BOTH(test_holder_pauses),
    BOTH(test_waiter_expires),
    LOCK_TRIO_TEST(test_herd, "zk"),
    LOCK_TRIO_TEST(test_queue, "zk-fair"),
    LOCK_TRIO_TEST(test_waiter_leaves, "zk-fair"),
    BOTH(test_lost_create),
    BOTH(test_lost_create_is_swept),
    BOTH(test_lost_release),
    LOCK_TRIO_TEST(test_tokens_rise, "zk-fair"),
    BOTH(test_data_lost),
    BOTH(test_restart, .lease_ms = 15000),
    BOTH(test_server_stopped, .lease_ms = 2000, .timeout_ms = 300),
    BOTH(test_end_waits),
    BOTH(test_parked_waiter_is_woken),
    BOTH(test_odd_names),
    cmocka_unit_test(test_urls),
};
TEST_MAIN_WITHIN(tests, setup, teardown)
