#include "server/lab/conform/conform.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/lab/conform/cast.h"

/* A check that takes longer hangs; none should come near it. */
enum { CHECK_MS_MAX = 40000 };

/* In the order in which they run: those come last that lose servers. What a check
 * starts dies with it. */
static const struct {
    size_t property;
    conform_check *check;
} checks[PROPERTIES_N] = {
    {PROPERTY_X, conform_check_x},   {PROPERTY_X2, conform_check_x2},
    {PROPERTY_C, conform_check_c},   {PROPERTY_A, conform_check_a},
    {PROPERTY_P, conform_check_p},   {PROPERTY_R, conform_check_r},
    {PROPERTY_L, conform_check_l},   {PROPERTY_N, conform_check_n},
    {PROPERTY_N2, conform_check_n2}, {PROPERTY_D, conform_check_d},
    {PROPERTY_W, conform_check_w},   {PROPERTY_HERD, conform_check_h},
    {PROPERTY_F, conform_check_f},   {PROPERTY_S, conform_check_s},
    {PROPERTY_M, conform_check_m},   {PROPERTY_M2, conform_check_m2},
};

/* The check's process: it must not outlive us, and never come back. */
static _Noreturn void check_play(struct testbed *testbed, size_t i, int out,
                                 pid_t parent)
{
    size_t index = checks[i].property;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(3);
    testbed->out = out;
    memset(testbed->race, 0, sizeof(*testbed->race));
    if (testbed->expected->kept == KEPT_IN_REDIS && testbed->nodes_n == 0 &&
        (index == PROPERTY_D || index == PROPERTY_M || index == PROPERTY_M2))
        testbed_not_asked(testbed, "a Redis that is given is not taken apart");
    checks[i].check(testbed);
    _exit(4);
}

/* The result that comes through the pipe, or why none did. */
static struct conform_result check_result(const struct testbed *testbed, int in,
                                          pid_t pid)
{
    struct pollfd poller = {.fd = in, .events = POLLIN};
    struct conform_result result = {.verdict = CONFORM_UNTESTED};
    bool in_time = poll(&poller, 1, CHECK_MS_MAX * (int)testbed->slow) == 1;
    ssize_t got = in_time ? read(in, &result, sizeof(result)) : 0;

    if (got != (ssize_t)sizeof(result))
        (void)snprintf(result.text, sizeof(result.text), "BROKEN: the check %s",
                       in_time ? "crashed" : "hangs");
    /* Its actors, wherever they are stopped, die with it. */
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    return result;
}

static struct conform_result check_run(struct testbed *testbed, size_t i)
{
    struct conform_result result = {.text = "BROKEN: no process"};
    uint64_t began_ms = clock_ms();
    pid_t parent = getpid(), pid;
    int ends[2];

    if (pipe(ends) != 0)
        return result;
    pid = fork();
    if (pid == 0)
        check_play(testbed, i, ends[1], parent);
    (void)close(ends[1]);
    if (pid > 0)
        result = check_result(testbed, ends[0], pid);
    (void)close(ends[0]);
    result.ms = (unsigned)(clock_ms() - began_ms);
    return result;
}

const char *conform_missing(const struct expected *expected,
                            const struct conform_servers *servers)
{
    switch (expected->kept) {
    case KEPT_IN_SQL:
    case KEPT_IN_BOTH:
        return servers->sql_url ? NULL : "needs --sql URL";
    case KEPT_IN_ZK:
        return servers->zk_url ? NULL : "needs --zk URL";
    case KEPT_LOCALLY:
    case KEPT_IN_REDIS:
        break;
    }
    return NULL;
}

bool conform_agrees(const struct expected *expected, size_t index,
                    enum conform_verdict found)
{
    static const char signs[] = {
        [CONFORM_UNTESTED] = '-', [CONFORM_HOLDS] = '#', [CONFORM_FAILS] = '.'};

    if (found == CONFORM_NOT_ASKED)
        return true;
    return expected->verdicts[index] == signs[found] ||
           expected->verdicts[index] == EXPECTED_ANYTHING;
}

bool conform_run(const struct expected *expected,
                 const struct conform_servers *servers,
                 void (*on_result)(void *ctx, size_t index,
                                   const struct conform_result *result),
                 void *ctx, char *error, size_t error_size)
{
    enum conform_verdict verdicts[PROPERTIES_N];
    struct testbed testbed;
    bool mended = true;

    if (!testbed_open(&testbed, expected, servers, error, error_size))
        return false;
    for (size_t i = 0; i < PROPERTIES_N && mended; i++) {
        size_t index = checks[i].property;
        struct conform_result result = check_run(&testbed, i);

        verdicts[index] = result.verdict;
        /* A lock of threads is asked what it can do among threads. */
        if (index == PROPERTY_X2)
            testbed.together = verdicts[PROPERTY_X] == CONFORM_HOLDS &&
                               verdicts[PROPERTY_X2] == CONFORM_FAILS;
        on_result(ctx, index, &result);
        if (index == PROPERTY_M)
            mended = testbed_mend(&testbed, error, error_size);
    }
    testbed_close(&testbed);
    return mended;
}
