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

/* Use after close --------------------------------------------------------------- */

static void refuse_closed(struct dlock_session *session,
                          struct dlock_grant *grant)
{
    struct dlock_error error = {""};
    struct dlock_holder holder;

    assert_int_equal(dlock_try(session, "k", NULL, grant, &error),
                     DLOCK_MISUSE);
    assert_string_equal(error.text, "acquire: the session is closed");
    assert_int_equal(dlock_release(session, grant, &error), DLOCK_MISUSE);
    assert_string_equal(error.text, "release: the session is closed");
    assert_int_equal(dlock_extend(session, grant, 1000, &error), DLOCK_MISUSE);
    assert_string_equal(error.text, "extend: the session is closed");
    assert_int_equal(dlock_inspect(session, "k", &holder, &error),
                     DLOCK_MISUSE);
    assert_int_equal(dlock_force_release(session, "k", &error), DLOCK_MISUSE);
    assert_int_equal(dlock_remaining_ms(session, grant), 0);
    dlock_cancel(session);
    dlock_session_close(session);
}

static void refuse_closed_call(struct dlock_session *session)
{
    struct dlock_error error = {""};
    struct dlock_grant grant;

    assert_int_equal(dlock_try(session, "k", NULL, &grant, &error),
                     DLOCK_MISUSE);
    assert_string_equal(error.text, "acquire: the session is closed");
}

static void test_closed_session(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "fenced");
    struct dlock_grant grant;

    assert_int_equal(dlock_try(pair.session[0], "k", NULL, &grant, NULL), 0);
    dlock_session_close(pair.session[0]);
    refuse_closed(pair.session[0], &grant);
    dlock_close(pair.client[0]);
    refuse_closed(pair.session[0], &grant);
    dlock_session_close(pair.session[1]);
    dlock_close(pair.client[1]);
}

static void test_closed_client(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "fenced");
    struct dlock_session *late = NULL;
    struct dlock_error error = {""};

    lock_pair_close(&pair);
    assert_int_equal(dlock_session_open(pair.client[0], &late, &error),
                     DLOCK_MISUSE);
    assert_string_equal(error.text, "session: the client is closed");
    assert_null(late);
    dlock_end_waits(pair.client[0]);
    lock_pair_close(&pair);
}

/* Closing the client closes what it has; renewal ends, as by a session's end. */
static void test_sessions_left_open(void **state)
{
    static const char *const all[] = {"process", "token-lua", "fenced", "fair",
                                      "redlock"};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct lock_pair pair = lock_pair_open(*state, all[i]);
        struct dlock_session *more = lock_rig_session(pair.client[0]);
        struct dlock_grant grant;

        (void)dlock_try(pair.session[0], "k", NULL, &grant, NULL);
        dlock_close(pair.client[0]);
        refuse_closed_call(pair.session[0]);
        refuse_closed_call(more);
        dlock_session_close(pair.session[1]);
        dlock_close(pair.client[1]);
        assert_int_equal(lock_rig_fresh(state), 0);
    }
}

/* What is opened next is not what was just closed, and it all comes round. */
static void test_reopened(void **state)
{
    struct dlock *client = lock_rig_client(*state, "process");
    struct dlock_session *closed = lock_rig_session(client);

    dlock_session_close(closed);
    for (unsigned i = 0; i < 60; i++) {
        struct dlock_session *session = lock_rig_session(client);
        struct dlock_grant grant;

        assert_int_equal(dlock_try(session, "r", NULL, &grant, NULL), 0);
        refuse_closed_call(closed);
        assert_int_equal(dlock_release(session, &grant, NULL), DLOCK_OK);
        dlock_session_close(session);
    }
    for (unsigned i = 0; i < 1000; i++)
        dlock_session_close(lock_rig_session(client));
    dlock_close(client);
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

/* What the texts tell ------------------------------------------------------------ */

static void test_force_on_a_free_name(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "fenced");
    struct dlock_error error = {""};

    assert_int_equal(dlock_force_release(pair.session[0], "free", &error),
                     DLOCK_LOST);
    assert_string_equal(error.text, "force: nobody holds it");
    lock_pair_close(&pair);
}

/* Passwords of urls that are not taken do not get into a log for that. */
static void test_url_with_a_password(void **state)
{
    static const char *const urls[] = {
        "redis://:secret@127.0.0.1", "redis://me:secret@127.0.0.1:6379/x",
        "rediss://:secret@host:6379",
        "redis://:secret@a:1,redis://:secret@b:2"};
    struct dlock_error error = {""};
    struct dlock *client = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct dlock_options options = {.url = urls[i]};

        assert_int_equal(dlock_open(&options, &client, &error), DLOCK_MISUSE);
        assert_non_null(strstr(error.text, "url"));
        assert_null(strstr(error.text, "secret"));
    }
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
        TEST(test_closed_session),
        TEST(test_closed_client),
        TEST(test_sessions_left_open),
        TEST(test_reopened),
        TEST(test_force_on_a_free_name),
        TEST(test_url_with_a_password),
        TEST(test_reserved_names),
    };

    return cmocka_run_group_tests(tests, lock_rig_setup, lock_rig_teardown);
}
