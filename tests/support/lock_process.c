#include "tests/support/lock_process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "tests/support/lock_rig.h"

static const char what[] = "lock_process";

/* What it is told; an empty name: give back. */
struct order {
    bool asks; /* nothing but what is left */
    unsigned wait_ms;
    char name[64];
};

static _Noreturn void serve(int line, const char *strategy)
{
    struct lock_single single = lock_single_open(strategy);
    struct order order;

    while (read(line, &order, sizeof(order)) == sizeof(order)) {
        struct lock_process_report report = {.status = DLOCK_OK};

        if (order.asks)
            report.left_ms = dlock_remaining_ms(single.session, &single.grant);
        else if (order.name[0] != '\0')
            report.status =
                lock_single_take_name(&single, order.name, order.wait_ms);
        else
            report.status = lock_single_give(&single);
        (void)snprintf(report.text, sizeof(report.text), "%s",
                       single.error.text);
        if (write(line, &report, sizeof(report)) != sizeof(report))
            break;
    }
    /* As the end of a process is: nothing is given back or closed. */
    _exit(0);
}

void lock_process_start(struct lock_process *process, const char *strategy)
{
    pid_t parent = getpid();
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        server_proc_die(what, "socketpair");
    process->proc = (struct server_proc){.what = what, .pid = fork()};
    if (process->proc.pid < 0)
        server_proc_die(what, "fork");
    if (process->proc.pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
            _exit(126);
        (void)close(ends[0]);
        serve(ends[1], strategy);
    }
    (void)close(ends[1]);
    process->line = ends[0];
}

static void tell(struct lock_process *process, const struct order *order)
{
    if (write(process->line, order, sizeof(*order)) != sizeof(*order))
        server_proc_die(what, "write");
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

    if (read(process->line, &report, sizeof(report)) != sizeof(report))
        server_proc_die(what, "read");
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

uint64_t lock_process_left(struct lock_process *process)
{
    tell(process, &(struct order){.asks = true});
    return lock_process_report(process).left_ms;
}

void lock_process_kill(struct lock_process *process)
{
    if (process->proc.pid == 0)
        return;
    server_proc_kill(&process->proc);
    (void)close(process->line);
}
