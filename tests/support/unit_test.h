/*
 * A test program begins with this header. A test is in it by its head, and is run
 * in its turn, as the file has them:
 *
 *     UNIT_TEST(gaps_are_averaged)
 *     {
 *         ...
 *     }
 *
 *     UNIT_TEST_OF(struct fixture *f, both_remember)
 *     {
 *         ...
 *     }
 *
 * The second one is between the file's set_up() and tear_down(), and F is what set_up()
 * has left in *state. A main() is in unit_test.c, for programs without one of their own.
 */
#ifndef UNIT_TEST_H
#define UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* A failure's text must be in the TAP, because only that is kept of a test. */
#undef fail_msg
#define fail_msg(...)                                                          \
    do {                                                                       \
        print_message("# ERROR: " __VA_ARGS__);                                \
        print_message("\n");                                                   \
        fail();                                                                \
    } while (0)

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* A text as by printf(), which stays until a dozen more were made. */
const char *text_of(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* The parameter of what is called before a test, and of a test, that needs none.
 * NOLINTBEGIN(bugprone-macro-parentheses) */
#define NO_STATE   void **state __attribute__((unused))
#define NO_FIXTURE void *nothing __attribute__((unused))
/* NOLINTEND(bugprone-macro-parentheses) */

#define UNIT_TEST(test) UNIT_TEST_WITH(NO_FIXTURE, test, NULL, NULL, NULL)
#define UNIT_TEST_OF(fixture, test)                                            \
    UNIT_TEST_WITH(fixture, test, set_up, tear_down, NULL)

/* With a fixture by other functions; and where SET_UP finds STATE in *state. */
#define UNIT_TEST_WITH(fixture, test, set_up, tear_down, state)                \
    UNIT_TEST_HEAD(fixture, test)                                              \
    UNIT_TEST_ADD(add_##test, #test, test##_of, set_up, tear_down, state)      \
    static void test(fixture)

/* TEST, which cmocka calls as TEST_of. NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define UNIT_TEST_HEAD(fixture, test)                                          \
    static void test(fixture);                                                 \
    static void test##_of(void **state)                                        \
    {                                                                          \
        test(*state);                                                          \
    }

/* ADD adds what follows, of a struct CMUnitTest, before main() begins. */
#define UNIT_TEST_ADD(add, ...)                                                \
    __attribute__((constructor)) static void add(void)                         \
    {                                                                          \
        unit_test_add(&(struct CMUnitTest){__VA_ARGS__}, __LINE__);            \
    }

/* It comes before all that are of a later line. */
void unit_test_add(const struct CMUnitTest *test, int line);

/* Runs all of them, with something around all; returns what main() does. */
int unit_test_run(CMFixtureFunction set_up, CMFixtureFunction tear_down);
#define UNIT_TESTS_WITHIN(set_up, tear_down)                                   \
    int main(void)                                                             \
    {                                                                          \
        return unit_test_run(set_up, tear_down);                               \
    }

/* A case of a test, by a name of its own; STATE is where the test finds it. */
#define CASE_TEST(name, test, state)                                           \
    {                                                                          \
        name, test, NULL, NULL, state                                          \
    }

/* Adds those of an array, behind all others. */
#define UNIT_TESTS_ADD(tests)                                                  \
    __attribute__((constructor)) static void add_tests(void)                   \
    {                                                                          \
        for (size_t i = 0; i < COUNT_OF(tests); i++)                           \
            unit_test_add(&(tests)[i], __LINE__);                              \
    }

#endif
