/*
 * The test of the test: the conformance suite has to find what is planted. That
 * all locks are as expected is tests/full/conform-locks.t; here locks are measured
 * that do not do what is said of them, and the suite must say where.
 */
#include <sys/mman.h>
#include <sys/wait.h>

#include "server/lab/conform/conform.h"
#include "server/lab/stage/stage.h"
#include "tests/support/unit_test.h"

static const struct conform_servers no_servers = {.sql_url = NULL};

/* Locks and tables that lie: what is measured, and against which row. */
enum lie {
    NO_OWNER_CHECK,
    TOO_GOOD,
    VIRTUE_BY_ACCIDENT,
    SHORT_REENTRY,
    NO_SERVER,
    LIES_N
};

static const char *const row_of[LIES_N] = {"token-lua", "token-lua", "setnx",
                                           "reentrant", "redisson"};

/* What was found. Processes find it, so it is in memory that they share. */
static struct {
    struct conform_result results[PROPERTIES_N];
    atomic_uint results_n;
    char error[200];
} * measured;

static void measure(enum lie lie)
{
    struct expected row = *expected_of(row_of[lie]);

    if (lie == NO_OWNER_CHECK || lie == VIRTUE_BY_ACCIDENT)
        row.lock = "set-nx-px";
    if (lie == SHORT_REENTRY)
        row.lock = "reentrant-local";
    if (lie == NO_SERVER)
        row.kept = KEPT_LOCALLY;
    (void)conform_run(&row, &no_servers, measured[lie].results,
                      &measured[lie].results_n, measured[lie].error,
                      sizeof(measured[lie].error));
}

/*
 * All of them at once, because measuring is waiting; and several times as slowly
 * as usual, because a busy machine must not decide.
 */
static int measure_all(NO_STATE)
{
    pid_t pids[LIES_N];
    char slow[12];
    int status, failed = 0;

    (void)snprintf(slow, sizeof(slow), "%u", 4 * conform_slow());
    (void)setenv("STOCKADE_SLOW", slow, 1);
    measured = mmap(NULL, LIES_N * sizeof(*measured), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (measured == MAP_FAILED)
        return -1;
    (void)fflush(NULL); /* or each process would print it once more */
    for (size_t i = 0; i < LIES_N; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            measure((enum lie)i);
            exit(0); /* with what a sanitizer has to say */
        }
    }
    for (size_t i = 0; i < LIES_N; i++)
        if (pids[i] < 0 || waitpid(pids[i], &status, 0) != pids[i] ||
            status != 0)
            failed = -1;
    return failed;
}

/*
 * The letters of the properties that are not as the row says, with blanks
 * between. CLAIMED, if there, is what the table says.
 */
static void assert_different(enum lie lie, const char *claimed,
                             const char *letters)
{
    struct expected row = *expected_of(row_of[lie]);
    char different[80] = "";
    size_t len = 0;

    assert_string_equal(measured[lie].error, "");
    if (claimed)
        row.verdicts = claimed;
    for (size_t i = 0; i < PROPERTIES_N; i++)
        if (!conform_agrees(&row, i, measured[lie].results[i].verdict))
            len += (size_t)snprintf(different + len, sizeof(different) - len,
                                    "%s%s", len > 0 ? " " : "",
                                    properties[i].letter);
    assert_string_equal(different, letters);
}

static const char *said_of(enum lie lie, size_t property)
{
    return measured[lie].results[property].text;
}

/* An implementation without the owner check passes itself off as token-lua. */
UNIT_TEST(test_release_without_owner_check_is_found)
{
    assert_different(NO_OWNER_CHECK, NULL, "P R");
    assert_non_null(strstr(said_of(NO_OWNER_CHECK, PROPERTY_P),
                           "freed the lock of the next"));
}

/* A lock that does not renew, and a table that says it does. */
UNIT_TEST(test_claim_that_is_too_good_is_found)
{
    char claimed[PROPERTIES_N + 1];

    (void)snprintf(claimed, sizeof(claimed), "%s",
                   expected_of("token-lua")->verdicts);
    assert_int_equal(claimed[PROPERTY_L], '.');
    claimed[PROPERTY_L] = '#';
    assert_different(TOO_GOOD, claimed, "L");
}

/* A lock that has to fail and does not is a difference like any other. */
UNIT_TEST(test_virtue_by_accident_is_found)
{
    assert_different(VIRTUE_BY_ACCIDENT, NULL, "C A L S");
}

/* A re-entry that does not lengthen the lease, where one should. */
UNIT_TEST(test_short_reentry_is_found)
{
    assert_different(SHORT_REENTRY, NULL, "N2");
    assert_non_null(strstr(said_of(SHORT_REENTRY, PROPERTY_N2),
                           "the lease of the first hold"));
}

/* What cannot be played is neither held nor failed, and nobody expects it. */
UNIT_TEST(test_broken_testbed_is_no_verdict)
{
    assert_different(NO_SERVER, NULL, "X X2 C A P R L N N2 D W H F M M2 S");
    /* Without a server nothing is sent that could come late. */
    for (size_t i = 0; i < PROPERTIES_N; i++)
        assert_int_equal(measured[NO_SERVER].results[i].verdict,
                         i == PROPERTY_D ? CONFORM_UNTESTED : CONFORM_BROKEN);
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

/* A lock without a row, or one whose process broke off, is a difference. */
UNIT_TEST(test_differences_are_counted)
{
    struct suite suite = {.locks_n = 0};
    struct suite_lock *lock;

    assert_false(suite_fill(&suite, "no-such-lock"));
    assert_true(suite_fill(&suite, "none"));
    assert_int_equal(suite.locks_n, 1);
    lock = suite.locks;
    for (size_t i = 0; i < PROPERTIES_N; i++)
        lock->results[i].verdict = lock->expected->verdicts[i] == '-'
                                       ? CONFORM_UNTESTED
                                       : CONFORM_FAILS;
    lock->results_n = PROPERTIES_N;
    assert_int_equal(suite_count(&suite).differences, 0);
    lock->results_n--;
    assert_int_equal(suite_count(&suite).differences, 1);
    lock->results[0].verdict = CONFORM_HOLDS;
    assert_int_equal(suite_count(&suite).differences, 2);
    lock->expected = NULL;
    assert_int_equal(suite_count(&suite).differences, 1);
}

/* What the search finds is what a property that fails leads to. */
UNIT_TEST(test_halves_of_a_row_fit)
{
    static const char *const faults[] = {
#define ROW(name, word, ...) word,
#include "server/lab/stage/faults.inc"
#undef ROW
    };
    const struct dlock_strategy_info *info;

    for (size_t i = 0; (info = dlock_strategy_info(i)) != NULL; i++) {
        const struct expected *row = expected_of(info->name);
        size_t len = 0;

        if (!row->faults)
            continue;
        for (size_t j = 0; j < COUNT_OF(faults); j++) {
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

UNIT_TESTS_WITHIN(measure_all, NULL)
