/*
 * What the step hooks of lock/ and db/, and a look at what their calls answer, tell
 * the stage: see turns.h. In an actor's process.
 */
#ifndef STAGE_WATCH_H
#define STAGE_WATCH_H

#include "db/store.h"
#include "lock/dlock.h"

dlock_step_hook watch_lock;
store_step_hook watch_store;

/* The servers' urls, "unix:PATH". Set before the first step, as the next one. */
extern const char *watch_nodes[];

/* There is no lock: nobody comes in, and nobody gives anything back. */
extern bool watch_no_lock;

/* The process sells in batches: watch_batch.c has what is a step then. */
extern bool watch_batched;

/* The answer of the next commit gets lost. */
void watch_lose_commit(void);

#endif
