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
#include "server/lab/conform/cast.h"
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

/* The nodes ------------------------------------------------------------------ */

struct redis_proc *testbed_server(const struct testbed *testbed,
                                  const char *what, struct fail *error)
{
    char path[sizeof(testbed->dir) + 16];

    (void)snprintf(path, sizeof(path), "%s/%s", testbed->dir, what);
    (void)mkdir(path, 0700); /* without it there is no place for the socket */
    return redis_proc_start(path, error->text, sizeof(error->text));
}

struct peek *testbed_peek(const struct testbed *testbed,
                          const struct redis_proc *proc)
{
    struct fail error;
    struct peek *peek = peek_open(redis_proc_url(proc), &error);

    if (!peek)
        testbed_broken(testbed, "%.150s", error.text);
    return peek;
}

/*
 * Waits until the nodes have been up for longer than the longest lease. They
 * tell their age in whole seconds, one of which is not believed.
 */
static void nodes_age(const struct testbed *testbed)
{
    if (testbed->expected->aged)
        clock_sleep_ms(testbed->long_ms + testbed->long_ms / 10 + 2000);
}

/* The servers that the lock needs, ours or given, as one url; or a place. */
static bool backend_start(struct testbed *testbed, struct fail *error)
{
    const struct conform_servers *servers = testbed->servers;
    enum kept kept = testbed->expected->kept;
    bool in_sql = kept == KEPT_IN_SQL || kept == KEPT_IN_BOTH;
    unsigned nodes_n = kept == KEPT_IN_REDIS ? testbed->expected->nodes_n
                                             : kept == KEPT_IN_BOTH;
    const char *given = kept == KEPT_IN_ZK ? servers->zk_url
                        : in_sql           ? servers->sql_url
                        : nodes_n == 1     ? servers->redis_url
                                           : NULL;
    char what[16];
    size_t len;

    if (given && kept == KEPT_IN_REDIS)
        nodes_n = 0;
    if (kept == KEPT_LOCALLY)
        (void)snprintf(testbed->url, sizeof(testbed->url), "dir:%s/locks",
                       testbed->dir);
    len = strlen(testbed->url);
    for (unsigned i = 0; i < nodes_n; i++) {
        (void)snprintf(what, sizeof(what), "node%u", i);
        testbed->nodes[i] = testbed_server(testbed, what, error);
        if (!testbed->nodes[i])
            return false;
        testbed->nodes_n = i + 1;
        len += (size_t)snprintf(testbed->url + len, sizeof(testbed->url) - len,
                                "%s%s", i > 0 ? "," : "",
                                redis_proc_url(testbed->nodes[i]));
    }
    if (given)
        (void)snprintf(testbed->url + len, sizeof(testbed->url) - len, "%s%s",
                       len > 0 ? "," : "", given);
    return true;
}

static void close_testbed(struct testbed *testbed)
{
    for (unsigned i = 0; i < testbed->nodes_n; i++)
        redis_proc_stop(testbed->nodes[i]);
    /* Databases, directories of `mkdir`: whatever the checks have left. */
    folder_remove(testbed->dir);
    (void)munmap(testbed->race, sizeof(*testbed->race));
}

static bool open_testbed(struct testbed *testbed,
                         const struct expected *expected,
                         const struct conform_servers *servers,
                         struct fail *error)
{
    const struct dlock_strategy_info *info =
        dlock_strategy_find(expected->lock);
    const char *given = getenv("STOCKADE_SLOW"); /* for sanitizers */
    long times = given ? strtol(given, NULL, 10) : 1;
    unsigned slow = times > 0 && times < 100 ? (unsigned)times : 1;

