/*
 * Failpoints: each action at a real step of a real lock, as often as was asked
 * for; and specifications that make no sense are refused with a text.
 */
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "db/store.h"
#include "server/base/log.h"
#include "server/lab/live/failpoint.h"
#include "tests/support/lock_rig.h"
#include "tests/support/temp_dir.h"

/* A client whose steps come by the points of SPEC. */
struct victim {
    struct failpoints *points;
    struct dlock *client;
    struct dlock_session *session;
    struct dlock_grant grant;
};

static struct victim open_victim(const char *strategy, const char *spec)
{
    struct victim victim = {0};
    struct dlock_options options = {.strategy = strategy,
                                    .url = redis_server_url(rig.server),
                                    .on_step = failpoints_hook};

    assert_int_equal(failpoints_open(spec, &victim.points, NULL), DLOCK_OK);
    options.on_step_ctx = victim.points;
    assert_int_equal(dlock_open(&options, &victim.client, NULL), DLOCK_OK);
    victim.session = lock_rig_session(victim.client);
    return victim;
}

static void close_victim(struct victim *victim)
{
    dlock_session_close(victim->session);
    dlock_close(victim->client);
    failpoints_close(victim->points);
}

static enum dlock_status take(struct victim *victim)
{
    return lock_rig_take(victim->session, "k", 0, 5000, &victim->grant);
}

static enum dlock_status give(struct victim *victim)
{
    return dlock_release(victim->session, &victim->grant, NULL);
}

static void test_pause(NO_STATE)
{
    struct victim victim =
        open_victim("redisson", "eval-acquire:before=pause:120*1");
    uint64_t start_ms = lock_rig_now_ms();

    assert_int_equal(take(&victim), DLOCK_OK);
    assert_in_range(lock_rig_now_ms() - start_ms, 120, 5000);
    assert_int_equal(give(&victim), DLOCK_OK);
    close_victim(&victim);
}

/* Not sent: nothing is held. */
static void test_error(NO_STATE)
{
    struct victim victim = open_victim("token-lua", "set:before=error*2");

    assert_int_equal(take(&victim), DLOCK_UNREACHABLE);
    assert_int_equal(take(&victim), DLOCK_UNREACHABLE);
    assert_false(lock_rig_is_held());
    assert_int_equal(take(&victim), DLOCK_OK);
    close_victim(&victim);
}

/* Sent, and the reply is lost: it is held, and nobody knows. */
static void test_drop(NO_STATE)
{
    struct victim victim = open_victim("token-lua", "set:after=drop*1");

    assert_int_equal(take(&victim), DLOCK_UNKNOWN);
    assert_true(lock_rig_is_held());
    assert_int_equal(take(&victim), DLOCK_BUSY);
    close_victim(&victim);
}

/* Between two steps the process is no more; what it had done stays. */
static void crash(const char *spec, long long left)
{
    pid_t child;
    int status = 0;

    lock_rig_tell("FLUSHALL");
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct victim victim = open_victim("redisson", spec);

        (void)take(&victim);
        (void)give(&victim);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), FAILPOINT_CRASH_CODE);
    assert_int_equal(lock_rig_ask("EXISTS k"), left);
}

static void test_crash(NO_STATE)
{
    crash("eval-acquire:before=crash", 0);
    crash("eval-acquire:after=crash", 1);
    crash("eval-release:before=crash", 1);
    crash("eval-release:after=crash*1", 0);
}

static enum dlock_verdict hit(struct failpoints *points, const char *name,
                              enum dlock_phase phase)
{
    const struct dlock_step step = {.name = name, .phase = phase};

    return failpoints_hook(points, &step);
}

/* Several at one step, each with its own count, in the order written. */
static void test_order_and_counts(NO_STATE)
{
    struct failpoints *points = NULL;

    assert_int_equal(failpoints_open("a:before=pause:1*1,a:before=error*1,"
                                     "any:after=drop*2",
                                     &points, NULL),
                     DLOCK_OK);
    assert_int_equal(hit(points, "a", DLOCK_BEFORE), DLOCK_GO);
    assert_int_equal(hit(points, "a", DLOCK_BEFORE), DLOCK_FAIL);
    assert_int_equal(hit(points, "a", DLOCK_BEFORE), DLOCK_GO);
    assert_int_equal(hit(points, "b", DLOCK_BEFORE), DLOCK_GO);
    assert_int_equal(hit(points, "b", DLOCK_AFTER), DLOCK_FAIL);
    assert_int_equal(hit(points, "commit", DLOCK_AFTER), DLOCK_FAIL);
    assert_int_equal(hit(points, "b", DLOCK_AFTER), DLOCK_GO);
    failpoints_close(points);
}

