/*
 * zk and zk-fair against a real ZooKeeper: what they hold, the herd of the one
 * and the queue of the other, lost replies, and sessions that expire.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/lock_party.h"
#include "tests/support/lock_rig.h"
#include "tests/support/zookeeper_server.h"

enum {
    SESSION_MS = 600,
    LONG_MS = 20000, /* longer than anything here takes */
    WAITERS_N = 5,
    STRATEGIES_N = 2,
};

static const char *const names[] = {"zk", "zk-fair"};

static int setup(void **state)
{
    *state = zookeeper_server_start();
    return 0;
}

static int teardown(void **state)
{
    zookeeper_server_stop(*state);
    return 0;
}

/* A test that fails leaves locks behind; they are not for the next one. */
static int fresh(void **state)
{
    zookeeper_server_restart_empty(*state);
    return 0;
}

static struct lock_party_terms terms(const struct zookeeper_server *server,
                                     const char *strategy)
{
    return (struct lock_party_terms){.strategy = strategy,
                                     .url = zookeeper_server_url(server),
                                     .lease_ms = SESSION_MS,
                                     .timeout_ms = 1000};
}

/* X2, and W: the waiter gets it when it is given back, not later. */
static void test_two_processes(void **state)
{
    for (size_t i = 0; i < STRATEGIES_N; i++) {
        struct lock_party_terms how = terms(*state, names[i]);
        struct lock_process other;
        struct lock_party here;
        uint64_t began;

        lock_process_start(&other, &how);
        lock_party_open(&here, &how);
        assert_int_equal(lock_party_take(&here, "k", 0), DLOCK_OK);
        assert_int_equal(lock_process_take(&other, "k", 0), DLOCK_BUSY);
        assert_int_equal(lock_process_take(&other, "k", 50), DLOCK_TIMEOUT);
        assert_int_equal(lock_process_take(&other, "K", 0), DLOCK_OK);
        assert_int_equal(lock_process_give(&other), DLOCK_OK);
        lock_process_tell_take(&other, "k", LONG_MS);
        lock_rig_sleep_ms(100);
        began = lock_rig_now_ms();
        assert_int_equal(lock_party_give(&here), DLOCK_OK);
        assert_int_equal(lock_process_report(&other).status, DLOCK_OK);
        assert_in_range(lock_rig_now_ms() - began, 0, 1000);
        assert_int_equal(lock_party_take(&here, "k", 0), DLOCK_BUSY);
        assert_int_equal(lock_party_give(&here), DLOCK_LOST);
        assert_int_equal(lock_process_give(&other), DLOCK_OK);
        lock_process_kill(&other);
        lock_party_close(&here);
    }
}

/* C: within the session's timeout, not before, and nobody has to ask. */
static void test_holder_crashes(void **state)
{
    for (size_t i = 0; i < STRATEGIES_N; i++) {
        struct lock_party_terms how = terms(*state, names[i]);
        struct lock_process other;
        struct lock_party here;
        uint64_t began;

        lock_process_start(&other, &how);
        lock_party_open(&here, &how);
        assert_int_equal(lock_process_take(&other, "k", 0), DLOCK_OK);
        lock_process_kill(&other);
        assert_int_equal(lock_party_take(&here, "k", 0), DLOCK_BUSY);
        began = lock_rig_now_ms();
        assert_int_equal(lock_party_take(&here, "k", LONG_MS), DLOCK_OK);
        assert_in_range(lock_rig_now_ms() - began, 50, SESSION_MS + 2000);
        assert_int_equal(lock_party_give(&here), DLOCK_OK);
        lock_party_close(&here);
    }
}

/* P: stopped for longer than its session, it is told, and frees nobody's. */
static void test_holder_pauses(void **state)
{
    for (size_t i = 0; i < STRATEGIES_N; i++) {
        struct lock_party_terms how = terms(*state, names[i]);
        struct lock_process_report report;
        struct lock_process other;
        struct lock_party here;

        lock_process_start(&other, &how);
        lock_party_open(&here, &how);
        assert_int_equal(lock_process_take(&other, "k", 0), DLOCK_OK);
        lock_process_pause(&other);
        assert_int_equal(lock_party_take(&here, "k", LONG_MS), DLOCK_OK);
        lock_process_resume(&other);
        do {
            lock_process_tell_take(&other, "k", 20);
            report = lock_process_report(&other);
            assert_int_not_equal(report.status, DLOCK_OK);
        } while (report.lost_n == 0);
        assert_int_equal(report.lost_n, 1);
        assert_int_equal(lock_process_give(&other), DLOCK_LOST);
        assert_int_equal(lock_party_give(&here), DLOCK_OK);
        lock_process_kill(&other);
        lock_party_close(&here);
    }
}

