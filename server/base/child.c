#include "server/base/child.h"

#include <sys/prctl.h>
#include <unistd.h>

pid_t child_fork(int signal)
{
    pid_t parent = getpid(), pid = fork();

    if (pid != 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, signal);
    if (getppid() != parent) /* it has ended meanwhile */
        _exit(127);
    return 0;
}
