/* A child process that does not outlive us, however we end. */
#ifndef CHILD_H
#define CHILD_H

#include <sys/types.h>

/* fork(2), but the child gets SIGNAL when the thread that called this ends. */
pid_t child_fork(int signal);

#endif
