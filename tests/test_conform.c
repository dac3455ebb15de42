/*
 * The test of the test: the conformance suite has to find what is planted. That
 * all locks are as expected is tests/conform-locks.t; here locks are measured
 * that do not do what is said of them, and the suite must say where.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/lab/conform/suite.h"
#include "server/lab/stage/stage.h"
#include "tests/support/unit_test.h"

static const struct conform_servers no_servers = {.sql_url = NULL};

static void keep(void *ctx, size_t index, const struct conform_result *result)
{
    struct conform_result *results = ctx;

    results[index] = *result;
}

/*
 * Measures ROW's lock against ROW; DIFFERENT gets the letters of the properties
 * that are not as it says, with blanks between.
 */
static void measure(const struct expected *row, char *different, size_t size,
                    struct conform_result *results)
{
    char error[200] = "";
    size_t len = 0;

    different[0] = '\0';
    if (!conform_run(row, &no_servers, keep, results, error, sizeof(error)))
        fail_msg("%s", error);
    for (size_t i = 0; i < PROPERTIES_N; i++)
        if (!conform_agrees(row, i, results[i].verdict))
            len += (size_t)snprintf(different + len, size - len, "%s%s",
                                    len > 0 ? " " : "", properties[i].letter);
}

/* A busy machine must not decide: all takes several times as long. */
static int slow_down(NO_STATE)
{
    char slow[12];

    (void)snprintf(slow, sizeof(slow), "%u", 4 * conform_slow());
    return setenv("STOCKADE_SLOW", slow, 1);
}

/* An implementation without the owner check passes itself off as token-lua. */
static void test_release_without_owner_check_is_found(void **state)
{
    struct expected row = *expected_of("token-lua");
    struct conform_result results[PROPERTIES_N];
    char different[80];

    (void)state;
    row.lock = "set-nx-px";
    measure(&row, different, sizeof(different), results);
    assert_string_equal(different, "P R");
    assert_non_null(
        strstr(results[PROPERTY_P].text, "freed the lock of the next"));
}

/* A lock that does not renew, and a table that says it does. */
static void test_claim_that_is_too_good_is_found(void **state)
{
    struct expected row = *expected_of("token-lua");
    struct conform_result results[PROPERTIES_N];
    char claimed[PROPERTIES_N + 1];
    char different[80];

    (void)state;
    (void)snprintf(claimed, sizeof(claimed), "%s", row.verdicts);
    assert_int_equal(claimed[PROPERTY_L], '.');
    claimed[PROPERTY_L] = '#';
    row.verdicts = claimed;
    measure(&row, different, sizeof(different), results);
    assert_string_equal(different, "L");
}

/* A lock that has to fail and does not is a difference like any other. */
static void test_virtue_by_accident_is_found(void **state)
{
    struct expected row = *expected_of("setnx");
    struct conform_result results[PROPERTIES_N];
    char different[80];

    (void)state;
    row.lock = "set-nx-px";
    measure(&row, different, sizeof(different), results);
    assert_string_equal(different, "C A L S");
}

/* A re-entry that does not lengthen the lease, where one should. */
static void test_short_reentry_is_found(void **state)
{
    struct expected row = *expected_of("reentrant");
    struct conform_result results[PROPERTIES_N];
    char different[80];

    (void)state;
    row.lock = "reentrant-local";
    measure(&row, different, sizeof(different), results);
    assert_string_equal(different, "N2");
    assert_non_null(
        strstr(results[PROPERTY_N2].text, "the lease of the first hold"));
}

/* What cannot be played is neither held nor failed, and nobody expects it. */
static void test_broken_testbed_is_no_verdict(void **state)
{
    struct expected row = *expected_of("redisson");
    struct conform_result results[PROPERTIES_N];
    char different[80];

    (void)state;
    row.kept = KEPT_LOCALLY; /* there is no server */
    measure(&row, different, sizeof(different), results);
    assert_string_equal(different, "X X2 C A P R L N N2 D W H F M M2 S");
    for (size_t i = 0; i < PROPERTIES_N; i++) {
        assert_int_equal(results[i].verdict, CONFORM_UNTESTED);
        if (i != PROPERTY_D) /* without a server nothing is sent */
            assert_memory_equal(results[i].text, "BROKEN: ", 8);
    }
}

static void test_every_lock_has_a_row(void **state)
{
    const struct dlock_strategy_info *info;

    (void)state;
    for (size_t i = 0; (info = dlock_strategy_info(i)) != NULL; i++) {
        const struct expected *row = expected_of(info->name);

        if (row == NULL) {
            fail_msg("expected.c has no row for %s", info->name);
            continue;
        }
        assert_int_equal(strlen(row->verdicts), PROPERTIES_N);
        assert_int_equal(strspn(row->verdicts, "#.-"), PROPERTIES_N);
    }
    assert_null(expected_of("no-such-lock"));
}

/* A lock without a row, or one whose process broke off, is a difference. */
static void test_differences_are_counted(void **state)
{
    static struct suite suite;
    struct suite_lock *lock = &suite.locks[0];

    (void)state;
    assert_false(suite_fill(&suite, "no-such-lock"));
    assert_true(suite_fill(&suite, "none"));
    assert_int_equal(suite.locks_n, 1);
    for (size_t i = 0; i < PROPERTIES_N; i++)
        lock->results[i].verdict = lock->expected->verdicts[i] == '-'
                                       ? CONFORM_UNTESTED
                                       : CONFORM_FAILS;
    lock->results_n = PROPERTIES_N;
    assert_int_equal(suite_differences(&suite), 0);
    lock->results_n--;
    assert_int_equal(suite_differences(&suite), 1);
    lock->results[0].verdict = CONFORM_HOLDS;
    assert_int_equal(suite_differences(&suite), 2);
    lock->expected = NULL;
    assert_int_equal(suite_differences(&suite), 1);
}

/* What the search finds is what a property that fails leads to. */
static void test_halves_of_a_row_fit(void **state)
{
    static const char *const faults[] = {
#define FAULT_WORD(name, word, text) word,
        STAGE_FAULT_MAP(FAULT_WORD)
#undef FAULT_WORD
    };
    const struct dlock_strategy_info *info;

    (void)state;
    for (size_t i = 0; (info = dlock_strategy_info(i)) != NULL; i++) {
        const struct expected *row = expected_of(info->name);
        size_t len = 0;

        if (!row->faults)
            continue;
        for (size_t j = 0; j < sizeof(faults) / sizeof(faults[0]); j++) {
            if (!expected_breaks(row, faults[j]))
                continue;
            if (!expected_allows(row, faults[j]))
                fail_msg("%s: by which property does it fail, that it breaks "
                         "by %s?",
                         row->lock, faults[j]);
            len += strlen(faults[j]) + (len > 0);
        }
        assert_int_equal(len, strlen(row->faults)); /* there are no others */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_lock_has_a_row),
        cmocka_unit_test(test_differences_are_counted),
        cmocka_unit_test(test_release_without_owner_check_is_found),
        cmocka_unit_test(test_claim_that_is_too_good_is_found),
        cmocka_unit_test(test_virtue_by_accident_is_found),
        cmocka_unit_test(test_short_reentry_is_found),
        cmocka_unit_test(test_broken_testbed_is_no_verdict),
        cmocka_unit_test(test_halves_of_a_row_fit),
    };

    return cmocka_run_group_tests(tests, slow_down, NULL);
}
