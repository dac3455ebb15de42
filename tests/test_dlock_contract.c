/*
 * What dlock.h says about arguments, texts, ids and values. Nothing in here
 * needs a server, except where it says so.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/dlock_textbook.h"
#include "lock/redis/command.h"
#include "tests/support/fake_clock.h"
#include "tests/support/lock_rig.h"
#include "tests/support/unit_test.h"

static struct dlock *open_or_die(const char *strategy, const char *url,
                                 const struct dlock_clock *clock)
{
    struct dlock_options options = {
        .strategy = strategy, .url = url, .clock = clock};
    struct dlock *client = NULL;

    assert_int_equal(dlock_open(&options, &client, NULL), DLOCK_OK);
    return client;
}

static void test_status_texts(NO_STATE)
{
    for (int i = 0; i < DLOCK_STATUS_N; i++) {
        const char *text = dlock_status_text((enum dlock_status)i);

        assert_non_null(text);
        assert_true(strlen(text) > 1);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(text,
                                    dlock_status_text((enum dlock_status)j));
    }
    assert_non_null(dlock_status_text(DLOCK_STATUS_N));
    assert_non_null(dlock_status_text((enum dlock_status) - 1));
}

static void test_list_of_strategies(NO_STATE)
{
    static const char *const names[] = {"none",      "process",   "setnx",
                                        "set-nx-px", "token-lua", "redisson",
                                        "fenced"};
    const struct dlock_strategy_info *info;
    size_t n = 0;

    /* More may come in between; those of today keep their order. */
    for (size_t i = 0; (info = dlock_strategy_info(i)) != NULL; i++) {
        assert_ptr_equal(dlock_strategy_find(info->name), info);
        assert_true(strlen(info->claim) > 10);
        if (n < COUNT_OF(names) && strcmp(info->name, names[n]) == 0)
            n++;
    }
    assert_int_equal(n, COUNT_OF(names));
    assert_null(dlock_strategy_info(SIZE_MAX));
    assert_null(dlock_strategy_find("nonsense"));
    assert_null(dlock_strategy_find(NULL));
}

/* A set that is registered twice is there once. */
static void test_registered_twice(NO_STATE)
{
    size_t before = 0;
    size_t after = 0;

    while (dlock_strategy_info(before) != NULL)
        before++;
    dlock_register_all();
    while (dlock_strategy_info(after) != NULL)
        after++;
    assert_int_equal(after, before);
}

static void test_capabilities_agree(NO_STATE)
{
    const struct dlock_strategy_info *info;

    for (size_t i = 0; (info = dlock_strategy_info(i)) != NULL; i++) {
        unsigned can = info->capabilities;

        if (can & DLOCK_CAP_RENEW)
            assert_true((can & DLOCK_CAP_LEASE) && (can & DLOCK_CAP_OWNER));
        if (can & DLOCK_CAP_REENTRANT)
            assert_true(can & DLOCK_CAP_OWNER);
    }
}

/* Options ------------------------------------------------------------------- */

static void refuse_options(struct dlock_options options, const char *text)
{
    struct dlock *client = NULL;
    struct dlock_error error;

    assert_int_equal(dlock_open(&options, &client, &error), DLOCK_MISUSE);
    assert_null(client);
    assert_non_null(strstr(error.text, text));
    assert_int_equal(dlock_open(&options, &client, NULL), DLOCK_MISUSE);
}

static void test_options(NO_STATE)
{
#define GOOD "redis://127.0.0.1:6379"
    static const struct dlock_clock half = {.now_ms = NULL};
    static const struct {
        struct dlock_options options;
        const char *text; /* what the error speaks of */
    } rows[] = {
        {{.url = NULL}, "url"},
        {{.url = ""}, "url"},
        {{.url = "unix:"}, "url"},
        {{.url = "redis://"}, "url"},
        {{.url = "redis://host"}, "url"},
        {{.url = "redis://host:"}, "url"},
        {{.url = "redis://host:0"}, "url"},
        {{.url = "redis://host:65536"}, "url"},
        {{.url = "redis://host:6379x"}, "url"},
        {{.url = "redis://host:-1"}, "url"},
        {{.url = "redis://:6379"}, "url"},
        {{.url = "redis://::1:6379"}, "url"},
        {{.url = "redis://[]:6379"}, "url"},
        {{.url = "http://host:80"}, "url"},
        {{.url = "redis://host:99999999999999999999"}, "url"},
        {{.url = "/tmp/redis.sock"}, "url"},
        {{.url = GOOD, .strategy = "best"}, "no strategy 'best'"},
        {{.url = GOOD, .clock = &half}, "clock"},
        {{.url = GOOD, .watchdog_lease_ms = UINT32_MAX}, "watchdog_lease_ms"},
        {{.url = GOOD, .watchdog_lease_ms = 1}, "watchdog_lease_ms"},
        {{.url = GOOD, .command_timeout_ms = UINT32_MAX}, "command_timeout_ms"},
    };
    char long_url[600];

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        refuse_options(rows[i].options, rows[i].text);
    (void)snprintf(long_url, sizeof(long_url), "unix:/%0590d", 0);
    refuse_options((struct dlock_options){.url = long_url}, "url");
    (void)snprintf(long_url, sizeof(long_url), "redis://%0580d:6379", 0);
    refuse_options((struct dlock_options){.url = long_url}, "url");
    assert_int_equal(dlock_open(NULL, NULL, NULL), DLOCK_MISUSE);
}

