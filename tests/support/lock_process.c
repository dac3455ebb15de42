#include "tests/support/lock_process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/lock_rig.h"

static _Noreturn void die(const char *what)
{
    perror(what);
    abort();
}

/* What it is told; an empty name: give back. */
struct order {
    unsigned wait_ms;
    char name[64];
};

static _Noreturn void serve(int from, int to, const char *strategy)
{
    struct lock_single single = lock_single_open(strategy);
    struct order order;

    while (read(from, &order, sizeof(order)) == sizeof(order)) {
        struct lock_process_report report = {
            .status =
                order.name[0] != '\0'
                    ? lock_single_take_name(&single, order.name, order.wait_ms)
                    : lock_single_give(&single)};

        (void)snprintf(report.text, sizeof(report.text), "%s",
                       single.error.text);
        if (write(to, &report, sizeof(report)) != sizeof(report))
            break;
    }
    /* As the end of a process is: nothing is given back or closed. */
    _exit(0);
}

void lock_process_start(struct lock_process *process, const char *strategy)
{
    pid_t parent = getpid();
    int orders[2];
    int reports[2];

    if (pipe2(orders, O_CLOEXEC) != 0 || pipe2(reports, O_CLOEXEC) != 0)
        die("pipe");
    process->pid = fork();
    if (process->pid < 0)
        die("fork");
    if (process->pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
            _exit(126);
        (void)close(orders[1]);
        (void)close(reports[0]);
        serve(orders[0], reports[1], strategy);
    }
    (void)close(orders[0]);
    (void)close(reports[1]);
    process->to = orders[1];
    process->from = reports[0];
}

static void tell(struct lock_process *process, const struct order *order)
{
    if (write(process->to, order, sizeof(*order)) != sizeof(*order))
        die("lock_process: write");
}

void lock_process_tell_take(struct lock_process *process, const char *name,
                            unsigned wait_ms)
{
    struct order order = {.wait_ms = wait_ms};

    (void)snprintf(order.name, sizeof(order.name), "%s", name);
    tell(process, &order);
}

struct lock_process_report lock_process_report(struct lock_process *process)
{
    struct lock_process_report report;

    if (read(process->from, &report, sizeof(report)) != sizeof(report))
        die("lock_process: read");
    return report;
}

enum dlock_status lock_process_take(struct lock_process *process,
                                    const char *name, unsigned wait_ms)
{
    lock_process_tell_take(process, name, wait_ms);
    return lock_process_report(process).status;
}

enum dlock_status lock_process_give(struct lock_process *process)
{
    tell(process, &(struct order){.wait_ms = 0});
    return lock_process_report(process).status;
}

void lock_process_kill(struct lock_process *process)
{
    if (process->pid == 0)
        return;
    (void)kill(process->pid, SIGKILL);
    (void)waitpid(process->pid, NULL, 0);
    (void)close(process->to);
    (void)close(process->from);
    process->pid = 0;
}

void lock_process_pause(struct lock_process *process)
{
    int status;

    (void)kill(process->pid, SIGSTOP);
    if (waitpid(process->pid, &status, WUNTRACED) != process->pid ||
        !WIFSTOPPED(status))
        die("lock_process: it does not stop");
}

void lock_process_resume(struct lock_process *process)
{
    (void)kill(process->pid, SIGCONT);
}
