/*
 * Private to lock/: the memory of clients and sessions. What was closed stays
 * readable, and says so, instead of going back to malloc(): a caller that uses
 * it nevertheless is told, where else the behaviour would be undefined.
 *
 * That cannot be promised for ever, or memory would grow without end. So the
 * oldest of the closed ones is used anew when there are many of them. What a
 * program takes is thus what it had open at most, and so many.
 */
#ifndef DLOCK_CLOSED_H
#define DLOCK_CLOSED_H

#include <pthread.h>
#include <stddef.h>

enum { DLOCK_CLOSED_KEPT = 64 }; /* dlock.h promises that */

/* The first member of what is kept. */
struct dlock_closed {
    struct dlock_closed *next;
};

/* All zero but the mutex is an empty list: things of one size. */
struct dlock_closed_list {
    pthread_mutex_t mutex; /* guards everything below */
    size_t n;
    struct dlock_closed *first; /* the one that was closed first */
    struct dlock_closed *last;
};

/* SIZE bytes, all zero, of LIST or new. NULL = no memory. From any thread. */
void *dlock_closed_reuse(struct dlock_closed_list *list, size_t size);

/* Takes what reuse gave. It is not changed until there are many more. */
void dlock_closed_keep(struct dlock_closed_list *list,
                       struct dlock_closed *closed);

#endif
