#include "server/lab/conform/conform.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/base/child.h"
#include "server/base/clock.h"
#include "server/base/redis_proc.h"
#include "server/lab/conform/check.h"
#include "server/lab/fail.h"
#include "server/lab/servers/folder.h"
#include "server/lab/servers/peek.h"

enum {
    CHECK_S_MAX = 40, /* a check that takes longer hangs */
    LEASE_MS = 150,
    LONG_MS = 20000,
    LONG_AGED_MS = 2000, /* shorter: its nodes have to grow older than that */
    MARGIN_MS = 500,
};

struct testbed testbed;

/* The nodes ------------------------------------------------------------------ */

struct redis_proc *testbed_server(const char *what, struct fail *error)
{
    char path[sizeof(testbed.dir) + 16];

    (void)snprintf(path, sizeof(path), "%s/%s", testbed.dir, what);
    (void)mkdir(path, 0700); /* without it there is no place for the socket */
    return redis_proc_start(path, error->text, sizeof(error->text));
}

struct peek *testbed_peek(const struct redis_proc *proc)
{
    struct fail error;
    struct peek *peek = peek_open(redis_proc_url(proc), &error);

    need(peek, "%s", error.text);
    return peek;
}

/*
 * Waits until the nodes have been up for longer than the longest lease. They
 * tell their age in whole seconds, one of which is not believed.
 */
static void nodes_age(void)
{
    if (testbed.expected->aged)
        clock_sleep_ms(testbed.long_ms + testbed.long_ms / 10 + 2000);
}

/* The server given for such a lock, so that none has to be started; NULL = none. */
static const char *given_for(const struct expected *expected,
                             const struct conform_servers *servers)
{
    switch (expected->kept) {
    case KEPT_LOCALLY:
        return NULL;
    case KEPT_IN_REDIS:
        return expected->nodes_n == 1 ? servers->redis_url : NULL;
    case KEPT_IN_SQL:
    case KEPT_IN_BOTH:
        return servers->sql_url;
    case KEPT_IN_ZK:
        return servers->zk_url;
    }
    return NULL;
}

/* More of the url, behind a comma. */
static void add_url(const char *url)
{
    size_t len = strlen(testbed.url);

    (void)snprintf(testbed.url + len, sizeof(testbed.url) - len, "%s%s",
                   len > 0 ? "," : "", url);
}

/* The servers that the lock needs, ours or given, as one url; or a place. */
static bool backend_start(struct fail *error)
{
    enum kept kept = testbed.expected->kept;
    const char *given = given_for(testbed.expected, testbed.servers);
    unsigned nodes_n = kept == KEPT_IN_BOTH ? 1
                       : kept == KEPT_IN_REDIS && !given
                           ? testbed.expected->nodes_n
                           : 0;
    char what[16];

    if (kept == KEPT_LOCALLY)
        (void)snprintf(testbed.url, sizeof(testbed.url), "dir:%s/locks",
                       testbed.dir);
    for (unsigned i = 0; i < nodes_n; i++) {
        (void)snprintf(what, sizeof(what), "node%u", i);
        testbed.nodes[i] = testbed_server(what, error);
        if (!testbed.nodes[i])
            return false;
        testbed.nodes_n = i + 1;
        add_url(redis_proc_url(testbed.nodes[i]));
    }
    if (given)
        add_url(given);
    return true;
}

static void close_testbed(void)
{
    for (unsigned i = 0; i < testbed.nodes_n; i++)
        redis_proc_stop(testbed.nodes[i]);
    /* Databases, directories of `mkdir`: whatever the checks have left. */
    folder_remove(testbed.dir);
    (void)munmap(testbed.race, sizeof(*testbed.race));
}

static bool open_testbed(const struct expected *expected,
                         const struct conform_servers *servers,
                         struct fail *error)
{
    const struct dlock_strategy_info *info =
        dlock_strategy_find(expected->lock);
    const char *given = getenv("STOCKADE_SLOW"); /* for sanitizers */
    long times = given ? strtol(given, NULL, 10) : 1;
    unsigned slow = times > 0 && times < 100 ? (unsigned)times : 1;

