/*
 * Those that wait for zk and zk-fair: the herd of the one and the queue of the
 * other, and who leaves, is asleep, or is called back.
 */
#include "tests/support/lock_process.h"
#include "tests/support/lock_story.h"
#include "tests/support/lock_waiter.h"
#include "tests/support/zookeeper_server.h"

enum {
    SHORT_MS = 2000, /* of a session that has to expire */
    LONG_MS = 20000, /* longer than anything here takes */
    WAITERS_N = 5,
};

static int set_up(NO_STATE)
{
    return zookeeper_server_set_up(LONG_MS, LONG_MS);
}

/*
 * Semantic 13: a session expires while its waiter sleeps in the queue. When it
 * wakes up, its place is gone; it must not be told that it holds the lock.
 */
static void test_waiter_expires(void **state)
{
    bool shows = strcmp(*state, "zk-fair") == 0;
    struct lock_process other; /* that can be stopped */
    struct dlock_waiting waiting[1];
    struct lock_single a;
    struct dlock_grant probe;
    uint64_t given_at_ms;
    size_t n = 1;

    rig.watchdog_lease_ms = SHORT_MS;
    lock_process_start(&other, *state);
    a = lock_single_open(*state);
    assert_ok(lock_single_take(&a, 0));
    lock_process_tell_take(&other, "k", LONG_MS);
    lock_rig_sleep_ms(200);
    server_proc_pause(&other.proc);
    for (int round = 0; shows && n > 0 && round < 100; round++) {
        lock_rig_sleep_ms(100);
        assert_ok(dlock_inspect_waiters(a.session, "k", waiting, 1, &n, NULL));
    }
    lock_rig_sleep_ms(shows ? 0 : 2 * SHORT_MS);
    server_proc_resume(&other.proc);
    lock_rig_sleep_ms(300);
    assert_ok(lock_rig_take(a.session, "probe", 0, 0, &probe));
    assert_ok(dlock_release(a.session, &probe, NULL));
    assert_ok(lock_single_give(&a));
    given_at_ms = lock_rig_now_ms();
    assert_ok(lock_process_report(&other).status);
    assert_in_range(lock_rig_now_ms() - given_at_ms, 0, LONG_MS / 2);
    /* And it does hold it now, by a node that is there. */
    assert_int_equal(lock_single_take(&a, 0), DLOCK_BUSY);
    assert_ok(lock_process_give(&other));
    lock_process_kill(&other);
}

/* Several waiters, one after the other into the queue. Each waits when it watches a
 * node. */
static void queue_up(struct lock_waiter waiters[], const char *lock)
{
    for (unsigned i = 0; i < WAITERS_N; i++) {
        waiters[i] = (struct lock_waiter){.client = lock_rig_client(lock),
                                          .wait_ms = LONG_MS};
        waiters[i].session = lock_rig_session(waiters[i].client);
        lock_waiter_start(&waiters[i]);
        step_log_await(&rig.log, "watch", i + 1);
    }
}

static void join_all(struct lock_waiter waiters[])
{
    for (size_t i = 0; i < WAITERS_N; i++) {
        lock_waiter_close(&waiters[i]);
        assert_ok(waiters[i].status);
    }
}

/*
 * The herd: a release wakes all who wait. The first to come in is stopped right
 * there, so that what is counted is one release: that of a session which ends, because
 * no step of its own is at the gate.
 */
static void test_herd(void **state)
{
    struct lock_single a = lock_single_open(*state);
    struct lock_waiter waiters[WAITERS_N];
    unsigned creates;

    assert_ok(lock_single_take(&a, 0));
    queue_up(waiters, *state);
    step_log_reset(&rig.log);
    step_log_shut(&rig.log, "delete", DLOCK_BEFORE);
    lock_single_close(&a);
    step_log_await(&rig.log, "create", WAITERS_N);
    step_log_open(&rig.log);
    join_all(waiters);
    creates = step_log_count(&rig.log, "create");
    print_message("# zk: %u creates for %d waiters\n", creates, WAITERS_N);
    /* All but one are told no, and come again; each release wakes the rest, but one that is
     * slow misses some. */
    assert_true(creates >= 2 * WAITERS_N - 1);
}

/* F, and no herd: each is woken once, when it is its turn. */
static void test_queue(void **state)
{
    struct lock_single a = lock_single_open(*state);
    struct lock_waiter waiters[WAITERS_N];
    struct dlock_waiting waiting[WAITERS_N];
    size_t n = 0;

    assert_ok(lock_single_take(&a, 0));
    queue_up(waiters, *state);
    assert_ok(
        dlock_inspect_waiters(a.session, "k", waiting, WAITERS_N, &n, NULL));
    assert_int_equal(n, WAITERS_N);
    for (size_t i = 0; i < WAITERS_N; i++)
        assert_string_equal(waiting[i].owner,
                            dlock_session_owner(waiters[i].session));
    step_log_reset(&rig.log);
    assert_ok(lock_single_give(&a));
    join_all(waiters);
    print_message("# zk-fair: %u looks for %d waiters\n",
                  step_log_count(&rig.log, "children"), WAITERS_N);
    assert_int_equal(step_log_count(&rig.log, "children"), WAITERS_N);
    assert_int_equal(step_log_count(&rig.log, "create"), 0);
    for (unsigned i = 0; i < WAITERS_N; i++)
        assert_int_equal(waiters[i].turn, i);
}

static const struct lock_story stories[] = {
    /* One that cannot delete its node does not block either. */
    {"a waiter that leaves does not stand in the way of those behind it",
     "zk-fair",
     "a takes; b takes wait=50 -> timeout; b takes -> busy; "
     "b sees held=1 owner=a; a gives; c takes; fail delete before 1; "
     "b takes wait=50 -> timeout; c gives; a takes wait=6000; a gives"},
    {"who was waited for goes before it is watched", "zk zk-fair",
     "a takes; shut watch before; & b takes wait=60000; gate; clock; a gives; "
     "open; join; took 0..30000; b gives"},
    {"a wait is ended", "zk zk-fair",
     "a takes; & b takes wait=20000 -> timeout; await watch 1; b stops; join; "
     "a gives"},
    /* It waits without a thread: the watch calls it back. */
    {"an asynchronous acquire is woken", "zk zk-fair",
     "a takes; b begins wait=20000; await watch 1; sleep 100; b waits; clock; "
     "a gives; b ends; took 0..5000; b gives"},
};
LOCK_STORIES_TEST

static const struct CMUnitTest tests[] = {
    LOCK_STORY_TEST(test_waiter_expires, "zk"),
    LOCK_STORY_TEST(test_waiter_expires, "zk-fair"),
    LOCK_STORY_TEST(test_herd, "zk"),
    LOCK_STORY_TEST(test_queue, "zk-fair"),
};
UNIT_TESTS_ADD(tests)

UNIT_TESTS_WITHIN(set_up, zookeeper_server_tear_down)
