/* CLOCK_MONOTONIC in the units that the service counts in. */
#include "server/clock.h"

#include <time.h>

uint64_t clock_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

uint64_t clock_ms(void)
{
    return clock_us() / 1000u;
}

void clock_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

bool clock_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex,
                      uint64_t due_ms)
{
    struct timespec until = {.tv_sec = (time_t)(due_ms / 1000),
                             .tv_nsec = (long)(due_ms % 1000) * 1000000};

    return pthread_cond_timedwait(cond, mutex, &until) == 0;
}
