/*
 * Private to lock/: what is kept for the whole process, and what becomes of it in a
 * child of fork(2), which has a copy of it and none of the threads that work on it.
 *
 * One handler sees to all of it. A client needs none, because every call on it is
 * refused in the child, by a count of forks. Asking for the process id each time
 * would be a system call.
 */
#ifndef DLOCK_FORKS_H
#define DLOCK_FORKS_H

#include <pthread.h>
#include <stdbool.h>

/* The mutex is held during the fork, so the child has no half of a change. */
struct dlock_shared {
    pthread_mutex_t *mutex;
    void (*forget)(void); /* in the child, with the mutex; NULL = keeps all */
};

extern const struct dlock_shared dlock_sessions_shared; /* dlock.c */
extern const struct dlock_shared dlock_lookup_shared;   /* dial/lookup.c */
extern const struct dlock_shared dlock_process_shared;  /* lock_process.c */

/* From now on forks are seen. False: no memory for it. */
bool dlock_forks_watch(void);

/* How often the processes from the first one that watched to this one have forked. A
 * client that was opened before the last fork is the parent's. */
unsigned dlock_forks(void);

#endif
