/*
 * Time limits: which of many is due next. The one mechanism for all of them: a
 * client that is slow, an order that has waited for too long, a lock that is to
 * be given back.
 *
 * A struct timers and its timers belong to one thread, which asks when it has to
 * wake up, and then which are due. A binary heap: setting and cancelling cost
 * the logarithm of how many there are, and setting the latest, which is what
 * limits of equal length do, costs nothing more than an append.
 */
#ifndef TIMERS_H
#define TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Part of whatever has a time limit. All zero = not set. */
struct timer {
    uint64_t due_us; /* monotonic */
    size_t place;    /* in the heap, from 1; 0 = not set */
};

/* All zero = none. */
struct timers {
    struct timer **heap; /* [1 .. n] */
    size_t n, room;
};

/* Frees the heap; the timers are whose they are. */
void timers_release(struct timers *timers);

/* Sets the timer, or moves it. False: no memory, and it is not set. */
bool timers_set(struct timers *timers, struct timer *timer, uint64_t due_us);

/* Not set any more; fine if it was not. */
void timers_cancel(struct timers *timers, struct timer *timer);

/* When the next is due; UINT64_MAX if none is set. */
uint64_t timers_next_us(const struct timers *timers);

/* One that is due by then, which is not set any more; NULL if there is none. */
struct timer *timers_pop(struct timers *timers, uint64_t now_us);

#endif
