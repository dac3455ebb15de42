/*
 * Time. There are two kinds in this library, and they must not be mixed:
 *
 *   lease time   comes from the injected struct dlock_clock; deadlines of
 *                leases and of waits are points of it. Tests let it jump.
 *   real time    CLOCK_BOOTTIME; timeouts of sockets. A test that stops lease
 *                time must not hang a socket. (Sleeps and condition variables
 *                take a span of it, by CLOCK_MONOTONIC: clock.c.)
 *
 * Points of time are uint64_t milliseconds; UINT64_MAX is "never".
 */
#ifndef DLOCK_CLOCK_H
#define DLOCK_CLOCK_H

#include <pthread.h>

#include "lock/dlock.h"

/* To make a mutex or a condition without attributes cannot fail with glibc. */

static inline pthread_mutex_t *dlock_mutex_take(pthread_mutex_t *mutex)
{
    (void)pthread_mutex_lock(mutex);
    return mutex;
}

static inline void dlock_mutex_give(pthread_mutex_t **mutex)
{
    (void)pthread_mutex_unlock(*mutex);
}

/* Takes MUTEX, and gives it back at the end of the block, or where that is left. */
typedef pthread_mutex_t *dlock_taken;
#define DLOCK_LOCKED(mutex)                                                    \
    dlock_taken dlock_locked                                                   \
        __attribute__((cleanup(dlock_mutex_give), unused)) =                   \
            dlock_mutex_take(mutex)

/* CLOCK_BOOTTIME and getrandom(). Static. */
const struct dlock_clock *dlock_clock_default(void);

/* Lease time. */
uint64_t dlock_clock_now(const struct dlock_clock *clock);

/* Real time. */
uint64_t dlock_clock_real_now(void);

/* The end of what may take MS from now, but until LIMIT_MS at most: real time. */
uint64_t dlock_clock_real_until(uint64_t ms, uint64_t limit_ms);

/* Milliseconds of real time until UNTIL_MS; 0 if it has passed. */
uint64_t dlock_clock_real_left(uint64_t until_ms);

/* The end of the first of PARTS equal parts of the time until UNTIL_MS: real time. */
uint64_t dlock_clock_real_part(uint64_t until_ms, size_t parts);

/* POINT + MS, stopping at "never" instead of wrapping. */
uint64_t dlock_clock_after(uint64_t point, uint64_t ms);

/* Milliseconds from now to POINT of lease time; 0 if it has passed. */
uint64_t dlock_clock_until(const struct dlock_clock *clock, uint64_t point);

/* Puts the thread to sleep for US microseconds of real time. */
void dlock_clock_sleep_us(uint64_t us);

/* Waits on COND for as much real time as there is lease time left until UNTIL_MS; false
 * once that is up. The caller loops over its own condition. */
bool dlock_clock_wait(const struct dlock_clock *clock, pthread_cond_t *cond,
                      pthread_mutex_t *mutex, uint64_t until_ms);

/* Starts a thread that takes no signal of the host program, whose handlers would run in the
 * wrong place. NAME, 15 bytes at most, is for people. 0 or an errno. */
int dlock_clock_thread(pthread_t *thread, const char *name,
                       void *(*run)(void *), void *arg);

#endif
