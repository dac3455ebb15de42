/*
 * The copy. See copy.h.
 *
 * What a segment has for the next order is what was left when it was last heard
 * of, less what was sold since, less what is spoken for. The last is kept apart
 * from the count and outlives it: a queue of orders on their way does not
 * vanish because somebody has counted.
 *
 * Whether a count knows of an order is told by the order's number, which rises
 * in commit order. The count may have been made a while ago, by another
 * instance: so our last sales are kept, with their numbers, and what he did not
 * know of is told to his keys. An order of which only the epoch is known is taken
 * to be in every newer count. That may be wrong by what was in the middle of its
 * commit just then, and is found out by an order that hears "short"; so is what
 * was sold too long ago to be remembered.
 */
#include "server/warm/copy.h"

#include <stdlib.h>
#include <string.h>

#define COPY_ROOM_MIN   16
#define COPY_SALES_MAX  1024
#define COPY_RICH_UNITS 4 /* on average: too many to leave a segment empty */

void copy_free(struct copy *copy)
{
    for (size_t i = 0; i < copy->n; i++) {
        free(copy->slots[i].product->cells);
        free(copy->slots[i].product->sales);
        free(copy->slots[i].product);
    }
    free(copy->slots);
    *copy = (struct copy){0};
}

/* ---- products ------------------------------------------------------------- */

/* The index of the first with that id or a higher one. */
static size_t place_of(const struct copy *copy, int64_t product_id)
{
    size_t low = 0, high = copy->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (copy->slots[middle].id < product_id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct copy_product *copy_find(const struct copy *copy, int64_t product_id)
{
    size_t at = place_of(copy, product_id);

    return at < copy->n && copy->slots[at].id == product_id
               ? copy->slots[at].product
               : NULL;
}

static bool make_room(struct copy *copy)
{
    size_t room = copy->room ? 2 * copy->room : COPY_ROOM_MIN;
    struct copy_slot *slots;

    if (copy->n < copy->room)
        return true;
    slots = realloc(copy->slots, room * sizeof(*slots));
    if (!slots)
        return false;
    copy->slots = slots;
    copy->room = room;
    return true;
}

struct copy_product *copy_hold(struct copy *copy, int64_t product_id)
{
    struct copy_product *product = copy_find(copy, product_id);
    size_t at = place_of(copy, product_id);

    if (product || !make_room(copy))
        return product;
    product = calloc(1, sizeof(*product));
    if (!product)
        return NULL;
    product->id = product_id;
    for (size_t i = copy->n++; i > at; i--)
        copy->slots[i] = copy->slots[i - 1];
    copy->slots[at] = (struct copy_slot){.id = product_id, .product = product};
    return product;
}

/* ---- counting ------------------------------------------------------------- */

/* Cells are never fewer: tickets may be out of those that are retired now. */
static bool make_cells(struct copy_product *product, size_t n)
{
    struct copy_cell *cells;

    if (n <= product->room)
        return true;
    cells = realloc(product->cells, n * sizeof(*cells));
    if (!cells)
        return false;
    memset(cells + product->room, 0, (n - product->room) * sizeof(*cells));
    product->cells = cells;
    product->room = n;
    return true;
}

/* Without memory for it: not remembered. */
static void remember(struct copy_product *product,
                     const struct warm_ticket *ticket)
{
    if (!product->sales)
        product->sales = calloc(COPY_SALES_MAX, sizeof(*product->sales));
    if (!product->sales || ticket->number == 0)
        return;
    product->sales[product->sales_at++ % COPY_SALES_MAX] =
        (struct copy_sale){.number = ticket->number,
                           .segment = ticket->segment,
                           .units = ticket->units};
}

/* What is not in the count: sold since. */
static void recall(struct copy_product *product)
{
    if (!product->sales)
        return;
    for (size_t i = 0; i < COPY_SALES_MAX; i++) {
        const struct copy_sale *sale = &product->sales[i];

        if (sale->number <= product->number ||
            (size_t)sale->segment >= product->n)
            continue;
        product->cells[sale->segment].sold += sale->units;
        product->chores.tell = true;
    }
}

bool copy_count(struct copy_product *product, const struct store_cells *cells)
{
    if (!make_cells(product, cells->n))
        return false;
    product->epoch = cells->epoch;
    product->number = cells->number;
    product->segments = cells->segments;
    product->n = cells->n;
    for (size_t i = 0; i < cells->n; i++) {
        product->cells[i].left = cells->cells[i].stock;
        product->cells[i].sold = 0;
    }
    product->chores.weigh = (int64_t)cells->n < cells->segments;
    recall(product);
    return true;
}

void copy_hear(struct copy_product *product, size_t cell, int64_t told,
               int64_t left)
{
    product->cells[cell].left = left;
    product->cells[cell].sold -= told;
}

bool copy_uneven(const struct copy_product *product)
{
    bool dry = (int64_t)product->n < product->segments;
    int64_t total = 0;

    for (size_t i = 0; i < product->n; i++) {
        const struct copy_cell *cell = &product->cells[i];

        dry |= cell->left <= cell->sold;
        total += cell->left - cell->sold;
    }
    return dry && total >= COPY_RICH_UNITS * (int64_t)product->n;
}

/* ---- tickets -------------------------------------------------------------- */

/* For the next order; below 0 if others have sold what was spoken for here. */
static int64_t free_units(const struct copy_cell *cell)
{
    return cell->left - cell->sold - cell->out;
}

/* What the cell weighs: nothing if it does not have enough. */
static int64_t weight(const struct copy_cell *cell, int64_t units)
{
    int64_t has = free_units(cell);

    return has >= units ? has : 0;
}

bool copy_take(struct copy_product *product, int64_t units, uint64_t random,
               struct warm_ticket *ticket)
{
    int64_t total = 0, at;
    size_t i = 0;

    for (size_t k = 0; k < product->n; k++)
        total += weight(&product->cells[k], units);
    if (total == 0)
        return false;
    at = (int64_t)(random % (uint64_t)total);
    while (at >= weight(&product->cells[i], units))
        at -= weight(&product->cells[i++], units);
    product->cells[i].out += units;
    *ticket = (struct warm_ticket){.product_id = product->id,
                                   .epoch = product->epoch,
                                   .segment = (int64_t)i,
                                   .units = units};
    return true;
}

/* Whether the count has the order already. */
static bool is_counted(const struct copy_product *product,
                       const struct warm_ticket *ticket)
{
    if (ticket->number == 0)
        return ticket->epoch != product->epoch;
    return ticket->number <= product->number;
}

static void sell(struct copy_product *product, struct copy_cell *cell,
                 const struct warm_ticket *ticket)
{
    remember(product, ticket);
    if (is_counted(product, ticket) || (size_t)ticket->segment >= product->n)
        return;
    cell->sold += ticket->units;
    product->chores.tell = true;
}

/* We thought that it had more than it has; what, a new count will say. */
static void correct(struct copy_product *product, struct copy_cell *cell,
                    const struct warm_ticket *ticket)
{
    int64_t surplus = free_units(cell) - (ticket->units - 1);

    if (ticket->epoch != product->epoch)
        return; /* it has been counted anew since */
    if (surplus > 0)
        cell->left -= surplus;
    product->chores.spread = true;
}

void copy_settle(struct copy_product *product, const struct warm_ticket *ticket,
                 enum warm_outcome outcome)
{
    struct copy_cell *cell = &product->cells[ticket->segment];

    cell->out -= ticket->units;
    if (outcome == WARM_SOLD)
        sell(product, cell, ticket);
    else if (outcome == WARM_SHORT)
        correct(product, cell, ticket);
}
