/*
 * What every test program begins and ends with.
 */
#ifndef UNIT_TEST_H
#define UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* The parameter of a test, or of what is called before it, that needs none.
 * NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define NO_STATE void **state __attribute__((unused))

/* A test between set_up() and tear_down(), which its file has. */
#define FIXTURE_TEST(test)                                                     \
    cmocka_unit_test_setup_teardown(test, set_up, tear_down)

/* A case of a test, by a name of its own; STATE is where the test finds it. */
#define CASE_TEST(name, test, state)                                           \
    {                                                                          \
        name, test, NULL, NULL, state                                          \
    }

/* The test program, of an array of tests; and one with something around all. */
#define TEST_MAIN(tests) TEST_MAIN_WITHIN(tests, NULL, NULL)
#define TEST_MAIN_WITHIN(tests, set_up, tear_down)                             \
    int main(void)                                                             \
    {                                                                          \
        return cmocka_run_group_tests(tests, set_up, tear_down);               \
    }

#endif
