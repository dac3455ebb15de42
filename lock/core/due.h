/*
 * Private to lock/: a queue of what is due at points of time; what is due next stands
 * first. Renewals stand in one (held.c), and acquires that are put aside (async/async.c).
 */
#ifndef DLOCK_DUE_H
#define DLOCK_DUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* The first member of what is queued. */
struct dlock_due {
    TAILQ_ENTRY(dlock_due) link;
    uint64_t at; /* changed only while it is out of the queue */
    bool queued;
};

TAILQ_HEAD(dlock_due_queue, dlock_due);

/* Takes DUE out of the queue, if it is there. */
static inline void dlock_due_remove(struct dlock_due_queue *queue,
                                    struct dlock_due *due)
{
    if (due->queued)
        TAILQ_REMOVE(queue, due, link);
    due->queued = false;
}

/* Puts DUE, which is in no queue, where it belongs. The search begins at the tail,
 * because most times are of one length: the one that begins last is due last, and passes
 * nobody. */
static inline void dlock_due_put(struct dlock_due_queue *queue,
                                 struct dlock_due *due)
{
    struct dlock_due *before = TAILQ_LAST(queue, dlock_due_queue);

    while (before != NULL && before->at > due->at)
        before = TAILQ_PREV(before, dlock_due_queue, link);
    if (before != NULL)
        TAILQ_INSERT_AFTER(queue, before, due, link);
    else
        TAILQ_INSERT_HEAD(queue, due, link);
    due->queued = true;
}

#endif
