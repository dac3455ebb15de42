/*
 * Failpoints: each action, at the step and as often as was asked for; and
 * specifications that make no sense are refused with a text. At real steps of real
 * instances: e2e/lab-load.t.
 */
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/lab/live/failpoint.h"
#include "tests/support/unit_test.h"

static enum dlock_verdict hit(struct failpoints *points, const char *name,
                              enum dlock_phase phase)
{
    const struct dlock_step step = {.name = name, .phase = phase};

    return failpoints_hook(points, &step);
}

/* Several at one step, each with its own count, in the order written. */
UNIT_TEST(test_order_and_counts)
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
UNIT_TEST(test_steps_of_a_store)
{
    const struct store_step step = {.name = "place", .phase = STORE_AFTER};
    struct failpoints *points = NULL;

    assert_int_equal(failpoints_open("place:after=drop*1", &points, NULL),
                     DLOCK_OK);
    assert_int_equal(failpoints_store_hook(points, &step), STORE_FAIL);
    assert_int_equal(failpoints_store_hook(points, &step), STORE_GO);
    failpoints_close(points);
}

UNIT_TEST(test_pause)
{
    struct failpoints *points = NULL;
    uint64_t start_ms = clock_ms();

    assert_int_equal(failpoints_open("a:before=pause:120*1", &points, NULL),
                     DLOCK_OK);
    assert_int_equal(hit(points, "a", DLOCK_BEFORE), DLOCK_GO);
    assert_in_range(clock_ms() - start_ms, 120, 5000);
    failpoints_close(points);
}

/* Without a count: every time. */
UNIT_TEST(test_always)
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
        (void)hit(points, "a", DLOCK_AFTER);
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

/* Nothing that comes after it is done any more. */
UNIT_TEST(test_crash)
{
    static const char *const specs[] = {"a:before=crash", "a:after=crash*1"};

    for (int i = 0; i < 2; i++) {
        int out, status = 0;
        char byte;
        pid_t child = begin_victim(specs[i], &out);

        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), FAILPOINT_CRASH_CODE);
        assert_int_equal(read(out, &byte, 1), i);
        (void)close(out);
    }
}

/* Until the SIGUSR2 comes, also if that was before it waits. */
UNIT_TEST(test_hold)
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
UNIT_TEST(test_stop)
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

UNIT_TEST(test_bad_specifications)
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

static int set_up(NO_STATE)
{
    log_level_set(LOG_ERROR);
    return 0;
}

UNIT_TESTS_WITHIN(set_up, NULL)
