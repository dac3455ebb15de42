/*
 * The ladder's last rung but one, `guard-thread`: a thread that renews whatever
 * is locked, and the watchdog, which looks whose lock it is. See
 * test_dlock_ladder.c.
 */
#include "tests/support/lock_rig.h"

/*
 * A lease that is renewed: long enough for a busy machine to do so in time. A
 * guard that has renewed it four times has outlived it.
 */
enum { RENEWED_LEASE_MS = LOCK_RIG_LEASE_MS, RENEWALS = 4 };

/* The lease is renewed, and B is another process. */
static struct lock_pair open_renewed(const char *strategy)
{
    rig.watchdog_lease_ms = RENEWED_LEASE_MS;
    return lock_pair_open(strategy);
}

/* 14: the eternal lock -------------------------------------------------------- */

/* Waits for N more renewals by the guard: three of them are a lease. */
static void await_guard(unsigned n)
{
    step_log_await(&rig.log, "guard-expire",
                   step_log_ended(&rig.log, "guard-expire") + n);
}

static void test_14_the_eternal_lock(NO_STATE)
{
    struct lock_pair pair = open_renewed("guard-thread");
    struct dlock_terms terms = {.max_hold_ms = 1};

    assert_int_equal(
        dlock_acquire(pair.session[0], "k", &terms, &pair.grant[0], NULL),
        DLOCK_OK);
    lock_pair_die(&pair, 0); /* the worker; its process lives */
    await_guard(RENEWALS);
    assert_int_equal(lock_pair_take(&pair, 1, 0, 5000), DLOCK_BUSY);
    lock_pair_close(&pair); /* only the end of the process is an end */
    pair = lock_pair_open("watchdog");
    assert_int_equal(lock_pair_take(&pair, 1, LOCK_RIG_LONG_MS, 0), DLOCK_OK);

    lock_pair_die(&pair, 1);
    assert_int_equal(lock_pair_take(&pair, 0, LOCK_RIG_LONG_MS, 5000),
                     DLOCK_OK);
}

/* The watchdog's other answer: who holds too long is not renewed. */
static void test_14_max_hold(NO_STATE)
{
    struct lock_pair pair = open_renewed("watchdog");
    struct dlock_terms terms = {.max_hold_ms = 1};

    assert_int_equal(
        dlock_acquire(pair.session[0], "k", &terms, &pair.grant[0], NULL),
        DLOCK_OK);
    assert_int_equal(lock_pair_take(&pair, 1, LOCK_RIG_LONG_MS, 5000),
                     DLOCK_OK);
}

/* It does not ask whose lock it renews. */
static void test_14_guard_renews_anothers(NO_STATE)
{
    struct lock_pair pair = open_renewed("guard-thread");

    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), DLOCK_OK);
    await_guard(1);
    lock_rig_end_lease();
    /* B wants it for one lease, and dies. */
    assert_int_equal(lock_pair_take(&pair, 1, 0, RENEWED_LEASE_MS), DLOCK_OK);
    lock_pair_die(&pair, 1);
    await_guard(RENEWALS);
    assert_int_equal(lock_pair_take(&pair, 1, 0, 5000), DLOCK_BUSY);
    /* A can at least not delete it: that much token-lua was worth. */
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_LOST);
    assert_int_equal(lock_pair_take(&pair, 1, LOCK_RIG_LONG_MS, 5000),
                     DLOCK_OK);
}

/* An explicit lease is nobody's to renew. */
static void test_14_guard_leaves_leases_alone(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("guard-thread");

    assert_int_equal(lock_pair_take(&pair, 0, 0, LOCK_RIG_TIMEOUT_MS),
                     DLOCK_OK);
    assert_int_equal(lock_pair_take(&pair, 1, LOCK_RIG_LONG_MS, 5000),
                     DLOCK_OK);
    assert_int_equal(step_log_count(&rig.log, "guard-ttl"), 0);
}

/* 15: one stop flag for all --------------------------------------------------- */

/* The flag is set again by the next one who takes a lock, and by nobody else. */
static void test_15_guard_starts_again(NO_STATE)
{
    struct lock_pair pair = open_renewed("guard-thread");

    for (int i = 0; i < 3; i++) {
        assert_int_equal(lock_pair_take(&pair, 0, 0, 0), DLOCK_OK);
        await_guard(RENEWALS);
        assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    }
    step_log_reset(&rig.log);
    lock_rig_sleep_ms(RENEWED_LEASE_MS);
    assert_int_equal(step_log_count(&rig.log, NULL), 0);
}

/*
 * Many take and give back at once: stopping and starting do not deadlock. That
 * a lease ends in between is no surprise: renewal hardly ever runs.
 */
static void *take_and_give(void *arg)
{
    struct dlock_session *session = arg;

    for (int i = 0; i < 200; i++) {
        const char *name = dlock_session_owner(session);
        struct dlock_grant grant;
        enum dlock_status status;

        if (lock_rig_take(session, name, 0, 0, &grant) != DLOCK_OK)
            return NULL;
        status = dlock_release(session, &grant, NULL);
        if (status != DLOCK_OK && status != DLOCK_LOST)
            return NULL;
    }
    return session;
}

static void test_15_guard_under_load(NO_STATE)
{
    struct lock_pair pair = open_renewed("guard-thread");
    pthread_t threads[4];
    struct dlock_session *sessions[4];

    for (int i = 0; i < 4; i++) {
        sessions[i] = lock_rig_session(pair.client[0]);
        assert_int_equal(
            pthread_create(&threads[i], NULL, take_and_give, sessions[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *done;

        assert_int_equal(pthread_join(threads[i], &done), 0);
        assert_ptr_equal(done, sessions[i]);
    }
}

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_14_the_eternal_lock),
    LOCK_TEST(test_14_max_hold),
    LOCK_TEST(test_14_guard_renews_anothers),
    LOCK_TEST(test_14_guard_leaves_leases_alone),
    LOCK_TEST(test_15_guard_starts_again),
    LOCK_TEST(test_15_guard_under_load),
};
LOCK_RIG_MAIN(tests)
