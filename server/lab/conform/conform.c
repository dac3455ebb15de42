/* The suite: which checks there are, and all of them at once. See conform.h. */
#include "server/lab/conform/conform.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lock/textbook/textbook.h"
#include "server/base/child.h"
#include "server/base/clock.h"
#include "server/base/redis_proc.h"
#include "server/lab/servers/peek.h"

enum {
    LOOK_MS = 20,
    JOBS_MAX = 64,
    FIRST_WEIGHT = 4, /* one that is asked again mostly waits: it weighs 1 */
};

struct suite suite;

/* Filling it ----------------------------------------------------------------- */

/* NULL if the lock has a row, and the servers that it needs are there. */
static const char *missing(const struct expected *expected)
{
    if (!expected)
        return "no row in expected.txt";
    if ((expected->kept == KEPT_IN_SQL || expected->kept == KEPT_IN_BOTH) &&
        !suite.servers.sql_url)
        return "needs --sql URL";
    if (expected->kept == KEPT_IN_ZK && !suite.servers.zk_url)
        return "needs --zk URL";
    return NULL;
}

/* Some need no process: a server that was given is not ours to be taken apart. */
static void fill_results(struct suite_lock *lock, const char *given)
{
    for (size_t i = 0; i < CONFORM_CHECKS_N; i++) {
        struct conform_result *result = &lock->results[i];

        /* Until its check has ended a result counts as broken: one that is never come
         * to must not look like a yes. */
        *result = (struct conform_result){.verdict = CONFORM_BROKEN,
                                          .text = "it was not come to"};
        /* There is no server that could be away. */
        if (i == CONFORM_SERVER && !given)
            *result = (struct conform_result){.verdict = CONFORM_HOLDS,
                                              .pid = CONFORM_ENDED};
        if (given && lock->expected->kept == KEPT_IN_REDIS &&
            conform_loses_servers(i))
            *result = (struct conform_result){
                .verdict = CONFORM_NOT_ASKED,
                .pid = CONFORM_ENDED,
                .text = "a Redis that is given is not taken apart"};
    }
}

bool suite_fill(const char *only)
{
    const struct dlock_strategy_info *info;

    /* The rows are shared before any fork: checks write into them. */
    suite.locks_n = 0;
    suite.locks =
        mmap(NULL, SUITE_LOCKS_MAX * sizeof(*suite.locks),
             PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (suite.locks == MAP_FAILED)
        return false;
    for (size_t i = 0; (info = dlock_strategy_info(i)) != NULL; i++) {
        struct suite_lock *lock = &suite.locks[suite.locks_n];

        if ((only && strcmp(info->name, only) != 0) ||
            suite.locks_n == SUITE_LOCKS_MAX)
            continue;
        lock->info = info;
        lock->expected = expected_of(info->name);
        /* A lock of somebody's own has no row: anything agrees, and all is
         * still measured. */
        if (dlock_textbook_is_file(info->name)) {
            lock->own = (struct expected){.lock = info->name,
                                          .verdicts = "????????????????",
                                          .kept = KEPT_IN_REDIS,
                                          .nodes_n = 1};
            lock->expected = &lock->own;
        }
        lock->missing = missing(lock->expected);
        fill_results(lock,
                     lock->missing ? NULL : conform_given(lock->expected));
        suite.locks_n++;
    }
    return suite.locks_n > 0;
}

/* Counting -------------------------------------------------------------------- */

bool conform_agrees(const struct expected *expected, size_t index,
                    enum conform_verdict found)
{
    static const char signs[] = {
        [CONFORM_UNTESTED] = '-', [CONFORM_HOLDS] = '#', [CONFORM_FAILS] = '.'};

    /* A question that nobody could ask is no difference; one that broke off is. */
    if (found == CONFORM_NOT_ASKED)
        return true;
    if (found == CONFORM_BROKEN)
        return false;
    return expected->verdicts[index] == signs[found] ||
           expected->verdicts[index] == EXPECTED_ANYTHING;
}

bool suite_differs(const struct suite_lock *lock, size_t index)
{
    return !lock->missing &&
           !conform_agrees(lock->expected, index, lock->results[index].verdict);
}

struct suite_sum suite_count(void)
{
    struct suite_sum sum = {.all = 0};

    for (size_t i = 0; i < suite.locks_n; i++) {
        const struct suite_lock *lock = &suite.locks[i];

        sum.measured += !lock->missing;
        /* The text says it: a lock that is missing because its server does not answer
         * points there. */
        sum.is_troubled |= lock->missing == lock->results[CONFORM_SERVER].text;
        sum.differences += !lock->expected;
        for (size_t j = 0; j < PROPERTIES_N && !lock->missing; j++) {
            sum.all++;
            sum.done += lock->results[j].pid == CONFORM_ENDED;
            sum.differences += suite_differs(lock, j);
            sum.unasked += lock->results[j].verdict == CONFORM_NOT_ASKED;
        }
    }
    return sum;
}

/* Running it ------------------------------------------------------------------- */

static bool has_ended(const struct suite_lock *lock, size_t index)
{
    return lock->results[index].pid == CONFORM_ENDED;
}

/* A lock's server comes first; and where a lock lives in a process, what it can do among
 * threads and among processes, which decides who is asked the rest. */
static bool may_begin(const struct suite_lock *lock, size_t index)
{
    return !lock->missing && lock->results[index].pid == 0 &&
           (index == CONFORM_SERVER || has_ended(lock, CONFORM_SERVER)) &&
           (lock->expected->kept != KEPT_LOCALLY || index <= PROPERTY_X2 ||
            (has_ended(lock, PROPERTY_X) && has_ended(lock, PROPERTY_X2)));
}

/* The check that begins next: first those that take longest, which are of nodes that have
 * to grow old, and of the last properties. NULL: there is none. */
static struct suite_lock *find_next(size_t *index)
{
    struct suite_lock *lock = NULL;

    for (size_t j = CONFORM_CHECKS_N; j-- > 0;)
        for (size_t i = 0; i < suite.locks_n; i++) {
            struct suite_lock *each = &suite.locks[i];

            if (may_begin(each, j) &&
                (!lock || (each->expected->aged && !lock->expected->aged))) {
                lock = each;
                *index = j;
            }
        }
    return lock;
}

/* False: there is none, or no process for it, and it may begin later. */
static bool begin_next(void)
{
    size_t index;
    struct suite_lock *lock = find_next(&index);
    pid_t pid = lock ? child_fork(SIGKILL) : -1;

    if (pid == 0)
        check_run(lock, index);
    if (pid < 0)
        return false;
    lock->results[index].pid = pid;
    lock->results[index].began_ms = clock_ms();
    return true;
}

/* Takes note if the check has ended. One that did not end by itself has left a text of how
 * far it was, if its alarm has ended it. */
static void end(struct suite_lock *lock, size_t index)
{
    struct conform_result *result = &lock->results[index];
    int status = 0;

    if (result->pid <= 0 || waitpid(result->pid, &status, WNOHANG) == 0)
        return;
    result->pid = CONFORM_ENDED;
    result->ms = (unsigned)(clock_ms() - result->began_ms);
    if (status != 0)
        result->verdict = CONFORM_BROKEN;
    if (status != 0 && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM))
        (void)snprintf(result->text, sizeof(result->text), "the check crashed");
    /* A busy machine may have made it fail, or break off: it is asked once more, with
     * longer times. */
    if (!result->is_again &&
        (result->verdict == CONFORM_BROKEN || result->is_by_time)) {
        result->is_again = true;
        result->pid = 0;
        return;
    }
    /* The lock's other checks would all blame it for a server that is away. */
    if (index == CONFORM_SERVER && result->verdict != CONFORM_HOLDS)
        lock->missing = result->text;
}

