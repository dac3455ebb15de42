/*
 * Private to lock/: the threads of a client that carry out its asynchronous
 * calls. What a caller may rely on stands in dlock.h.
 *
 * All functions may be called from any thread.
 */
#ifndef DLOCK_ASYNC_H
#define DLOCK_ASYNC_H

#include "lock/session.h"

struct dlock_async;

/* Threads start with the calls that need them. NULL if out of memory. */
struct dlock_async *dlock_async_open(void);

/* After the last session was closed: waits for the threads. NULL is fine. */
void dlock_async_close(struct dlock_async *async);

/*
 * Cancels what SESSION is doing and waits until its callback has returned;
 * not if it is that callback that calls. From then on no asynchronous call
 * begins in it. To be called before a session goes.
 */
void dlock_async_drain(struct dlock_async *async,
                       struct dlock_session *session);

#endif
