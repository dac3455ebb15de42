/* Private to lock/: a session does one thing at a time. A caller enters it, and the
 * thread that does the work leaves it: for an asynchronous call that is another
 * one. */
#ifndef DLOCK_SESSION_H
#define DLOCK_SESSION_H

#include "lock/core/wait.h"

/*
 * DLOCK_OK, or DLOCK_MISUSE with a text: it is in another call, or was opened
 * before fork(2), by the parent.
 *
 * In between, pthread_cancel() does not end this thread: it would leave mutexes
 * locked, and the session in that call for ever. Where another thread leaves it,
 * session->cancel_state becomes DLOCK_CANCEL_STATE_KEPT before.
 */
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
 * After the end it cannot be cancelled any more. An acquire that was cancelled
 * before holds nothing. Both may block for the wire.
 */
bool dlock_session_begin(struct dlock_wait *wait, struct dlock_session *session,
                         const char *name, const struct dlock_terms *terms);
enum dlock_status dlock_session_end(struct dlock_wait *wait,
                                    struct dlock_grant *grant);

/* dlock_release() of checked arguments, in a session that was entered. */
enum dlock_status dlock_session_give(struct dlock_session *session,
                                     const struct dlock_grant *grant);

/* Checks of what a caller hands in: DLOCK_OK, or DLOCK_MISUSE with a text that says what
 * is wrong. Wrong arguments are never undefined behaviour (check.c). */

/* An argument that has to be there is NULL. */
enum dlock_status dlock_check_null(void);
enum dlock_status dlock_check_name(const char *name);

enum dlock_status dlock_check_acquire(const struct dlock_session *session,
                                      const char *name,
                                      const struct dlock_terms *terms);

/* Whether it is a grant of SESSION, as far as can be seen. */
enum dlock_status dlock_check_grant(const struct dlock_session *session,
                                    const struct dlock_grant *grant);

/* A lease that is given outright, so 0 is none. */
enum dlock_status dlock_check_lease(unsigned lease_ms);
enum dlock_status dlock_check_options(const struct dlock_options *options);

/* The asynchronous calls of a client, and the few threads that carry them out
 * (async/async.c); from any thread. The promises to callers are in dlock_async.h. */

/* Threads start with the calls that need them. NULL if out of memory. */
struct dlock_async *dlock_async_open(void);

/* After the last session was taken off the list: waits for the jobs of those that are
 * still being closed, and for the threads. */
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
