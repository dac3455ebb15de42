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

static conform_check *const checks[PROPERTIES_N] = {
#define ROW(property, check, letter, text) [property] = (check),
#include "server/lab/properties.inc"
#undef ROW
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

/* False and a text: the lock's server does not serve it. */
static bool has_server(struct testbed *testbed, struct conform_result *room,
                       char *error, size_t error_size)
{
    if (!is_given(testbed))
        return true;
    check_run(testbed, room, reach_server);
    return room->verdict == CONFORM_HOLDS ||
           fail_with(error, error_size, "%s", room->text);
}

/* False and a text: the servers that it has lost do not start again. */
static bool check_property(struct testbed *testbed,
                           struct conform_result results[], size_t index,
                           char *error, size_t error_size)
{
    if (testbed->expected->kept == KEPT_IN_REDIS && is_given(testbed) &&
        loses_servers(index))
        results[index] = (struct conform_result){
            .verdict = CONFORM_NOT_ASKED,
            .text = "a Redis that is given is not taken apart"};
    else
        check_run(testbed, &results[index], checks[index]);
    /* A lock of threads is asked what it can do among threads. */
    if (index == PROPERTY_X2)
        testbed->together = results[PROPERTY_X].verdict == CONFORM_HOLDS &&
                            results[PROPERTY_X2].verdict == CONFORM_FAILS;
    return index != PROPERTY_M || testbed_mend(testbed, error, error_size);
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
    bool good;

    if (!testbed_open(&testbed, expected, servers, error, error_size))
        return false;
    good = has_server(&testbed, results, error, error_size);
    /* Those that lose servers come last. */
    for (int last = 0; last <= 1; last++)
        for (size_t i = 0; i < PROPERTIES_N && good; i++)
            if (loses_servers(i) == (last == 1)) {
                good = check_property(&testbed, results, i, error, error_size);
                (void)atomic_fetch_add(results_n, 1);
            }
    testbed_close(&testbed);
    return good;
}
