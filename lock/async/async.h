/*
 * Private to lock/: the asynchronous calls of a client, and the few threads that
 * carry them out. The promises to callers are in dlock_async.h.
 *
 * All functions may be called from any thread.
 */
#ifndef DLOCK_ASYNC_H
#define DLOCK_ASYNC_H

#include "lock/core/session.h"

struct dlock_async;

/* Threads start with the calls that need them. NULL if out of memory. */
struct dlock_async *dlock_async_open(void);

/* After the last session was closed: waits for the threads. NULL is fine. */
void dlock_async_close(struct dlock_async *async);

/*
 * Cancels what SESSION is doing and waits until its callback has returned; one
 * that is due for dlock_dispatch() is run here; the one that calls is not waited
 * for. To be called before a session goes, with ->closing set: from then on no
 * asynchronous call begins in it.
 */
void dlock_async_drain(struct dlock_async *async,
                       struct dlock_session *session);

#endif
