/*
 * Private to lock/: a session does one thing at a time. Who wants to use one
 * enters it, and whoever does the work leaves it at its end: for an
 * asynchronous call that is another thread.
 */
#ifndef DLOCK_SESSION_H
#define DLOCK_SESSION_H

#include "lock/strategy.h"

/*
 * DLOCK_OK, or DLOCK_MISUSE with a text: it is in another call, or was opened
 * before fork(2), by the parent.
 *
 * In between, pthread_cancel() does not end this thread: it would leave mutexes
 * locked, and the session in that call for ever. Where the call goes on in
 * another thread, _hand_over ends that.
 */
enum dlock_status dlock_session_enter(struct dlock_session *session,
                                      const char *call,
                                      struct dlock_error *error);
void dlock_session_leave(struct dlock_session *session);
void dlock_session_hand_over(const struct dlock_session *session);

/* Lease time by which a command has to be answered, from now. */
uint64_t dlock_session_limit(const struct dlock_session *session,
                             unsigned timeouts_n, unsigned wait_ms);

/*
 * Whether GRANT was given back, or lost, and the session has its name by other
 * grants. Of a lock that knows no owner, nobody can tell.
 */
bool dlock_session_outlived(const struct dlock_session *session,
                            const struct dlock_grant *grant);

/* What has to be right before an acquire or a release begins. */
enum dlock_status dlock_session_may_acquire(const struct dlock_session *session,
                                            const char *name,
                                            const struct dlock_terms *terms,
                                            struct dlock_error *error);
enum dlock_status dlock_session_may_release(const struct dlock_session *session,
                                            const struct dlock_grant *grant,
                                            struct dlock_error *error);

/*
 * dlock_acquire() and dlock_release() of checked arguments, in a session that
 * was entered; they leave it. An acquire that was cancelled holds nothing.
 */
enum dlock_status dlock_session_acquire(struct dlock_session *session,
                                        const char *name,
                                        const struct dlock_terms *terms,
                                        struct dlock_grant *grant,
                                        struct dlock_error *error);
enum dlock_status dlock_session_release(struct dlock_session *session,
                                        const struct dlock_grant *grant,
                                        struct dlock_error *error);

#endif
