/*
 * Lanes: the waiting room of the desk, and its whole queueing policy.
 *
 * combine: a lane for each lock. A worker takes all that wait in one lane, and
 *   the lane is closed to other workers until it gives the lane back; so the
 *   batch grows while a batch is under way, and no two workers of this process
 *   ever compete for one lock.
 * direct: one lane for all, open to every worker, one ticket at a time.
 *
 * Not safe for threads: the desk holds its mutex around every call.
 */
#ifndef LANE_H
#define LANE_H

#include "server/order/order.h"

struct lane;
struct lanes;

struct lanes *lanes_new(bool combine);

/* Every ticket has to be out, every lane given back. NULL is fine. */
void lanes_free(struct lanes *lanes);

/* Appends a ticket; false if there is no memory for its lane. */
bool lanes_push(struct lanes *lanes, struct ticket *ticket);

/* Whether there is something to take: tickets no worker is busy before. */
bool lanes_ready(const struct lanes *lanes);

/*
 * Takes up to N tickets of the lane that has waited longest; the number taken,
 * 0 if no lane is ready. *LANE has to be given back.
 */
size_t lanes_take(struct lanes *lanes, struct ticket *batch[], size_t n,
                  struct lane **lane);

void lanes_give_back(struct lanes *lanes, struct lane *lane);

/* The ticket that has waited longest, in whichever lane; NULL if none waits. */
const struct ticket *lanes_oldest(const struct lanes *lanes);

/* Takes that ticket, to refuse it. */
struct ticket *lanes_evict(struct lanes *lanes);

#endif
