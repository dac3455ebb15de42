/*
 * The wall clock in milliseconds. Sales open and end by it, and it stands in
 * the rows. Nothing that measures a wait may use it: it can step.
 */
#ifndef STORE_NOW_H
#define STORE_NOW_H

#include <stdint.h>
#include <time.h>

static inline int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

#endif
