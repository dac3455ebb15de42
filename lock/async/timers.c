/*
 * A binary heap: with thousands that wait, a list in order would be walked with
 * each pause, and a pause may be half a millisecond.
 */
#include "lock/async/pool.h"

#include <stdlib.h>

void dlock_timers_release(struct dlock_timers *timers)
{
    free(timers->jobs);
}

bool dlock_timers_reserve(struct dlock_timers *timers, size_t n)
{
    struct dlock_job **jobs;
    size_t room = timers->room == 0 ? 16 : timers->room;

    if (n <= timers->room)
        return true;
    while (room < n)
        room *= 2;
    jobs = realloc(timers->jobs, room * sizeof(struct dlock_job *));
    if (jobs == NULL)
        return false;
    timers->jobs = jobs;
    timers->room = room;
    return true;
}

static void set(struct dlock_timers *timers, size_t at, struct dlock_job *job)
{
    timers->jobs[at] = job;
    job->timer = at;
}

/* JOB goes to AT, or nearer to the top. */
static void rise(struct dlock_timers *timers, size_t at, struct dlock_job *job)
{
    while (at > 0) {
        struct dlock_job *parent = timers->jobs[(at - 1) / 2];

        if (parent->due_us <= job->due_us)
            break;
        set(timers, at, parent);
        at = (at - 1) / 2;
    }
    set(timers, at, job);
}

/* JOB goes to AT, or farther down. */
static void sink(struct dlock_timers *timers, size_t at, struct dlock_job *job)
{
    size_t child;

    while ((child = 2 * at + 1) < timers->n) {
        if (child + 1 < timers->n &&
            timers->jobs[child + 1]->due_us < timers->jobs[child]->due_us)
            child++;
        if (job->due_us <= timers->jobs[child]->due_us)
            break;
        set(timers, at, timers->jobs[child]);
        at = child;
    }
    set(timers, at, job);
}

void dlock_timers_put(struct dlock_timers *timers, struct dlock_job *job)
{
    rise(timers, timers->n++, job);
}

/* The last one fills the gap, and may have to go either way from there. */
void dlock_timers_remove(struct dlock_timers *timers, struct dlock_job *job)
{
    size_t at = job->timer;
    struct dlock_job *last = timers->jobs[--timers->n];

    if (last == job)
        return;
    sink(timers, at, last);
    if (last->timer == at)
        rise(timers, at, last);
}

struct dlock_job *dlock_timers_first(const struct dlock_timers *timers)
{
    return timers->n > 0 ? timers->jobs[0] : NULL;
}
