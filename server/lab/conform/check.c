/* A check's process, from its servers to its end: see check.h. */
#include "server/lab/conform/check.h"

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
#include "server/lab/servers/peek.h"

enum {
    CHECK_S_MAX = 40, /* a check that takes longer hangs */
    AGAIN_TIMES = 8,  /* as long, if it is asked again */
    LEASE_MS = 150,
    LONG_MS = 20000,
    LONG_AGED_MS = 2000, /* shorter: its nodes have to grow older than that */
    MARGIN_MS = 500,
};

struct testbed testbed;

/* The servers ---------------------------------------------------------------- */

struct redis_proc *testbed_server(const char *what)
{
    char path[sizeof(testbed.dir) + 16];
    struct redis_proc *proc;
    struct fail error;

    (void)snprintf(path, sizeof(path), "%s/%s", testbed.dir, what);
    (void)mkdir(path, 0700); /* without it there is no place for the socket */
    proc = redis_proc_start(path, error.text, sizeof(error.text));
    need(proc, "%s", error.text);
    return proc;
}

void testbed_restart(unsigned node)
{
    struct redis_proc *proc = testbed.nodes[node];
    struct fail error;

    /* A kill, and no shutdown: the server must lose what it knows. */
    redis_proc_kill(proc);
    need(redis_proc_tend(proc, error.text, sizeof(error.text)), "%s",
         error.text);
}

struct peek *testbed_peek(const struct redis_proc *proc)
{
    struct fail error;
    struct peek *peek = peek_open(redis_proc_url(proc), &error);

    need(peek, "%s", error.text);
    return peek;
}

const char *conform_given(const struct expected *expected)
{
    const struct conform_servers *servers = &suite.servers;

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
static void start_servers(void)
{
    enum kept kept = testbed.expected->kept;
    bool is_ours =
        kept == KEPT_IN_BOTH || (kept == KEPT_IN_REDIS && !testbed.given);
    char what[16];

    if (kept == KEPT_LOCALLY)
        (void)snprintf(testbed.url, sizeof(testbed.url), "dir:%s/locks",
                       testbed.dir);
    /* A lock in SQL and Redis has one node; one that only was given has none of ours. */
    for (unsigned i = 0; i < testbed.expected->nodes_n && is_ours; i++) {
        (void)snprintf(what, sizeof(what), "node%u", i);
        testbed.nodes[i] = testbed_server(what);
        testbed.nodes_n = i + 1;
        add_url(redis_proc_url(testbed.nodes[i]));
    }
    if (testbed.given)
        add_url(testbed.given);
    /* The wait is longer than the longest lease, because only then may a node vote; and
     * nodes tell their age in whole seconds, one of which is not believed. */
    if (testbed.expected->aged)
        clock_sleep_ms(testbed.long_ms + testbed.long_ms / 10 + 2000);
}

bool testbed_can(enum dlock_capability capability)
{
    return (testbed.capabilities & (unsigned)capability) != 0;
}

/* The checks ----------------------------------------------------------------- */

/* Each check would blame the lock for a server that is away: hence the end of this one. */
static void reach_server(void)
{
    check_holds("it answers");
}

static conform_check *const checks[CONFORM_CHECKS_N] = {
#define ROW(property, check, letter, text) [property] = (check),
#include "server/lab/base/properties.inc"
    [CONFORM_SERVER] = reach_server};

bool conform_loses_servers(size_t index)
{
    return index == PROPERTY_D || index == PROPERTY_M || index == PROPERTY_M2;
}

/* All servers, ours and one that was given. */
static bool servers_answer(struct fail *error)
{
    struct deed_report report = {.status = DLOCK_BUSY};
    const char *name = cast_name();

    /* A new connection tells more than an old one: it is what a client would need. */
    for (unsigned i = 0; i < testbed.nodes_n; i++) {
        struct peek *peek = peek_open(redis_proc_url(testbed.nodes[i]), error);

        if (!peek)
            return false;
        peek_close(peek);
    }
    /* A server that was given is asked by the lock itself: what it speaks is not
     * known here. */
    if (testbed.given) {
        cast_open(1, 0);
        report = cast_ask(0, deed_take, name, 0, testbed.lease_ms);
    }
    if (report.status == DLOCK_OK)
        (void)cast_give(0, name);
    /* The take may be in doubt though the server answers: a text may not know what the
     * reply means. */
    if (report.status == DLOCK_UNKNOWN)
        report = cast_ask(0, deed_look, cast_name(), 0, 0);
    return !cast_is_silent(report.status) ||
           fail_with(error, "%s", report.error.text);
}

/* A server may have died meanwhile, because of nothing that the lock did. */
void check_end(enum conform_verdict verdict, const char *format, ...)
{
    struct conform_result *result = testbed.result;
    /* Only answers about the lock are taken back: what is untested stays so, whatever
     * has died. */
    bool is_answer = verdict == CONFORM_HOLDS || verdict == CONFORM_FAILS;
    char text[sizeof(result->text)];
    struct fail gone;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    /* A check that loses servers on purpose would find them gone. */
    if (is_answer && !conform_loses_servers(testbed.index) &&
        !servers_answer(&gone)) {
        verdict = CONFORM_BROKEN;
        (void)snprintf(text, sizeof(text), "its server does not answer: %.150s",
                       gone.text);
    }
    /* Leases are short there, whatever lease is asked for. */
    result->is_by_time |=
        verdict == CONFORM_FAILS &&
        (testbed.expected->aged || testbed.expected->kept == KEPT_IN_ZK);
    result->verdict = verdict;
    memcpy(result->text, text, sizeof(text));
    _exit(0);
}

void check_run(struct suite_lock *lock, size_t index)
{
    const struct expected *expected = lock->expected;
    /* The second time all times are longer: a lock that fails by time then fails for
     * another reason. */
    bool is_again = lock->results[index].is_again;
    unsigned slow = suite.slow * (is_again ? AGAIN_TIMES : 1);

    testbed = (struct testbed){
        .expected = expected,
        .index = index,
        .given = conform_given(expected),
        .capabilities = lock->info->capabilities,
        /* A lock of threads is asked what it can do among threads. */
        .together = index > PROPERTY_X2 && expected->kept == KEPT_LOCALLY &&
                    lock->results[PROPERTY_X].verdict == CONFORM_HOLDS &&
                    lock->results[PROPERTY_X2].verdict == CONFORM_FAILS,
        .slow = slow,
        .lease_ms = LEASE_MS * slow,
        .long_ms = (expected->aged ? LONG_AGED_MS : LONG_MS) * slow,
        .margin_ms = MARGIN_MS * slow,
        .race = mmap(NULL, sizeof(*testbed.race), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0),
        .result = &lock->results[index]};
    /* The first answer's flag must not stay with the second. */
    testbed.result->is_by_time = false;
    /* The alarm kills the check, and with it its actors and servers. Its text says how
     * far it was. */
    (void)alarm(CHECK_S_MAX * slow);
    (void)snprintf(testbed.result->text, sizeof(testbed.result->text),
                   "the check hangs");
    (void)snprintf(testbed.dir, sizeof(testbed.dir), "%s/lab-XXXXXX",
                   suite.folder.path);
    need(testbed.race != MAP_FAILED && mkdtemp(testbed.dir),
         "no room for a testbed: %s", strerror(errno));
    start_servers();
    checks[index]();
    /* A check ends by itself: this is one that has forgotten to say how. */
    _exit(4);
}
