/*
 * The timeline of a live instance: what its threads do with the lock server and the
 * database, written to a file beside their work. An actor is a thread; its steps
 * come from the step hooks of lock/ and db/.
 *
 * No order waits for the file. Steps go into a ring of fixed size, which one thread
 * writes to the file. When that thread or the disk is too slow, steps are dropped; how many
 * are missing, and where, the timeline and the log say. It ends at 1 GiB.
 */
#ifndef TIMELINE_LIVE_H
#define TIMELINE_LIVE_H

#include "db/store.h"
#include "lock/dlock.h"
#include "server/lab/base/fail.h"

struct config;
struct timeline_live;

/* Writes to the file config->lab_timeline, in place of what it had; CONFIG stays as it is.
 * NULL and a text: it cannot be written. */
struct timeline_live *timeline_live_open(const struct config *config,
                                         struct fail *error);

/* For the step hooks. From any thread; never waits for the file. */
void timeline_live_on_lock(struct timeline_live *live,
                           const struct dlock_step *step);
void timeline_live_on_store(struct timeline_live *live,
                            const struct store_step *step);

/* No hook may be called any more. Writes what is in the queue, and the last line. */
void timeline_live_close(struct timeline_live *live);

#endif
