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
