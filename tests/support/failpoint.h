/*
 * Failpoints: faults on demand at named steps, of the locks and of the store.
 *
 * A failpoint is written
 *
 *     STEP:PHASE=ACTION[*N]       eval-release:before=pause:200*1
 *
 *   STEP     the name of a step, or "any"
 *   PHASE    "before" or "after"
 *   ACTION   pause:MS  the thread stops for that long, as a process would that
 *                      was stopped, then goes on; up to 10 minutes
 *            crash     _exit(FAILPOINT_CRASH_CODE): no cleaning up, no farewell
 *            error     before: not done, as if the server were gone
 *            drop      after: done, but the reply is lost
 *   N        how often; without it, always
 *
 * and a specification is several of them with commas between. Each is counted
 * on its own; where several fit, the first one that is not used up acts.
 */
#ifndef FAILPOINT_H
#define FAILPOINT_H

#include "lock/dlock.h"

#define FAILPOINT_CRASH_CODE 86 /* of a process that ended at a failpoint */

struct failpoints;

/* DLOCK_MISUSE, with a text that says where, for a SPEC that is none. */
enum dlock_status failpoints_open(const char *spec, struct failpoints **points,
                                  struct dlock_error *error);

/* When no thread can come by any more. NULL is fine. */
void failpoints_close(struct failpoints *points);

/* Replaces all failpoints, from any thread; "" = none. On failure: as before. */
enum dlock_status failpoints_set(struct failpoints *points, const char *spec,
                                 struct dlock_error *error);

/* For options.on_step; its on_step_ctx are the points. */
enum dlock_verdict failpoints_hook(void *points, const struct dlock_step *step);

/*
 * The same for steps that are not of this library, a database's, say: does what
 * is written for STEP, and answers DLOCK_FAIL for error and drop.
 */
enum dlock_verdict failpoints_hit(struct failpoints *points, const char *step,
                                  enum dlock_phase phase);

/* How often failpoints have acted since the last set. */
unsigned failpoints_acted(struct failpoints *points);

#endif
