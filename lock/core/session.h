/* Private to lock/: the pieces of a session's calls. */
#ifndef DLOCK_SESSION_H
#define DLOCK_SESSION_H

#include "lock/core/wait.h"

/* DLOCK_OK, or DLOCK_MISUSE: it is in another call, or the parent's of a fork(2). In
 * between, pthread_cancel() does not end this thread, which would leave mutexes locked.
 * If another thread will leave it, the one that entered sets ->cancel_state to
 * DLOCK_CANCEL_STATE_KEPT. */
enum dlock_status dlock_session_enter(struct dlock_session *session);
void dlock_session_leave(struct dlock_session *session);

/*
 * dlock_acquire() of checked arguments, in a session that was entered, in pieces:
 *
 *     if (dlock_session_begin(...))
 *         while (dlock_wait_try(...))
 *             wait, see wait.h;
 *     status = dlock_session_end(...);
 *     dlock_session_leave(session);
 *
 * After the end it cannot be cancelled any more. Both may block for the wire.
 */
bool dlock_session_begin(struct dlock_wait *wait, struct dlock_session *session,
                         const char *name, const struct dlock_terms *terms);
enum dlock_status dlock_session_end(struct dlock_wait *wait,
                                    struct dlock_grant *grant);

/* dlock_release() of checked arguments, in a session that was entered. */
enum dlock_status dlock_session_give(struct dlock_session *session,
                                     const struct dlock_grant *grant);

/* Checks of what a caller hands in, check.c: DLOCK_OK, or DLOCK_MISUSE with a text. Wrong
 * arguments are never undefined behaviour. _null: one that has to be there is NULL. */
enum dlock_status dlock_check_null(void);
enum dlock_status dlock_check_name(const char *name);
enum dlock_status dlock_check_acquire(const struct dlock_session *session,
                                      const char *name,
                                      const struct dlock_terms *terms);
enum dlock_status dlock_check_grant(const struct dlock_session *session,
                                    const struct dlock_grant *grant);
enum dlock_status dlock_check_lease(unsigned lease_ms);
enum dlock_status dlock_check_options(const struct dlock_options *options);

/* The asynchronous calls of a client, async/async.c. NULL: out of memory. After the last
 * session was taken off the list, close waits for the jobs of those that are still being
 * closed, and for the threads. */
struct dlock_async *dlock_async_open(void);
void dlock_async_close(struct dlock_async *async);

/* Before a session goes, with ->closing set: cancels what it is doing and waits until its
 * callback has returned; one that is due for dlock_dispatch() is run here; one that calls
 * this is not waited for. */
void dlock_async_drain(struct dlock_async *async,
                       struct dlock_session *session);

#endif
