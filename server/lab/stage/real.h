/*
 * Functions that the linker has put ours in front of (--wrap, see the Makefile): a
 * call of F comes to __wrap_F, and __real_F is F itself.
 */
#ifndef STAGE_REAL_H
#define STAGE_REAL_H

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>

/* Declares both, as F is declared. */
#define WRAPPED(f) __typeof__(f) __real_##f, __wrap_##f

/* The C library's, all in wraps.c. */
WRAPPED(pthread_create);
WRAPPED(pthread_setname_np);
WRAPPED(pthread_join);
WRAPPED(pthread_mutex_lock);
WRAPPED(pthread_cond_wait);
WRAPPED(pthread_cond_clockwait);
WRAPPED(pthread_cond_signal);
WRAPPED(pthread_cond_broadcast);
WRAPPED(sem_wait);
WRAPPED(sem_post);
WRAPPED(clock_gettime);
WRAPPED(nanosleep);
WRAPPED(clock_nanosleep);
WRAPPED(getrandom);
WRAPPED(poll);
WRAPPED(recv);

#endif