/*
 * Semantic 13: a session expires while its waiter sleeps in the queue. When it
 * wakes up, its place is gone; it must not be told that it holds the lock.
 */
static void test_waiter_expires(void **state)
{
    for (size_t i = 0; i < STRATEGIES_N; i++) {
        struct lock_party_terms how = terms(*state, names[i]);
        struct dlock_waiting waiting[1];
        struct lock_process other;
        struct lock_party here;
        struct dlock_grant held;
        size_t n = 1;

        lock_process_start(&other, &how);
        lock_party_open(&here, &how);
        assert_int_equal(lock_party_take(&here, "k", 0), DLOCK_OK);
        held = here.grant;
        lock_process_tell_take(&other, "k", LONG_MS);
        lock_rig_sleep_ms(200);
        lock_process_pause(&other);
        for (int round = 0; i == 1 && n > 0 && round < 100; round++) {
            lock_rig_sleep_ms(100);
            assert_int_equal(
                dlock_inspect_waiters(here.session, "k", waiting, 1, &n, NULL),
                DLOCK_OK);
        }
        lock_rig_sleep_ms(i == 1 ? 0 : 2 * SESSION_MS);
        lock_process_resume(&other);
        lock_rig_sleep_ms(300);
        assert_int_equal(lock_party_take(&here, "probe", 0), DLOCK_OK);
        assert_int_equal(lock_party_give(&here), DLOCK_OK);
        here.grant = held;
        assert_int_equal(lock_party_give(&here), DLOCK_OK);
        assert_int_equal(lock_process_report(&other).status, DLOCK_OK);
        /* And it does hold it now, by a node that is there. */
        assert_int_equal(lock_party_take(&here, "k", 0), DLOCK_BUSY);
        assert_int_equal(lock_process_give(&other), DLOCK_OK);
        lock_process_kill(&other);
        lock_party_close(&here);
    }
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
    struct waiter waiters[WAITERS_N];
    struct lock_party_terms how = terms(*state, "zk");
    struct lock_party holder;
    unsigned order = 0;

    lock_party_open(&holder, &how);
    assert_int_equal(lock_party_take(&holder, "k", 0), DLOCK_OK);
    queue_up(waiters, how, &order);
    for (size_t i = 0; i < WAITERS_N; i++)
        step_log_shut(&waiters[i].party.log, "delete", DLOCK_BEFORE);
    assert_int_equal(lock_party_give(&holder), DLOCK_OK);
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
    lock_party_close(&holder);
}

/* F, and no herd: each is woken once, when it is its turn. */
static void test_queue(void **state)
{
    struct waiter waiters[WAITERS_N];
    struct lock_party_terms how = terms(*state, "zk-fair");
    struct dlock_waiting waiting[WAITERS_N];
    struct lock_party holder;
    unsigned order = 0;
    size_t n = 0;

    lock_party_open(&holder, &how);
    assert_int_equal(lock_party_take(&holder, "k", 0), DLOCK_OK);
    queue_up(waiters, how, &order);
    assert_int_equal(dlock_inspect_waiters(holder.session, "k", waiting,
                                           WAITERS_N, &n, NULL),
                     DLOCK_OK);
    assert_int_equal(n, WAITERS_N);
    for (size_t i = 0; i < WAITERS_N; i++)
        assert_string_equal(waiting[i].owner,
                            dlock_session_owner(waiters[i].party.session));
    assert_int_equal(lock_party_give(&holder), DLOCK_OK);
    join_all(waiters);
    print_message("# zk-fair: %u looks for %d waiters\n",
                  total(waiters, "children"), WAITERS_N);
    assert_int_equal(total(waiters, "children"), WAITERS_N);
    assert_int_equal(total(waiters, "create"), 0);
    for (size_t i = 0; i < WAITERS_N; i++) {
        assert_int_equal(waiters[i].got, i + 1);
        lock_party_close(&waiters[i].party);
    }
    lock_party_close(&holder);
}

