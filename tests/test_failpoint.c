/*
 * Failpoints: each action at a real step of a real lock, as often as was asked
 * for; and specifications that make no sense are refused with a text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "db/store.h"
#include "tests/support/failpoint.h"
#include "tests/support/lock_rig.h"
#include "tests/support/temp_dir.h"

/* A client whose steps come by the points of SPEC. */
struct victim {
    struct failpoints *points;
    struct dlock *client;
    struct dlock_session *session;
    struct dlock_grant grant;
};

static struct victim open_victim(struct lock_rig *rig, const char *strategy,
                                 const char *spec)
{
    struct victim victim = {0};
    struct dlock_options options = {.strategy = strategy,
                                    .url = redis_server_url(rig->server),
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

static void test_pause(void **state)
{
    struct victim victim =
        open_victim(*state, "redisson", "eval-acquire:before=pause:120*1");
    uint64_t start_ms = lock_rig_now_ms();

    assert_int_equal(take(&victim), DLOCK_OK);
    assert_in_range(lock_rig_now_ms() - start_ms, 120, 5000);
    assert_int_equal(give(&victim), DLOCK_OK);
    assert_int_equal(failpoints_acted(victim.points), 1);
    close_victim(&victim);
}

/* Not sent: nothing is held. */
static void test_error(void **state)
{
    struct lock_rig *rig = *state;
    struct victim victim =
        open_victim(rig, "token-lua", "set-nx-px:before=error*2");

    assert_int_equal(take(&victim), DLOCK_UNREACHABLE);
    assert_int_equal(take(&victim), DLOCK_UNREACHABLE);
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 0);
    assert_int_equal(take(&victim), DLOCK_OK);
    close_victim(&victim);
}

/* Sent, and the reply is lost: it is held, and nobody knows. */
static void test_drop(void **state)
{
    struct lock_rig *rig = *state;
    struct victim victim =
        open_victim(rig, "token-lua", "set-nx-px:after=drop*1");

    assert_int_equal(take(&victim), DLOCK_UNKNOWN);
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 1);
    assert_int_equal(take(&victim), DLOCK_BUSY);
    close_victim(&victim);
}

/* Between two steps the process is no more; what it had done stays. */
static void crash(struct lock_rig *rig, const char *spec, long long left)
{
    pid_t child;
    int status = 0;

    redis_server_ask(rig->server, "FLUSHALL", NULL, 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct victim victim = open_victim(rig, "redisson", spec);

        (void)take(&victim);
        (void)give(&victim);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), FAILPOINT_CRASH_CODE);
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), left);
}

static void test_crash(void **state)
{
    crash(*state, "eval-acquire:before=crash", 0);
    crash(*state, "eval-acquire:after=crash", 1);
    crash(*state, "eval-release:before=crash", 1);
    crash(*state, "eval-release:after=crash*1", 0);
}

/* Several at one step, each with its own count, in the order written. */
static void test_order_and_counts(void **state)
{
    struct failpoints *points = NULL;

    (void)state;
    assert_int_equal(failpoints_open("a:before=pause:1*1,a:before=error*1,"
                                     "any:after=drop*2",
                                     &points, NULL),
                     DLOCK_OK);
    assert_int_equal(failpoints_hit(points, "a", DLOCK_BEFORE), DLOCK_GO);
    assert_int_equal(failpoints_hit(points, "a", DLOCK_BEFORE), DLOCK_FAIL);
    assert_int_equal(failpoints_hit(points, "a", DLOCK_BEFORE), DLOCK_GO);
    assert_int_equal(failpoints_hit(points, "b", DLOCK_BEFORE), DLOCK_GO);
    assert_int_equal(failpoints_hit(points, "b", DLOCK_AFTER), DLOCK_FAIL);
    assert_int_equal(failpoints_hit(points, "commit", DLOCK_AFTER), DLOCK_FAIL);
    assert_int_equal(failpoints_hit(points, "b", DLOCK_AFTER), DLOCK_GO);
    assert_int_equal(failpoints_acted(points), 4);
    failpoints_close(points);
}

/* A database's steps come by as well, through a hook of four lines. */
static enum store_verdict on_store_step(void *points,
                                        const struct store_step *step)
{
    enum dlock_phase here =
        step->phase == STORE_BEFORE ? DLOCK_BEFORE : DLOCK_AFTER;

    return failpoints_hit(points, step->name, here) == DLOCK_FAIL ? STORE_FAIL
                                                                  : STORE_GO;
}

static void test_steps_of_a_store(void **state)
{
    struct store_product product = {.id = 1, .name = "p", .initial = 1};
    struct store_options options = {.on_step = on_store_step};
    struct failpoints *points = NULL;
    struct store *store = NULL;
    struct temp_dir dir;
    bool created;

    (void)state;
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
    assert_int_equal(failpoints_acted(points), 1);
    store_close(store);
    failpoints_close(points);
    temp_dir_remove(&dir);
}

/* Without a count: every time, until it is set to something else. */
static void test_always_until_set(void **state)
{
    struct failpoints *points = NULL;
    struct dlock_error error = {""};

    (void)state;
    assert_int_equal(failpoints_open("a:after=drop", &points, NULL), DLOCK_OK);
    for (int i = 0; i < 100; i++)
        assert_int_equal(failpoints_hit(points, "a", DLOCK_AFTER), DLOCK_FAIL);
    assert_int_equal(failpoints_set(points, "nonsense", &error), DLOCK_MISUSE);
    assert_non_null(strstr(error.text, "nonsense"));
    assert_int_equal(failpoints_hit(points, "a", DLOCK_AFTER), DLOCK_FAIL);
    assert_int_equal(failpoints_set(points, "", NULL), DLOCK_OK);
    assert_int_equal(failpoints_hit(points, "a", DLOCK_AFTER), DLOCK_GO);
    assert_int_equal(failpoints_acted(points), 0);
    failpoints_close(points);
    failpoints_close(NULL);
}

static void test_bad_specifications(void **state)
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

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        error.text[0] = '\0';
        assert_int_equal(failpoints_open(bad[i], &points, &error),
                         DLOCK_MISUSE);
        assert_non_null(strstr(error.text, "is no failpoint"));
    }
    for (int i = 0; i < 33; i++)
        memcpy(many + strlen(many), "a:after=drop,", sizeof("a:after=drop,"));
    assert_int_equal(failpoints_open(many, &points, &error), DLOCK_MISUSE);
    assert_int_equal(failpoints_open(NULL, &points, NULL), DLOCK_MISUSE);
    assert_int_equal(failpoints_open("", NULL, NULL), DLOCK_MISUSE);
    assert_null(points);
}

#define TEST(name) cmocka_unit_test_setup(name, lock_rig_fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_pause),
        TEST(test_error),
        TEST(test_drop),
        TEST(test_crash),
        TEST(test_order_and_counts),
        TEST(test_steps_of_a_store),
        TEST(test_always_until_set),
        TEST(test_bad_specifications),
    };

    return cmocka_run_group_tests(tests, lock_rig_setup, lock_rig_teardown);
}
