/*
 * zk and zk-fair when things get lost: a delete that did not come through while
 * the session lives on, and the session itself under its holder.
 */
#include <pthread.h>
#include <string.h>

#include "tests/support/lock_party.h"
#include "tests/support/lock_rig.h"
#include "tests/support/unit_test.h"
#include "tests/support/zookeeper_server.h"

enum {
    SESSION_MS = 600,
    LONG_MS = 30000, /* longer than anything here takes */
    /* A server that is on its way up may leave a connection without a word, and
     * the library waits for two thirds of a session; then comes another. But this
     * is not the session's end. */
    SOON_MS = 28000,
};

/* A session ends with its test, and its locks with it: the server is the same for all. */
static int fresh(void **state)
{
    return lock_trio_new(state, the_zookeeper->url, SESSION_MS, 3000);
}

/* What is left behind ------------------------------------------------------- */

/* The session lives on, as it holds something else; and its owner is silent. */
static void test_delete_comes_through(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 2);

    assert_ok(lock_party_take(&trio->a, "kept", 0));
    for (int phase = DLOCK_BEFORE; phase <= DLOCK_AFTER; phase++) {
        assert_ok(lock_party_take(&trio->a, "k", 0));
        step_log_fail(&trio->a.log, "delete", (enum dlock_phase)phase, 2);
        step_log_fail_also(&trio->a.log, "sync", DLOCK_BEFORE, 1);
        assert_int_equal(lock_party_give(&trio->a), phase == DLOCK_BEFORE
                                                        ? DLOCK_UNREACHABLE
                                                        : DLOCK_UNKNOWN);
        assert_ok(lock_party_take(&trio->b, "k", SOON_MS));
        /* Called again, it is done; and it is nobody else's that goes. */
        assert_ok(lock_party_give(&trio->a));
        assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_BUSY);
        assert_ok(lock_party_give(&trio->b));
    }
    assert_int_equal(lock_party_take(&trio->b, "kept", 0), DLOCK_BUSY);
    assert_int_equal(atomic_load(&trio->a.lost_n), 0);
}

/* A place in the queue of one who has left it. */
static void test_place_is_cleared(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 3);

    assert_ok(lock_party_take(&trio->a, "kept", 0));
    assert_ok(lock_party_take(&trio->b, "k", 0));
    step_log_fail(&trio->a.log, "delete", DLOCK_BEFORE, 2);
    assert_int_equal(lock_party_take(&trio->a, "k", 50), DLOCK_TIMEOUT);
    assert_ok(lock_party_give(&trio->b));
    assert_ok(lock_party_take(&trio->c, "k", SOON_MS));
}

static void *take_k(void *arg)
{
    struct lock_party *party = arg;

    (void)lock_party_take(party, "k", 0);
    return NULL;
}

/*
 * The server has made the node, and goes away before it can be asked for it.
 * Nothing else is held; but the session outlives the server, and so does the
 * node: to leave the session alone would be to leave the node there.
 */
static void test_server_goes_after_create(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 2);
    pthread_t thread;

    /* The first one makes the directory as well. */
    assert_ok(lock_party_take(&trio->b, "k", 0));
    assert_ok(lock_party_give(&trio->b));
    step_log_fail(&trio->a.log, "create", DLOCK_AFTER, 1);
    step_log_shut(&trio->a.log, "sync", DLOCK_BEFORE);
    assert_int_equal(pthread_create(&thread, NULL, take_k, &trio->a), 0);
    step_log_await_gate(&trio->a.log, 1);
    server_proc_kill(&the_zookeeper->proc);
    step_log_open(&trio->a.log);
    (void)pthread_join(thread, NULL);
    zookeeper_server_restart(the_zookeeper);
    while (lock_party_take(&trio->b, "up", 0) == DLOCK_UNREACHABLE)
        ;
    assert_ok(lock_party_take(&trio->b, "k", SOON_MS));
}

/*
 * A late delete of an old node must not hit the same session's new one, which
 * for zk has the same path. So while the old one is about, there is no new one.
 */
static void test_late_delete_hits_no_other(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 2);

    assert_ok(lock_party_take(&trio->a, "kept", SOON_MS));
    assert_ok(lock_party_take(&trio->a, "k", SOON_MS));
    step_log_fail(&trio->a.log, "delete", DLOCK_BEFORE, 2);
    assert_int_equal(lock_party_give(&trio->a), DLOCK_UNREACHABLE);
    step_log_shut(&trio->a.log, "delete", DLOCK_BEFORE);
    step_log_await_gate(&trio->a.log, 1);
    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_UNREACHABLE);
    assert_int_equal(lock_party_give(&trio->a), DLOCK_UNKNOWN);
    step_log_open(&trio->a.log);
    assert_ok(lock_party_take(&trio->a, "k", SOON_MS));
    assert_ok(lock_party_take(&trio->a, "other", 0));
    assert_int_equal(lock_party_take(&trio->b, "k", 300), DLOCK_TIMEOUT);
}