/* A waiter that leaves does not stand in the way of those behind it. */
static void test_waiter_leaves(void **state)
{
    struct lock_party_terms how = terms(*state, "zk-fair");
    struct dlock_holder held;
    struct lock_party a;
    struct lock_party b;
    struct lock_party c;

    lock_party_open(&a, &how);
    lock_party_open(&b, &how);
    lock_party_open(&c, &how);
    assert_int_equal(lock_party_take(&a, "k", 0), DLOCK_OK);
    assert_int_equal(lock_party_take(&b, "k", 50), DLOCK_TIMEOUT);
    assert_int_equal(lock_party_take(&b, "k", 0), DLOCK_BUSY);
    assert_int_equal(dlock_inspect(b.session, "k", &held, NULL), DLOCK_OK);
    assert_string_equal(held.owner, dlock_session_owner(a.session));
    assert_int_equal(lock_party_give(&a), DLOCK_OK);
    assert_int_equal(lock_party_take(&c, "k", 0), DLOCK_OK);
    /* A waiter that cannot delete its node does not block either. */
    step_log_fail(&b.log, "delete", DLOCK_BEFORE, 1);
    assert_int_equal(lock_party_take(&b, "k", 50), DLOCK_TIMEOUT);
    assert_int_equal(lock_party_give(&c), DLOCK_OK);
    assert_int_equal(lock_party_take(&a, "k", 2 * SESSION_MS + 2000), DLOCK_OK);
    assert_int_equal(lock_party_give(&a), DLOCK_OK);
    lock_party_close(&a);
    lock_party_close(&b);
    lock_party_close(&c);
}

/* The node is there, only nobody said so: it is found, and is one. */
static void test_lost_create(void **state)
{
    for (size_t i = 0; i < STRATEGIES_N; i++) {
        struct lock_party_terms how = terms(*state, names[i]);
        struct lock_party a;
        struct lock_party b;

        lock_party_open(&a, &how);
        lock_party_open(&b, &how);
        assert_int_equal(lock_party_take(&b, "lost", 0), DLOCK_OK);
        assert_int_equal(lock_party_give(&b), DLOCK_OK);
        step_log_fail(&a.log, "create", DLOCK_AFTER, 1);
        assert_int_equal(lock_party_take(&a, "lost", 0), DLOCK_OK);
        assert_int_equal(lock_party_take(&b, "lost", 0), DLOCK_BUSY);
        assert_int_equal(lock_party_give(&a), DLOCK_OK);
        assert_int_equal(lock_party_take(&b, "lost", 0), DLOCK_OK);
        assert_int_equal(lock_party_give(&b), DLOCK_OK);
        lock_party_close(&a);
        lock_party_close(&b);
    }
}

/*
 * The same, and it cannot be asked for either: not known. It does not stay,
 * whether the session holds something else or not.
 */
static void test_lost_create_is_swept(void **state)
{
    static const char *const asks[] = {"get", "children"};

    for (size_t i = 0; i < STRATEGIES_N; i++) {
        struct lock_party_terms how = terms(*state, names[i]);
        struct dlock_grant kept;
        struct lock_party a;
        struct lock_party b;

        lock_party_open(&a, &how);
        lock_party_open(&b, &how);
        assert_int_equal(lock_party_take(&b, "swept", 0), DLOCK_OK);
        assert_int_equal(lock_party_give(&b), DLOCK_OK);
        for (int keeps = 0; keeps < 2; keeps++) {
            if (keeps)
                assert_int_equal(lock_party_take(&a, "kept", 0), DLOCK_OK);
            kept = a.grant;
            step_log_fail(&a.log, "create", DLOCK_AFTER, 1);
            step_log_fail_also(&a.log, asks[i], DLOCK_BEFORE, 1);
            assert_int_equal(lock_party_take(&a, "swept", 0), DLOCK_UNKNOWN);
            assert_int_equal(lock_party_take(&b, "swept", 2000), DLOCK_OK);
            assert_int_equal(lock_party_give(&b), DLOCK_OK);
            if (keeps)
                assert_int_equal(dlock_release(a.session, &kept, NULL),
                                 DLOCK_OK);
        }
        lock_party_close(&a);
        lock_party_close(&b);
    }
}

