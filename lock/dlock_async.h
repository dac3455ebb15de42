/*
 * libdlock: asynchronous calls, a part of dlock.h, which includes this.
 *
 * For programs that must not stop while they wait for a lock, such as event
 * loops. The calls are those of dlock.h, made on threads of the client, of
 * which there are as many as there are calls under way.
 *
 * From a call that returned DLOCK_OK until its callback, the session is the
 * library's: it does one thing at a time, and answers DLOCK_MISUSE to anything
 * but dlock_cancel(), dlock_session_owner(), dlock_remaining_ms(), and
 * dlock_session_close(), which cancels and waits. Once a close has begun, the
 * session waits for no lock, and answers DLOCK_MISUSE to an asynchronous call:
 * a callback that begins the next call each time comes to an end.
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

#ifdef __cplusplus
extern "C" {
#endif

/* Acquires that may be under way in one client. */
#define DLOCK_ASYNC_ACQUIRES_MAX 63

/*
 * Is called exactly once, on a thread of the client, after the session has
 * become idle again: it may use the session, begin its next call, hand it on or
 * close it; it must not close the client. It may block, but keeps one of the
 * client's threads while it does. GRANT is NULL unless a lock was acquired;
 * GRANT and ERROR, whose text is "" on success, are borrowed for the callback.
 */
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
 *   DLOCK_UNREACHABLE  too many acquires under way, or no memory or thread
 * A release is never one too many.
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

#ifdef __cplusplus
}
#endif

#endif