/* The session's end ---------------------------------------------------------- */

static void await_loss(struct lock_party *party)
{
    for (int i = 0; i < 200 && atomic_load(&party->lost_n) == 0; i++)
        lock_rig_sleep_ms(50);
    assert_int_equal(atomic_load(&party->lost_n), 1);
}

/* While the server is heard of, for ever; then less and less; then nothing. */
static void test_remaining(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 1);

    assert_ok(lock_party_take(&trio->a, "k", 0));
    assert_true(dlock_remaining_ms(trio->a.session, &trio->a.grant) ==
                UINT64_MAX);
    server_proc_pause(&the_zookeeper->proc);
    await_loss(&trio->a);
    assert_int_equal(dlock_remaining_ms(trio->a.session, &trio->a.grant), 0);
    server_proc_resume(&the_zookeeper->proc);
    assert_int_equal(lock_party_give(&trio->a), DLOCK_LOST);
    assert_int_equal(dlock_remaining_ms(trio->a.session, &trio->a.grant), 0);
    assert_ok(lock_party_take(&trio->a, "k", SOON_MS));
    assert_true(dlock_remaining_ms(trio->a.session, &trio->a.grant) ==
                UINT64_MAX);
    assert_ok(lock_party_give(&trio->a));
    assert_int_equal(dlock_remaining_ms(trio->a.session, &trio->a.grant), 0);
}

/* Of a server that is gone it is told how long it is safe to go on. */
static void test_remaining_without_server(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 1);
    uint64_t left_ms = UINT64_MAX;

    assert_ok(lock_party_take(&trio->a, "k", 0));
    server_proc_kill(&the_zookeeper->proc);
    for (int i = 0; i < 200 && left_ms == UINT64_MAX; i++) {
        lock_rig_sleep_ms(10);
        left_ms = dlock_remaining_ms(trio->a.session, &trio->a.grant);
    }
    assert_in_range(left_ms, 1, 2000);
    await_loss(&trio->a);
    assert_int_equal(dlock_remaining_ms(trio->a.session, &trio->a.grant), 0);
    zookeeper_server_restart(the_zookeeper);
}

/* What is over for its holder does not come to life again with the server: the
 * next one gets it, though the holder never says a word. */
static void test_lost_is_lost(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 2);

    assert_ok(lock_party_take(&trio->a, "k", 0));
    server_proc_kill(&the_zookeeper->proc);
    await_loss(&trio->a);
    zookeeper_server_restart(the_zookeeper);
    while (lock_party_take(&trio->b, "up", 0) == DLOCK_UNREACHABLE)
        ;
    assert_ok(lock_party_take(&trio->b, "k", LONG_MS));
    assert_int_equal(lock_party_give(&trio->a), DLOCK_LOST);
}

/* A hook that stands still until it is let go, and knows what it was told. */
struct teller {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    char told[4][8];
    unsigned told_n;
    bool let_go;
};

static void stand_still(void *ctx, const char *name, const char *owner,
                        enum dlock_loss reason)
{
    struct teller *teller = ctx;

    (void)owner;
    (void)reason;
    (void)pthread_mutex_lock(&teller->mutex);
    if (teller->told_n < 4)
        strncpy(teller->told[teller->told_n++], name, 7);
    (void)pthread_cond_broadcast(&teller->changed);
    while (!teller->let_go)
        (void)pthread_cond_wait(&teller->changed, &teller->mutex);
    (void)pthread_mutex_unlock(&teller->mutex);
}

static void await_told(struct teller *teller)
{
    (void)pthread_mutex_lock(&teller->mutex);
    while (teller->told_n == 0)
        (void)pthread_cond_wait(&teller->changed, &teller->mutex);
    (void)pthread_mutex_unlock(&teller->mutex);
}

static void let_go(struct teller *teller)
{
    (void)pthread_mutex_lock(&teller->mutex);
    teller->let_go = true;
    (void)pthread_cond_broadcast(&teller->changed);
    (void)pthread_mutex_unlock(&teller->mutex);
}

/* Whoever tells of a session's end may be slow, and come to its list of nodes
 * when the next session has some on it. Those are not lost. */
