/*
 * The watch: what the step hooks of lock/ and db/, and the answers of their calls, tell
 * the stage: see turns.h. In an actor's process.
 */
#ifndef STAGE_WATCH_H
#define STAGE_WATCH_H

#include "db/store.h"
#include "lock/dlock.h"
#include "server/lab/world/page.h"

dlock_step_hook watch_lock;
dlock_lost_hook watch_lost;
store_step_hook watch_store;

/* There is no lock: nobody comes in, and nobody gives anything back. Set before the first
 * step, as the next ones. */
extern bool watch_no_lock;

/* The process sells in batches: watch_store.c has what is a step then. */
extern bool watch_batched;

/* The step's transaction was let go with VERDICT. */
void watch_commit(enum page_verdict verdict);

/* The strategy counts tokens on from a floor in the database: to read it is a step. */
extern bool watch_floor;

#endif
