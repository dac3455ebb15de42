/*
 * The default clock, and waiting with it. A wall clock that is set back would make a lease
 * look longer than the server keeps it, and two holders meet. Nobody sets CLOCK_BOOTTIME,
 * and it goes on while the host is suspended, as the server does, which ends leases
 * meanwhile; CLOCK_MONOTONIC would stand still, and its holder wake up with an old lease.
 */
#include "lock/core/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

enum { NAP_MS_MAX = 3600000 }; /* keeps timespec arithmetic far from overflow */

static uint64_t default_now(void *ctx)
{
    (void)ctx;
    return dlock_clock_real_now();
}

/* An owner id that is not random is no owner id, so there is no way on. */
static void default_random(void *ctx, void *bytes, size_t len)
{
    (void)ctx;
    /* LEN is 256 at most, so that all of it comes; EINTR is a signal of the host's. */
    while (getrandom(bytes, len, 0) != (ssize_t)len)
        if (errno != EINTR)
            abort();
}

static const struct dlock_clock default_clock = {
    .now_ms = default_now,
    .random = default_random,
};

const struct dlock_clock *dlock_clock_default(void)
{
    return &default_clock;
}

uint64_t dlock_clock_now(const struct dlock_clock *clock)
{
    return clock->now_ms(clock->ctx);
}

uint64_t dlock_clock_real_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t dlock_clock_real_until(uint64_t ms, uint64_t limit_ms)
{
    uint64_t until_ms = dlock_clock_real_now() + ms;

    return until_ms < limit_ms ? until_ms : limit_ms;
}

uint64_t dlock_clock_real_left(uint64_t until_ms)
{
    uint64_t now = dlock_clock_real_now();

    return until_ms > now ? until_ms - now : 0;
}

uint64_t dlock_clock_real_part(uint64_t until_ms, size_t parts)
{
    return dlock_clock_real_now() + dlock_clock_real_left(until_ms) / parts;
}

uint64_t dlock_clock_after(uint64_t point, uint64_t ms)
{
    /* A sum that wrapped would be a deadline long ago: a lease without end would have
     * ended. */
    return ms > UINT64_MAX - point ? UINT64_MAX : point + ms;
}

/* "Never" stays never, whatever the clock says. */
uint64_t dlock_clock_until(const struct dlock_clock *clock, uint64_t point)
{
    uint64_t now;

    if (point == UINT64_MAX)
        return UINT64_MAX;
    now = dlock_clock_now(clock);
    return point > now ? point - now : 0;
}

void dlock_clock_sleep_us(uint64_t us)
{
    struct timespec nap = {.tv_sec = (time_t)(us / 1000000),
                           .tv_nsec = (long)(us % 1000000) * 1000};

    /* Signals cut it short: what is left is slept as well, because whoever polls would
     * press a server that does not answer. */
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, &nap) == EINTR)
        continue;
}

/* A condition does not take CLOCK_BOOTTIME: a wait stands still while the host is
 * suspended, and goes on after that for what was left of it. The waiter then looks at the
 * time again; only its work comes later. */
bool dlock_clock_wait(const struct dlock_clock *clock, pthread_cond_t *cond,
                      pthread_mutex_t *mutex, uint64_t until_ms)
{
    uint64_t left_ms = dlock_clock_until(clock, until_ms);
    struct timespec until;

    if (left_ms == 0)
        return false;
    /* A cut wait ends early and says that time is left; the caller looks at its condition
     * and comes again. */
    if (left_ms > NAP_MS_MAX)
        left_ms = NAP_MS_MAX;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(left_ms / 1000);
    until.tv_nsec += (long)(left_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    (void)pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, &until);
    return dlock_clock_until(clock, until_ms) > 0;
}

int dlock_clock_thread(pthread_t *thread, const char *name,
                       void *(*run)(void *), void *arg)
{
    sigset_t all;
    sigset_t before;
    int status;

    (void)sigfillset(&all);
    /* A new thread inherits the mask: were it set by the thread itself, a signal could
     * still come in between. */
    status = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (status != 0)
        return status;
    status = pthread_create(thread, NULL, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status == 0)
        /* A name that fails is no reason to be without the thread. */
        (void)pthread_setname_np(*thread, name);
    return status;
}