    testbed = (struct testbed){
        .expected = expected,
        .servers = servers,
        .capabilities = info ? info->capabilities : 0,
        .slow = slow,
        .lease_ms = LEASE_MS * slow,
        .long_ms = (expected->aged ? LONG_AGED_MS : LONG_MS) * slow,
        .margin_ms = MARGIN_MS * slow};
    (void)snprintf(testbed.dir, sizeof(testbed.dir), "%s/lab-XXXXXX",
                   servers->dir ? servers->dir : "/tmp");
    testbed.race = mmap(NULL, sizeof(*testbed.race), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (testbed.race == MAP_FAILED || !mkdtemp(testbed.dir))
        return fail_with(error, "no room for a testbed: %s", strerror(errno));
    if (!backend_start(error)) {
        close_testbed();
        return false;
    }
    nodes_age();
    return true;
}

bool testbed_can(enum dlock_capability capability)
{
    return (testbed.capabilities & (unsigned)capability) != 0;
}

void check_end(enum conform_verdict verdict, const char *format, ...)
{
    struct conform_result *result = testbed.result;
    va_list args;

    result->verdict = verdict;
    va_start(args, format);
    (void)vsnprintf(result->text, sizeof(result->text), format, args);
    va_end(args);
    _exit(0);
}

/* The checks ----------------------------------------------------------------- */

static conform_check *const checks[PROPERTIES_N] = {
#define ROW(property, check, letter, text) [property] = (check),
#include "server/lab/properties.inc"
};

static bool loses_servers(size_t index)
{
    return index == PROPERTY_D || index == PROPERTY_M || index == PROPERTY_M2;
}

/* Each check would blame the lock for a server that is away. */
static void reach_server(void)
{
    const char *name = cast_name();
    struct deed_report report;

    cast_open(1, 0);
    report = cast_ask(0, deed_take, name, 0, testbed.lease_ms);
    if (report.status == DLOCK_UNREACHABLE)
        check_untested("%s", report.error.text);
    if (report.status == DLOCK_OK)
        (void)cast_give(0, name);
    check_holds("it answers");
}

/* In a process of its own, which an alarm ends if the check hangs. */
static void run_check(struct conform_result *result, conform_check *check)
{
    uint64_t began_ms = clock_ms();
    int status = -1;
    pid_t pid;

    *result = (struct conform_result){.text = "the check hangs"};
    testbed.result = result;
    pid = child_fork(SIGKILL);
    if (pid == 0) {
        (void)alarm(CHECK_S_MAX * testbed.slow);
        memset(testbed.race, 0, sizeof(*testbed.race));
        check();
        _exit(4);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        result->verdict = CONFORM_BROKEN;
    if (status != 0 && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM))
        (void)snprintf(result->text, sizeof(result->text), "the check %s",
                       pid < 0 ? "got no process" : "crashed");
    result->ms = (unsigned)(clock_ms() - began_ms);
}

bool conform_agrees(const struct expected *expected, size_t index,
                    enum conform_verdict found)
{
    static const char signs[] = {
        [CONFORM_UNTESTED] = '-', [CONFORM_HOLDS] = '#', [CONFORM_FAILS] = '.'};

    if (found == CONFORM_NOT_ASKED)
        return true;
    if (found == CONFORM_BROKEN)
        return false;
    return expected->verdicts[index] == signs[found] ||
           expected->verdicts[index] == EXPECTED_ANYTHING;
}

/* All servers answer, ours and one that was GIVEN. */
static bool are_there(struct suite_lock *lock, const char *given,
                      struct fail *error)
{
    for (unsigned n = 0; n < testbed.nodes_n; n++) {
        struct peek *peek = peek_open(redis_proc_url(testbed.nodes[n]), error);

        if (!peek)
            return false;
        peek_close(peek);
    }
    if (given)
        run_check(&lock->server, reach_server);
    return !given || lock->server.verdict == CONFORM_HOLDS ||
           fail_with(error, "%s", lock->server.text);
}

bool conform_run(struct suite_lock *lock, const struct conform_servers *servers)
{
    const struct expected *expected = lock->expected;
    const char *given = given_for(expected, servers);
    struct conform_result *results = lock->results;
    struct fail *error = &lock->trouble, gone;
    /* A server that was given is not ours to be taken apart. */
    bool spares = given && expected->kept == KEPT_IN_REDIS, good = true;

    if (!open_testbed(expected, servers, error))
        return false;
    good = !given || are_there(lock, given, error);
    /* Those that lose servers come last. */
    for (size_t j = 0; j < (size_t)2 * PROPERTIES_N && good; j++) {
        size_t i = j % PROPERTIES_N;
        bool is_lost;

        if (loses_servers(i) != (j >= PROPERTIES_N))
            continue;
        if (spares && loses_servers(i))
            results[i] = (struct conform_result){
                .verdict = CONFORM_NOT_ASKED,
                .text = "a Redis that is given is not taken apart"};
        else
            run_check(&results[i], checks[i]);
        /* A server may have died meanwhile, because of nothing that the lock did. */
        if (results[i].verdict == CONFORM_FAILS && !loses_servers(i) &&
            !are_there(lock, given, &gone)) {
            results[i].verdict = CONFORM_BROKEN;
            (void)snprintf(results[i].text, sizeof(results[i].text),
                           "its server has gone: %.150s", gone.text);
        }
        /* A lock of threads is asked what it can do among threads. */
        if (i == PROPERTY_X2)
            testbed.together = results[PROPERTY_X].verdict == CONFORM_HOLDS &&
                               results[PROPERTY_X2].verdict == CONFORM_FAILS;
        /* Nodes that are lost start again. */
        is_lost = i == PROPERTY_M || results[i].verdict == CONFORM_BROKEN;
        for (unsigned n = 0; is_lost && good && n < testbed.nodes_n; n++)
            good = redis_proc_tend(testbed.nodes[n], error->text,
                                   sizeof(error->text));
        if (is_lost && good)
            nodes_age();
        (void)atomic_fetch_add(&lock->results_n, 1);
    }
    close_testbed();
    return good;
}
