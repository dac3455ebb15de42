#include "server/lab/conform/conform.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/base/child.h"
#include "server/base/clock.h"
#include "server/lab/conform/cast.h"
#include "server/lab/fail.h"

/* A check that takes longer hangs; none should come near it. */
enum { CHECK_S_MAX = 40 };

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

/* A server that was given is not ours to be taken apart. */
static bool is_given(const struct testbed *testbed)
{
    enum kept kept = testbed->expected->kept;

    return kept == KEPT_IN_REDIS ? testbed->nodes_n == 0 : kept != KEPT_LOCALLY;
}

static void not_asked(struct testbed *testbed)
{
    testbed_not_asked(testbed, "a Redis that is given is not taken apart");
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

/* The check's process, which an alarm ends if it hangs. */
static _Noreturn void check_play(struct testbed *testbed, conform_check *check)
{
    (void)alarm(CHECK_S_MAX * testbed->slow);
    memset(testbed->race, 0, sizeof(*testbed->race));
    check(testbed);
    _exit(4);
}

static void check_run(struct testbed *testbed, conform_check *check)
{
    struct conform_result *result = testbed->result;
    uint64_t began_ms = clock_ms();
    int status = -1;
    pid_t pid;

    *result = (struct conform_result){.text = "the check hangs"};
    pid = child_fork(SIGKILL);
    if (pid == 0)
        check_play(testbed, check);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        result->verdict = CONFORM_BROKEN;
    if (status != 0 && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM))
        (void)snprintf(result->text, sizeof(result->text), "the check %s",
                       pid < 0 ? "got no process" : "crashed");
    result->ms = (unsigned)(clock_ms() - began_ms);
}

/* False and a text: the lock's server does not serve it. */
static bool has_server(struct testbed *testbed, struct conform_result *room,
                       char *error, size_t error_size)
{
    if (!is_given(testbed))
        return true;
    testbed->result = room;
    check_run(testbed, reach_server);
    return room->verdict == CONFORM_HOLDS ||
           fail_with(error, error_size, "%s", room->text);
}

static void check_property(struct testbed *testbed, size_t i)
{
    size_t index = checks[i].property;
    bool loses_servers =
        index == PROPERTY_D || index == PROPERTY_M || index == PROPERTY_M2;

    check_run(testbed, testbed->expected->kept == KEPT_IN_REDIS &&
                               is_given(testbed) && loses_servers
                           ? not_asked
                           : checks[i].check);
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
                 char *error, size_t error_size)
{
    struct testbed testbed;
    bool mended;

    if (!testbed_open(&testbed, expected, servers, error, error_size))
        return false;
    mended = has_server(&testbed, results, error, error_size);
    for (size_t i = 0; i < PROPERTIES_N && mended; i++) {
        size_t index = checks[i].property;

        testbed.result = &results[index];
        check_property(&testbed, i);
        /* A lock of threads is asked what it can do among threads. */
        if (index == PROPERTY_X2)
            testbed.together = results[PROPERTY_X].verdict == CONFORM_HOLDS &&
                               results[PROPERTY_X2].verdict == CONFORM_FAILS;
        (void)atomic_fetch_add(results_n, 1);
        if (index == PROPERTY_M)
            mended = testbed_mend(&testbed, error, error_size);
    }
    testbed_close(&testbed);
    return mended;
}
