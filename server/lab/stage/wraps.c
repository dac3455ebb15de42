/*
 * The calls that block a thread, tell the time or give random bytes, as the linker
 * hands them to us (--wrap, see the Makefile): an actor's become turns.c's, all
 * others go to the C library. Nothing of lock/, db/ or server/ knows.
 */
#include <errno.h>
#include <stdint.h>

#include "server/lab/stage/real.h"
#include "server/lab/stage/turns.h"

enum { REPLY_MS_MAX = 30000 }; /* a redis-server that takes longer is broken */

static uint64_t us_of(const struct timespec *at)
{
    return (uint64_t)at->tv_sec * 1000000 + (uint64_t)at->tv_nsec / 1000;
}

/* Threads ------------------------------------------------------------------- */

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *), void *arg)
{
    return turns_on ? turns_thread_create(thread, attr, run, arg)
                    : __real_pthread_create(thread, attr, run, arg);
}

int __wrap_pthread_setname_np(pthread_t thread, const char *name)
{
    if (turns_on)
        turns_thread_name(thread, name);
    return __real_pthread_setname_np(thread, name);
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
    if (!turns_on)
        return __real_pthread_join(thread, result);
    turns_thread_join(thread);
    return 0;
}

/* Waiting for each other ---------------------------------------------------- */

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (!turns_on)
        return __real_pthread_mutex_lock(mutex);
    turns_mutex_lock(mutex);
    return 0;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    return turns_on ? turns_cond_wait(cond, mutex, PAGE_NEVER)
                    : __real_pthread_cond_wait(cond, mutex);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until)
{
    return turns_on ? turns_cond_wait(cond, mutex, us_of(until))
                    : __real_pthread_cond_timedwait(cond, mutex, until);
}

int __wrap_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  clockid_t id, const struct timespec *until)
{
    return turns_on ? turns_cond_wait(cond, mutex, us_of(until))
                    : __real_pthread_cond_clockwait(cond, mutex, id, until);
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    if (!turns_on)
        return __real_pthread_cond_signal(cond);
    turns_cond_wake(cond, false);
    return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
    if (!turns_on)
        return __real_pthread_cond_broadcast(cond);
    turns_cond_wake(cond, true);
    return 0;
}

int __wrap_sem_wait(sem_t *semaphore)
{
    if (!turns_on)
        return __real_sem_wait(semaphore);
    turns_sem_wait(semaphore);
    return 0;
}

int __wrap_sem_post(sem_t *semaphore)
{
    int status = __real_sem_post(semaphore);

    if (turns_on)
        turns_sem_posted(semaphore);
    return status;
}

/* Time and chance ----------------------------------------------------------- */

int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
    uint64_t us;

    if (!turns_on)
        return __real_clock_gettime(id, now);
    us = turns_now_us();
    now->tv_sec = (time_t)(us / 1000000);
    now->tv_nsec = (long)(us % 1000000) * 1000;
    return 0;
}

int __wrap_nanosleep(const struct timespec *nap, struct timespec *left)
{
    if (!turns_on)
        return __real_nanosleep(nap, left);
    turns_sleep(us_of(nap));
    return 0;
}

int __wrap_clock_nanosleep(clockid_t id, int flags, const struct timespec *nap,
                           struct timespec *left)
{
    if (!turns_on || flags != 0)
        return __real_clock_nanosleep(id, flags, nap, left);
    turns_sleep(us_of(nap));
    return 0;
}

ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags)
{
    if (!turns_on)
        return __real_getrandom(bytes, size, flags);
    turns_random(bytes, size);
    return (ssize_t)size;
}

/* Sockets ------------------------------------------------------------------- */

/* A thread in the middle of a step waits for what is sure to come. */
int __wrap_poll(struct pollfd fds[], nfds_t n, int timeout_ms)
{
    if (!turns_on)
        return __real_poll(fds, n, timeout_ms);
    if (turns_in_step() && n == 1)
        return __real_poll(fds, n, timeout_ms == 0 ? 0 : REPLY_MS_MAX);
    if (turns_asks_many()) {
        for (nfds_t i = 0; i < n; i++)
            if (fds[i].fd >= 0)
                (void)__real_poll(&fds[i], 1, REPLY_MS_MAX);
        return __real_poll(fds, n, 0);
    }
    if (n == 1 && timeout_ms == 0)
        return turns_may_read() ? __real_poll(fds, n, 0) : 0;
    return turns_poll(fds, n, timeout_ms);
}

ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags)
{
    ssize_t got;

    if (!turns_on || (flags & MSG_PEEK))
        return __real_recv(fd, bytes, size, flags);
    if (turns_in_step()) {
        struct pollfd poller = {.fd = fd, .events = POLLIN};

        (void)__real_poll(&poller, 1, REPLY_MS_MAX);
    } else if (!turns_may_read()) {
        errno = EAGAIN;
        return -1;
    }
    got = __real_recv(fd, bytes, size, flags | MSG_DONTWAIT);
    /* The reply of a step is heard as its text: a server that does not know a script
     * yet answers twice. */
    if (got > 0 && !turns_in_step())
        turns_hear(bytes, (size_t)got);
    return got;
}
