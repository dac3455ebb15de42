/*
 * A child is bound to us twice: the kernel signals it when the thread that forked it ends,
 * and it has a process group of its own, so that a Ctrl-C in the terminal is ours alone.
 */
#include "server/base/child.h"

#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

pid_t child_fork(int signal)
{
    pid_t parent = getpid(), pid = fork();

    if (pid != 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, signal);
    /* A parent that ended before the prctl() sends no signal any more. */
    if (getppid() != parent) /* it has ended meanwhile */
        _exit(127);
    return 0;
}

void child_become(char *const argv[], int out)
{
    /* Between fork() and exec() only calls that are safe in a signal handler:
     * another thread may have held a mutex of libc at the fork. */
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t none;

    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)signal(SIGCHLD, SIG_DFL); /* it may wait for children of its own */
    (void)setpgid(0, 0);
    if (dup2(null, STDIN_FILENO) >= 0 &&
        dup2(out < 0 ? null : out, STDOUT_FILENO) >= 0 &&
        dup2(STDOUT_FILENO, STDERR_FILENO) >= 0)
        (void)execvp(argv[0], argv);
    _exit(127);
}

bool child_path(const char *name, char path[PATH_MAX])
{
    char own[PATH_MAX] = "";
    bool is_known = readlink("/proc/self/exe", own, sizeof(own) - 1) > 0;

    return snprintf(path, PATH_MAX, "%s/%s", dirname(own), name) < PATH_MAX &&
           is_known;
}
