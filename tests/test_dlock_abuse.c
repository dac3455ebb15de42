/*
 * A caller that does what dlock.h tells it not to: another session's grant,
 * NULL, a name of the library's own. Each time a status and a text, and what
 * others hold stays held.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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
    assert_int_equal(dlock_abandon(session, grant, &error), DLOCK_MISUSE);
    assert_non_null(strstr(error.text, "release: the grant is another "));
    assert_int_equal(dlock_extend(session, &copy, 5000, &error), DLOCK_MISUSE);
    assert_non_null(strstr(error.text, "extend: the grant is another "));
}

/* Attempts are numbered alike in all sessions: the number tells nothing. */
static void test_foreign_grant(void **state)
{
    struct lock_rig *rig = *state;

    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++) {
        struct lock_pair pair = lock_pair_open(rig, owned[i]);
        struct dlock_grant mine, other;

        assert_int_equal(lock_rig_take(pair.session[0], "x", 0, 0, &other), 0);
        assert_int_equal(lock_rig_take(pair.session[1], "y", 0, 0, &mine), 0);
        refuse_grant(pair.session[1], &other);
        assert_int_equal(dlock_release(pair.session[0], &other, NULL), 0);
        assert_int_equal(dlock_release(pair.session[1], &mine, NULL), 0);
        lock_pair_close(&pair);
    }
}

/* The next holder has the name, and is not to be put out by the last one's. */
static void test_foreign_grant_of_before(void **state)
{
    struct lock_rig *rig = *state;

    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++) {
        struct lock_pair pair = lock_pair_open(rig, owned[i]);
        struct dlock_grant mine, old;

        assert_int_equal(lock_rig_take(pair.session[0], "z", 0, 0, &old), 0);
        assert_int_equal(dlock_release(pair.session[0], &old, NULL), 0);
        assert_int_equal(lock_rig_take(pair.session[1], "z", 0, 0, &mine), 0);
        refuse_grant(pair.session[1], &old);
        assert_int_equal(lock_rig_probe(rig, owned[i], "z"), DLOCK_BUSY);
        assert_int_equal(dlock_release(pair.session[1], &mine, NULL), 0);
        lock_pair_close(&pair);
    }
}

/* What was refused has not stopped the renewal of the session's own lock. */
static void test_foreign_grant_keeps_renewal(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair;
    struct dlock_grant mine, other;

    rig->watchdog_lease_ms = 300;
    pair = lock_pair_open(rig, "fenced");
    assert_int_equal(lock_rig_take(pair.session[0], "x", 0, 0, &other), 0);
    assert_int_equal(lock_rig_take(pair.session[1], "y", 0, 0, &mine), 0);
    assert_int_equal(mine.attempt, other.attempt);
    refuse_grant(pair.session[1], &other);
    /* Two leases, or more if only one of the two is renewed. */
    step_log_await(&rig->log, "eval-renew",
                   step_log_count(&rig->log, "eval-renew") + 12);
    assert_int_equal(lock_rig_probe(rig, "fenced", "y"), DLOCK_BUSY);
    assert_int_equal(dlock_release(pair.session[1], &mine, NULL), DLOCK_OK);
    lock_pair_close(&pair);
}

/* Bytes that are no grant at all, not even text. */
static void test_garbage_grant(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "fenced");
    struct dlock_grant grant;

    memset(&grant, 'x', sizeof(grant));
    assert_int_equal(dlock_release(pair.session[0], &grant, NULL),
                     DLOCK_MISUSE);
    assert_int_equal(dlock_extend(pair.session[0], &grant, 1000, NULL),
                     DLOCK_MISUSE);
    grant.name[3] = '\0';
    assert_int_equal(dlock_release(pair.session[0], &grant, NULL),
                     DLOCK_MISUSE);
    lock_pair_close(&pair);
}

/* NULL ------------------------------------------------------------------------ */

static void test_null(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "fenced");
    struct dlock_session *session = pair.session[0];
    struct dlock_grant grant;

    assert_int_equal(lock_rig_take(session, "k", 0, 0, &grant), DLOCK_OK);
    assert_int_equal(dlock_remaining_ms(NULL, &grant), 0);
    assert_int_equal(dlock_remaining_ms(session, NULL), 0);
    assert_string_equal(dlock_session_owner(NULL), "");
    dlock_end_waits(NULL);
    dlock_cancel(NULL);
    assert_int_equal(dlock_release(NULL, &grant, NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_abandon(NULL, &grant, NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_abandon(session, NULL, NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_extend(NULL, &grant, 1000, NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_try(NULL, "k", NULL, &grant, NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_try(session, NULL, NULL, &grant, NULL),
                     DLOCK_MISUSE);
    assert_int_equal(dlock_inspect(NULL, "k", NULL, NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_force_release(NULL, "k", NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_session_open(NULL, &session, NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_release(session, &grant, NULL), DLOCK_OK);
    lock_pair_close(&pair);
}

/* Names of the library's own --------------------------------------------------- */

/* They would be the same keys as another lock's counter, queue or word. */
static void test_reserved_names(void **state)
{
    static const char *const names[] = {"{Q}:dlock-fence", "{Q}:dlock-queue",
                                        "Q:dlock-done:1", "{Q}:dlock-freed"};
    struct lock_pair pair = lock_pair_open(*state, "fenced");
    struct dlock_session *session = pair.session[0];
    struct dlock_grant grant;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct dlock_error error = {""};

        assert_int_equal(dlock_try(session, names[i], NULL, &grant, &error),
                         DLOCK_MISUSE);
        assert_non_null(strstr(error.text, "':dlock-' is the library's own"));
        assert_int_equal(dlock_force_release(session, names[i], NULL),
                         DLOCK_MISUSE);
    }
    assert_int_equal(dlock_try(session, "a:dlock", NULL, &grant, NULL), 0);
    assert_int_equal(dlock_release(session, &grant, NULL), DLOCK_OK);
    lock_pair_close(&pair);
}

#define TEST(function) cmocka_unit_test_setup(function, lock_rig_fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_foreign_grant),
        TEST(test_foreign_grant_of_before),
        TEST(test_foreign_grant_keeps_renewal),
        TEST(test_garbage_grant),
        TEST(test_null),
        TEST(test_reserved_names),
    };

    return cmocka_run_group_tests(tests, lock_rig_setup, lock_rig_teardown);
}
