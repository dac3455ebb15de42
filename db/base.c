/*
 * Error texts, and a bounded wait. See base.h.
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

bool backoff_wait(struct backoff *backoff)
{
    uint64_t now_us = monotonic_us();
    uint64_t wait_us = BACKOFF_US_MAX;
    struct timespec pause = {0};

    /* Two processes need different seeds. */
    if (backoff->random == 0)
        backoff->random = (unsigned)(now_us ^ (uintptr_t)backoff);
    if (now_us >= backoff->until_us ||
        (backoff->hurry && atomic_load(backoff->hurry)))
        return false;
    /* The longest pause doubles from 0.2 ms, because most commits are over
     * soon. */
    if (backoff->tries < 4)
        wait_us = BACKOFF_US_MIN * 2u << backoff->tries;
    backoff->tries++;
    wait_us = BACKOFF_US_MIN + (unsigned)rand_r(&backoff->random) %
                                   (wait_us - BACKOFF_US_MIN + 1);
    /* The last pause ends with the time: its caller still looks once more. */
    if (wait_us > backoff->until_us - now_us)
        wait_us = backoff->until_us - now_us;
    pause.tv_nsec = (long)(wait_us * 1000);
    nanosleep(&pause, NULL);
    return true;
}
