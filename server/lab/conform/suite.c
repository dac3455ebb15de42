#include "server/lab/conform/conform.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lock/dlock_textbook.h"
#include "server/base/redis_proc.h"
#include "server/lab/conform/testbed.h"
#include "server/lab/servers/peek.h"

/* Being ended ---------------------------------------------------------------- */

/*
 * A killed process cannot clean up. So this process, on whose life all others
 * depend, takes the signals that end a command, and listens to them only while
 * it waits.
 */
enum { ENDINGS_N = 3 };

static const int endings[ENDINGS_N] = {SIGINT, SIGTERM, SIGHUP};
static volatile sig_atomic_t ended_by; /* 0 = nothing yet */

/* How it was before. */
struct manners {
    struct sigaction actions[ENDINGS_N];
    sigset_t blocked;
};

static void on_ending(int number)
{
    ended_by = number;
}

/* A signal that is ignored stays so, because `nohup` wants it. */
static void manners_change(struct manners *before)
{
    struct sigaction action = {.sa_handler = on_ending};
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < ENDINGS_N; i++) {
        sigaddset(&set, endings[i]);
        (void)sigaction(endings[i], NULL, &before->actions[i]);
        if (before->actions[i].sa_handler != SIG_IGN)
            (void)sigaction(endings[i], &action, NULL);
    }
    (void)sigprocmask(SIG_BLOCK, &set, &before->blocked);
}

/* And if one of them has come, it acts now. */
static void manners_restore(const struct manners *before)
{
    for (size_t i = 0; i < ENDINGS_N; i++)
        (void)sigaction(endings[i], &before->actions[i], NULL);
    (void)sigprocmask(SIG_SETMASK, &before->blocked, NULL);
    if (ended_by)
        (void)raise(ended_by);
}

/* Workers ------------------------------------------------------------------ */

/* A message that a lock's process sends home, once per property. */
struct message {
    size_t index;
    struct conform_result result;
};

/* A lock's process. */
struct worker {
    struct suite_lock *lock; /* NULL = this place is free */
    pid_t pid;
    int in;
};

enum { WORKERS_MAX = 16 };

struct crew {
    struct suite *suite;
    struct manners before;
    struct worker workers[WORKERS_MAX];
    unsigned workers_n; /* places that are taken */
    size_t done, all;   /* results */
};

bool suite_fill(struct suite *suite, const char *only)
{
    const struct dlock_strategy_info *info;

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
        lock->missing = lock->expected
                            ? conform_missing(lock->expected, &suite->servers)
                            : NULL;
        suite->locks_n++;
    }
    return suite->locks_n > 0;
}

/* A lock's process ---------------------------------------------------------- */

static void send_home(void *ctx, size_t index,
                      const struct conform_result *result)
{
    const int *out = ctx;
    const struct message message = {.index = index, .result = *result};

    if (write(*out, &message, sizeof(message)) != (ssize_t)sizeof(message))
        _exit(3);
}

static _Noreturn void worker_work(const struct suite *suite,
                                  const struct suite_lock *lock, int out,
                                  pid_t parent)
{
    char error[160] = "";

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(3);
    if (conform_run(lock->expected, &suite->servers, send_home, &out, error,
                    sizeof(error)))
        _exit(0);
    fprintf(stderr, "lab: %s: %s\n", lock->info->name, error);
    _exit(1);
}

static bool worker_start(struct suite *suite, struct suite_lock *lock,
                         struct worker *worker, const struct manners *before)
{
    pid_t parent = getpid();
    int ends[2];

    if (pipe(ends) != 0)
        return false;
    worker->pid = fork();
    if (worker->pid == 0) {
        (void)close(ends[0]);
        manners_restore(before);
        worker_work(suite, lock, ends[1], parent);
    }
    (void)close(ends[1]);
    if (worker->pid < 0) {
        (void)close(ends[0]);
        return false;
    }
    worker->in = ends[0];
    worker->lock = lock;
    return true;
}

/* One message; false at the process's end. */
static bool worker_hear(struct worker *worker)
{
    struct message message;

    /* Messages are shorter than PIPE_BUF: they come whole. */
    if (read(worker->in, &message, sizeof(message)) !=
            (ssize_t)sizeof(message) ||
        message.index >= PROPERTIES_N)
        return false;
    worker->lock->results[message.index] = message.result;
    worker->lock->results_n++;
    return true;
}

static void worker_end(struct worker *worker)
{
    (void)close(worker->in);
    (void)waitpid(worker->pid, NULL, 0);
    worker->lock = NULL;
}

/* All of them --------------------------------------------------------------- */

