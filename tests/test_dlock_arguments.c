/*
 * Arguments of dlock.h's functions: options, names and terms that are refused, and with
 * which text. And a caller that does what it is told not to, with another session's grant,
 * NULL, a name of the library's own: each time a status and a text, and what others hold
 * stays held.
 */
#include "server/base/values.h"
#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"
#include "tests/support/unit_test.h"

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

UNIT_TEST(test_options)
{
#define GOOD "redis://127.0.0.1:6379"
#define NINE_URLS                                                              \
    "redis://h:1,redis://h:2,redis://h:3,redis://h:4,redis://h:5,redis://h:6," \
    "redis://h:7,redis://h:8,unix:/h"
#define LONGEST_LABEL "0123456789012345678901234567890123456789"
    static const struct dlock_clock half = {.now_ms = NULL};
    static const struct {
        struct dlock_options options;
        const char *text; /* what the error speaks of */
    } rows[] = {
        {{.url = NULL}, "url"},
        {{.url = ""}, "url"},
        {{.url = "unix:"}, "url"},
        {{.url = "redis://"}, "url"},
        {{.url = "redis://host:"}, "url"},
        {{.url = "redis://host:0"}, "url"},
        {{.url = "redis://host:65536"}, "url"},
        {{.url = "redis://host:6379x"}, "url"},
        {{.url = "redis://host:-1"}, "url"},
        {{.url = "redis://:6379"}, "url"},
        {{.url = "redis://::1:6379"}, "url"},
        {{.url = "redis://[]:6379"}, "url"},
        {{.url = "http://host:80"}, "sentinels, clusters"}, /* is its end */
        {{.url = "redis://host:99999999999999999999"}, "url"},
        {{.url = "/tmp/redis.sock"}, "url"},
        {{.url = GOOD, .strategy = "best"}, "no strategy 'best'"},
        {{.url = GOOD, .clock = &half}, "clock"},
        {{.url = GOOD, .watchdog_lease_ms = UINT32_MAX}, "watchdog_lease_ms"},
        {{.url = GOOD, .watchdog_lease_ms = 1}, "watchdog_lease_ms"},
        {{.url = GOOD, .command_timeout_ms = UINT32_MAX}, "command_timeout_ms"},
        {{.url = "redis://:p@a:1,redis://:p@b:2"}, "takes one server"},
        {{.url = "cluster://127.0.0.1:1/3"}, "no database but 0"},
        {{.url = "cluster://127.0.0.1:1,unix:/a"}, "use unix:PATH"},
        {{.url = "cluster://h:1", .strategy = "redlock"}, "is a cluster"},
        {{.url = NULL, .strategy = "multi"}, "url"},
        {{.url = "", .strategy = "multi"}, "url"},
        {{.url = "unix:/a,", .strategy = "multi"}, "url"},
        {{.url = "unix:/a,bla", .strategy = "multi"}, "sentinels, clusters"},
        {{.url = "unix:/a,unix:/b,unix:/a", .strategy = "multi"}, "twice"},
        {{.url = "redis://h:1,redis://h:2,redis://h:1", .strategy = "multi"},
         "twice"},
        {{.url = NINE_URLS ",redis://h:10", .strategy = "multi"},
         "more than 9"},
        {{.url = GOOD,
          .strategy = "redlock",
          .longest_lease_ms = 1000,
          .watchdog_lease_ms = 2000},
         "longest_lease_ms"},
        {{.url = GOOD, .label = ""}, "label"},
        {{.url = GOOD, .label = "a-b"}, "label"},
        {{.url = GOOD, .label = "a:b"}, "label"},
        {{.url = GOOD, .label = "a b"}, "label"},
        {{.url = GOOD, .label = "a\tb"}, "label"},
        {{.url = GOOD, .label = "\x7f"}, "label"},
        {{.url = GOOD, .label = "\xe4"}, "label"},
        {{.url = GOOD, .label = LONGEST_LABEL "0"}, "label"},
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
UNIT_TEST(test_open_does_not_connect)
{
    static const char *const urls[] = {
        "unix:/nowhere/redis.sock", "redis://127.0.0.1:1", "redis://[::1]:1"};

    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        const struct dlock_options options = {.url = urls[i],
                                              .label = LONGEST_LABEL};

        assert_int_equal(lock_rig_fails(&options, "acquire: connect to "),
                         DLOCK_UNREACHABLE);
    }
}

/* As many servers as there may be. */
UNIT_TEST(test_nine_servers)
{
    dlock_close(lock_rig_open(
        &(struct dlock_options){.strategy = "multi", .url = NINE_URLS}));
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

LOCK_TEST(test_names)
{
    struct dlock_session *session = lock_single_open("process").session;
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
    assert_ok(lock_rig_take(session, name, 0, 0, &grant));
    assert_string_equal(grant.name, name);
    assert_ok(dlock_release(session, &grant, NULL));
    assert_ok(lock_rig_take(session, " ~", 0, 0, &grant));
    assert_ok(dlock_release(session, &grant, NULL));
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

LOCK_TEST(test_terms)
{
    struct dlock_session *session = lock_single_open("none").session;
    struct dlock_terms terms = {.wait_ms = 0};
    struct dlock_grant grant = {.name = ""}, longest;

    refuse_terms(session,
                 (struct dlock_terms){.wait_ms = DLOCK_WAIT_MS_MAX + 1},
                 "wait_ms");
    refuse_terms(session,
                 (struct dlock_terms){.lease_ms = DLOCK_LEASE_MS_MAX + 1},
                 "lease_ms");
    refuse_terms(session, (struct dlock_terms){.fence_floor = UINT64_MAX},
                 "fence_floor");
    assert_ok(dlock_try(session, "k",
                        &(struct dlock_terms){.lease_ms = DLOCK_LEASE_MS_MAX},
                        &longest, NULL));
    assert_int_equal(dlock_acquire(session, "k", NULL, &grant, NULL),
                     DLOCK_MISUSE);
    assert_int_equal(dlock_acquire(session, "k", &terms, NULL, NULL),
                     DLOCK_MISUSE);
    assert_int_equal(dlock_acquire(NULL, "k", &terms, &grant, NULL),
                     DLOCK_MISUSE);
    assert_int_equal(dlock_release(session, &grant, NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_extend(session, NULL, 1, NULL), DLOCK_MISUSE);
}

/* Grants ---------------------------------------------------------------------- */

/* Bytes that are no grant at all, not even text. */
LOCK_TEST(test_garbage_grant)
{
    struct lock_pair pair = lock_pair_open("fenced");
    struct dlock_grant grant;

    memset(&grant, 'x', sizeof(grant));
    assert_int_equal(dlock_release(pair.session[0], &grant, NULL),
                     DLOCK_MISUSE);
    assert_int_equal(dlock_extend(pair.session[0], &grant, 1000, NULL),
                     DLOCK_MISUSE);
    assert_int_equal(dlock_remaining_ms(pair.session[0], &grant), 0);
    grant.name[3] = '\0';
    assert_int_equal(dlock_release(pair.session[0], &grant, NULL),
                     DLOCK_MISUSE);
    assert_int_equal(dlock_remaining_ms(pair.session[0], &grant), 0);
}

LOCK_TEST(test_null)
{
    struct lock_pair pair = lock_pair_open("fenced");
    struct dlock_session *session = pair.session[0];
    struct dlock_grant grant;
    size_t n;

    assert_ok(lock_rig_take(session, "k", 0, 0, &grant));
    assert_int_equal(dlock_remaining_ms(NULL, &grant), 0);
    assert_int_equal(dlock_remaining_ms(session, NULL), 0);
    assert_string_equal(dlock_session_owner(NULL), "");
    dlock_session_close(NULL);
    dlock_close(NULL);
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

UNIT_TEST(test_values_have_an_url)
{
    static const char *const rows[][2] = {
        {NULL, "url"},
        {"redis:", "url"},
        {"cluster://127.0.0.1:1/3", "no database but 0"},
    };
    struct values *values;
    struct dlock_error error;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(values_open(rows[i][0], 1, &values, &error),
                         DLOCK_MISUSE);
        assert_non_null(strstr(error.text, rows[i][1]));
    }
}

/* More than a round trip takes: the last one is not even asked for. */
UNIT_TEST(test_values_without_a_server_are_not_refused)
{
    struct value list[65];
    struct values *values;

    for (size_t i = 0; i < COUNT_OF(list); i++)
        list[i] = (struct value){.key = "v", .refused = true};
    assert_ok(values_open("unix:/nowhere", 100, &values, NULL));
    assert_int_equal(values_get(values, list, COUNT_OF(list), NULL),
                     DLOCK_UNREACHABLE);
    for (size_t i = 0; i < COUNT_OF(list); i++)
        assert_false(list[i].refused);
    values_close(values);
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
LOCK_TEST(test_thread_cancelled_in_a_wait)
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

        assert_ok(lock_rig_take(pair.session[0], "c", 0, 60000, &grant));
        assert_int_equal(
            pthread_create(&thread, NULL, wait_to_be_cancelled, &waiter), 0);
        lock_rig_sleep_ms(50); /* it is in the wait: no step says so */
        assert_int_equal(pthread_cancel(thread), 0);
        lock_rig_sleep_ms(20);
        assert_ok(dlock_release(pair.session[0], &grant, NULL));
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 10;
        assert_int_equal(pthread_timedjoin_np(thread, &result, &until), 0);
        assert_ptr_equal(result, PTHREAD_CANCELED);
        assert_ok(waiter.status);
        assert_ok(dlock_release(waiter.session, &waiter.grant, NULL));
        lock_pair_close(&pair);
    }
}

struct cancelled_values {
    struct values *values;
    struct value list[2];
    unsigned done_n;
};

/* The cancel is there before: each place in the calls that heeds it would. */
static void *use_cancelled_values(void *arg)
{
    struct dlock_options options = {.url = lock_rig_url("fenced")};
    struct cancelled_values *use = arg;
    struct dlock *client = NULL;
    struct values_about about;

    (void)pthread_cancel(pthread_self());
    use->done_n += dlock_open(&options, &client, NULL) == 0;
    dlock_close(client);
    use->done_n += values_set(use->values, use->list, 2, NULL) == 0;
    use->done_n += values_get(use->values, use->list, 1, NULL) == 0;
    use->done_n += values_about(use->values, &about, NULL) == 0;
    values_close(use->values);
    use->done_n++;
    pthread_testcancel();
    return NULL;
}

/* A call that ended in the middle would leave its reply to the next one. */
LOCK_TEST(test_thread_cancelled_in_values)
{
    struct cancelled_values use = {
        .list = {{"va", "1", false}, {"vb", "2", false}}};
    void *result = NULL;
    pthread_t thread;

    assert_ok(values_open(lock_rig_url("fenced"), LOCK_RIG_PROMPT_MS,
                          &use.values, NULL));
    assert_int_equal(pthread_create(&thread, NULL, use_cancelled_values, &use),
                     0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    assert_int_equal(use.done_n, 5);
    assert_string_equal(use.list[0].text, "1");
}

/* Stories ------------------------------------------------------------------------- */

#define REFUSED                                                                \
    "b borrows foreign as=a; b has foreign left=0; "                           \
    "b gives foreign -> misuse '..release: the grant is another '; "           \
    "b extends foreign 5000 -> misuse '..extend: the grant is another '; "
#define OWN(name)                                                              \
    "a tries name=" name " -> misuse '..':dlock-' is the library's own'; "     \
    "a forces name=" name " -> misuse; "

static const struct lock_story stories[] = {
    /* Attempts are numbered alike in all sessions: the number tells nothing. */
    {"another session's grant", LOCKS_OWNED,
     "a takes name=x; b takes name=y; " REFUSED "a gives; b gives"},
    /* The next holder has the name, and is not to be put out by the last one's. */
    {"another session's grant of before", LOCKS_OWNED,
     "a takes; a gives; b takes; " REFUSED "probe -> busy; b gives"},
    /* A lease and more, also if only one of the two is renewed. */
    {"what was refused has not stopped the renewal of one's own", "fenced",
     "watchdog lease; a takes name=x; b takes; " REFUSED
     "more eval-renew 8; probe -> busy; b gives"},
    /* Closing the client closes what it has; renewal ends, as by a session's end. */
    {"sessions are left open", "process token-lua fenced fair redlock",
     "a2 has; b has; a tries -> ok|unreachable; a closes; b closes"},
    /* They would be the same keys as another lock's counter, queue or word. */
    {"names of the library's own", "fenced",
     OWN("{Q}:dlock-fence") OWN("{Q}:dlock-queue") OWN("Q:dlock-done:1")
         OWN("{Q}:dlock-freed") "a tries name=a:dlock; a gives"},
};
LOCK_STORIES_TEST

LOCK_RIG_MAIN