/* Nothing is there, and making a client and a session does not mind. */
static void test_open_does_not_connect(NO_STATE)
{
    static const char *const urls[] = {
        "unix:/nowhere/redis.sock", "redis://127.0.0.1:1", "redis://[::1]:1"};

    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        struct dlock *client = open_or_die(NULL, urls[i], NULL);
        struct dlock_session *session = lock_rig_session(client);
        struct dlock_error error = {""};
        struct dlock_terms terms = {.wait_ms = 100};
        struct dlock_grant grant;

        assert_int_equal(dlock_acquire(session, "k", &terms, &grant, &error),
                         DLOCK_UNREACHABLE);
        assert_non_null(strstr(error.text, "acquire: connect to "));
        dlock_session_close(session);
        dlock_close(client);
    }
}

static void test_close_null(NO_STATE)
{
    dlock_session_close(NULL);
    dlock_close(NULL);
}

/* Names and terms ----------------------------------------------------------- */

static void refuse_name(struct dlock_session *session, const char *name,
                        const char *text)
{
    struct dlock_terms terms = {.wait_ms = 0};
    struct dlock_error error = {""};
    struct dlock_holder holder;
    struct dlock_grant grant;

    assert_int_equal(dlock_acquire(session, name, &terms, &grant, &error),
                     DLOCK_MISUSE);
    assert_non_null(strstr(error.text, text));
    assert_int_equal(dlock_acquire(session, name, &terms, &grant, NULL),
                     DLOCK_MISUSE);
    assert_int_equal(dlock_inspect(session, name, &holder, NULL), DLOCK_MISUSE);
}

static void test_names(NO_STATE)
{
    struct dlock *client = open_or_die("process", NULL, NULL);
    struct dlock_session *session = lock_rig_session(client);
    char name[DLOCK_NAME_BYTES_MAX + 2];
    struct dlock_grant grant;

    refuse_name(session, NULL, "empty");
    refuse_name(session, "", "empty");
    refuse_name(session, "a\nb", "byte 1 ");
    refuse_name(session, "a\x7f", "byte 1 ");
    refuse_name(session, "\xc3\xa9", "byte 0 ");
    memset(name, 'n', sizeof(name));
    name[DLOCK_NAME_BYTES_MAX + 1] = '\0';
    refuse_name(session, name, "longer than 512");
    name[DLOCK_NAME_BYTES_MAX] = '\0';
    assert_int_equal(lock_rig_take(session, name, 0, 0, &grant), DLOCK_OK);
    assert_string_equal(grant.name, name);
    assert_int_equal(dlock_release(session, &grant, NULL), DLOCK_OK);
    assert_int_equal(lock_rig_take(session, " ~", 0, 0, &grant), DLOCK_OK);
    assert_int_equal(dlock_release(session, &grant, NULL), DLOCK_OK);
    dlock_session_close(session);
    dlock_close(client);
}

static void refuse_terms(struct dlock_session *session,
                         struct dlock_terms terms, const char *text)
{
    struct dlock_error error = {""};
    struct dlock_grant grant;

    assert_int_equal(dlock_acquire(session, "k", &terms, &grant, &error),
                     DLOCK_MISUSE);
    assert_non_null(strstr(error.text, text));
}