/* A release without an answer: it is no loss, and the lock does not stay. */
static void test_lost_release(void **state)
{
    for (size_t i = 0; i < STRATEGIES_N; i++) {
        struct lock_party_terms how = terms(*state, names[i]);
        struct lock_party a;
        struct lock_party b;

        lock_party_open(&a, &how);
        lock_party_open(&b, &how);
        for (int phase = DLOCK_BEFORE; phase <= DLOCK_AFTER; phase++) {
            assert_int_equal(lock_party_take(&a, "k", 2000), DLOCK_OK);
            step_log_fail(&a.log, "delete", (enum dlock_phase)phase, 1);
            step_log_fail_also(&a.log, "sync", DLOCK_BEFORE, 1);
            assert_int_equal(lock_party_give(&a), phase == DLOCK_BEFORE
                                                      ? DLOCK_UNREACHABLE
                                                      : DLOCK_UNKNOWN);
            /* Without another word from a. */
            assert_int_equal(lock_party_take(&b, "k", 2000), DLOCK_OK);
            assert_int_equal(lock_party_give(&a), DLOCK_OK);
            assert_int_equal(lock_party_give(&b), DLOCK_OK);
        }
        assert_int_equal(atomic_load(&a.lost_n), 0);
        lock_party_close(&a);
        lock_party_close(&b);
    }
}

