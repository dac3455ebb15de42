/* See unit_test.h. */
#include "tests/support/unit_test.h"

#define TESTS_MAX 128

static struct CMUnitTest tests[TESTS_MAX];
static int lines[TESTS_MAX];
static size_t tests_n;

const char *text_of(const char *format, ...)
{
    static char texts[12][2048];
    static size_t last;
    char *text = texts[last++ % COUNT_OF(texts)];
    va_list list;

    va_start(list, format);
    assert_in_range(vsnprintf(text, sizeof(texts[0]), format, list), 0,
                    sizeof(texts[0]) - 1);
    va_end(list);
    return text;
}

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
