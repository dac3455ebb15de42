/* A binary heap of pointers; each timer knows its place in it. See timers.h. */
#include "server/base/timers.h"

#include <stdlib.h>

void timers_release(struct timers *timers)
{
    free(timers->heap);
    *timers = (struct timers){0};
}

static void put(struct timers *timers, size_t place, struct timer *timer)
{
    timers->heap[place] = timer;
    timer->place = place;
}

/* Moves a timer whose time is at PLACE, up or down, to where it belongs. */
static void settle(struct timers *timers, size_t place, struct timer *timer)
{
    struct timer **heap = timers->heap;
    size_t child;

    while (place > 1 && heap[place / 2]->due_us > timer->due_us) {
        put(timers, place, heap[place / 2]);
        place /= 2;
    }
    while ((child = 2 * place) <= timers->n) {
        if (child < timers->n && heap[child + 1]->due_us < heap[child]->due_us)
            child++;
        if (heap[child]->due_us >= timer->due_us)
            break;
        put(timers, place, heap[child]);
        place = child;
    }
    put(timers, place, timer);
}

bool timers_set(struct timers *timers, struct timer *timer, uint64_t due_us)
{
    size_t room = timers->room ? 2 * timers->room : 64;
    struct timer **heap;

    if (timer->place == 0 && timers->n + 1 >= timers->room) {
        heap = realloc(timers->heap, room * sizeof(struct timer *));
        if (!heap)
            return false;
        timers->heap = heap;
        timers->room = room;
    }
    if (timer->place == 0)
        timer->place = ++timers->n;
    timer->due_us = due_us;
    settle(timers, timer->place, timer);
    return true;
}

void timers_cancel(struct timers *timers, struct timer *timer)
{
    size_t place = timer->place;
    struct timer *last;

    if (place == 0)
        return;
    timer->place = 0;
    last = timers->heap[timers->n--];
    if (last != timer)
        settle(timers, place, last);
}

uint64_t timers_next_us(const struct timers *timers)
{
    return timers->n > 0 ? timers->heap[1]->due_us : UINT64_MAX;
}

struct timer *timers_pop(struct timers *timers, uint64_t now_us)
{
    struct timer *timer;

    if (timers->n == 0 || timers->heap[1]->due_us > now_us)
        return NULL;
    timer = timers->heap[1];
    timers_cancel(timers, timer);
    return timer;
}
