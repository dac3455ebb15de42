/*
 * Lanes: the waiting room of the desk, and its whole queueing policy.
 *
 * A lane is a segment of a product, whose lock has to be held, and the orders
 * that wait for it in the order they came; or all segments of a product, and
 * the orders that take from several. It goes round in these states:
 *
 *     LANE_SHUT      nobody of us has the lock
 *     LANE_ENTERING  a keeper is taking it
 *     LANE_OPEN      we have it: what waits may be placed
 *     LANE_LEAVING   a keeper gives it back, once all that was taken is placed
 *
 * While the lane of all segments is not shut, those of the single ones yield to
 * it: they place who waits now, are left, and are not entered. That is no more
 * than one round of each, so that neither starves the other.
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

#include "server/order/holds.h"

enum lane_state { LANE_SHUT, LANE_ENTERING, LANE_OPEN, LANE_LEAVING };

TAILQ_HEAD(ticket_queue, ticket);

struct lane {
    int64_t product_id;
    int64_t segment; /* STORE_SEGMENT_ANY: all of the product's */

    /* The keeper's, from LANE_ENTERING to LANE_LEAVING. */
    struct desk_thread *keeper;
    struct holds holds;     /* what orders are placed under */
    uint64_t looked_us;     /* monotonic: whether others wait for the lock */
    TAILQ_ENTRY(lane) held; /* of those the keeper has */

    /* keep.c's. */
    struct lane_list *look; /* where it waits to be looked at; NULL = nowhere */
    TAILQ_ENTRY(lane) looks;

    /* The flow's: orders that the store has now, linked by next. */
    struct ticket *placing;

    /* How soon the next order is to be expected, see lane_expects_us(). */
    uint64_t pushed_us; /* monotonic; of the last order; 0 = there was none */
    uint64_t gap_us;

    /* lane.c's. */
    enum lane_state state;
    struct ticket_queue tickets; /* that wait */
    size_t waiting;
    bool yields; /* to the lane of all segments */
    bool choosy; /* only the chosen may be placed, see lanes_choose() */
    struct ticket *chosen;
    struct lane_queue *queue; /* where it waits for its turn; NULL = nowhere */
    TAILQ_ENTRY(lane) turn;
    struct lane *next_in_bucket;
};

struct lanes;

struct lanes *lanes_new(void);

/* Every ticket has to be out, every lane shut. NULL is fine. */
void lanes_free(struct lanes *lanes);

/* Appends a ticket to the lane it has chosen, which is returned; NULL: no memory
 * for one. */
struct lane *lanes_push(struct lanes *lanes, struct ticket *ticket);

/*
 * Puts tickets that were taken, a list linked by next, into the lanes that they
 * have chosen by now, before all that wait there: they have waited already. Who
 * is returned, a list as well, has found no memory.
 */
struct ticket *lanes_push_back(struct lanes *lanes, struct ticket *list);

/* The shut lane whose turn it is; it is LANE_ENTERING then. NULL: none. */
struct lane *lanes_enter(struct lanes *lanes);

/* A product's lane that there is, of SEGMENT or of all; else NULL. */
struct lane *lanes_find(struct lanes *lanes, int64_t product_id,
                        int64_t segment);

/* LANE yields from now on, until that of all segments is shut. Up to N of those
 * that wait in it, if it is open, are placed before. */
void lanes_yield(struct lanes *lanes, struct lane *lane, size_t n);

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

/* Whether any waits in LANE. */
bool lane_is_waited_for(const struct lane *lane);

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
