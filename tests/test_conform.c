/*
 * The conformance suite: what cannot be played, or is not as its row says, is a
 * difference, and each lock has a row. That it finds what a lock fails is shown by the
 * locks of the textbooks, in tests/full/conform-locks.t.
 */
#include <limits.h>
#include <unistd.h>

#include "server/lab/conform/conform.h"
#include "server/lab/stage/stage.h"
#include "tests/support/unit_test.h"

static unsigned processes_n = UINT_MAX; /* that there may be yet */

pid_t fork(void)
{
    return processes_n > 0 ? processes_n--, _Fork() : -1;
}

/* The suite could not run, and its locks are not different from what is expected. */
UNIT_TEST(test_no_process_is_no_difference)
{
    struct fail error;

    assert_true(suite_fill("none"));
    processes_n = 1; /* of the suite's folder */
    assert_false(suite_run(&error));
    processes_n = UINT_MAX;
    assert_string_equal(error.text, "no process for a check");
}

/* Nobody expects it, and it is asked twice; and without a server nothing is sent that could come late. */
UNIT_TEST(test_broken_testbed_is_no_verdict)
{
    struct expected row = *expected_of("redisson");
    struct suite_lock *found;
    struct fail error;

    assert_true(suite_fill("redisson"));
    found = suite.locks;
    found->expected = &row;
    row.kept = KEPT_LOCALLY;
    assert_true(suite_run(&error));
    for (size_t i = 0; i < PROPERTIES_N; i++) {
        assert_int_equal(found->results[i].verdict,
                         i == PROPERTY_D ? CONFORM_UNTESTED : CONFORM_BROKEN);
        assert_int_equal(found->results[i].is_again, i != PROPERTY_D);
        assert_false(conform_agrees(&row, i, found->results[i].verdict));
    }
    assert_false(conform_agrees(&(struct expected){.verdicts = "?-"}, 0,
                                CONFORM_BROKEN));
}

UNIT_TEST(test_every_lock_has_a_row)
{
    const struct dlock_strategy_info *info;

    for (size_t i = 0; (info = dlock_strategy_info(i)) != NULL; i++) {
        const struct expected *row = expected_of(info->name);

        if (row == NULL) {
            fail_msg("expected.txt has no row for %s", info->name);
            continue;
        }
        assert_int_equal(strlen(row->verdicts), PROPERTIES_N);
        assert_int_equal(strspn(row->verdicts, "#.-"), PROPERTIES_N);
    }
    assert_null(expected_of("no-such-lock"));
}

/* A lock without a row, or a check that broke off, is a difference. */
UNIT_TEST(test_differences_are_counted)
{
    struct suite_lock *lock;

    assert_false(suite_fill("no-such-lock"));
    assert_true(suite_fill("none"));
    assert_int_equal(suite.locks_n, 1);
    lock = suite.locks;
    assert_int_equal(lock->results[0].verdict,
                     CONFORM_BROKEN); /* not come to */
    for (size_t i = 0; i < PROPERTIES_N; i++)
        lock->results[i].verdict = lock->expected->verdicts[i] == '-'
                                       ? CONFORM_UNTESTED
                                       : CONFORM_FAILS;
    assert_int_equal(suite_count().differences, 0);
    lock->results[1].verdict = CONFORM_BROKEN;
    assert_int_equal(suite_count().differences, 1);
    lock->results[0].verdict = CONFORM_HOLDS;
    assert_int_equal(suite_count().differences, 2);
    lock->expected = NULL;
    lock->missing = "no row";
    assert_int_equal(suite_count().differences, 1);
}

/* What the search finds is what a property that fails leads to. */
UNIT_TEST(test_halves_of_a_row_fit)
{
    static const struct {
        const char *word, *by; /* the properties whose failure leads to it */
    } faults[] = {
#define ROW(name, word, by, ...) {word, by},
#include "server/lab/scene/faults.inc"
    };
    const struct dlock_strategy_info *info;

    for (size_t i = 0; (info = dlock_strategy_info(i)) != NULL; i++) {
        const struct expected *row = expected_of(info->name);
        size_t len = 0;

        if (!row->faults)
            continue;
        for (size_t j = 0; j < COUNT_OF(faults); j++) {
            bool is_allowed = false;

            if (!expected_breaks(row, faults[j].word))
                continue;
            for (size_t k = 0; k < PROPERTIES_N; k++)
                is_allowed |=
                    row->verdicts[k] == '.' &&
                    expected_has_word(faults[j].by, properties[k].letter);
            if (!is_allowed)
                fail_msg("%s: by which property does it fail, that it breaks "
                         "by %s?",
                         row->lock, faults[j].word);
            len += strlen(faults[j].word) + (len > 0);
        }
        assert_int_equal(len, strlen(row->faults)); /* there are no others */
    }
}
