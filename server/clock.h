/*
 * Monotonic time, and waiting by it. Never a wall clock: durations and
 * deadlines must not jump when somebody sets the time.
 */
#ifndef CLOCK_H
#define CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

uint64_t clock_us(void);
uint64_t clock_ms(void);

/* A condition whose timed waits go by the monotonic clock. */
void clock_cond_init(pthread_cond_t *cond);

/*
 * Waits for COND, made by clock_cond_init(), until DUE_MS at the latest. False:
 * it is that late. May wake up for no reason, as all conditions do.
 */
bool clock_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex,
                      uint64_t due_ms);

#endif
