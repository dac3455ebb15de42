#include "server/lab/conform.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/clock.h"
#include "server/lab/conform_check.h"

/* A check that takes longer hangs; none should come near it. */
enum { CHECK_MS_MAX = 40000 };

const struct conform_property conform_properties[CONFORM_PROPERTIES_N] = {
    [CONFORM_X] = {"X", "one at a time, among threads"},
    [CONFORM_X2] = {"X2", "one at a time, among processes"},
    [CONFORM_C] = {"C", "the holder crashes: others get in within the lease"},
    [CONFORM_A] = {"A", "the holder crashes between any two of its commands: "
                        "the same"},
    [CONFORM_P] = {"P", "the holder pauses beyond its lease: it cannot free "
                        "another's lock"},
    [CONFORM_R] = {"R", "the same, wherever in the release it pauses"},
    [CONFORM_L] = {"L", "work longer than the lease stays alone while the "
                        "holder lives"},
    [CONFORM_N] = {"N", "the same session may lock again, and gives back as "
                        "often"},
    [CONFORM_N2] = {"N2", "and the inner lease counts: it lengthens the outer "
                          "one"},
    [CONFORM_D] = {"D", "late and doubled commands change nothing that is "
                        "newer"},
    [CONFORM_W] = {"W", "a waiter gets it promptly after a release, without "
                        "polling"},
    [CONFORM_HERD] = {"H", "no herd: a release costs the same with 32 waiters"},
    [CONFORM_F] = {"F", "first come, first served"},
    [CONFORM_M] = {"M", "a node fails over to a replica that is behind: "
                        "still one holder"},
    [CONFORM_M2] = {"M2", "a node is away: one holder, and to be had"},
    [CONFORM_S] = {"S", "a late holder's write is refused by the store"},
};

static conform_check *const checks[CONFORM_PROPERTIES_N] = {
    [CONFORM_X] = conform_check_x,   [CONFORM_X2] = conform_check_x2,
    [CONFORM_C] = conform_check_c,   [CONFORM_A] = conform_check_a,
    [CONFORM_P] = conform_check_p,   [CONFORM_R] = conform_check_r,
    [CONFORM_L] = conform_check_l,   [CONFORM_N] = conform_check_n,
    [CONFORM_N2] = conform_check_n2, [CONFORM_D] = conform_check_d,
    [CONFORM_W] = conform_check_w,   [CONFORM_HERD] = conform_check_h,
    [CONFORM_F] = conform_check_f,   [CONFORM_M] = conform_check_m,
    [CONFORM_M2] = conform_check_m2, [CONFORM_S] = conform_check_s,
};

/*
 * In which order they run: those come last that lose servers. What a check
 * starts dies with it.
 */
static const size_t program[CONFORM_PROPERTIES_N] = {
    CONFORM_X, CONFORM_X2, CONFORM_C,  CONFORM_A, CONFORM_P, CONFORM_R,
    CONFORM_L, CONFORM_N,  CONFORM_N2, CONFORM_D, CONFORM_W, CONFORM_HERD,
    CONFORM_F, CONFORM_S,  CONFORM_M,  CONFORM_M2};

/* The check's process: it must not outlive us, and never come back. */
static _Noreturn void check_play(struct stage *stage, size_t index, int out,
                                 pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(3);
    stage->out = out;
    memset(stage->race, 0, sizeof(*stage->race));
    if (stage->expected->backend == CONFORM_REDIS && stage->nodes_n == 0 &&
        (index == CONFORM_D || index == CONFORM_M || index == CONFORM_M2))
        stage_not_asked(stage, "a Redis that is given is not taken apart");
    checks[index](stage);
    _exit(4);
}

/* What comes through the pipe, or why nothing did. */
static struct conform_result check_result(const struct stage *stage, int in,
                                          pid_t pid)
{
    struct pollfd poller = {.fd = in, .events = POLLIN};
    struct conform_result result = {.verdict = CONFORM_UNTESTED};
    bool in_time = poll(&poller, 1, CHECK_MS_MAX * (int)stage->slow) == 1;
    ssize_t got = in_time ? read(in, &result, sizeof(result)) : 0;

    if (got != (ssize_t)sizeof(result))
        (void)snprintf(result.text, sizeof(result.text), "BROKEN: the check %s",
                       in_time ? "crashed" : "hangs");
    /* Its actors, wherever they are stopped, die with it. */
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    return result;
}

static struct conform_result check_run(struct stage *stage, size_t index)
{
    struct conform_result result = {.text = "BROKEN: no process"};
    uint64_t began_ms = clock_ms();
    pid_t parent = getpid(), pid;
    int ends[2];

    if (pipe(ends) != 0)
        return result;
    pid = fork();
    if (pid == 0)
        check_play(stage, index, ends[1], parent);
    (void)close(ends[1]);
    if (pid > 0)
        result = check_result(stage, ends[0], pid);
    (void)close(ends[0]);
    result.ms = (unsigned)(clock_ms() - began_ms);
    return result;
}

const char *conform_missing(const struct conform_expectation *expected,
                            const struct conform_servers *servers)
{
    switch (expected->backend) {
    case CONFORM_SQL:
    case CONFORM_BOTH:
        return servers->sql_url ? NULL : "needs --sql URL";
    case CONFORM_ZK:
        return servers->zk_url ? NULL : "needs --zk URL";
    case CONFORM_LOCAL:
    case CONFORM_REDIS:
        break;
    }
    return NULL;
}

bool conform_run(const struct conform_expectation *expected,
                 const struct conform_servers *servers,
                 void (*on_result)(void *ctx, size_t index,
                                   const struct conform_result *result),
                 void *ctx, char *error, size_t error_size)
{
    enum conform_verdict verdicts[CONFORM_PROPERTIES_N];
    struct stage stage;
    bool mended = true;

    if (!stage_open(&stage, expected, servers, error, error_size))
        return false;
    for (size_t i = 0; i < CONFORM_PROPERTIES_N && mended; i++) {
        size_t index = program[i];
        struct conform_result result = check_run(&stage, index);

        verdicts[index] = result.verdict;
        /* A lock of threads is asked what it can do among threads. */
        if (index == CONFORM_X2)
            stage.together = verdicts[CONFORM_X] == CONFORM_HOLDS &&
                             verdicts[CONFORM_X2] == CONFORM_FAILS;
        on_result(ctx, index, &result);
        if (index == CONFORM_M)
            mended = stage_mend(&stage, error, error_size);
    }
    stage_close(&stage);
    return mended;
}