    *testbed = (struct testbed){
        .expected = expected,
        .servers = servers,
        .capabilities = info ? info->capabilities : 0,
        .slow = slow,
        .lease_ms = LEASE_MS * slow,
        .long_ms = (expected->aged ? LONG_AGED_MS : LONG_MS) * slow,
        .margin_ms = MARGIN_MS * slow};
    (void)snprintf(testbed->dir, sizeof(testbed->dir), "%s/lab-XXXXXX",
                   servers->dir ? servers->dir : "/tmp");
    testbed->race = mmap(NULL, sizeof(*testbed->race), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (testbed->race == MAP_FAILED || !mkdtemp(testbed->dir))
        return fail_with(error, "no room for a testbed: %s", strerror(errno));
    if (!backend_start(testbed, error)) {
        close_testbed(testbed);
        return false;
    }
    nodes_age(testbed);
    return true;
}

bool testbed_can(const struct testbed *testbed,
                 enum dlock_capability capability)
{
    return (testbed->capabilities & (unsigned)capability) != 0;
}

const char *testbed_name(const char *what)
{
    static unsigned n; /* each check is a process of its own: hence the pid */
    char *name;

    if (asprintf(&name, "lab:%.16s:%d:%u", what, (int)getpid(), n++) < 0)
        abort();
    return name;
}

void testbed_end(const struct testbed *testbed, enum conform_verdict verdict,
                 const char *format, ...)
{
    struct conform_result *result = testbed->result;
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

/* A server that was given is not ours to be taken apart. */
static bool is_given(const struct testbed *testbed)
{
    enum kept kept = testbed->expected->kept;

    return kept == KEPT_IN_REDIS ? testbed->nodes_n == 0 : kept != KEPT_LOCALLY;
}

/* Each check would blame the lock for a server that is away. */
static void reach_server(struct testbed *testbed)
{
    const struct deed_order order =
        cast_order(deed_take, testbed_name("reach"), 0, testbed->lease_ms);
    struct cast cast;
    struct deed_report report;

    cast_open(&cast, testbed, 1, 0);
    report = cast_ask(&cast, 0, order);
    if (report.status == DLOCK_UNREACHABLE)
        testbed_untested(testbed, "%s", report.text);
    if (report.status == DLOCK_OK)
        (void)cast_give(&cast, 0, order.name);
    testbed_holds(testbed, "it answers");
}

/* In a process of its own, which an alarm ends if the check hangs. */
static void check_run(struct testbed *testbed, struct conform_result *result,
                      conform_check *check)
{
    uint64_t began_ms = clock_ms();
    int status = -1;
    pid_t pid;

    *result = (struct conform_result){.text = "the check hangs"};
    testbed->result = result;
    pid = child_fork(SIGKILL);
    if (pid == 0) {
        (void)alarm(CHECK_S_MAX * testbed->slow);
        memset(testbed->race, 0, sizeof(*testbed->race));
        check(testbed);
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

bool conform_run(const struct expected *expected,
                 const struct conform_servers *servers,
                 struct conform_result results[], atomic_uint *results_n,
                 struct fail *error)
{
    struct testbed testbed;
    bool good = true, spares;

    if (!open_testbed(&testbed, expected, servers, error))
        return false;
    if (is_given(&testbed)) {
        check_run(&testbed, results, reach_server);
        good = results->verdict == CONFORM_HOLDS ||
               fail_with(error, "%s", results->text);
    }
    spares = expected->kept == KEPT_IN_REDIS && is_given(&testbed);
    /* Those that lose servers come last. */
    for (size_t j = 0; j < (size_t)2 * PROPERTIES_N && good; j++) {
        size_t i = j % PROPERTIES_N;

        if (loses_servers(i) != (j >= PROPERTIES_N))
            continue;
        if (spares && loses_servers(i))
            results[i] = (struct conform_result){
                .verdict = CONFORM_NOT_ASKED,
                .text = "a Redis that is given is not taken apart"};
        else
            check_run(&testbed, &results[i], checks[i]);
        /* A lock of threads is asked what it can do among threads. */
        if (i == PROPERTY_X2)
            testbed.together = results[PROPERTY_X].verdict == CONFORM_HOLDS &&
                               results[PROPERTY_X2].verdict == CONFORM_FAILS;
        /* Nodes that it has lost start again. */
        for (unsigned n = 0; i == PROPERTY_M && good && n < testbed.nodes_n;
             n++)
            good = redis_proc_tend(testbed.nodes[n], error->text,
                                   sizeof(error->text));
        if (i == PROPERTY_M && good)
            nodes_age(&testbed);
        (void)atomic_fetch_add(results_n, 1);
    }
    close_testbed(&testbed);
    return good;
}
