/*
 * A pairing heap: the first that is due is the root, those under a timer are due later, or
 * at the same time. See timers.h.
 *
 * The heap is of pointers in the timers themselves, and not an array: to set one can
 * never fail. Most timers are cancelled before they are due: so the order among those of
 * the heap is only worked out when its first is taken away.
 */
#include "server/base/timers.h"

/* One of two, with the other one under it; either may be NULL. */
static struct timer *meld(struct timer *a, struct timer *b)
{
    struct timer *later = b;

    if (!a || !b)
        return a ? a : b;
    if (b->due_us < a->due_us) {
        later = a;
        a = b;
    }
    later->next = a->below;
    /* Each timer knows the pointer that leads to it: so it can be cancelled
     * from anywhere, without a search. */
    later->place = &a->below;
    if (later->next)
        later->next->place = &later->next;
    a->below = later;
    a->next = NULL;
    return a;
}

/* All of LIST: first in pairs, and then these. One after the other would leave a list as
 * long as it was for the next time. */
static struct timer *meld_all(struct timer *list)
{
    struct timer *pairs = NULL, *first = NULL, *a, *b;

    while ((a = list)) {
        b = a->next;
        list = b ? b->next : NULL;
        a = meld(a, b);
        a->next = pairs;
        pairs = a;
    }
    while ((a = pairs)) {
        pairs = a->next;
        a->next = NULL;
        first = meld(first, a);
    }
    return first;
}

static void add(struct timers *timers, struct timer *more)
{
    timers->first = meld(timers->first, more);
    if (timers->first)
        timers->first->place = &timers->first;
}

void timers_set(struct timers *timers, struct timer *timer, uint64_t due_us)
{
    /* A timer that is moved is taken out first: later or earlier, it may not
     * stand where it did. */
    timers_cancel(timers, timer);
    timer->due_us = due_us;
    add(timers, timer);
}

void timers_cancel(struct timers *timers, struct timer *timer)
{
    struct timer *below = timer->below;

    if (!timer->place)
        return;
    /* The pointer to the timer, whichever it is, now points to the next one
     * beside it: so a root and one of many below are taken out alike. */
    *timer->place = timer->next;
    if (timer->next)
        timer->next->place = timer->place;
    timer->place = NULL;
    timer->below = timer->next = NULL;
    /* The timers below it are due at any time after it: as one heap they go
     * back under the root. */
    add(timers, meld_all(below));
}

uint64_t timers_next_us(const struct timers *timers)
{
    return timers->first ? timers->first->due_us : UINT64_MAX;
}

struct timer *timers_pop(struct timers *timers, uint64_t now_us)
{
    struct timer *timer = timers->first;

    if (!timer || timer->due_us > now_us)
        return NULL;
    timers_cancel(timers, timer);
    return timer;
}
