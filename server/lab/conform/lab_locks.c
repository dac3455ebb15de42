/*
 * `stockade lab locks`: the conformance suite on the command line. It starts
 * its own redis-servers; of other servers it has to be given the address. The
 * README's table of locks is its output.
 */
#include <getopt.h>
#include <stdio.h>

#include "server/lab/conform/conform.h"

enum { AS_EXPECTED = 0, DIFFERENT = 1, COULD_NOT_RUN = 2 };

static const char *lock_name; /* NULL = all */
static int is_markdown, is_help;

static const char help[] =
#include "server/lab/help/locks.txt.inc"
    ;

static bool read_options(int argc, char *argv[])
{
    static const char **const texts[] = {&lock_name,
                                         &suite.servers.redis_url,
                                         &suite.servers.sql_url,
                                         &suite.servers.zk_url,
                                         &suite.servers.zk_ensemble,
                                         &suite.servers.zk_node};
    static const struct option flags[] = {
        {"lock", required_argument, NULL, 0},
        {"redis", required_argument, NULL, 0},
        {"sql", required_argument, NULL, 0},
        {"zk", required_argument, NULL, 0},
        {"zk-ensemble", required_argument, NULL, 0},
        {"zk-node", required_argument, NULL, 0},
        {"markdown", no_argument, &is_markdown, 1},
        {"help", no_argument, &is_help, 1},
        {0},
    };
    int c, i;

    /* A flag's value is known by its place in the list. */
    while ((c = getopt_long(argc, argv, ":h", flags, &i)) == 0 || c == 'h') {
        is_help |= c == 'h';
        if (c == 0 && flags[i].has_arg)
            *texts[i] = optarg;
    }
    if (c == -1 && optind == argc)
        return true;
    return fail_aloud("lab locks does not take '%s'",
                      argv[c == -1 ? optind : optind - 1]);
}

/* The report ----------------------------------------------------------------- */

static const char *const signs[] = {[CONFORM_UNTESTED] = "–",
                                    [CONFORM_HOLDS] = "✔",
                                    [CONFORM_FAILS] = "✘",
                                    [CONFORM_NOT_ASKED] = "?",
                                    [CONFORM_BROKEN] = "?"};
static const char *const words[] = {[CONFORM_UNTESTED] = "untested",
                                    [CONFORM_HOLDS] = "holds",
                                    [CONFORM_FAILS] = "fails",
                                    [CONFORM_NOT_ASKED] = "not asked",
                                    [CONFORM_BROKEN] = "broken off"};

/* The word for what is expected of property INDEX. */
static const char *expected_word(const struct suite_lock *lock, size_t index)
{
    /* A lock of somebody's own: anything agrees. */
    if (lock->expected == &lock->own)
        return "anything";
    for (int verdict = CONFORM_UNTESTED; verdict <= CONFORM_FAILS; verdict++)
        if (conform_agrees(lock->expected, index,
                           (enum conform_verdict)verdict))
            return words[verdict];
    return "?";
}

/* A row for each lock: for a README; or for a person, with what differs and why a lock was
 * not run. */
static void report_table(void)
{
    printf(is_markdown ? "| %s |" : "%-17s", "lock");
    for (size_t i = 0; i < PROPERTIES_N; i++)
        printf(is_markdown ? " %s |" : "  %-2s", properties[i].letter);
    printf(is_markdown ? "\n|---|" : "");
    for (size_t i = 0; i < PROPERTIES_N && is_markdown; i++)
        printf(":-:|");
    printf("\n");
    for (size_t i = 0; i < suite.locks_n; i++) {
        const struct suite_lock *lock = &suite.locks[i];
        const char *why = lock->missing;

        /* A lock that was not run has a row of question marks: it must not
         * look measured. */
        printf(is_markdown ? "| `%s` |" : "%-17s", lock->info->name);
        if (why && !is_markdown)
            printf(" not run: %s", why);
        for (size_t j = 0; j < PROPERTIES_N; j++)
            if (is_markdown)
                printf(" %s |", why ? "?" : signs[lock->results[j].verdict]);
            else if (!why)
                printf("  %s%c", signs[lock->results[j].verdict],
                       suite_differs(lock, j) ? '!' : ' ');
        printf("\n");
    }
}

