/*
 * A hash table of lanes and a list of those that are ready: not empty, and not
 * with a worker. A lane lives only while it has tickets or a worker, so there
 * are never more lanes than tickets in the desk.
 *
 * A second list goes through all tickets by age. The oldest of all is always
 * the first of its lane, so it can be taken out of both without a search.
 */
#include "server/order/lane.h"

#include <assert.h>
#include <stdlib.h>

#define LANES_BUCKETS 1024 /* a power of two */

struct lane {
    int64_t key;
    struct ticket *first, **last;
    bool taken; /* by a worker; of combine only */
    bool ready; /* is in the list below */
    struct lane *next_ready;
    struct lane *next_in_bucket;
};

struct lanes {
    bool combine;
    struct lane *ready_first, **ready_last;
    struct ticket *oldest, *newest;
    struct lane *buckets[LANES_BUCKETS];
};

struct lanes *lanes_new(bool combine)
{
    struct lanes *lanes = calloc(1, sizeof(*lanes));

    if (lanes) {
        lanes->combine = combine;
        lanes->ready_last = &lanes->ready_first;
    }
    return lanes;
}

void lanes_free(struct lanes *lanes)
{
    struct lane *lane;

    if (!lanes)
        return;
    for (size_t i = 0; i < LANES_BUCKETS; i++) {
        while ((lane = lanes->buckets[i])) {
            lanes->buckets[i] = lane->next_in_bucket;
            free(lane);
        }
    }
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

static struct lane *lane_of(struct lanes *lanes, int64_t key)
{
    struct lane **slot = lane_slot(lanes, key);

    if (!*slot && (*slot = calloc(1, sizeof(**slot)))) {
        (*slot)->key = key;
        (*slot)->last = &(*slot)->first;
    }
    return *slot;
}

static void lane_drop(struct lanes *lanes, struct lane *lane)
{
    struct lane **slot = lane_slot(lanes, lane->key);

    *slot = lane->next_in_bucket;
    free(lane);
}

static void lane_make_ready(struct lanes *lanes, struct lane *lane)
{
    if (lane->ready || lane->taken || !lane->first)
        return;
    lane->ready = true;
    lane->next_ready = NULL;
    *lanes->ready_last = lane;
    lanes->ready_last = &lane->next_ready;
}

static struct lane *ready_pop(struct lanes *lanes)
{
    struct lane *lane = lanes->ready_first;

    if (!lane)
        return NULL;
    lanes->ready_first = lane->next_ready;
    if (!lanes->ready_first)
        lanes->ready_last = &lanes->ready_first;
    lane->ready = false;
    return lane;
}

static void ages_add(struct lanes *lanes, struct ticket *ticket)
{
    ticket->older = lanes->newest;
    ticket->newer = NULL;
    *(lanes->newest ? &lanes->newest->newer : &lanes->oldest) = ticket;
    lanes->newest = ticket;
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
    return ticket;
}

/* Direct orders wait in one lane, whatever they are for. */
static int64_t key_of(const struct lanes *lanes, const struct ticket *ticket)
{
    return lanes->combine ? ticket->order.product_id : 0;
}

bool lanes_push(struct lanes *lanes, struct ticket *ticket)
{
    struct lane *lane = lane_of(lanes, key_of(lanes, ticket));

    if (!lane)
        return false;
    ticket->next = NULL;
    *lane->last = ticket;
    lane->last = &ticket->next;
    ages_add(lanes, ticket);
    lane_make_ready(lanes, lane);
    return true;
}

size_t lanes_take(struct lanes *lanes, struct ticket *batch[], size_t n,
                  struct lane **lane)
{
    size_t taken = 0, most = lanes->combine ? n : 1;

    do {
        *lane = ready_pop(lanes);
        if (!*lane)
            return 0;
    } while (!(*lane)->first); /* emptied by lanes_evict() */
    while (taken < most && (batch[taken] = lane_pop(lanes, *lane)))
        taken++;
    (*lane)->taken = lanes->combine;
    lane_make_ready(lanes, *lane);
    return taken;
}

void lanes_give_back(struct lanes *lanes, struct lane *lane)
{
    lane->taken = false;
    lane_make_ready(lanes, lane);
    if (lanes->combine && !lane->first)
        lane_drop(lanes, lane);
}

bool lanes_ready(const struct lanes *lanes)
{
    return lanes->ready_first != NULL;
}

const struct ticket *lanes_oldest(const struct lanes *lanes)
{
    return lanes->oldest;
}

struct ticket *lanes_evict(struct lanes *lanes)
{
    struct lane *lane;

    if (!lanes->oldest)
        return NULL;
    lane = *lane_slot(lanes, key_of(lanes, lanes->oldest));
    assert(lane); /* where tickets wait, there is a lane */
    return lane_pop(lanes, lane);
}
