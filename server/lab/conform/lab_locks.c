/*
 * `stockade lab locks`: the conformance suite on the command line. It starts
 * its own redis-servers; of other servers it has to be given the address. The
 * README's table of locks is its output.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lock/dlock_textbook.h"
#include "server/base/child.h"
#include "server/base/clock.h"
#include "server/base/redis_proc.h"
#include "server/lab/conform/conform.h"
#include "server/lab/fail.h"
#include "server/lab/lab.h"
#include "server/lab/servers/peek.h"

enum { AS_EXPECTED = 0, DIFFERENT = 1, COULD_NOT_RUN = 2 };
enum { LOOK_MS = 50 };

struct options {
    const char *lock; /* NULL = all */
    struct conform_servers servers;
    bool markdown;
    bool help;
};

static const char help[] =
#include "server/lab/help/locks.txt.inc"
    ;

static bool read_options(int argc, char *argv[], struct options *options)
{
    const struct {
        const char *name, **value; /* NULL: it is a switch */
        bool *is_on;
    } all[] = {
        {"lock", &options->lock, NULL},
        {"redis", &options->servers.redis_url, NULL},
        {"sql", &options->servers.sql_url, NULL},
        {"zk", &options->servers.zk_url, NULL},
        {"zk-ensemble", &options->servers.zk_ensemble, NULL},
        {"zk-node", &options->servers.zk_node, NULL},
        {"markdown", NULL, &options->markdown},
        {"help", NULL, &options->help},
    };
    enum { ALL_N = sizeof(all) / sizeof(all[0]) };
    struct option flags[ALL_N + 1] = {0};
    int c, i;

    for (i = 0; i < ALL_N; i++)
        flags[i] = (struct option){
            all[i].name, all[i].value ? required_argument : no_argument, NULL,
            0};
    while ((c = getopt_long(argc, argv, ":h", flags, &i)) == 0 || c == 'h')
        if (c == 'h')
            options->help = true;
        else if (all[i].value)
            *all[i].value = optarg;
        else
            *all[i].is_on = true;
    if (c == -1 && optind == argc)
        return true;
    return fail_aloud("lab locks does not take '%s'",
                      argv[c == -1 ? optind : optind - 1]);
}

/* The suite ------------------------------------------------------------------ */

/* NULL if the lock has a row, and the servers that it needs are there. */
static const char *missing(const struct expected *expected,
                           const struct conform_servers *servers)
{
    if (!expected)
        return "no row in expected.txt";
    if ((expected->kept == KEPT_IN_SQL || expected->kept == KEPT_IN_BOTH) &&
        !servers->sql_url)
        return "needs --sql URL";
    if (expected->kept == KEPT_IN_ZK && !servers->zk_url)
        return "needs --zk URL";
    return NULL;
}

