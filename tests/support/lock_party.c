#include "tests/support/lock_party.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void die(const char *what)
{
    perror(what);
    abort();
}

static void count_loss(void *ctx, const char *name, const char *owner,
                       enum dlock_loss reason)
{
    struct lock_party *party = ctx;

    (void)name;
    (void)owner;
    (void)reason;
    (void)atomic_fetch_add(&party->lost_n, 1);
}

void lock_party_open(struct lock_party *party,
                     const struct lock_party_terms *terms)
{
    struct dlock_options options = {
        .strategy = terms->strategy,
        .url = terms->url,
        .watchdog_lease_ms = terms->lease_ms,
        .connect_timeout_ms = terms->timeout_ms,
        .command_timeout_ms = terms->timeout_ms,
        .on_lost = count_loss,
        .on_lost_ctx = party,
        .label = terms->label,
    };
    struct dlock_error error = {""};

    *party = (struct lock_party){.deadlock_ms = terms->deadlock_ms};
    if (dlock_open(&options, &party->client, &error) != DLOCK_OK ||
        dlock_session_open(party->client, &party->session, &error) !=
            DLOCK_OK) {
        fprintf(stderr, "lock_party: %s\n", error.text);
        abort();
    }
}

void lock_party_open_at(struct lock_party *party, const char *url,
                        const char *strategy, unsigned lease_ms,
                        unsigned timeout_ms)
{
    const struct lock_party_terms terms = {.strategy = strategy,
                                           .url = url,
                                           .lease_ms = lease_ms,
                                           .timeout_ms = timeout_ms};

    lock_party_open(party, &terms);
}

void lock_party_close(struct lock_party *party)
{
    dlock_session_close(party->session);
    dlock_close(party->client);
}

enum dlock_status lock_party_take(struct lock_party *party, const char *name,
                                  unsigned wait_ms)
{
    struct dlock_terms terms = {.wait_ms = wait_ms,
                                .deadlock_ms = party->deadlock_ms};

    party->error.text[0] = '\0';
    return dlock_acquire(party->session, name, &terms, &party->grant,
                         &party->error);
}

enum dlock_status lock_party_give(struct lock_party *party)
{
    party->error.text[0] = '\0';
    return dlock_release(party->session, &party->grant, &party->error);
}

/* Another process ---------------------------------------------------------- */

/* What it is told; an empty name: give back. */
struct order {
    unsigned wait_ms;
    char name[64];
};

static _Noreturn void serve(int from, int to,
                            const struct lock_party_terms *terms)
{
    struct lock_party party;
    struct order order;

    lock_party_open(&party, terms);
    while (read(from, &order, sizeof(order)) == sizeof(order)) {
        struct lock_process_report report = {
            .status = order.name[0] != '\0'
                          ? lock_party_take(&party, order.name, order.wait_ms)
                          : lock_party_give(&party)};

        (void)snprintf(report.text, sizeof(report.text), "%s",
                       party.error.text);
        if (write(to, &report, sizeof(report)) != sizeof(report))
            break;
    }
    /* As the end of a process is: nothing is given back or closed. */
    _exit(0);
}

void lock_process_start(struct lock_process *process,
                        const struct lock_party_terms *terms)
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
        serve(orders[0], reports[1], terms);
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
