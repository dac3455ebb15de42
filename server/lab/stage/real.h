/* What wraps.c has put itself in front of: the C library's own functions, by the
 * names that the linker's --wrap gives them. */
#ifndef STAGE_REAL_H
#define STAGE_REAL_H

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
int __real_poll(struct pollfd fds[], nfds_t n, int timeout_ms);
int __real_sem_wait(sem_t *semaphore);
int __real_sem_post(sem_t *semaphore);
int __real_clock_gettime(clockid_t id, struct timespec *now);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *), void *arg);
int __real_pthread_join(pthread_t thread, void **result);
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

#endif