bool suite_fill(struct suite *suite, const char *only)
{
    const struct dlock_strategy_info *info;

    suite->locks =
        mmap(NULL, SUITE_LOCKS_MAX * sizeof(*suite->locks),
             PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (suite->locks == MAP_FAILED)
        return false;
    for (size_t i = 0; (info = dlock_strategy_info(i)) != NULL; i++) {
        struct suite_lock *lock = &suite->locks[suite->locks_n];

        if ((only && strcmp(info->name, only) != 0) ||
            suite->locks_n == SUITE_LOCKS_MAX)
            continue;
        lock->info = info;
        lock->expected = expected_of(info->name);
        if (dlock_textbook_is_file(info->name)) {
            lock->own = (struct expected){.lock = info->name,
                                          .verdicts = "????????????????",
                                          .kept = KEPT_IN_REDIS,
                                          .nodes_n = 1};
            lock->expected = &lock->own;
        }
        lock->missing = missing(lock->expected, &suite->servers);
        for (size_t j = 0; j < PROPERTIES_N; j++)
            lock->results[j] = (struct conform_result){
                .verdict = CONFORM_BROKEN, .text = "it was not come to"};
        suite->locks_n++;
    }
    return suite->locks_n > 0;
}

static bool differs(const struct suite_lock *lock, size_t index)
{
    return !lock->missing &&
           !conform_agrees(lock->expected, index, lock->results[index].verdict);
}

struct suite_sum suite_count(const struct suite *suite)
{
    struct suite_sum sum = {.all = 0};

    for (size_t i = 0; i < suite->locks_n; i++) {
        const struct suite_lock *lock = &suite->locks[i];

        sum.all += lock->missing ? 0 : PROPERTIES_N;
        sum.done += lock->results_n;
        sum.measured += lock->results_n > 0;
        sum.is_troubled |= lock->trouble.text[0] != '\0';
        sum.differences += !lock->expected;
        sum.differences += !lock->missing && lock->results_n < PROPERTIES_N;
        for (size_t j = 0; j < PROPERTIES_N; j++) {
            sum.differences += differs(lock, j);
            sum.unasked += lock->results[j].verdict == CONFORM_NOT_ASKED;
        }
    }
    return sum;
}

/* A line on a terminal that rewrites itself. */
static void tell_progress(const struct suite *suite)
{
    const struct suite_sum sum = suite_count(suite);

    fprintf(stderr, "\rmeasuring: %zu of %zu checks, %u s ", sum.done, sum.all,
            (unsigned)((clock_ms() - suite->began_ms) / 1000));
    if (sum.done == sum.all)
        fprintf(stderr, "\r\033[K");
}

/* A lock's process ---------------------------------------------------------- */

static bool start(const struct suite *suite, struct suite_lock *lock)
{
    pid_t pid = child_fork(SIGKILL);

    if (pid > 0)
        lock->pid = pid;
    if (pid != 0)
        return pid > 0;
    if (conform_run(lock, &suite->servers))
        _exit(0);
    if (lock->results_n == 0)
        lock->missing = lock->trouble.text;
    else
        fprintf(stderr, "lab: %s: %s\n", lock->info->name, lock->trouble.text);
    _exit(1);
}

/* All of them --------------------------------------------------------------- */

/* The next to be run, or NULL. First those that will be the last to end. */
static struct suite_lock *pick(const struct suite *suite)
{
    struct suite_lock *picked = NULL;

    for (size_t i = 0; i < suite->locks_n; i++) {
        struct suite_lock *lock = &suite->locks[i];

        if (lock->missing || lock->pid != 0)
            continue;
        if (lock->expected->aged)
            return lock;
        if (!picked)
            picked = lock;
    }
    return picked;
}

/* How many of them are under way. */
static unsigned count_running(struct suite *suite)
{
    unsigned n = 0;

    for (size_t i = 0; i < suite->locks_n; i++) {
        struct suite_lock *lock = &suite->locks[i];

        if (lock->pid > 0 && waitpid(lock->pid, NULL, WNOHANG) != 0)
            lock->pid = SUITE_ENDED;
        n += lock->pid > 0;
    }
    return n;
}

/* False: not one process can be started. */
static bool work(struct suite *suite)
{
    struct suite_lock *next;
    unsigned running;

    do {
        running = count_running(suite);
        while ((next = pick(suite)) && running < suite->jobs &&
               start(suite, next))
            running++;
        if (isatty(STDERR_FILENO))
            tell_progress(suite);
        if (running > 0)
            clock_sleep_ms(LOOK_MS);
    } while (running > 0);
    return !next;
}

/* Without one nothing can be measured, nor with a script that it does not compile: said
 * once, and not by each check. A server that was given is not for such a trial. */
static bool has_redis(const struct suite *suite, struct fail *error)
{
    bool is_needed = false, is_good;
    struct redis_proc *redis;
    struct peek *peek;

    for (size_t i = 0; i < suite->locks_n; i++) {
        const struct suite_lock *lock = &suite->locks[i];

        is_needed |= lock->own.lock != NULL ||
                     (!lock->missing && !suite->servers.redis_url &&
                      (lock->expected->kept == KEPT_IN_REDIS ||
                       lock->expected->kept == KEPT_IN_BOTH));
    }
    if (!is_needed)
        return true;
    redis =
        redis_proc_start(suite->folder.path, error->text, sizeof(error->text));
    peek = redis ? peek_open(redis_proc_url(redis), error) : NULL;
    is_good = peek != NULL;
    for (size_t i = 0; is_good && i < suite->locks_n; i++)
        is_good = peek_compiles(peek, suite->locks[i].info->name, error);
    peek_close(peek);
    redis_proc_stop(redis);
    return is_good;
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
static void report_table(const struct suite *suite, bool markdown)
{
    printf(markdown ? "| %s |" : "%-17s", "lock");
    for (size_t i = 0; i < PROPERTIES_N; i++)
        printf(markdown ? " %s |" : "  %-2s", properties[i].letter);
    printf(markdown ? "\n|---|" : "");
    for (size_t i = 0; i < PROPERTIES_N && markdown; i++)
        printf(":-:|");
    printf("\n");
    for (size_t i = 0; i < suite->locks_n; i++) {
        const struct suite_lock *lock = &suite->locks[i];
        const char *why = lock->missing;

        printf(markdown ? "| `%s` |" : "%-17s", lock->info->name);
        if (why && !markdown)
            printf(" not run: %s", why);
        for (size_t j = 0; j < PROPERTIES_N; j++)
            if (markdown)
                printf(" %s |", why ? "?" : signs[lock->results[j].verdict]);
            else if (!why)
                printf("  %s%c", signs[lock->results[j].verdict],
                       differs(lock, j) ? '!' : ' ');
        printf("\n");
    }
}

/* For a person ------------------------------------------------------------- */

/* The table, what differs from what is expected, what was not run. */
static void report_text(const struct suite *suite)
{
    const struct suite_sum sum = suite_count(suite);
    const struct suite_lock *lock = suite->locks;
    const char *why = lock->missing;

    if (suite->locks_n == 1) { /* there is room for the evidence */
        printf("%s: %s\n", lock->info->name, lock->info->claim);
        if (why)
            printf("\nnot run: %s\n", why);
        for (size_t i = 0; i < PROPERTIES_N && !why; i++)
            printf("\n%-2s %s%c %s\n      %s (%u ms)\n", properties[i].letter,
                   signs[lock->results[i].verdict],
                   differs(lock, i) ? '!' : ' ', properties[i].text,
                   lock->results[i].text, lock->results[i].ms);
    } else {
        report_table(suite, false);
        printf("\n");
        for (size_t i = 0; i < PROPERTIES_N; i++)
            printf("%-2s  %s\n", properties[i].letter, properties[i].text);
    }
    printf("\n✔ holds  ✘ fails  – cannot be tested  ? is not known  "
           "! not as expected\n"
           "%zu of %zu locks measured; ",
           sum.measured, suite->locks_n);
    if (sum.measured == 0)
        printf("so nothing is known\n");
    else if (sum.differences > 0)
        printf("%zu not as expected\n", sum.differences);
    else if (suite->locks_n == 1 &&
             suite->locks[0].expected == &suite->locks[0].own)
        printf("nothing was expected of a lock of your own\n");
    else
        printf("%s as expected, failures included\n",
               sum.unasked > 0 ? "what was asked is" : "all");
}

/* Every difference with its evidence, a line each, on standard error; what could not be
 * run; and what is missing, if no lock was run. */
static void report_differences(const struct suite *suite)
{
    for (size_t i = 0; i < suite->locks_n; i++) {
        const struct suite_lock *lock = &suite->locks[i];

        if (!lock->expected || lock->trouble.text[0] ||
            (lock->missing && suite_count(suite).measured == 0))
            fprintf(stderr, "lab: %s not run: %s\n", lock->info->name,
                    lock->missing);
        for (size_t j = 0; j < PROPERTIES_N; j++)
            if (differs(lock, j))
                fprintf(stderr, "lab: %s %s: expected %s, found %s: %s\n",
                        lock->info->name, properties[j].letter,
                        expected_word(lock, j), words[lock->results[j].verdict],
                        lock->results[j].text);
    }
}

/* The command ---------------------------------------------------------------- */

static int run(const struct options *options)
{
    struct suite suite = {.servers = options->servers};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const char *given = getenv("TMPDIR");
    struct suite_sum sum;
    struct fail error;
    bool ran;

    suite.jobs =
        processors > 0 && processors < 6 ? 3 * (unsigned)processors : 16;
    if (options->lock && !expected_lock(options->lock, &error))
        return fail_to_run("%s", error.text);
    (void)suite_fill(&suite, options->lock);
    /* All processes and files go with this one, however it ends: see folder.h. */
    if (!folder_open(&suite.folder, given && given[0] ? given : "/tmp", "locks",
                     &error))
        return fail_to_run("lab locks: %s", error.text);
    suite.servers.dir = suite.folder.path;
    (void)signal(SIGCHLD, SIG_DFL); /* ignored, it hides how children end */
    (void)fail_with(&error, "no processes");
    suite.began_ms = clock_ms();
    ran = has_redis(&suite, &error) && work(&suite);
    folder_close(&suite.folder);
    if (!ran)
        return fail_to_run("lab locks: %s", error.text);
    if (options->markdown)
        report_table(&suite, true);
    else
        report_text(&suite);
    (void)fflush(stdout);
    report_differences(&suite);
    sum = suite_count(&suite);
    if (sum.differences > 0)
        return DIFFERENT;
    return sum.measured > 0 && !sum.is_troubled ? AS_EXPECTED : COULD_NOT_RUN;
}

int lab_locks_main(int argc, char *argv[])
{
    struct options options = {.lock = NULL};

    if (!read_options(argc, argv, &options))
        return COULD_NOT_RUN;
    if (!options.help)
        return run(&options);
    fputs(help, stdout);
    return 0;
}
