/*
 * The lanes in their table, the two queues, and the list by age. A ticket stands
 * in its lane and in that list, and is taken out of both without a search.
 */
#include "server/order/lane.h"

#include <assert.h>
#include <stdlib.h>

#include "server/order/lane_table.h"

/* Gaps between orders are averaged with this weight of the past. */
#define LANE_GAP_PAST 7
#define LANE_GAP_ALL  8

TAILQ_HEAD(lane_queue, lane);

struct lanes {
    struct lane_queue shut, open;
    struct ticket_queue ages; /* all that wait, the oldest first */
    struct lane_table table;
};

/* ---- lanes ---------------------------------------------------------------- */

struct lanes *lanes_new(void)
{
    struct lanes *lanes = calloc(1, sizeof(*lanes));

    if (lanes) {
        TAILQ_INIT(&lanes->shut);
        TAILQ_INIT(&lanes->open);
        TAILQ_INIT(&lanes->ages);
    }
    return lanes;
}

void lanes_free(struct lanes *lanes)
{
    if (!lanes)
        return;
    lanes_forget(lanes, UINT64_MAX);
    free(lanes);
}

struct lane *lanes_find(struct lanes *lanes, int64_t product_id,
                        int64_t segment)
{
    return lane_table_find(&lanes->table, product_id, segment);
}

/* Whether somebody takes, or has, the locks of all segments. */
static bool is_gathered(struct lanes *lanes, int64_t product_id)
{
    const struct lane *all = lanes_find(lanes, product_id, STORE_SEGMENT_ANY);

    return all && all->state != LANE_SHUT;
}

/* The lane that a ticket has chosen; NULL: no memory. */
static struct lane *lane_of(struct lanes *lanes, const struct ticket *ticket)
{
    int64_t product_id = ticket->order.product_id;
    struct lane *lane = lanes_find(lanes, product_id, ticket->choice.lane);

    if (lane)
        return lane;
    lane = lane_table_add(&lanes->table, product_id, ticket->choice.lane);
    if (lane)
        lane->yields = is_gathered(lanes, product_id);
    return lane;
}

bool lane_is_waited_for(const struct lane *lane)
{
    return !TAILQ_EMPTY(&lane->tickets);
}

void lanes_forget(struct lanes *lanes, uint64_t before_us)
{
    lane_table_forget(&lanes->table, before_us);
}

/* ---- the queues ----------------------------------------------------------- */

/* Whether there are orders that may be placed. Who was chosen is placed before
 * the lane is left. */
static bool is_flowing(const struct lane *lane)
{
    if (lane->placing || lane->state == LANE_SHUT ||
        lane->state == LANE_ENTERING)
        return false;
    return lane->chosen || (lane_is_waited_for(lane) && !lane->choosy &&
                            lane->state == LANE_OPEN);
}

/* The queue that a lane belongs into as things are. */
static struct lane_queue *queue_for(struct lanes *lanes,
                                    const struct lane *lane)
{
    if (lane->state == LANE_SHUT && lane_is_waited_for(lane) && !lane->yields)
        return &lanes->shut;
    return is_flowing(lane) ? &lanes->open : NULL;
}

/* To be called after each change. Who stays in a queue keeps the place. */
static void enqueue(struct lanes *lanes, struct lane *lane)
{
    struct lane_queue *queue = queue_for(lanes, lane);

    if (lane->queue == queue)
        return;
    if (lane->queue)
        TAILQ_REMOVE(lane->queue, lane, turn);
    if (queue)
        TAILQ_INSERT_TAIL(queue, lane, turn);
    lane->queue = queue;
}

bool lanes_wanted(const struct lanes *lanes)
{
    return !TAILQ_EMPTY(&lanes->shut);
}

bool lanes_flowing(const struct lanes *lanes)
{
    return !TAILQ_EMPTY(&lanes->open);
}

struct lane *lanes_enter(struct lanes *lanes)
{
    struct lane *lane = TAILQ_FIRST(&lanes->shut);

    if (!lane)
        return NULL;
    lane->state = LANE_ENTERING;
    enqueue(lanes, lane);
    return lane;
}

void lanes_open(struct lanes *lanes, struct lane *lane)
{
    lane->state = LANE_OPEN;
    enqueue(lanes, lane);
}

bool lane_is_clear(const struct lane *lane)
{
    return !lane->chosen && !lane->placing;
}

void lanes_leave(struct lanes *lanes, struct lane *lane)
{
    assert(lane->state == LANE_OPEN || lane->state == LANE_LEAVING);
    lane->state = LANE_LEAVING;
    enqueue(lanes, lane);
}

/* The others have their turn before the lane of all segments has it again. */
static void end_yielding(struct lanes *lanes, int64_t product_id)
{
    struct lane *lane;

    for (int64_t i = 0; i < STORE_SEGMENTS_MAX; i++) {
        lane = lanes_find(lanes, product_id, i);
        if (!lane)
            continue;
        lane->yields = false;
        enqueue(lanes, lane);
    }
}

void lanes_shut(struct lanes *lanes, struct lane *lane)
{
    lane->state = LANE_SHUT;
    lane->choosy = false;
    if (lane->segment == STORE_SEGMENT_ANY)
        end_yielding(lanes, lane->product_id);
    enqueue(lanes, lane);
}

void lanes_yield(struct lanes *lanes, struct lane *lane, size_t n)
{
    lane->yields = true;
    if (lane->state == LANE_OPEN && !lane->choosy)
        lanes_choose(lanes, lane, n);
    enqueue(lanes, lane);
}

