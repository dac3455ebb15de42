/*
 * A caller that does what dlock.h tells it not to: another session's grant,
 * NULL, a name of the library's own. Each time a status and a text, and what
 * others hold stays held.
 */
#include <string.h>

#include "tests/support/lock_rig.h"

/* Other sessions' grants ----------------------------------------------------- */

static const char *const owned[] = {"token-lua", "watchdog", "reentrant",
                                    "redisson",  "fair",     "fenced"};

static void refuse_grant(struct dlock_session *session,
                         const struct dlock_grant *grant)
{
    struct dlock_grant copy = *grant;
    struct dlock_error error = {""};

    assert_int_equal(dlock_release(session, grant, &error), DLOCK_MISUSE);
    assert_non_null(strstr(error.text, "release: the grant is another "));
    assert_int_equal(dlock_extend(session, &copy, 5000, &error), DLOCK_MISUSE);
    assert_non_null(strstr(error.text, "extend: the grant is another "));
}

/* Attempts are numbered alike in all sessions: the number tells nothing. */
static void test_foreign_grant(NO_STATE)
{
    for (size_t i = 0; i < COUNT_OF(owned); i++) {
        struct lock_pair pair = lock_pair_open(owned[i]);
        struct dlock_grant mine, other;

        assert_ok(lock_hold_take(&pair, "x", 0, &other));
        assert_ok(lock_rig_take(pair.session[1], "y", 0, 0, &mine));
        refuse_grant(pair.session[1], &other);
        assert_ok(lock_hold_give(&pair, &other));
        assert_ok(dlock_release(pair.session[1], &mine, NULL));
        lock_pair_close(&pair);
    }
}

/* The next holder has the name, and is not to be put out by the last one's. */
static void test_foreign_grant_of_before(NO_STATE)
{
    for (size_t i = 0; i < COUNT_OF(owned); i++) {
        struct lock_pair pair = lock_pair_open(owned[i]);
        struct dlock_grant mine, old;

        assert_ok(lock_hold_take(&pair, "z", 0, &old));
        assert_ok(lock_hold_give(&pair, &old));
        assert_ok(lock_rig_take(pair.session[1], "z", 0, 0, &mine));
        refuse_grant(pair.session[1], &old);
        assert_int_equal(lock_rig_probe(owned[i], "z"), DLOCK_BUSY);
        assert_ok(dlock_release(pair.session[1], &mine, NULL));
        lock_pair_close(&pair);
    }
}

/* What was refused has not stopped the renewal of the session's own lock. */
static void test_foreign_grant_keeps_renewal(NO_STATE)
{
    struct lock_pair pair;
    struct dlock_grant mine, other;

    rig.watchdog_lease_ms = LOCK_RIG_LEASE_MS;
    pair = lock_pair_open("fenced");
    assert_ok(lock_hold_take(&pair, "x", 0, &other));
    assert_ok(lock_rig_take(pair.session[1], "y", 0, 0, &mine));
    assert_int_equal(mine.attempt, other.attempt);
    refuse_grant(pair.session[1], &other);
    /* A lease and more, also if only one of the two is renewed. */
    step_log_await(&rig.log, "eval-renew",
                   step_log_count(&rig.log, "eval-renew") + 8);
    assert_int_equal(lock_rig_probe("fenced", "y"), DLOCK_BUSY);
    assert_ok(dlock_release(pair.session[1], &mine, NULL));
}

/* Bytes that are no grant at all, not even text. */
static void test_garbage_grant(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("fenced");
    struct dlock_grant grant;

    memset(&grant, 'x', sizeof(grant));
    assert_int_equal(lock_hold_give(&pair, &grant), DLOCK_MISUSE);
    assert_int_equal(lock_hold_extend(&pair, &grant, 1000), DLOCK_MISUSE);
    grant.name[3] = '\0';
    assert_int_equal(lock_hold_give(&pair, &grant), DLOCK_MISUSE);
}

/* NULL ------------------------------------------------------------------------ */

