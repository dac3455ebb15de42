#include "server/lab/conform/conform.h"

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
#include "server/lab/servers/peek.h"

enum { LOOK_MS = 50 };

/* NULL if the servers that the lock needs are there, else what is missing. */
static const char *missing(const struct expected *expected,
                           const struct conform_servers *servers)
{
    bool needs_sql =
        expected->kept == KEPT_IN_SQL || expected->kept == KEPT_IN_BOTH;

    if (needs_sql && !servers->sql_url)
        return "needs --sql URL";
    return expected->kept == KEPT_IN_ZK && !servers->zk_url ? "needs --zk URL"
                                                            : NULL;
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
        lock->missing =
            lock->expected ? missing(lock->expected, &suite->servers) : NULL;
        suite->locks_n++;
    }
    return suite->locks_n > 0;
}

/* A lock's process ---------------------------------------------------------- */

static bool start(const struct suite *suite, struct suite_lock *lock)
{
    pid_t pid = child_fork(SIGKILL);

    if (pid > 0)
        lock->pid = pid;
    if (pid != 0)
        return pid > 0;
    if (conform_run(lock->expected, &suite->servers, lock->results,
                    &lock->results_n, lock->trouble, sizeof(lock->trouble)))
        _exit(0);
    if (lock->results_n == 0)
        lock->missing = lock->trouble;
    else
        fprintf(stderr, "lab: %s: %s\n", lock->info->name, lock->trouble);
    _exit(1);
}

/* All of them --------------------------------------------------------------- */

static bool is_runnable(const struct suite_lock *lock)
{
    return lock->expected && !lock->missing;
}

/* The next to be run, or NULL. First those that will be the last to end. */
static struct suite_lock *pick(const struct suite *suite)
{
    struct suite_lock *picked = NULL;

    for (size_t i = 0; i < suite->locks_n; i++) {
        struct suite_lock *lock = &suite->locks[i];

        if (!is_runnable(lock) || lock->pid != 0)
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
        if (suite->on_progress)
            suite->on_progress(suite);
        if (running > 0)
            clock_sleep_ms(LOOK_MS);
    } while (running > 0);
    return !next;
}

/* Without one nothing can be measured, nor with a script that it does not compile: said
 * once, and not by each check. A server that was given is not for such a trial. */
static bool has_redis(const struct suite *suite, char *error, size_t error_size)
{
    bool is_needed = false, is_good;
    struct redis_proc *redis;
    struct peek *peek;

    for (size_t i = 0; i < suite->locks_n; i++) {
        const struct suite_lock *lock = &suite->locks[i];

        is_needed |= lock->own.lock != NULL ||
                     (is_runnable(lock) && !suite->servers.redis_url &&
                      (lock->expected->kept == KEPT_IN_REDIS ||
                       lock->expected->kept == KEPT_IN_BOTH));
    }
    if (!is_needed)
        return true;
    redis = redis_proc_start(suite->folder.path, error, error_size);
    peek = redis ? peek_open(redis_proc_url(redis), error, error_size) : NULL;
    is_good = peek != NULL;
    for (size_t i = 0; is_good && i < suite->locks_n; i++)
        is_good =
            peek_compiles(peek, suite->locks[i].info->name, error, error_size);
    peek_close(peek);
    redis_proc_stop(redis);
    return is_good;
}

bool suite_run(struct suite *suite, char *error, size_t error_size)
{
    const char *given = getenv("TMPDIR");
    bool ran;

    if (!folder_open(&suite->folder, given && given[0] ? given : "/tmp",
                     "locks", error, error_size))
        return false;
    suite->servers.dir = suite->folder.path;
    (void)signal(SIGCHLD, SIG_DFL); /* ignored, it hides how children end */
    (void)snprintf(error, error_size, "no processes");
    suite->began_ms = clock_ms();
    ran = has_redis(suite, error, error_size) && work(suite);
    folder_close(&suite->folder);
    return ran;
}

bool suite_differs(const struct suite_lock *lock, size_t index)
{
    return is_runnable(lock) &&
           !conform_agrees(lock->expected, index, lock->results[index].verdict);
}

struct suite_sum suite_count(const struct suite *suite)
{
    struct suite_sum sum = {.all = 0};

    for (size_t i = 0; i < suite->locks_n; i++) {
        const struct suite_lock *lock = &suite->locks[i];

        sum.all += is_runnable(lock) ? PROPERTIES_N : 0;
        sum.done += lock->results_n;
        sum.measured += lock->results_n > 0;
        sum.is_troubled |= lock->trouble[0] != '\0';
        sum.differences += !lock->expected;
        sum.differences += is_runnable(lock) && lock->results_n < PROPERTIES_N;
        for (size_t j = 0; j < PROPERTIES_N; j++)
            sum.differences += suite_differs(lock, j);
    }
    return sum;
}