/* The weight of all checks that are under way. */
static unsigned count_running(void)
{
    unsigned n = 0;

    for (size_t i = 0; i < suite.locks_n; i++)
        for (size_t j = 0; j < CONFORM_CHECKS_N; j++) {
            const struct conform_result *result = &suite.locks[i].results[j];

            end(&suite.locks[i], j);
            if (result->pid > 0)
                n += result->is_again ? 1 : FIRST_WEIGHT;
        }
    return n;
}

/* A line on a terminal that rewrites itself. */
static void tell_progress(uint64_t began_ms)
{
    const struct suite_sum sum = suite_count();

    fprintf(stderr, "\rmeasuring: %zu of %zu checks, %u s ", sum.done, sum.all,
            (unsigned)((clock_ms() - began_ms) / 1000));
    if (sum.done == sum.all)
        fprintf(stderr, "\r\033[K");
}

/* A check waits most of its time, so many of them run at once; and more, the longer the
 * times are. False: ERROR says why some did not run. */
static bool run_all(struct fail *error)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned each = FIRST_WEIGHT * 4 * suite.slow;
    unsigned most = each * (processors > 0 ? (unsigned)processors : 1);
    uint64_t began_ms = clock_ms();
    unsigned running;
    size_t index;

    most = most < FIRST_WEIGHT * JOBS_MAX ? most : FIRST_WEIGHT * JOBS_MAX;
    do {
        /* Checks that have ended make room for new ones: so both are asked in turns. */
        while ((running = count_running()) < most && begin_next())
            continue;
        if (isatty(STDERR_FILENO))
            tell_progress(began_ms);
        if (running > 0)
            clock_sleep_ms(LOOK_MS);
    } while (running > 0);
    /* A check that could not begin waits for others to end: behind the last there is
     * nothing to wait for. */
    return !find_next(&index) || fail_with(error, "no process for a check");
}

/* Without one nothing can be measured, nor with a script that it does not compile: said
 * once, and not by each check. A server that was given is not for such a trial. */
static bool has_redis(struct fail *error)
{
    bool is_needed = false, is_good;
    struct redis_proc *redis;
    struct peek *peek;

    for (size_t i = 0; i < suite.locks_n; i++) {
        const struct suite_lock *lock = &suite.locks[i];

        /* A lock of somebody's own is compiled here first, whatever server is given. */
        is_needed |= lock->own.lock != NULL ||
                     (!lock->missing && !suite.servers.redis_url &&
                      (lock->expected->kept == KEPT_IN_REDIS ||
                       lock->expected->kept == KEPT_IN_BOTH));
    }
    if (!is_needed)
        return true;
    redis =
        redis_proc_start(suite.folder.path, error->text, sizeof(error->text));
    peek = redis ? peek_open(redis_proc_url(redis), error) : NULL;
    is_good = peek != NULL;
    for (size_t i = 0; is_good && i < suite.locks_n; i++)
        is_good = peek_compiles(peek, suite.locks[i].info->name, error);
    peek_close(peek);
    redis_proc_stop(redis);
    return is_good;
}

/* All processes and files go with this one, however it ends: see folder.h. */
bool suite_run(struct fail *error)
{
    const char *where = getenv("TMPDIR");
    const char *given = getenv("STOCKADE_SLOW"); /* for sanitizers */
    long slow = given ? strtol(given, NULL, 10) : 1;
    bool ran;

    suite.slow = slow > 0 && slow < 100 ? (unsigned)slow : 1;
    if (!folder_open(&suite.folder, where && where[0] ? where : "/tmp", "locks",
                     error))
        return false;
    ran = has_redis(error) && run_all(error);
    folder_close(&suite.folder);
    return ran;
}