static void test_terms(NO_STATE)
{
    struct dlock *client = open_or_die("none", NULL, NULL);
    struct dlock_session *session = lock_rig_session(client);
    struct dlock_terms terms = {.wait_ms = 0};
    struct dlock_grant grant = {.name = ""};

    refuse_terms(session,
                 (struct dlock_terms){.wait_ms = DLOCK_WAIT_MS_MAX + 1},
                 "wait_ms");
    refuse_terms(session,
                 (struct dlock_terms){.lease_ms = DLOCK_LEASE_MS_MAX + 1},
                 "lease_ms");
    refuse_terms(session, (struct dlock_terms){.fence_floor = UINT64_MAX},
                 "fence_floor");
    assert_int_equal(dlock_acquire(session, "k", NULL, &grant, NULL),
                     DLOCK_MISUSE);
    assert_int_equal(dlock_acquire(session, "k", &terms, NULL, NULL),
                     DLOCK_MISUSE);
    assert_int_equal(dlock_acquire(NULL, "k", &terms, &grant, NULL),
                     DLOCK_MISUSE);
    assert_int_equal(dlock_release(session, NULL, NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_release(session, &grant, NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_extend(session, NULL, 1, NULL), DLOCK_MISUSE);
    dlock_session_close(session);
    dlock_close(client);
}

/* What a strategy cannot do is misuse, and says so. */
static void test_absent_capabilities(NO_STATE)
{
    static const char *const without_lease[] = {"none", "process"};

    for (size_t i = 0; i < 2; i++) {
        struct dlock *client = open_or_die(without_lease[i], NULL, NULL);
        struct dlock_session *session = lock_rig_session(client);
        struct dlock_error error = {""};
        struct dlock_holder holder;
        struct dlock_grant grant;

        assert_int_equal(lock_rig_take(session, "k", 0, 0, &grant), DLOCK_OK);
        assert_int_equal(dlock_extend(session, &grant, 1000, &error),
                         DLOCK_MISUSE);
        assert_non_null(strstr(error.text, "has no leases"));
        assert_int_equal(dlock_inspect(session, "k", &holder, &error),
                         i == 0 ? DLOCK_MISUSE : DLOCK_OK);
        assert_int_equal(dlock_remaining_ms(session, &grant), UINT64_MAX);
        assert_int_equal(dlock_release(session, &grant, NULL), DLOCK_OK);
        dlock_session_close(session);
        dlock_close(client);
    }
}

/* Whoever held it is gone and has given nothing back: the wait ends anyway. */
static void test_wait_in_vain_ends(NO_STATE)
{
    struct dlock *client = open_or_die("process", NULL, NULL);
    struct dlock_session *holder = lock_rig_session(client);
    struct dlock_session *waiter = lock_rig_session(client);
    struct dlock_grant grant;
    uint64_t start_ms;

    assert_int_equal(lock_rig_take(holder, "crash", 0, 0, &grant), DLOCK_OK);
    dlock_session_close(holder);
    start_ms = lock_rig_now_ms();
    assert_int_equal(lock_rig_take(waiter, "crash", 100, 0, &grant),
                     DLOCK_TIMEOUT);
    assert_in_range(lock_rig_now_ms() - start_ms, 100, 2000);
    dlock_session_close(waiter);
    dlock_close(client);
}

/* Values -------------------------------------------------------------------- */

static void test_error_is_left_alone(NO_STATE)
{
    struct dlock *client = open_or_die("process", NULL, NULL);
    struct dlock_session *session = lock_rig_session(client);
    struct dlock_terms terms = {.wait_ms = 0};
    struct dlock_error error = {"as it was"};
    struct dlock_grant grant, untouched;
    struct dlock_grant before;

    memset(&untouched, 0x5a, sizeof(untouched));
    before = untouched;
    assert_int_equal(dlock_acquire(session, "e", &terms, &grant, &error), 0);
    assert_string_equal(error.text, "as it was");
    assert_int_equal(dlock_acquire(session, "e", &terms, &untouched, &error),
                     DLOCK_BUSY);
    assert_memory_equal(&untouched, &before, sizeof(before));
    assert_string_equal(error.text, "acquire: somebody else holds the lock");
    assert_int_equal(dlock_release(session, &grant, &error), DLOCK_OK);
    assert_int_equal(dlock_release(session, &grant, &error), DLOCK_LOST);
    assert_non_null(strstr(error.text, "release: the lease has ended"));
    dlock_session_close(session);
    dlock_close(client);
}

static void test_owner_ids(NO_STATE)
{
    struct dlock *client[2] = {open_or_die("process", NULL, NULL),
                               open_or_die("process", NULL, NULL)};
    struct dlock_session *session[3] = {lock_rig_session(client[0]),
                                        lock_rig_session(client[0]),
                                        lock_rig_session(client[1])};
    const char *owner[3];

    for (int i = 0; i < 3; i++) {
        owner[i] = dlock_session_owner(session[i]);
        assert_int_equal(strspn(owner[i], "0123456789abcdef"), 32);
        assert_int_equal(owner[i][32], '-');
        assert_true(strlen(owner[i]) <= DLOCK_OWNER_BYTES_MAX);
    }
    assert_memory_equal(owner[0], owner[1], 33);
    assert_string_equal(owner[0] + 33, "1");
    assert_string_equal(owner[1] + 33, "2");
    assert_memory_not_equal(owner[0], owner[2], 32);
    for (int i = 0; i < 3; i++)
        dlock_session_close(session[i]);
    dlock_close(client[0]);
    dlock_close(client[1]);
}

static void test_derived_keys(NO_STATE)
{
    static const struct {
        const char *name, *key;
    } rows[] = {
        {"stock:42", "{stock:42}:x:y"}, {"lock:{P:1}", "lock:{P:1}::x:y"},
        {"{a}{b}", "{a}{b}::x:y"},      {"a{", "{a{}:x:y"},
        {"{}a", "{{}a}:x:y"},           {"{stock:42}", "{stock:42}::x:y"},
    };
    char key[DLOCK_KEY_BYTES_MAX + 1];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        dlock_key_derive(key, rows[i].name, ":x:", "y");
        assert_string_equal(key, rows[i].key);
    }
}

/* Time is injected: a lease of an hour ends at once. Needs a server. */
static void test_fake_clock(NO_STATE)
{
    struct redis_server *server = redis_server_start();
    struct dlock_session *session;
    struct fake_clock clock;
    struct dlock_grant grant;
    struct dlock *client;

    fake_clock_init(&clock, 1000);
    client = open_or_die("fenced", redis_server_url(server), &clock.face);
    session = lock_rig_session(client);
    assert_int_equal(lock_rig_take(session, "k", 0, 3600000, &grant), 0);
    assert_int_equal(grant.deadline_ms, 3601000);
    assert_int_equal(dlock_remaining_ms(session, &grant), 3600000);
    fake_clock_advance(&clock, 3599999);
    assert_int_equal(dlock_remaining_ms(session, &grant), 1);
    fake_clock_advance(&clock, 1);
    assert_int_equal(dlock_remaining_ms(session, &grant), 0);
    fake_clock_advance(&clock, 1000);
    assert_int_equal(dlock_remaining_ms(session, &grant), 0);
    assert_int_equal(dlock_extend(session, &grant, 5000, NULL), DLOCK_OK);
    assert_int_equal(dlock_remaining_ms(session, &grant), 5000);
    dlock_session_close(session);
    dlock_close(client);
    redis_server_stop(server);
}

static enum dlock_verdict slow_network(void *ctx, const struct dlock_step *step)
{
    /* 300 ms on the way there, 200 ms on the way back. */
    fake_clock_advance(ctx, step->phase == DLOCK_BEFORE ? 300 : 200);
    return DLOCK_GO;
}

/* The client's lease starts before the server's, so that it ends before it. */
static void test_lease_starts_before_sending(NO_STATE)
{
    struct redis_server *server = redis_server_start();
    struct fake_clock clock;
    struct dlock_options options = {.strategy = "set-nx-px",
                                    .url = redis_server_url(server),
                                    .clock = &clock.face,
                                    .on_step = slow_network,
                                    .on_step_ctx = &clock};
    struct dlock_session *session;
    struct dlock *client = NULL;
    struct dlock_grant grant;

    fake_clock_init(&clock, 0);
    assert_int_equal(dlock_open(&options, &client, NULL), DLOCK_OK);
    session = lock_rig_session(client);
    assert_int_equal(lock_rig_take(session, "k", 0, 1000, &grant), DLOCK_OK);
    assert_int_equal(grant.deadline_ms, 1000);
    assert_int_equal(dlock_remaining_ms(session, &grant), 500);
    assert_int_equal(dlock_extend(session, &grant, 1000, NULL), DLOCK_OK);
    assert_int_equal(dlock_remaining_ms(session, &grant), 500);
    dlock_session_close(session);
    dlock_close(client);
    redis_server_stop(server);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_status_texts),
    cmocka_unit_test(test_list_of_strategies),
    cmocka_unit_test(test_registered_twice),
    cmocka_unit_test(test_capabilities_agree),
    cmocka_unit_test(test_options),
    cmocka_unit_test(test_open_does_not_connect),
    cmocka_unit_test(test_close_null),
    cmocka_unit_test(test_names),
    cmocka_unit_test(test_terms),
    cmocka_unit_test(test_absent_capabilities),
    cmocka_unit_test(test_wait_in_vain_ends),
    cmocka_unit_test(test_error_is_left_alone),
    cmocka_unit_test(test_owner_ids),
    cmocka_unit_test(test_derived_keys),
    cmocka_unit_test(test_fake_clock),
    cmocka_unit_test(test_lease_starts_before_sending),
};
TEST_MAIN(tests)