/* For a person ------------------------------------------------------------- */

/* The table, what differs from what is expected, what was not run. */
static void report_text(void)
{
    const struct suite_sum sum = suite_count();
    const struct suite_lock *lock = suite.locks;
    const char *why = lock->missing;

    if (suite.locks_n == 1) { /* there is room for the evidence */
        printf("%s: %s\n", lock->info->name, lock->info->claim);
        if (why)
            printf("\nnot run: %s\n", why);
        for (size_t i = 0; i < PROPERTIES_N && !why; i++)
            printf("\n%-2s %s%c %s\n      %s (%u ms)\n", properties[i].letter,
                   signs[lock->results[i].verdict],
                   suite_differs(lock, i) ? '!' : ' ', properties[i].text,
                   lock->results[i].text, lock->results[i].ms);
    } else {
        report_table();
        printf("\n");
        for (size_t i = 0; i < PROPERTIES_N; i++)
            printf("%-2s  %s\n", properties[i].letter, properties[i].text);
    }
    printf("\n✔ holds  ✘ fails  – cannot be tested  ? is not known  "
           "! not as expected\n"
           "%zu of %zu locks measured; ",
           sum.measured, suite.locks_n);
    /* Nothing measured is nothing known: "all as expected" would be true of it. */
    if (sum.measured == 0)
        printf("so nothing is known\n");
    else if (sum.differences > 0)
        printf("%zu not as expected\n", sum.differences);
    else if (suite.locks_n == 1 &&
             suite.locks[0].expected == &suite.locks[0].own)
        printf("nothing was expected of a lock of your own\n");
    else
        printf("%s as expected, failures included\n",
               sum.unasked > 0 ? "what was asked is" : "all");
}

/* Every difference with its evidence, a line each, on standard error; what could not be
 * run; and what is missing, if no lock was run. */
static void report_differences(void)
{
    for (size_t i = 0; i < suite.locks_n; i++) {
        const struct suite_lock *lock = &suite.locks[i];

        /* A lock that needs what was not given is silent, as long as others
         * were measured. */
        if (!lock->expected ||
            lock->missing == lock->results[CONFORM_SERVER].text ||
            (lock->missing && suite_count().measured == 0))
            fprintf(stderr, "lab: %s not run: %s\n", lock->info->name,
                    lock->missing);
        for (size_t j = 0; j < PROPERTIES_N; j++)
            if (suite_differs(lock, j))
                fprintf(stderr, "lab: %s %s: expected %s, found %s: %s\n",
                        lock->info->name, properties[j].letter,
                        expected_word(lock, j), words[lock->results[j].verdict],
                        lock->results[j].text);
    }
}

/* The command ---------------------------------------------------------------- */

int lab_locks_main(int argc, char *argv[])
{
    struct suite_sum sum;
    struct fail error;

    if (!read_options(argc, argv))
        return COULD_NOT_RUN;
    if (is_help) {
        fputs(help, stdout);
        return 0;
    }
    if (lock_name && !expected_lock(lock_name, &error))
        return fail_to_run("%s", error.text);
    /* The name was looked up above: there is a lock to fill. */
    (void)suite_fill(lock_name);
    if (!suite_run(&error))
        return fail_to_run("lab locks: %s", error.text);
    if (is_markdown)
        report_table();
    else
        report_text();
    (void)fflush(stdout);
    /* The table must be out before the lines on standard error. */
    report_differences();
    sum = suite_count();
    if (sum.differences > 0)
        return DIFFERENT;
    /* A server that was given and does not answer has kept its locks from
     * being measured. */
    return sum.measured > 0 && !sum.is_troubled ? AS_EXPECTED : COULD_NOT_RUN;
}
