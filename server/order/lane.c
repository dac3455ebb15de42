/*
 * A hash table of lanes, the two queues, and the list by age. The oldest ticket
 * of all is always the first of its lane, so it can be taken out of both
 * without a search.
 *
 * A lane is kept for a while after its last order, for what it knows about how
 * soon the next one comes. There are never more lanes than orders came in that
 * time.
 */
#include "server/order/lane.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define LANES_BUCKETS 1024 /* a power of two */

/* Gaps between orders are averaged with this weight of the past. */
#define LANE_GAP_PAST 7
#define LANE_GAP_ALL  8

TAILQ_HEAD(lane_queue, lane);

struct lanes {
    struct lane_queue shut, open;
    struct ticket *oldest, *newest;
    struct lane *buckets[LANES_BUCKETS];
};

/* ---- the table ------------------------------------------------------------ */

struct lanes *lanes_new(void)
{
    struct lanes *lanes = calloc(1, sizeof(*lanes));

    if (lanes) {
        TAILQ_INIT(&lanes->shut);
        TAILQ_INIT(&lanes->open);
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

/* Where the pointer to KEY's lane is, or would be. */
static struct lane **lane_slot(struct lanes *lanes, int64_t key)
{
    /* Fibonacci hashing: neighbouring ids end up far apart. */
    uint64_t hash = (uint64_t)key * UINT64_C(0x9E3779B97F4A7C15);
    struct lane **slot = &lanes->buckets[(hash >> 32) % LANES_BUCKETS];

    while (*slot && (*slot)->key != key)
        slot = &(*slot)->next_in_bucket;
    return slot;
}

/* {product:segment} is a hash tag: one cluster slot for a segment's keys. A
 * product has one segment, number 0. */
void lane_lock_name(int64_t product_id, char name[LANE_LOCK_BYTES])
{
    snprintf(name, LANE_LOCK_BYTES, "lock:{%" PRId64 ":0}", product_id);
}

static struct lane *lane_of(struct lanes *lanes, int64_t key)
{
    struct lane **slot = lane_slot(lanes, key), *lane = *slot;

    if (lane || !(lane = calloc(1, sizeof(*lane))))
        return lane;
    lane->key = key;
    lane->last = &lane->first;
    lane->gap_us = UINT64_MAX;
    lane_lock_name(key, lane->lock);
    *slot = lane;
    return lane;
}

static bool is_needed(const struct lane *lane, uint64_t before_us)
{
    return lane->state != LANE_SHUT || lane->first ||
           lane->pushed_us >= before_us;
}

void lanes_forget(struct lanes *lanes, uint64_t before_us)
{
    struct lane **slot, *lane;

    for (size_t i = 0; i < LANES_BUCKETS; i++) {
        slot = &lanes->buckets[i];
        while ((lane = *slot)) {
            if (is_needed(lane, before_us)) {
                slot = &lane->next_in_bucket;
            } else {
                *slot = lane->next_in_bucket;
                free(lane);
            }
        }
    }
}

/* ---- the queues ----------------------------------------------------------- */

/* Whether there are orders that may be placed. Who was chosen is placed before
 * the lane is left. */
static bool is_flowing(const struct lane *lane)
{
    if (lane->placing || lane->state == LANE_SHUT ||
        lane->state == LANE_ENTERING)
        return false;
    return lane->chosen ||
           (lane->first && !lane->choosy && lane->state == LANE_OPEN);
}

/* The queue that a lane belongs into as things are. */
static struct lane_queue *queue_for(struct lanes *lanes,
                                    const struct lane *lane)
{
    if (lane->state == LANE_SHUT && lane->first)
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

void lanes_shut(struct lanes *lanes, struct lane *lane)
{
    lane->state = LANE_SHUT;
    lane->choosy = false;
    enqueue(lanes, lane);
}

void lanes_placed(struct lanes *lanes, struct lane *lane)
{
    lane->placing = NULL;
    enqueue(lanes, lane);
}

/* ---- tickets -------------------------------------------------------------- */

static void ages_add(struct lanes *lanes, struct ticket *ticket)
{
    ticket->older = lanes->newest;
    ticket->newer = NULL;
    *(lanes->newest ? &lanes->newest->newer : &lanes->oldest) = ticket;
    lanes->newest = ticket;
}

/* Where it was before: that is near the oldest. */
static void ages_add_again(struct lanes *lanes, struct ticket *ticket)
{
    struct ticket *older = NULL, *newer = lanes->oldest;

    while (newer && newer->submitted_us < ticket->submitted_us) {
        older = newer;
        newer = newer->newer;
    }
    ticket->older = older;
    ticket->newer = newer;
    *(older ? &older->newer : &lanes->oldest) = ticket;
    *(newer ? &newer->older : &lanes->newest) = ticket;
}

static void ages_remove(struct lanes *lanes, struct ticket *ticket)
{
    *(ticket->older ? &ticket->older->newer : &lanes->oldest) = ticket->newer;
    *(ticket->newer ? &ticket->newer->older : &lanes->newest) = ticket->older;
}

static struct ticket *lane_pop(struct lanes *lanes, struct lane *lane)
{
    struct ticket *ticket = lane->first;

    if (!ticket)
        return NULL;
    lane->first = ticket->next;
    if (!lane->first)
        lane->last = &lane->first;
    ages_remove(lanes, ticket);
    lane->waiting--;
    enqueue(lanes, lane);
    return ticket;
}

/* One gap more. A pause says nothing about how busy the times between are. */
static void note_gap(struct lane *lane, uint64_t now_us)
{
    uint64_t gap = now_us - lane->pushed_us;

    if (lane->pushed_us == 0 || gap > LANE_GAP_MAX_US)
        lane->gap_us = UINT64_MAX;
    else if (lane->gap_us == UINT64_MAX)
        lane->gap_us = gap;
    else
        lane->gap_us = (lane->gap_us * LANE_GAP_PAST + gap) / LANE_GAP_ALL;
    lane->pushed_us = now_us;
}

uint64_t lane_expects_us(const struct lane *lane)
{
    return lane->gap_us;
}

struct lane *lanes_push(struct lanes *lanes, struct ticket *ticket)
{
    struct lane *lane = lane_of(lanes, ticket->order.product_id);

    if (!lane)
        return NULL;
    ticket->lane = lane;
    ticket->next = NULL;
    *lane->last = ticket;
    lane->last = &ticket->next;
    lane->waiting++;
    ages_add(lanes, ticket);
    note_gap(lane, ticket->submitted_us);
    enqueue(lanes, lane);
    return lane;
}

/* Recursion would reverse the list as well, at the price of the stack. */
static struct ticket *reverse(struct ticket *list)
{
    struct ticket *reversed = NULL, *next;

    for (; list; list = next) {
        next = list->next;
        list->next = reversed;
        reversed = list;
    }
    return reversed;
}

void lanes_push_back(struct lanes *lanes, struct lane *lane,
                     struct ticket *list)
{
    struct ticket *next;

    for (list = reverse(list); list; list = next) {
        next = list->next;
        list->next = lane->first;
        if (!lane->first)
            lane->last = &list->next;
        lane->first = list;
        lane->waiting++;
        ages_add_again(lanes, list);
    }
    enqueue(lanes, lane);
}

/* Up to N of those that wait, as a list. */
static struct ticket *lane_pop_some(struct lanes *lanes, struct lane *lane,
                                    size_t n)
{
    struct ticket *list = NULL, **last = &list;

    while (n-- > 0 && (*last = lane_pop(lanes, lane)))
        last = &(*last)->next;
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
    return lanes->oldest;
}

struct ticket *lanes_pop(struct lanes *lanes)
{
    if (!lanes->oldest)
        return NULL;
    assert(lanes->oldest == lanes->oldest->lane->first);
    return lane_pop(lanes, lanes->oldest->lane);
}

struct ticket *lanes_pop_before(struct lanes *lanes, struct lane *lane,
                                uint64_t submitted_us)
{
    struct ticket *list = NULL, **last = &list;

    while (lane->first && lane->first->submitted_us < submitted_us) {
        *last = lane_pop(lanes, lane);
        last = &(*last)->next;
    }
    *last = NULL;
    return list;
}
