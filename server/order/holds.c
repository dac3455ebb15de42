/* See holds.h. */
#include "server/order/holds.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/app.h"
#include "server/clock.h"

/* ---- which ---------------------------------------------------------------- */

/* {product:segment} is the hash tag of all keys of a segment, the lock's and the
 * warm one. A Redis Cluster is not served by that: see server/warm/keys.h. */
#define LOCK_BYTES 64

static void lock_name(int64_t product_id, int64_t segment,
                      char name[LOCK_BYTES])
{
    (void)snprintf(name, LOCK_BYTES, "lock:{%" PRId64 ":%" PRId64 "}",
                   product_id, segment);
}

/* The segments whose locks are wanted, ascending: one, or what there is. */
static enum order_outcome find_cells(struct worker *worker,
                                     const struct holds_terms *terms,
                                     struct store_cells *cells,
                                     struct dlock_error *error)
{
    struct store_error store_error = {""};
    enum store_status status = STORE_OK;

    cells->n = 1;
    cells->cells[0].segment = terms->segment;
    if (terms->segment != STORE_SEGMENT_ANY)
        return ORDER_PLACED;
    atomic_store(&worker->at_store, true);
    status =
        store_cells_get(worker->reader, terms->product_id, cells, &store_error);
    atomic_store(&worker->at_store, false);
    if (status == STORE_OK)
        return ORDER_PLACED;
    (void)snprintf(error->text, sizeof(error->text), "%s", store_error.text);
    return ORDER_STORE_UNAVAILABLE;
}

/* ---- taking --------------------------------------------------------------- */

static bool make_room(struct holds *holds, size_t n)
{
    struct hold *bigger;

    if (holds->room >= n)
        return true;
    bigger = realloc(holds->at, n * sizeof(*bigger));
    if (!bigger)
        return false;
    holds->at = bigger;
    holds->room = n;
    return true;
}

/* Each after the one before: nobody has a later one while he waits. */
static enum order_outcome take_each(struct worker *worker,
                                    const struct holds_terms *terms,
                                    const struct store_cells *cells,
                                    struct holds *holds,
                                    struct dlock_error *error)
{
    enum order_outcome outcome = ORDER_PLACED;
    char name[LOCK_BYTES];
    unsigned wait_ms = 0;

    while (holds->n < cells->n && outcome == ORDER_PLACED) {
        lock_name(terms->product_id, cells->cells[holds->n].segment, name);
        if (terms->may_wait)
            wait_ms = hold_patience_ms(worker->app, terms->submitted_us);
        outcome = hold_take(worker, name, wait_ms, &holds->at[holds->n], error);
        if (outcome == ORDER_PLACED)
            holds->n++;
    }
    return outcome;
}

static void link_fences(const struct worker *worker, struct holds *holds)
{
    const struct store_fence *also = NULL;

    for (size_t i = holds->n; i-- > 0;) {
        holds->at[i].fence = hold_fence(worker, &holds->at[i]);
        holds->at[i].fence.also = also;
        also = &holds->at[i].fence;
    }
}

enum order_outcome holds_take(struct worker *worker,
                              const struct holds_terms *terms,
                              struct holds *holds, struct dlock_error *error)
{
    struct store_cells cells;
    enum order_outcome outcome;

    assert(holds->n == 0);
    outcome = find_cells(worker, terms, &cells, error);
    if (outcome != ORDER_PLACED)
        return outcome;
    if (!make_room(holds, cells.n)) {
        (void)snprintf(error->text, sizeof(error->text), "out of memory");
        return ORDER_OVERLOADED;
    }
    outcome = take_each(worker, terms, &cells, holds, error);
    link_fences(worker, holds);
    return outcome;
}

/* ---- while they are held -------------------------------------------------- */

const struct store_fence *holds_fence(const struct holds *holds)
{
    assert(holds->n > 0);
    return &holds->at[0].fence;
}

uint64_t holds_since_us(const struct holds *holds)
{
    assert(holds->n > 0);
    return holds->at[0].granted_us;
}

bool holds_lost(const struct worker *worker, const struct holds *holds)
{
    for (size_t i = 0; i < holds->n; i++)
        if (dlock_remaining_ms(worker->session, &holds->at[i].grant) == 0)
            return true;
    return false;
}

void holds_failed(struct holds *holds)
{
    for (size_t i = 0; i < holds->n; i++)
        holds->at[i].failed = true;
}

/* ---- leaving -------------------------------------------------------------- */

/* In one time for all: what the first took of it, the others do not have. */
void holds_leave(struct worker *worker, struct holds *holds)
{
    uint64_t give_up_us = clock_us() + HOLD_LEAVE_MS_MAX * UINT64_C(1000);
    bool left = true;

    for (size_t i = 0; i < holds->n && left; i++)
        left = hold_leave(worker, &holds->at[i], give_up_us);
    holds->n = 0;
    if (!left)
        hold_give_up(worker);
}

void holds_release(struct holds *holds)
{
    assert(holds->n == 0);
    free(holds->at);
    *holds = (struct holds){0};
}
