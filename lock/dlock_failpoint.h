/*
 * libdlock: failpoints, faults on demand at named steps. A module of its own:
 * nothing in the library uses it. For tests and laboratories; a program that
 * serves customers has no business to include this.
 *
 * A failpoint is written
 *
 *     STEP:PHASE=ACTION[*N]       eval-release:before=pause:200*1
 *
 *   STEP     the name of a step, or "any"
 *   PHASE    "before" or "after"
 *   ACTION   pause:MS  the thread stops for that long, as a process would that
 *                      was stopped, then goes on; up to 10 minutes
 *            crash     _exit(DLOCK_CRASH_CODE): no cleaning up, no farewell
 *            error     before: not done, as if the server were gone
 *            drop      after: done, but the reply is lost
 *   N        how often; without it, always
 *
 * and a specification is several of them with commas between. Each is counted
 * on its own; where several fit, the first one that is not used up acts.
 */
#ifndef DLOCK_FAILPOINT_H
#define DLOCK_FAILPOINT_H

#include "lock/dlock.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DLOCK_CRASH_CODE 86 /* of a process that ended at a failpoint */

struct dlock_failpoints;

/* DLOCK_MISUSE, with a text that says where, for a SPEC that is none. */
enum dlock_status dlock_failpoints_open(const char *spec,
                                        struct dlock_failpoints **points,
                                        struct dlock_error *error);

/* When no thread can come by any more. NULL is fine. */
void dlock_failpoints_close(struct dlock_failpoints *points);

/* Replaces all failpoints, from any thread; "" = none. On failure: as before. */
enum dlock_status dlock_failpoints_set(struct dlock_failpoints *points,
                                       const char *spec,
                                       struct dlock_error *error);

/* For options.on_step; its on_step_ctx are the points. */
enum dlock_verdict dlock_failpoints_hook(void *points,
                                         const struct dlock_step *step);

/*
 * The same for steps that are not of this library, a database's, say: does what
 * is written for STEP, and answers DLOCK_FAIL for error and drop.
 */
enum dlock_verdict dlock_failpoints_hit(struct dlock_failpoints *points,
                                        const char *step,
                                        enum dlock_phase phase);

/* How often failpoints have acted since the last set. */
unsigned dlock_failpoints_acted(struct dlock_failpoints *points);

#ifdef __cplusplus
}
#endif

#endif
