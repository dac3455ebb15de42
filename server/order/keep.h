/*
 * What a keeper keeps: how long each lock, and which of them it has to look at
 * when it wakes up. Not at all of them: it may have hundreds, and has the desk's
 * mutex while it looks.
 *
 * A lane becomes due by what happens to it, or by time. Whoever does to it what
 * makes it due calls for it; by time each has its next look when it could be due
 * at the earliest as things are. Both take as long with a thousand lanes as with
 * one. (Many lanes that are due by time, but busy, are looked at again and again,
 * every KEEP_LOOK_US.)
 *
 * Not safe for threads: the desk holds its mutex around every call.
 */
#ifndef KEEP_H
#define KEEP_H

#include "server/order/lane.h"

/* So often a keeper looks at the locks it has. */
#define KEEP_LOOK_US 10000

/* Looks are due in steps of KEEP_STEP_US, and stand in a ring of KEEP_STEPS: who
 * is due later than that is looked at in vain whenever it has come round. */
#define KEEP_STEP_US 2000
#define KEEP_STEPS   64

TAILQ_HEAD(lane_list, lane);

struct keep {
    struct lane_list now;               /* to be looked at */
    struct lane_list later[KEEP_STEPS]; /* in a ring */
    uint64_t step;                      /* later[] before it are empty */
};

void keep_init(struct keep *keep);

/* The keeper has got the lane's lock and opened it; it is about to give it
 * back. */
void keep_add(struct keep *keep, struct lane *lane, uint64_t now_us);
void keep_remove(struct lane *lane);

/* Somebody thinks that it is due. False if that is known already, or the lane is
 * none of the keeper's. */
bool keep_call(struct keep *keep, struct lane *lane);

/* One that is due; NULL: there is none. It stays until keep_remove(). */
struct lane *keep_find_due(struct keep *keep, uint64_t now_us);

/* Whether somebody has called since none was found. */
bool keep_is_called(const struct keep *keep);

/* Whether the keeper of a lane should give its lock back now. */
bool keep_is_due(const struct lane *lane, uint64_t now_us);

#endif
