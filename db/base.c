/*
 * Error texts, clocks, and a bounded wait. See base.h.
 */
#include "db/base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BACKOFF_US_MIN 100
#define BACKOFF_US_MAX 2000

void failure_text(struct store_error *error, const char *format, ...)
{
    va_list args;

    if (!error)
        return;
    va_start(args, format);
    vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
}

enum store_status failure_status(int error)
{
    return error == EACCES || error == EPERM ? STORE_UNFIT : STORE_IO;
}

int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

uint64_t monotonic_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void backoff_begin(struct backoff *backoff, unsigned ms)
{
    uint64_t now_us = monotonic_us();

    /* Two processes need different seeds. */
    if (backoff->random == 0)
        backoff->random = (unsigned)(now_us ^ (uintptr_t)backoff);
    backoff->until_us = now_us + (uint64_t)ms * 1000;
    backoff->tries = 0;
}

bool backoff_wait(struct backoff *backoff)
{
    uint64_t now_us = monotonic_us();
    uint64_t wait_us = BACKOFF_US_MAX;
    struct timespec pause = {0};

    if (now_us >= backoff->until_us ||
        (backoff->hurry && atomic_load(backoff->hurry)))
        return false;
    if (backoff->tries < 4)
        wait_us = BACKOFF_US_MIN * 2u << backoff->tries;
    backoff->tries++;
    wait_us = BACKOFF_US_MIN + (unsigned)rand_r(&backoff->random) %
                                   (wait_us - BACKOFF_US_MIN + 1);
    if (wait_us > backoff->until_us - now_us)
        wait_us = backoff->until_us - now_us;
    pause.tv_nsec = (long)(wait_us * 1000);
    nanosleep(&pause, NULL);
    return true;
}
