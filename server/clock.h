/*
 * Monotonic time. Never a wall clock: durations and time limits must not jump when
 * somebody sets the time.
 */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>

uint64_t clock_us(void);
uint64_t clock_ms(void);

#endif
