/*
 * A clock that stands still until the test moves it, and dice that always fall
 * differently, but the same in every run.
 */
#ifndef FAKE_CLOCK_H
#define FAKE_CLOCK_H

#include <stdatomic.h>

#include "lock/dlock.h"

struct fake_clock {
    struct dlock_clock face; /* give this to libdlock */
    atomic_uint_fast64_t now_ms;
    atomic_uint_fast64_t dice;
};

void fake_clock_init(struct fake_clock *clock, uint64_t now_ms);
void fake_clock_advance(struct fake_clock *clock, uint64_t ms);

#endif
