/*
 * Lanes: the waiting room of the desk, and its whole queueing policy.
 *
 * A lane is a lock, and the orders that wait for it in the order they came. It
 * goes round in these states:
 *
 *     LANE_SHUT      nobody of us has the lock
 *     LANE_ENTERING  a keeper is taking it
 *     LANE_OPEN      we have it: what waits may be placed
 *     LANE_LEAVING   a keeper gives it back, once all that was taken is placed
 *
 * Two queues, in which lanes stand by turns so that none is forgotten: shut
 * lanes where orders wait, for a keeper; and open lanes where orders wait and
 * none is being placed, for the store. A third goes through all orders by age,
 * for those who take one order at a time, and for the sweeper.
 *
 * Not safe for threads: the desk holds its mutex around every call.
 */
#ifndef LANE_H
#define LANE_H

#include <sys/queue.h>

#include "server/order/hold.h"

enum lane_state { LANE_SHUT, LANE_ENTERING, LANE_OPEN, LANE_LEAVING };

#define LANE_LOCK_BYTES 64

struct lane {
    char lock[LANE_LOCK_BYTES]; /* its name */

    /* The keeper's, from LANE_ENTERING to LANE_LEAVING. */
    struct desk_thread *keeper;
    struct hold hold;
    struct store_fence fence; /* what orders are placed under */
    uint64_t looked_us;       /* monotonic: whether others wait for the lock */
    TAILQ_ENTRY(lane) held;   /* of those the keeper has */

    /* The flow's: orders that the store has now, linked by next. */
    struct ticket *placing;

    /* How soon the next order is to be expected, see lane_expects_us(). */
    uint64_t pushed_us; /* monotonic; of the last order; 0 = there was none */
    uint64_t gap_us;

    /* lane.c's. */
    int64_t key;
    enum lane_state state;
    struct ticket *first, **last;
    size_t waiting;
    bool choosy; /* only the chosen may be placed, see lanes_choose() */
    struct ticket *chosen;
    struct lane_queue *queue; /* where it waits for its turn; NULL = nowhere */
    TAILQ_ENTRY(lane) turn;
    struct lane *next_in_bucket;
};

struct lanes;

/* The name of the lock that an order for a product has to wait for. */
void lane_lock_name(int64_t product_id, char name[LANE_LOCK_BYTES]);

struct lanes *lanes_new(void);

/* Every ticket has to be out, every lane shut. NULL is fine. */
void lanes_free(struct lanes *lanes);

/* Appends a ticket; its lane, or NULL if there is no memory for one. */
struct lane *lanes_push(struct lanes *lanes, struct ticket *ticket);

/* Puts tickets back, a list linked by next, before all that wait in LANE. */
void lanes_push_back(struct lanes *lanes, struct lane *lane,
                     struct ticket *list);

/* The shut lane whose turn it is; it is LANE_ENTERING then. NULL: none. */
struct lane *lanes_enter(struct lanes *lanes);

/* From now on all that wait in it, and all to come, may be placed. */
void lanes_open(struct lanes *lanes, struct lane *lane);

/*
 * The same for up to N that wait now, and no others. They are chosen now, and
 * do not wait any more; LANE is opened for them later.
 */
void lanes_choose(struct lanes *lanes, struct lane *lane, size_t n);

/* No more orders of it are taken. */
void lanes_leave(struct lanes *lanes, struct lane *lane);

/* The lock is given back, or was not got. */
void lanes_shut(struct lanes *lanes, struct lane *lane);

/*
 * Takes orders of the open lane whose turn it is: up to N of them, or all that
 * were chosen. They are a list in lane->placing. NULL if no lane is open and
 * waited for. lanes_placed() has to follow.
 */
struct lane *lanes_take(struct lanes *lanes, size_t n);

/* What was taken of LANE is placed: it may have its turn again. */
void lanes_placed(struct lanes *lanes, struct lane *lane);

/* Whether a lane has to be entered; whether one is open and waited for. */
bool lanes_wanted(const struct lanes *lanes);
bool lanes_flowing(const struct lanes *lanes);

/* The ticket that has waited longest, in whichever lane; NULL if none waits. */
const struct ticket *lanes_oldest(const struct lanes *lanes);

/* Takes that ticket: to serve it alone, or to refuse it. NULL if none waits. */
struct ticket *lanes_pop(struct lanes *lanes);

/* Whether none is being placed, or has to be before the lane can be left. */
bool lane_is_clear(const struct lane *lane);

/* Takes those that wait in LANE and were submitted before, as a list. */
struct ticket *lanes_pop_before(struct lanes *lanes, struct lane *lane,
                                uint64_t submitted_us);

/* Forgets lanes that nobody needs and had no order since BEFORE_US. */
void lanes_forget(struct lanes *lanes, uint64_t before_us);

/*
 * The usual time between two orders of the lane, lately; UINT64_MAX if it is
 * not known: before the second one, and again after LANE_GAP_MAX_US without.
 */
#define LANE_GAP_MAX_US 1000000
uint64_t lane_expects_us(const struct lane *lane);

#endif
