/*
 * Waiting for another process where there is no event to wait for: look, wait
 * a short random time, look again, until a deadline. Short because a commit
 * takes a millisecond; random so that two processes do not meet for ever;
 * bounded because a caller would rather hear "don't know yet" than wait for a
 * process that somebody has stopped.
 */
#ifndef STORE_BACKOFF_H
#define STORE_BACKOFF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct backoff {
    const atomic_bool *hurry; /* no waiting while it is true; NULL = never */
    int64_t until_us;         /* deadline on the monotonic clock */
    uint64_t random;          /* state of the generator; never 0 once begun */
    unsigned tries;
};

/* Begins a wait of at most MS; keeps the generator going. */
void backoff_begin(struct backoff *backoff, unsigned ms);

/* Waits 0.1 .. 2 ms, longer from try to try. False: the time is up, or hurry. */
bool backoff_wait(struct backoff *backoff);

#endif