static void test_next_session_is_not_lost(void **state)
{
    const struct lock_trio *trio = *state;
    struct dlock_terms wait = {.wait_ms = SOON_MS};
    struct teller teller = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                            .changed = PTHREAD_COND_INITIALIZER};
    struct dlock_options options = {.strategy = trio->how.strategy,
                                    .url = trio->how.url,
                                    .watchdog_lease_ms = trio->how.lease_ms,
                                    .on_lost = stand_still,
                                    .on_lost_ctx = &teller};
    struct dlock_session *session;
    struct dlock_grant old, next;
    struct dlock *client;

    assert_ok(dlock_open(&options, &client, NULL));
    assert_ok(dlock_session_open(client, &session, NULL));
    assert_ok(dlock_acquire(session, "old", &wait, &old, NULL));
    server_proc_pause(&the_zookeeper->proc);
    await_told(&teller);
    server_proc_resume(&the_zookeeper->proc);
    assert_int_equal(dlock_release(session, &old, NULL), DLOCK_LOST);
    assert_ok(dlock_acquire(session, "next", &wait, &next, NULL));
    let_go(&teller);
    /* It goes on, and would tell at once; then this says that it held. */
    lock_rig_sleep_ms(100);
    assert_true(dlock_remaining_ms(session, &next) == UINT64_MAX);
    assert_ok(dlock_release(session, &next, NULL));
    assert_int_equal(teller.told_n, 1);
    assert_string_equal(teller.told[0], "old");
    dlock_session_close(session);
    dlock_close(client);
}

/* A program that guards what it knows of its locks by a mutex of its own. */
struct program {
    pthread_mutex_t mutex;
    struct dlock_session *session;
    atomic_bool told;
    atomic_bool closed;
};

static void want_mutex(void *ctx, const char *name, const char *owner,
                       enum dlock_loss reason)
{
    struct program *program = ctx;

    (void)name;
    (void)owner;
    (void)reason;
    atomic_store(&program->told, true);
    (void)pthread_mutex_lock(&program->mutex);
    (void)pthread_mutex_unlock(&program->mutex);
}

static void *close_session(void *arg)
{
    struct program *program = arg;

    dlock_session_close(program->session);
    atomic_store(&program->closed, true);
    return NULL;
}

static bool becomes_true(atomic_bool *flag)
{
    for (int i = 0; i < 600 && !atomic_load(flag); i++)
        lock_rig_sleep_ms(50);
    return atomic_load(flag);
}

/* The hook wants a mutex under which the session that it tells of is closed. */
static void test_hook_wants_a_mutex(void **state)
{
    const struct lock_trio *trio = *state;
    struct program program = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct dlock_options options = {.strategy = trio->how.strategy,
                                    .url = trio->how.url,
                                    .watchdog_lease_ms = trio->how.lease_ms,
                                    .on_lost = want_mutex,
                                    .on_lost_ctx = &program};
    struct dlock_terms wait = {.wait_ms = SOON_MS};
    struct dlock_grant grant;
    struct dlock *client;
    pthread_t thread;
    bool closed;

    assert_ok(dlock_open(&options, &client, NULL));
    assert_ok(dlock_session_open(client, &program.session, NULL));
    assert_ok(dlock_acquire(program.session, "k", &wait, &grant, NULL));
    (void)pthread_mutex_lock(&program.mutex);
    server_proc_pause(&the_zookeeper->proc);
    assert_true(becomes_true(&program.told));
    assert_int_equal(pthread_create(&thread, NULL, close_session, &program), 0);
    closed = becomes_true(&program.closed);
    (void)pthread_mutex_unlock(&program.mutex);
    (void)pthread_join(thread, NULL);
    dlock_close(client);
    server_proc_resume(&the_zookeeper->proc);
    assert_true(closed);
}

static const struct CMUnitTest tests[] = {
    LOCK_TRIO_ZK(test_delete_comes_through, .lease_ms = LONG_MS),
    LOCK_TRIO_TEST(test_place_is_cleared, "zk-fair", .lease_ms = LONG_MS),
    LOCK_TRIO_ZK(test_server_goes_after_create, .lease_ms = LONG_MS),
    LOCK_TRIO_ZK(test_late_delete_hits_no_other, .lease_ms = LONG_MS,
                 .timeout_ms = 300),
    LOCK_TRIO_ZK(test_lost_is_lost, .lease_ms = 3000),
    LOCK_TRIO_ZK(test_remaining),
    LOCK_TRIO_TEST(test_remaining_without_server, "zk-fair", .lease_ms = 6000),
    LOCK_TRIO_ZK(test_next_session_is_not_lost),
    LOCK_TRIO_ZK(test_hook_wants_a_mutex),
};
TEST_MAIN_WITHIN(tests, zookeeper_server_set_up, zookeeper_server_tear_down)
