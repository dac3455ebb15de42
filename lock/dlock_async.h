/*
 * libdlock: asynchronous calls, a part of dlock.h, which includes this.
 *
 * For programs that must not stop while they wait for a lock, such as event
 * loops. The calls are those of dlock.h, made on four threads of the client. A try, a
 * release and a callback take a thread; an acquire that waits takes none: there may be
 * thousands of them, each in a session of its own.
 *
 * From a call that returned DLOCK_OK until its callback, the session is the
 * library's, and answers DLOCK_MISUSE to anything but dlock_cancel(),
 * dlock_session_owner(), dlock_remaining_ms(), and dlock_session_close(), which cancels
 * and waits. Once a close has begun, the session answers DLOCK_MISUSE to an
 * asynchronous call, also from a callback.
 *
 *     static void acquired(void *ctx, struct dlock_session *session,
 *                          enum dlock_status status,
 *                          const struct dlock_grant *grant,
 *                          const struct dlock_error *error)
 *     {
 *         if (status == DLOCK_OK)
 *             tell_loop(ctx, *grant);
 *     }
 *
 *     dlock_acquire_async(session, "stock:42", &terms, acquired, loop, &error);
 */
#ifndef DLOCK_ASYNC_CALLS_H
#define DLOCK_ASYNC_CALLS_H

#include "lock/dlock.h"

DLOCK_BEGIN

/* Is called exactly once, on a thread of the client or by dlock_dispatch(), after the
 * session has become idle again: it may use the session, begin its next call, hand it on
 * or close it; it must not close the client, nor block: it keeps one of four threads.
 * GRANT, NULL unless a lock was acquired, and ERROR, whose text is "" on success, are
 * borrowed for the callback. */
typedef void dlock_done(void *ctx, struct dlock_session *session,
                        enum dlock_status status,
                        const struct dlock_grant *grant,
                        const struct dlock_error *error);

/*
 * As dlock_acquire() and dlock_release(), which tell the statuses that DONE may
 * get. NAME, TERMS and GRANT are copied. All but DLOCK_OK means that DONE will
 * not be called:
 *   DLOCK_MISUSE       wrong arguments, or the session is in another call or
 *                      being closed
 *   DLOCK_UNREACHABLE  no memory or thread
 * Four tries are made at a time, of releases first, but two of them at the most while
 * acquires wait. So while a server hangs, a call may end later than dlock.h says: by a
 * command timeout for each two tries of its kind that are due before it.
 */
enum dlock_status dlock_acquire_async(struct dlock_session *session,
                                      const char *name,
                                      const struct dlock_terms *terms,
                                      dlock_done *done, void *ctx,
                                      struct dlock_error *error);
enum dlock_status dlock_release_async(struct dlock_session *session,
                                      const struct dlock_grant *grant,
                                      dlock_done *done, void *ctx,
                                      struct dlock_error *error);

/*
 * For a program with a loop of its own: a descriptor of the client's, always the same,
 * to poll for reading. From this call on, which must come before the first asynchronous
 * call, callbacks do not run on the client's threads, but where dlock_dispatch() is
 * called. -1: the client is NULL or the parent's of a fork(2), or there is no
 * descriptor left; then callbacks are called as before.
 *
 *     struct pollfd pollers[] = {{.fd = dlock_fd(client), .events = POLLIN}, ...};
 *
 *     while (poll(pollers, n, timeout) >= 0)
 *         if (pollers[0].revents != 0)
 *             dlock_dispatch(client);
 *
 * A lock that was acquired is renewed while its callback is due; but a lease of
 * terms.lease_ms runs, and callbacks that are never called are never freed.
 */
int dlock_fd(struct dlock *client);

/*
 * Calls the callbacks that are due, on this thread, and returns how many there
 * were; 0 also if the client is NULL or the parent's. Those that become due meanwhile
 * are left to the next call: the descriptor stays readable. May be called by several
 * threads, and from a callback.
 *
 * dlock_session_close() calls the session's callback itself if it is due by then,
 * and dlock_close() those of its sessions: so close where you dispatch.
 */
unsigned dlock_dispatch(struct dlock *client);

DLOCK_END

#endif