static bool is_runnable(const struct suite_lock *lock)
{
    return lock->expected && !lock->missing;
}

/* The next to be run, or NULL. First those that will be the last to end. */
static struct suite_lock *crew_pick(const struct crew *crew)
{
    struct suite_lock *picked = NULL;

    for (size_t i = 0; i < crew->suite->locks_n; i++) {
        struct suite_lock *lock = &crew->suite->locks[i];

        if (!is_runnable(lock) || lock->started)
            continue;
        if (lock->expected->aged)
            return lock;
        if (!picked)
            picked = lock;
    }
    return picked;
}

/* Fills the free places, as long as there are locks. */
static bool crew_hire(struct crew *crew)
{
    struct suite *suite = crew->suite;
    struct suite_lock *lock;

    for (unsigned i = 0; i < suite->jobs && i < WORKERS_MAX; i++) {
        if (crew->workers[i].lock)
            continue;
        lock = crew_pick(crew);
        if (!lock)
            return true;
        if (!worker_start(suite, lock, &crew->workers[i], &crew->before))
            return false;
        lock->started = true;
        crew->workers_n++;
    }
    return true;
}

/* Waits until somebody has something to say or has gone home. */
static void crew_listen(struct crew *crew)
{
    struct pollfd pollers[WORKERS_MAX];

    for (unsigned i = 0; i < WORKERS_MAX; i++)
        pollers[i] = (struct pollfd){
            .fd = crew->workers[i].lock ? crew->workers[i].in : -1,
            .events = POLLIN};
    if (ppoll(pollers, WORKERS_MAX, NULL, &crew->before.blocked) <= 0)
        return;
    for (unsigned i = 0; i < WORKERS_MAX; i++) {
        if (!crew->workers[i].lock || pollers[i].revents == 0)
            continue;
        if (worker_hear(&crew->workers[i])) {
            crew->done++;
        } else {
            worker_end(&crew->workers[i]);
            crew->workers_n--;
        }
    }
}

/*
 * Ends what is under way. The workers' descendants become ours, so that we know
 * when the last of them is gone.
 */
static void crew_dismiss(struct crew *crew)
{
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (unsigned i = 0; i < WORKERS_MAX; i++)
        if (crew->workers[i].lock)
            (void)kill(crew->workers[i].pid, SIGKILL);
    folder_leave(&crew->suite->folder);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
}

/* false: not one process can be started. */
static bool crew_work(struct crew *crew,
                      void (*on_progress)(void *ctx, size_t done, size_t all),
                      void *ctx)
{
    do {
        if (!crew_hire(crew) && crew->workers_n == 0)
            return false;
        if (on_progress)
            on_progress(ctx, crew->done, crew->all);
        if (crew->workers_n > 0)
            crew_listen(crew);
    } while (!ended_by && (crew->workers_n > 0 || crew_pick(crew)));
    return true;
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

bool suite_run(struct suite *suite,
               void (*on_progress)(void *ctx, size_t done, size_t all),
               void *ctx, char *error, size_t error_size)
{
    struct crew crew = {.suite = suite};
    const char *given = getenv("TMPDIR");
    bool works;

    for (size_t i = 0; i < suite->locks_n; i++)
        if (is_runnable(&suite->locks[i]))
            crew.all += PROPERTIES_N;
    if (suite->jobs == 0)
        suite->jobs = 1;
    if (!folder_open(&suite->folder, given && given[0] ? given : "/tmp",
                     "locks", error, error_size))
        return false;
    suite->servers.dir = suite->folder.path;
    manners_change(&crew.before);
    (void)snprintf(error, error_size, "no processes");
    works = has_redis(suite, error, error_size) &&
            crew_work(&crew, on_progress, ctx);
    if (ended_by)
        crew_dismiss(&crew);
    folder_close(&suite->folder);
    manners_restore(&crew.before);
    return works;
}

bool suite_differs(const struct suite_lock *lock, size_t index)
{
    return is_runnable(lock) &&
           !conform_agrees(lock->expected, index, lock->results[index].verdict);
}

size_t suite_measured(const struct suite *suite)
{
    size_t n = 0;

    for (size_t i = 0; i < suite->locks_n; i++)
        n += suite->locks[i].results_n > 0;
    return n;
}

size_t suite_differences(const struct suite *suite)
{
    size_t n = 0;

    for (size_t i = 0; i < suite->locks_n; i++) {
        const struct suite_lock *lock = &suite->locks[i];

        n += !lock->expected;
        n += is_runnable(lock) && lock->results_n < PROPERTIES_N;
        for (size_t j = 0; j < PROPERTIES_N; j++)
            n += suite_differs(lock, j);
    }
    return n;
}