void lanes_placed(struct lanes *lanes, struct lane *lane)
{
    lane->placing = NULL;
    enqueue(lanes, lane);
}

/* ---- tickets -------------------------------------------------------------- */

/* Where it was before, in a list that goes on after EARLIER (NULL: begins). */
static void ages_add_again(struct lanes *lanes, struct ticket *earlier,
                           struct ticket *ticket)
{
    struct ticket *next =
        earlier && earlier->submitted_us <= ticket->submitted_us
            ? TAILQ_NEXT(earlier, age)
            : TAILQ_FIRST(&lanes->ages);

    while (next && next->submitted_us < ticket->submitted_us)
        next = TAILQ_NEXT(next, age);
    if (next)
        TAILQ_INSERT_BEFORE(next, ticket, age);
    else
        TAILQ_INSERT_TAIL(&lanes->ages, ticket, age);
}

static void take_out(struct lanes *lanes, struct ticket *ticket)
{
    struct lane *lane = ticket->lane;

    TAILQ_REMOVE(&lane->tickets, ticket, turn);
    TAILQ_REMOVE(&lanes->ages, ticket, age);
    lane->waiting--;
    enqueue(lanes, lane);
}

/* One gap more. A pause says nothing about how busy the times between are. */
static void note_gap(struct lane *lane, uint64_t now_us)
{
    /* Who came first need not be the first to get here. */
    uint64_t gap = now_us > lane->pushed_us ? now_us - lane->pushed_us : 0;

    if (lane->pushed_us == 0 || gap > LANE_GAP_MAX_US)
        lane->gap_us = UINT64_MAX;
    else if (lane->gap_us == UINT64_MAX)
        lane->gap_us = gap;
    else
        lane->gap_us = (lane->gap_us * LANE_GAP_PAST + gap) / LANE_GAP_ALL;
    if (lane->pushed_us < now_us)
        lane->pushed_us = now_us;
}

uint64_t lane_expects_us(const struct lane *lane)
{
    return lane->gap_us;
}

struct lane *lanes_push(struct lanes *lanes, struct ticket *ticket)
{
    struct lane *lane = lane_of(lanes, ticket);

    if (!lane)
        return NULL;
    ticket->lane = lane;
    TAILQ_INSERT_TAIL(&lane->tickets, ticket, turn);
    TAILQ_INSERT_TAIL(&lanes->ages, ticket, age);
    lane->waiting++;
    note_gap(lane, ticket->submitted_us);
    enqueue(lanes, lane);
    return lane;
}

/* Finds the lane of each; who gets one goes before *FOUND, the others before
 * *LOST. So the last of LIST is the first found. */
static void find_lanes(struct lanes *lanes, struct ticket *list,
                       struct ticket **found, struct ticket **lost)
{
    struct ticket *next, **to;

    for (; list; list = next) {
        next = list->next;
        list->lane = lane_of(lanes, list);
        to = list->lane ? found : lost;
        list->next = *to;
        *to = list;
    }
}

struct ticket *lanes_push_back(struct lanes *lanes, struct ticket *list)
{
    struct ticket *found = NULL, *lost = NULL, *earlier = NULL;

    for (struct ticket *ticket = list; ticket; ticket = ticket->next) {
        ages_add_again(lanes, earlier, ticket);
        earlier = ticket;
    }
    find_lanes(lanes, list, &found, &lost);
    for (struct ticket *ticket = lost; ticket; ticket = ticket->next)
        TAILQ_REMOVE(&lanes->ages, ticket, age);
    for (struct ticket *ticket = found; ticket; ticket = ticket->next) {
        TAILQ_INSERT_HEAD(&ticket->lane->tickets, ticket, turn);
        ticket->lane->waiting++;
        enqueue(lanes, ticket->lane);
    }
    return lost;
}

/* Up to N of those that wait, as a list. */
static struct ticket *lane_pop_some(struct lanes *lanes, struct lane *lane,
                                    size_t n)
{
    struct ticket *list = NULL, **last = &list;

    while (n-- > 0 && (*last = TAILQ_FIRST(&lane->tickets))) {
        take_out(lanes, *last);
        last = &(*last)->next;
    }
    *last = NULL;
    return list;
}

void lanes_choose(struct lanes *lanes, struct lane *lane, size_t n)
{
    lane->choosy = true;
    lane->chosen = lane_pop_some(lanes, lane, n);
}

struct lane *lanes_take(struct lanes *lanes, size_t n)
{
    struct lane *lane = TAILQ_FIRST(&lanes->open);

    if (!lane)
        return NULL;
    lane->placing = lane->choosy ? lane->chosen : lane_pop_some(lanes, lane, n);
    lane->chosen = NULL;
    enqueue(lanes, lane);
    return lane;
}

const struct ticket *lanes_oldest(const struct lanes *lanes)
{
    return TAILQ_FIRST(&lanes->ages);
}

struct ticket *lanes_pop(struct lanes *lanes)
{
    struct ticket *ticket = TAILQ_FIRST(&lanes->ages);

    if (ticket)
        take_out(lanes, ticket);
    return ticket;
}

struct ticket *lanes_pop_before(struct lanes *lanes, struct lane *lane,
                                uint64_t submitted_us)
{
    struct ticket *list = NULL, **last = &list, *next;

    for (struct ticket *ticket = TAILQ_FIRST(&lane->tickets); ticket;
         ticket = next) {
        next = TAILQ_NEXT(ticket, turn);
        if (ticket->submitted_us >= submitted_us)
            continue;
        take_out(lanes, ticket);
        *last = ticket;
        last = &ticket->next;
    }
    *last = NULL;
    return list;
}
