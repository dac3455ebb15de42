/* See beside.h. */
#include "server/lab/live/beside.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READY_MS = 10000 };

/* In the child, where nothing may be called that takes a lock. */
static _Noreturn void become(const char *path, char *port, bool is_public,
                             int out, pid_t parent)
{
    char *const argv[] = {"stockade-lab",
                          "serve",
                          "--port",
                          port,
                          is_public ? "--lab-public" : NULL,
                          NULL};

    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() == parent && dup2(out, STDOUT_FILENO) >= 0)
        (void)execv(path, argv);
    _exit(127);
}

bool beside_open(int64_t port, bool is_public, pid_t *pid, char *error,
                 size_t error_size)
{
    char own[PATH_MAX] = "", path[PATH_MAX + 16], number[24], said = '\0';
    pid_t parent = getpid();
    struct pollfd output = {.events = POLLIN};
    int ends[2];

    (void)snprintf(error, error_size, "%s", "it does not begin");
    if (readlink("/proc/self/exe", own, sizeof(own) - 1) < 0 ||
        pipe2(ends, O_CLOEXEC) != 0)
        return false;
    (void)snprintf(path, sizeof(path), "%s/stockade-lab", dirname(own));
    (void)snprintf(number, sizeof(number), "%" PRId64, port);
    *pid = fork();
    if (*pid == 0)
        become(path, number, is_public, ends[1], parent);
    (void)close(ends[1]);
    output.fd = ends[0];
    /* The page says where it is when it listens; the end of its output is its own end. */
    if (*pid > 0 && poll(&output, 1, READY_MS) > 0 &&
        read(ends[0], &said, 1) != 1)
        (void)snprintf(error, error_size,
                       "%s does not run, or port %s is not free", path, number);
    (void)close(ends[0]);
    if (said)
        return true;
    if (*pid > 0)
        beside_close(*pid);
    *pid = 0;
    return false;
}

void beside_close(pid_t pid)
{
    if (pid == 0)
        return;
    (void)kill(pid, SIGTERM);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}
