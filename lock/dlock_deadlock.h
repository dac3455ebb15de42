/*
 * libdlock: deadlocks between those that wait for each other; a header of its own, since
 * only programs that include it have the code for it.
 *
 *     dlock_deadlock_register();
 *     ...
 *     struct dlock_terms terms = {.wait_ms = 30000, .deadlock_ms = 500};
 *     status = dlock_acquire(session, "B", &terms, &grant, &error);
 *     if (status == DLOCK_DEADLOCK) ... give back what this session holds, try again
 *
 * A wait that lasts longer than deadlock_ms tells the server what for, and follows from
 * there who waits for whom: the holder of B waits for A, which this session holds. The
 * waiter in the cycle that has told its wait last gets DLOCK_DEADLOCK, with the cycle in
 * the text of the error; the others wait on.
 *
 * Only waits with deadlock_ms are known, and of them those that reach the server. It
 * takes deadlock_ms and about half a second, and two commands a second more. It never
 * tells of a deadlock that was none: the look is repeated until all in the cycle are
 * known to have been in the same wait before the first look and after it. A waiter that
 * is stopped meanwhile, or cannot reach the server, is not heard of, and then nothing is
 * said.
 *
 * For redisson, fenced and fair, on one Redis; elsewhere deadlock_ms is DLOCK_MISUSE,
 * over a cluster too, because none of its nodes knows the locks of all, and by the first
 * look for a user of the server that has no right to it. An owner is a session: a process
 * that holds A in one session, and waits for B in another, is no edge from A to B.
 */
#ifndef DLOCK_DEADLOCK_H
#define DLOCK_DEADLOCK_H

#include "lock/dlock.h"

DLOCK_BEGIN

#define DLOCK_WAITS_BYTES_MAX 160

/* Makes terms.deadlock_ms count: when the program begins, before any other thread
 * calls libdlock. */
void dlock_deadlock_register(void);

/* Follows who waits for whom from the holder of NAME on, for anybody who wants to know;
 * TEXT says it, with labels (dlock_inspect.h): "A is held by P, which waits for B, which
 * is held by Q, which is not known to wait". DLOCK_OK: no deadlock is known;
 * DLOCK_DEADLOCK: there is one, and TEXT has the way into it; else TEXT is left alone,
 * and the status is as of dlock_inspect(). Takes up to 2 s and a command's timeout. */
enum dlock_status dlock_waits_for(struct dlock_session *session,
                                  const char *name,
                                  char text[DLOCK_WAITS_BYTES_MAX],
                                  struct dlock_error *error);

DLOCK_END

#endif