/* A database's steps come by as well. */
static void test_steps_of_a_store(NO_STATE)
{
    struct store_product product = {.id = 1, .name = "p", .initial = 1};
    struct store_options options = {.on_step = failpoints_store_hook};
    struct failpoints *points = NULL;
    struct store *store = NULL;
    struct temp_dir dir;
    bool created;

    temp_dir_make(&dir);
    assert_int_equal(
        failpoints_open("product-put:before=error*1", &points, NULL), DLOCK_OK);
    options.url = dir.url;
    options.on_step_ctx = points;
    assert_int_equal(store_open(&options, &store, NULL), STORE_OK);
    assert_int_equal(store_product_put(store, &product, &created, NULL),
                     STORE_IO);
    assert_int_equal(store_product_put(store, &product, &created, NULL),
                     STORE_OK);
    store_close(store);
    failpoints_close(points);
    temp_dir_remove(&dir);
}

/* Without a count: every time. */
static void test_always(NO_STATE)
{
    struct failpoints *points = NULL;

    assert_int_equal(failpoints_open("a:after=drop", &points, NULL), DLOCK_OK);
    for (int i = 0; i < 100; i++)
        assert_int_equal(hit(points, "a", DLOCK_AFTER), DLOCK_FAIL);
    failpoints_close(points);
    failpoints_close(NULL);
}

/* A process of its own, which says by the pipe that it has come past the step. */
static pid_t begin_victim(const char *spec, int *out)
{
    struct failpoints *points = NULL;
    int ends[2];
    pid_t child;

    assert_int_equal(failpoints_open(spec, &points, NULL), DLOCK_OK);
    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)hit(points, "a", DLOCK_BEFORE);
        (void)!write(ends[1], "x", 1);
        _exit(0);
    }
    failpoints_close(points);
    (void)close(ends[1]);
    *out = ends[0];
    return child;
}

static bool has_passed(int out, int ms)
{
    return poll(&(struct pollfd){.fd = out, .events = POLLIN}, 1, ms) == 1;
}

/* Until the SIGUSR2 comes, also if that was before it waits. */
static void test_hold(NO_STATE)
{
    int out, status = -1;
    pid_t child = begin_victim("a:before=hold*1", &out);

    assert_false(has_passed(out, 50));
    assert_int_equal(kill(child, SIGUSR2), 0);
    assert_true(has_passed(out, 10000));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    (void)close(out);
}

/* The whole process, as its parent can see. */
static void test_stop(NO_STATE)
{
    int out, status = 0;
    pid_t child = begin_victim("a:before=stop*1", &out);

    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    assert_false(has_passed(out, 50));
    assert_int_equal(kill(child, SIGCONT), 0);
    assert_true(has_passed(out, 10000));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    (void)close(out);
}

static void test_bad_specifications(NO_STATE)
{
    static const char *const bad[] = {
        "a",
        ":before=error",
        "a:before",
        "a:during=error",
        "a:before=",
        "a:before=drop", /* of the reply, before there is one */
        "a:after=error",
        "a:before=pause",
        "a:before=pause:0",
        "a:before=pause:600001",
        "a:before=pause:99999999999999999999",
        "a:before=pause:-1",
        "a:before=error*0",
        "a:before=error*",
        "a:before=error*1000001",
        "a:before=errors",
        "a:before=error;b:before=error",
        ",a:before=error",
        "a-step-with-a-name-of-32-letters-:before=error",
    };
    struct failpoints *points = NULL;
    struct dlock_error error;
    char many[33 * 16] = "";

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        error.text[0] = '\0';
        assert_int_equal(failpoints_open(bad[i], &points, &error),
                         DLOCK_MISUSE);
        assert_non_null(strstr(error.text, "and this is none: '"));
    }
    for (int i = 0; i < 33; i++)
        memcpy(many + strlen(many), "a:after=drop,", sizeof("a:after=drop,"));
    assert_int_equal(failpoints_open(many, &points, &error), DLOCK_MISUSE);
    assert_null(points);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOCK_TEST(test_pause),
        LOCK_TEST(test_error),
        LOCK_TEST(test_drop),
        LOCK_TEST(test_crash),
        LOCK_TEST(test_order_and_counts),
        LOCK_TEST(test_steps_of_a_store),
        LOCK_TEST(test_always),
        LOCK_TEST(test_hold),
        LOCK_TEST(test_stop),
        LOCK_TEST(test_bad_specifications),
    };

    log_level_set(LOG_ERROR);
    return cmocka_run_group_tests(tests, lock_rig_setup, lock_rig_teardown);
}
