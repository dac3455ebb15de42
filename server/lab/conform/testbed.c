#include "server/lab/conform/testbed.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/base/redis_proc.h"
#include "server/lab/fail.h"
#include "server/lab/servers/folder.h"
#include "server/lab/servers/peek.h"

enum {
    LEASE_MS = 150,
    LONG_MS = 20000,
    LONG_AGED_MS = 2000, /* shorter: its nodes have to grow older than that */
    MARGIN_MS = 500,
};

unsigned conform_slow(void)
{
    const char *slow = getenv("STOCKADE_SLOW");
    long times = slow ? strtol(slow, NULL, 10) : 1;

    return times > 0 && times < 100 ? (unsigned)times : 1;
}

/* The nodes ------------------------------------------------------------------ */

struct redis_proc *testbed_server(const struct testbed *testbed,
                                  const char *what, char *error,
                                  size_t error_size)
{
    char path[sizeof(testbed->dir) + 16];

    (void)snprintf(path, sizeof(path), "%s/%s", testbed->dir, what);
    (void)mkdir(path, 0700); /* without it there is no place for the socket */
    return redis_proc_start(path, error, error_size);
}

static bool nodes_start(struct testbed *testbed, unsigned n, char *error,
                        size_t error_size)
{
    size_t len = 0;
    char what[16];

    for (unsigned i = 0; i < n; i++) {
        (void)snprintf(what, sizeof(what), "node%u", i);
        testbed->nodes[i] = testbed_server(testbed, what, error, error_size);
        if (!testbed->nodes[i])
            return false;
        testbed->nodes_n = i + 1;
        len += (size_t)snprintf(testbed->url + len, sizeof(testbed->url) - len,
                                "%s%s", i > 0 ? "," : "",
                                redis_proc_url(testbed->nodes[i]));
    }
    return true;
}

struct peek *testbed_peek(const struct testbed *testbed,
                          const struct redis_proc *proc)
{
    char error[200];
    struct peek *peek = peek_open(redis_proc_url(proc), error, sizeof(error));

    if (!peek)
        testbed_broken(testbed, "%.150s", error);
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
static bool backend_start(struct testbed *testbed, char *error,
                          size_t error_size)
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
    size_t len;

    if (given && kept == KEPT_IN_REDIS)
        nodes_n = 0;
    if (kept == KEPT_LOCALLY)
        (void)snprintf(testbed->url, sizeof(testbed->url), "dir:%s/locks",
                       testbed->dir);
    if (!nodes_start(testbed, nodes_n, error, error_size))
        return false;
    len = strlen(testbed->url);
    if (given)
        (void)snprintf(testbed->url + len, sizeof(testbed->url) - len, "%s%s",
                       len > 0 ? "," : "", given);
    return true;
}

bool testbed_open(struct testbed *testbed, const struct expected *expected,
                  const struct conform_servers *servers, char *error,
                  size_t error_size)
{
    const struct dlock_strategy_info *info =
        dlock_strategy_find(expected->lock);
    unsigned slow = conform_slow();

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
        return fail_with(error, error_size, "no room for a testbed: %s",
                         strerror(errno));
    if (!backend_start(testbed, error, error_size)) {
        testbed_close(testbed);
        return false;
    }
    nodes_age(testbed);
    return true;
}

void testbed_close(struct testbed *testbed)
{
    for (unsigned i = 0; i < testbed->nodes_n; i++)
        redis_proc_stop(testbed->nodes[i]);
    /* Databases, directories of `mkdir`: whatever the checks have left. */
    folder_remove(testbed->dir);
    (void)munmap(testbed->race, sizeof(*testbed->race));
}

bool testbed_mend(struct testbed *testbed, char *error, size_t error_size)
{
    for (unsigned i = 0; i < testbed->nodes_n; i++)
        if (!redis_proc_tend(testbed->nodes[i], error, error_size))
            return false;
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
