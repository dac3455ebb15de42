/* Private to lock/: a session does one thing at a time. A caller enters it, and the
 * thread that does the work leaves it: for an asynchronous call that is another
 * one. */
#ifndef DLOCK_SESSION_H
#define DLOCK_SESSION_H

#include "lock/core/client.h"
#include "lock/core/wait.h"

/*
 * DLOCK_OK, or DLOCK_MISUSE with a text: it is in another call, or was opened
 * before fork(2), by the parent.
 *
 * In between, pthread_cancel() does not end this thread: it would leave mutexes
 * locked, and the session in that call for ever. Where another thread leaves it,
 * session->cancel_state becomes DLOCK_CANCEL_STATE_KEPT before.
 */
enum dlock_status dlock_session_enter(struct dlock_session *session,
                                      const char *call,
                                      struct dlock_error *error);
void dlock_session_leave(struct dlock_session *session);

/* Whether GRANT was given back, or lost, and the session has its name by other
 * grants. False for a lock that knows no owner, because nobody can tell. */
bool dlock_session_superseded(const struct dlock_session *session,
                              const struct dlock_grant *grant);

/* Checks before an acquire or a release begins. */
enum dlock_status dlock_session_may_acquire(const struct dlock_session *session,
                                            const char *name,
                                            const struct dlock_terms *terms,
                                            struct dlock_error *error);
enum dlock_status dlock_session_may_release(const struct dlock_session *session,
                                            const struct dlock_grant *grant,
                                            struct dlock_error *error);

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
                                    struct dlock_grant *grant,
                                    struct dlock_error *error);

/* dlock_release() of checked arguments, in a session that was entered. */
enum dlock_status dlock_session_give(struct dlock_session *session,
                                     const struct dlock_grant *grant,
                                     struct dlock_error *error);

#endif
