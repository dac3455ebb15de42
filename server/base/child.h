/* Child processes that do not outlive us, however we end. */
#ifndef CHILD_H
#define CHILD_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/* fork(2), but the child gets SIGNAL when the thread that called this ends. */
pid_t child_fork(int signal);

/* In the child: becomes the program ARGV, in a process group of its own, because Ctrl-C
 * is for us, who end it. No signal is blocked, and those of pipes and children are not
 * ignored. OUT is its standard output and error; -1: nobody hears it. If there is no
 * such program it ends with 127. */
_Noreturn void child_become(char *const argv[], int out);

/* The PATH of the program NAME that lies beside this one. False: that is not known. */
bool child_path(const char *name, char path[PATH_MAX]);

#endif
