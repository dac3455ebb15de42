/*
 * Failpoints: faults on demand at named steps of the locks and of the store, in a
 * running service: `serve --lab-failpoint SPEC`.
 *
 * A failpoint is written
 *
 *     STEP:PHASE=ACTION[*N]       naive-update:before=hold*1
 *
 *   STEP     the name of a step, or "any"
 *   PHASE    "before" or "after"
 *   ACTION   pause:MS  the thread sleeps for that long; up to 10 minutes
 *            hold      the thread waits until the process gets SIGUSR2, for as
 *                      long at most
 *            stop      the whole process stops itself: SIGSTOP, until a SIGCONT
 *            crash     _exit(FAILPOINT_CRASH_CODE): no cleaning up, no farewell
 *            error     before: not done, as if the server were gone
 *            drop      after: done, but the reply is lost
 *   N        how often; without it, always
 *
 * and a specification is several of them with commas between. Each is counted
 * on its own; where several fit, the first one that is not used up acts. Before it
 * acts it says so in the log: whoever waits for it need not guess.
 */
#ifndef FAILPOINT_H
#define FAILPOINT_H

#include "server/lab/base/fail.h"

#define FAILPOINT_CRASH_CODE 86 /* of a process that ended at a failpoint */

struct failpoints;

/* Before other threads start: they are not to take the SIGUSR2. NULL, and a text that says
 * where, for a SPEC that is none. */
struct failpoints *failpoints_open(const char *spec, struct fail *error);

/* When no thread can come by any more. NULL is fine. */
void failpoints_close(struct failpoints *points);

/* For the hooks of locks and of the store, from any thread: does what is to happen before
 * STEP, or after it. Whether the step is to fail. */
bool failpoints_act(struct failpoints *points, const char *step, bool is_after);

#endif