/* The tokens of a queue rise, over sessions and over lost data. */
static void test_tokens_rise(void **state)
{
    struct zookeeper_server *server = *state;
    struct lock_party_terms how = terms(server, "zk-fair");
    uint64_t last = 0;

    for (int round = 0; round < 3; round++) {
        struct dlock_terms ask = {.wait_ms = 5000};
        struct lock_party a;

        lock_party_open(&a, &how);
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
    struct zookeeper_server *server = *state;

    for (size_t i = 0; i < STRATEGIES_N; i++) {
        struct lock_party_terms how = terms(server, names[i]);
        struct lock_party a;

        lock_party_open(&a, &how);
        assert_int_equal(lock_party_take(&a, "k", 0), DLOCK_OK);
        zookeeper_server_restart_empty(server);
        for (int j = 0; j < 100 && atomic_load(&a.lost_n) == 0; j++)
            lock_rig_sleep_ms(100);
        assert_int_equal(atomic_load(&a.lost_n), 1);
        assert_int_equal(lock_party_give(&a), DLOCK_LOST);
        assert_int_equal(lock_party_take(&a, "k", 5000), DLOCK_OK);
        assert_int_equal(lock_party_give(&a), DLOCK_OK);
        lock_party_close(&a);
    }
}

/* A restart with its data: the session goes on, and so does the lock. */
static void test_restart(void **state)
{
    struct zookeeper_server *server = *state;

    for (size_t i = 0; i < STRATEGIES_N; i++) {
        struct lock_party_terms how = terms(server, names[i]);
        struct lock_party a;
        enum dlock_status status;
        struct lock_party b;

        how.lease_ms = 15000;
        lock_party_open(&a, &how);
        assert_int_equal(lock_party_take(&a, "k", 0), DLOCK_OK);
        zookeeper_server_kill(server);
        lock_party_open(&b, &how);
        assert_int_equal(lock_party_take(&b, "k", 0), DLOCK_UNREACHABLE);
        zookeeper_server_restart(server);
        /* The library looks for the server about once a second. */
        do
            status = lock_party_take(&b, "k", 0);
        while (status == DLOCK_UNREACHABLE);
        assert_int_equal(status, DLOCK_BUSY);
        assert_int_equal(lock_party_give(&a), DLOCK_OK);
        assert_int_equal(atomic_load(&a.lost_n), 0);
        assert_int_equal(lock_party_take(&b, "k", 0), DLOCK_OK);
        assert_int_equal(lock_party_give(&b), DLOCK_OK);
        lock_party_close(&a);
        lock_party_close(&b);
    }
}

/* Stopped: no answer, within the timeout; and afterwards nothing is left. */
static void test_server_stopped(void **state)
{
    struct zookeeper_server *server = *state;

    for (size_t i = 0; i < STRATEGIES_N; i++) {
        struct lock_party_terms how = terms(server, names[i]);
        struct lock_party a;
        struct lock_party b;
        uint64_t began;

        how.lease_ms = 2000;
        how.timeout_ms = 300;
        lock_party_open(&a, &how);
        lock_party_open(&b, &how);
        assert_int_equal(lock_party_take(&a, "warm-up", 0), DLOCK_OK);
        assert_int_equal(lock_party_give(&a), DLOCK_OK);
        zookeeper_server_pause(server);
        began = lock_rig_now_ms();
        assert_int_equal(lock_party_take(&a, "k", 0), DLOCK_UNKNOWN);
        assert_in_range(lock_rig_now_ms() - began, 250, 3000);
        zookeeper_server_resume(server);
        assert_int_equal(lock_party_take(&b, "k", 5000), DLOCK_OK);
        assert_int_equal(lock_party_give(&b), DLOCK_OK);
        lock_party_close(&a);
        lock_party_close(&b);
    }
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
    for (size_t i = 0; i < STRATEGIES_N; i++) {
        struct lock_party_terms how = terms(*state, names[i]);
        struct lock_party a;
        struct lock_party b;
        pthread_t thread;

        lock_party_open(&a, &how);
        lock_party_open(&b, &how);
        assert_int_equal(lock_party_take(&a, "k", 0), DLOCK_OK);
        assert_int_equal(pthread_create(&thread, NULL, end_soon, &b), 0);
        assert_int_equal(lock_party_take(&b, "k", LONG_MS), DLOCK_TIMEOUT);
        (void)pthread_join(thread, NULL);
        assert_int_equal(lock_party_give(&a), DLOCK_OK);
        lock_party_close(&a);
        lock_party_close(&b);
    }
}

static void test_odd_names(void **state)
{
    static const char *const odd[] = {"a/b", "a%2Fb", ".",        "..",
                                      "/",   "a b",   "zookeeper"};

    for (size_t i = 0; i < STRATEGIES_N; i++) {
        struct lock_party_terms how = terms(*state, names[i]);
        char longest[DLOCK_NAME_BYTES_MAX + 1];
        struct lock_party a;

        memset(longest, '/', sizeof(longest) - 1);
        longest[sizeof(longest) - 1] = '\0';
        lock_party_open(&a, &how);
        for (size_t j = 0; j < sizeof(odd) / sizeof(odd[0]); j++)
            assert_int_equal(lock_party_take(&a, odd[j], 0), DLOCK_OK);
        assert_int_equal(lock_party_take(&a, longest, 0), DLOCK_OK);
        assert_int_equal(lock_party_give(&a), DLOCK_OK);
        lock_party_close(&a);
    }
}

static void test_urls(void **state)
{
    static const char *const wrong[] = {
        NULL,     "zk:",     "zk:h",     "h:1",         "zk::1",
        "zk:h:x", "zk:h:1,", "zk:h:1,g", "zk:h:123456", "unix:/x:1"};

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct dlock_options options = {.strategy = "zk", .url = wrong[i]};
        struct dlock *client = NULL;

        assert_int_equal(dlock_open(&options, &client, NULL), DLOCK_MISUSE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_two_processes, fresh),
        cmocka_unit_test_setup(test_holder_crashes, fresh),
        cmocka_unit_test_setup(test_holder_pauses, fresh),
        cmocka_unit_test_setup(test_waiter_expires, fresh),
        cmocka_unit_test_setup(test_herd, fresh),
        cmocka_unit_test_setup(test_queue, fresh),
        cmocka_unit_test_setup(test_waiter_leaves, fresh),
        cmocka_unit_test_setup(test_lost_create, fresh),
        cmocka_unit_test_setup(test_lost_create_is_swept, fresh),
        cmocka_unit_test_setup(test_lost_release, fresh),
        cmocka_unit_test_setup(test_tokens_rise, fresh),
        cmocka_unit_test_setup(test_data_lost, fresh),
        cmocka_unit_test_setup(test_restart, fresh),
        cmocka_unit_test_setup(test_server_stopped, fresh),
        cmocka_unit_test_setup(test_end_waits, fresh),
        cmocka_unit_test_setup(test_odd_names, fresh),
        cmocka_unit_test(test_urls),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
