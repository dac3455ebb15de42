#include "tests/support/server_proc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    READY_MS = 60000,
    PORT_MIN = 12000,
    PORTS_N = 20000,
    PORTS_TRIED = 100,
};

void server_proc_die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s: %s\n", what, why, strerror(errno));
    abort();
}

unsigned server_proc_free_port(const char *what)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uint16_t random;

    for (int i = 0; i < PORTS_TRIED && fd >= 0; i++) {
        if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
            break;
        at.sin_port = htons((uint16_t)(PORT_MIN + random % PORTS_N));
        if (bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0) {
            (void)close(fd);
            return ntohs(at.sin_port);
        }
    }
    server_proc_die(what, "no free port");
}

/* In the child, whose output is the pipe. */
static _Noreturn void run(char *const argv[], pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(126);
    execvp(argv[0], argv);
    _exit(127);
}

static pid_t start(const char *what, char *const argv[], int *log)
{
    pid_t parent = getpid();
    int ends[2];
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) != 0)
        server_proc_die(what, "pipe");
    pid = fork();
    if (pid < 0)
        server_proc_die(what, "fork");
    if (pid == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)dup2(ends[1], STDERR_FILENO);
        run(argv, parent);
    }
    (void)close(ends[1]);
    *log = ends[0];
    return pid;
}

/* What was printed so far; the older half is forgotten when it gets long. */
struct output {
    size_t len;
    char text[65536];
};

/* More of it. False: it has come to its end. */
static bool read_more(const char *what, int fd, struct output *output)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    size_t half = sizeof(output->text) / 2;
    ssize_t got;

    if (output->len + 1 >= sizeof(output->text)) {
        memmove(output->text, output->text + half, output->len - half);
        output->len -= half;
    }
    if (poll(&poller, 1, READY_MS) != 1) {
        fprintf(stderr, "%s\n", output->text);
        server_proc_die(what, "it does not get ready");
    }
    got = read(fd, output->text + output->len,
               sizeof(output->text) - output->len - 1);
    if (got <= 0)
        return false;
    output->len += (size_t)got;
    output->text[output->len] = '\0';
    return true;
}

bool server_proc_start(struct server_proc *proc, char *const argv[],
                       const char *ready, const char *if_not)
{
    struct output *output = calloc(1, sizeof(*output));
    bool is_ready = false;
    bool is_not = false;
    int log;

    if (output == NULL)
        server_proc_die(proc->what, "calloc");
    proc->pid = start(proc->what, argv, &log);
    while (!is_ready && !is_not) {
        if (!read_more(proc->what, log, output)) {
            fprintf(stderr, "%s\n", output->text);
            server_proc_die(proc->what, "it has ended; is it installed?");
        }
        is_ready = strstr(output->text, ready) != NULL;
        is_not = if_not != NULL && strstr(output->text, if_not) != NULL;
    }
    /* What it logs from now on goes nowhere; it does not mind. */
    (void)close(log);
    free(output);
    if (is_not)
        server_proc_kill(proc);
    return is_ready;
}

void server_proc_run(const char *what, char *const argv[])
{
    struct output *output = calloc(1, sizeof(*output));
    int status = 0;
    pid_t pid;
    int log;

    if (output == NULL)
        server_proc_die(what, "calloc");
    pid = start(what, argv, &log);
    while (read_more(what, log, output))
        ;
    (void)close(log);
    if (waitpid(pid, &status, 0) != pid || status != 0) {
        fprintf(stderr, "%s\n", output->text);
        server_proc_die(what, "it has failed; is it installed?");
    }
    free(output);
}

void server_proc_kill(struct server_proc *proc)
{
    if (proc->pid == 0)
        return;
    (void)kill(proc->pid, SIGKILL);
    (void)waitpid(proc->pid, NULL, 0);
    proc->pid = 0;
}

void server_proc_pause(const struct server_proc *proc)
{
    int status;

    (void)kill(proc->pid, SIGSTOP);
    /* It takes a moment; only then is nothing answered any more. */
    if (waitpid(proc->pid, &status, WUNTRACED) != proc->pid ||
        !WIFSTOPPED(status))
        server_proc_die(proc->what, "it does not stop");
}

void server_proc_resume(const struct server_proc *proc)
{
    (void)kill(proc->pid, SIGCONT);
}

bool server_proc_do(struct server_proc *proc, const char *how)
{
    if (strcmp(how, "kill") == 0)
        server_proc_kill(proc);
    else if (strcmp(how, "pause") == 0)
        server_proc_pause(proc);
    else if (strcmp(how, "resume") == 0)
        server_proc_resume(proc);
    else
        return false;
    return true;
}
