/* See unit_test.h. */
#include "tests/support/unit_test.h"

#define TESTS_MAX 64

static struct CMUnitTest tests[TESTS_MAX];
static int lines[TESTS_MAX];
static size_t tests_n;

void unit_test_add(const struct CMUnitTest *test, int line)
{
    size_t i;

    if (tests_n == TESTS_MAX)
        abort();
    for (i = tests_n++; i > 0 && lines[i - 1] > line; i--) {
        tests[i] = tests[i - 1];
        lines[i] = lines[i - 1];
    }
    tests[i] = *test;
    lines[i] = line;
}

int unit_test_run(CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
    return _cmocka_run_group_tests("tests", tests, tests_n, set_up, tear_down);
}

/* A program that has something around its tests has a main() of its own. */
__attribute__((weak)) int main(void)
{
    return unit_test_run(NULL, NULL);
}
