/*
 * Failpoints: at the step and as often as was asked for; and specifications that make no
 * sense are refused with a text. Crashes, stops and holds, at real steps of real
 * instances: e2e/lab-load.t (06w, 12w, 15w).
 */
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/lab/live/failpoint.h"
#include "tests/support/unit_test.h"

/* Several at one step, each with its own count, in the order written; without a count,
 * every time. */
UNIT_TEST(test_order_and_counts)
{
    struct fail error;
    struct failpoints *points =
        failpoints_open("a:before=pause:120*1,a:before=error*1,"
                        "any:after=drop*2,place:after=drop",
                        &error);
    uint64_t start_ms = clock_ms();

    assert_non_null(points);
    assert_false(failpoints_act(points, "a", false));
    assert_in_range(clock_ms() - start_ms, 120, 5000);
    assert_true(failpoints_act(points, "a", false));
    assert_false(failpoints_act(points, "a", false));
    assert_false(failpoints_act(points, "b", false));
    assert_true(failpoints_act(points, "b", true));
    assert_true(failpoints_act(points, "commit", true));
    assert_false(failpoints_act(points, "b", true));
    for (int i = 0; i < 3; i++)
        assert_true(failpoints_act(points, "place", true));
    failpoints_close(points);
    failpoints_close(NULL);
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
    struct fail error;
    char many[33 * 16] = "";

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        error.text[0] = '\0';
        assert_null(failpoints_open(bad[i], &error));
        assert_non_null(strstr(error.text, "and this is none: '"));
    }
    for (int i = 0; i < 33; i++)
        memcpy(many + strlen(many), "a:after=drop,", sizeof("a:after=drop,"));
    assert_null(failpoints_open(many, &error));
    assert_non_null(strstr(error.text, "more than 32"));
}

static int set_up(NO_STATE)
{
    log_level_set(LOG_ERROR);
    return 0;
}

UNIT_TESTS_WITHIN(set_up, NULL)
