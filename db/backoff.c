/*
 * Bounded, jittered polling. See backoff.h.
 */
#include "db/backoff.h"

#include <time.h>

#define BACKOFF_US_MIN 100
#define BACKOFF_US_MAX 2000

static int64_t monotonic_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* xorshift64: any seed but 0 will do; two processes need different ones. */
static uint64_t next_random(struct backoff *backoff)
{
    backoff->random ^= backoff->random << 13;
    backoff->random ^= backoff->random >> 7;
    backoff->random ^= backoff->random << 17;
    return backoff->random;
}

void backoff_begin(struct backoff *backoff, unsigned ms)
{
    int64_t now_us = monotonic_us();

    if (backoff->random == 0)
        backoff->random = ((uint64_t)now_us << 20 ^ (uintptr_t)backoff) | 1;
    backoff->until_us = now_us + (int64_t)ms * 1000;
    backoff->tries = 0;
}

bool backoff_wait(struct backoff *backoff)
{
    int64_t left_us = backoff->until_us - monotonic_us();
    int64_t wait_us = BACKOFF_US_MAX;
    struct timespec pause = {0};

    if (left_us <= 0 || (backoff->hurry && atomic_load(backoff->hurry)))
        return false;
    if (backoff->tries < 4)
        wait_us = (int64_t)BACKOFF_US_MIN * 2 << backoff->tries;
    backoff->tries++;
    wait_us =
        BACKOFF_US_MIN + (int64_t)(next_random(backoff) %
                                   (uint64_t)(wait_us - BACKOFF_US_MIN + 1));
    if (wait_us > left_us)
        wait_us = left_us;
    pause.tv_nsec = (long)(wait_us * 1000);
    nanosleep(&pause, NULL);
    return true;
}
