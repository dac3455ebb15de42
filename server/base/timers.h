/*
 * Time limits: which of many is due next. The one mechanism for all of them: a
 * client that is slow, an order that has waited for too long, a lock that is to
 * be given back.
 *
 * A struct timers and its timers belong to one thread, which asks when it has to
 * wake up, and then which are due. Setting takes no memory and the same time
 * however many there are; what is cancelled, or due, the logarithm of that.
 */
#ifndef TIMERS_H
#define TIMERS_H

#include <stddef.h>
#include <stdint.h>

/* Part of whatever has a time limit. All zero = not set. */
struct timer {
    uint64_t due_us;            /* monotonic */
    struct timer *below, *next; /* the first of those under it; beside it */
    struct timer **place;       /* that points to it; NULL = not set */
};

/* All zero = none. */
struct timers {
    struct timer *first;
};

/* Sets the timer, or moves it. */
void timers_set(struct timers *timers, struct timer *timer, uint64_t due_us);

/* Not set any more; fine if it was not. */
void timers_cancel(struct timers *timers, struct timer *timer);

/* When the next is due; UINT64_MAX if none is set. */
uint64_t timers_next_us(const struct timers *timers);

/* One that is due by then, which is not set any more; NULL if there is none. */
struct timer *timers_pop(struct timers *timers, uint64_t now_us);

#endif