static void test_null(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("fenced");
    struct dlock_session *session = pair.session[0];
    struct dlock_grant grant;
    size_t n;

    assert_ok(lock_rig_take(session, "k", 0, 0, &grant));
    assert_int_equal(dlock_remaining_ms(NULL, &grant), 0);
    assert_int_equal(dlock_remaining_ms(session, NULL), 0);
    assert_string_equal(dlock_session_owner(NULL), "");
    dlock_end_waits(NULL);
    dlock_cancel(NULL);
    assert_int_equal(dlock_release(NULL, &grant, NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_release(session, NULL, NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_extend(NULL, &grant, 1000, NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_try(NULL, "k", NULL, &grant, NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_try(session, NULL, NULL, &grant, NULL),
                     DLOCK_MISUSE);
    assert_int_equal(dlock_inspect(NULL, "k", NULL, NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_inspect_waiters(session, "k", NULL, 2, &n, NULL),
                     DLOCK_MISUSE);
    assert_int_equal(dlock_force_release(NULL, "k", NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_session_open(NULL, &session, NULL), DLOCK_MISUSE);
    assert_ok(dlock_release(session, &grant, NULL));
}

/* Closing ----------------------------------------------------------------------- */

/* Closing the client closes what it has; renewal ends, as by a session's end. */
static void test_sessions_left_open(NO_STATE)
{
    static const char *const all[] = {"process", "token-lua", "fenced", "fair",
                                      "redlock"};

    for (size_t i = 0; i < COUNT_OF(all); i++) {
        struct lock_pair pair = lock_pair_open(all[i]);
        struct dlock_grant grant;

        (void)lock_rig_session(pair.client[0]);
        (void)dlock_try(pair.session[0], "k", NULL, &grant, NULL);
        lock_pair_close(&pair);
        lock_rig_tell("FLUSHALL");
    }
}

/* pthread_cancel ------------------------------------------------------------------ */

struct cancelled {
    struct dlock_session *session;
    struct dlock_grant grant;
    enum dlock_status status;
};

static void *wait_to_be_cancelled(void *arg)
{
    struct cancelled *waiter = arg;

    waiter->status =
        lock_rig_take(waiter->session, "c", 60000, 60000, &waiter->grant);
    pthread_testcancel();
    return NULL;
}

/* The call ends as it would have, and the thread after it. */
static void test_thread_cancelled_in_a_wait(NO_STATE)
{
    static const char *const all[] = {"process", "token-lua", "spin", "fenced"};

    for (size_t i = 0; i < COUNT_OF(all); i++) {
        struct lock_pair pair = lock_pair_open(all[i]);
        struct cancelled waiter = {.session = pair.session[1],
                                   .status = DLOCK_MISUSE};
        struct timespec until;
        struct dlock_grant grant;
        void *result = NULL;
        pthread_t thread;

        assert_ok(lock_hold_take(&pair, "c", 60000, &grant));
        assert_int_equal(
            pthread_create(&thread, NULL, wait_to_be_cancelled, &waiter), 0);
        lock_rig_sleep_ms(50); /* it is in the wait: no step says so */
        assert_int_equal(pthread_cancel(thread), 0);
        lock_rig_sleep_ms(20);
        assert_ok(lock_hold_give(&pair, &grant));
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 10;
        assert_int_equal(pthread_timedjoin_np(thread, &result, &until), 0);
        assert_ptr_equal(result, PTHREAD_CANCELED);
        assert_ok(waiter.status);
        assert_ok(dlock_release(waiter.session, &waiter.grant, NULL));
        lock_pair_close(&pair);
    }
}

/* Names of the library's own --------------------------------------------------- */

/* They would be the same keys as another lock's counter, queue or word. */
static void test_reserved_names(NO_STATE)
{
    static const char *const names[] = {"{Q}:dlock-fence", "{Q}:dlock-queue",
                                        "Q:dlock-done:1", "{Q}:dlock-freed"};
    struct lock_pair pair = lock_pair_open("fenced");
    struct dlock_session *session = pair.session[0];
    struct dlock_grant grant;

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct dlock_error error = {""};

        assert_int_equal(dlock_try(session, names[i], NULL, &grant, &error),
                         DLOCK_MISUSE);
        assert_non_null(strstr(error.text, "':dlock-' is the library's own"));
        assert_int_equal(dlock_force_release(session, names[i], NULL),
                         DLOCK_MISUSE);
    }
    assert_ok(dlock_try(session, "a:dlock", NULL, &grant, NULL));
    assert_ok(dlock_release(session, &grant, NULL));
}

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_foreign_grant),
    LOCK_TEST(test_foreign_grant_of_before),
    LOCK_TEST(test_foreign_grant_keeps_renewal),
    LOCK_TEST(test_garbage_grant),
    LOCK_TEST(test_null),
    LOCK_TEST(test_sessions_left_open),
    LOCK_TEST(test_thread_cancelled_in_a_wait),
    LOCK_TEST(test_reserved_names),
};
LOCK_RIG_MAIN(tests)
