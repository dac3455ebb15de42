/* See search.h: which schedules are within the bounds, which of them are no different from
 * others, and which states are news. */
#include "server/lab/search/search.h"

#include <stdlib.h>
#include <string.h>

const char *search_text(const struct search_found *found)
{
    static char text[4 * STAGE_MOVES_MAX + 1];

    return stage_text(found->moves, found->n, text, sizeof(text));
}

/* ---- within the bounds -------------------------------------------------- */

static bool has_step(const struct search_node *node, signed char actor)
{
    for (unsigned i = 0; i < node->moves_n; i++)
        if (node->moves[i].actor == actor && node->moves[i].kind == 's')
            return true;
    return false;
}

/* Counts one of KIND, and tells whether that is within the bounds. */
static bool spend(const struct search_bounds *bounds, struct search_used *used,
                  enum search_bound kind)
{
    /* A trouble is paid twice: of its own bound, and of that of all troubles together. */
    if (kind > SEARCH_TROUBLES && !spend(bounds, used, SEARCH_TROUBLES))
        return false;
    return ++used->of[kind] <= bounds->most[kind];
}

const struct search_bound_row search_bound_rows[] = {
#define ROW(bound, member, of_one, at_random, expected, moves, flag, troubles) \
    {moves, flag, troubles, of_one, at_random, expected},
#include "server/lab/search/bounds.inc"
};

static bool is_allowed(const struct search_bounds *bounds,
                       const struct search_node *node, struct stage_move move,
                       struct search_used *used)
{
    bool acts = move.actor >= 0 && strchr("s~^-xl", move.kind);

    /* Actors that are alike have their letters in the order in which they come. */
    if (!bounds->no_reduction && bounds->are_alike && move.actor > 0 &&
        !(node->begun & (1u << (move.actor - 1))))
        return false;
    /* Preemption bounding (Musuvathi and Qadeer, "Iterative Context Bounding", PLDI
     * 2007): most bugs need few switches away from an actor that could go on. Only a
     * step takes the turn from somebody: a death, a time or a message does not. */
    if (acts && node->last >= 0 && node->last != move.actor &&
        has_step(node, node->last) && !spend(bounds, used, SEARCH_PREEMPTIONS))
        return false;
    /* A single server that begins anew forgets all; its clock is not searched for. */
    if (move.actor < -1)
        return move.kind == '!' && spend(bounds, used, SEARCH_FORGETS);
    /* An actor that can look does not give up: it multiplies the schedules by five and
     * more, and is told as never played (explore_tell.c). */
    if (strchr("RP", move.kind) ||
        (move.kind == '+' && has_step(node, move.actor)))
        return false;
    for (int bound = 0; bound < SEARCH_BOUNDS_N; bound++)
        /* The arrival of a command that was held up is free: it was paid for when
         * it was. */
        if (strchr(search_bound_rows[bound].moves, move.kind) &&
            !(move.kind == '^' && move.actor < 0))
            return spend(bounds, used, (enum search_bound)bound);
    return true;
}

/* The rest of one bound, where no more troubles are left of all. */
static unsigned left(const struct search_bounds *bounds,
                     const struct search_used *used, unsigned kind)
{
    /* The bounds were kept for both nodes: neither difference is below 0. */
    unsigned of_all = bounds->troubles - used->of[SEARCH_TROUBLES];
    unsigned of_it = bounds->most[kind] - used->of[kind];

    return kind > SEARCH_TROUBLES && of_it > of_all ? of_all : of_it;
}

bool search_is_as_free(const struct search_bounds *bounds,
                       const struct search_used *a, const struct search_used *b)
{
    for (unsigned kind = 0; kind < SEARCH_BOUNDS_N; kind++)
        if (left(bounds, a, kind) < left(bounds, b, kind))
            return false;
    return true;
}

bool search_child(const struct search_bounds *bounds,
                  const struct search_node *node, unsigned i,
                  struct search_node *child)
{
    *child = (struct search_node){.move = node->moves[i],
                                  .last = node->last,
                                  .begun = node->begun,
                                  .used = node->used};
    /* USED is the parent's so far: is_allowed() adds what this move costs. */
    if (!is_allowed(bounds, node, child->move, &child->used))
        return false;
    child->used.of[SEARCH_MOVES]++;
    /* A look for overdue orders is the committer's: the actor has not begun with it,
     * and was not the last to move. */
    if (child->move.actor >= 0 && child->move.kind != 'e') {
        child->last = child->move.actor;
        child->begun |= (uint8_t)(1u << child->move.actor);
    }
    return true;
}

/* The end of a lease that came with the end of a wait counts as well. */
bool search_is_within(const struct search_bounds *bounds,
                      const struct search_node *node, struct search_node *child)
{
    /* Time that passed for a wait has ended a lease along the way: only playing it
     * could tell. */
    if (child->move.kind == '+' && child->lapses > node->lapses &&
        !spend(bounds, &child->used, SEARCH_EXPIRIES))
        return false;
    /* The last actor was not preempted if it cannot go on. */
    /* An actor that goes on from here takes the turn from nobody. */
    if (child->last >= 0 && !has_step(child, child->last))
        child->last = -1;
    return true;
}

/* The units are sold, or the lock is lost. */
bool search_is_end(const struct search_bounds *bounds,
                   const struct search_node *node)
{
    /* Any more orders only add to what is broken: what comes behind would hide
     * nothing new. */
    return node->faults & ~bounds->passes &
           (1u << STAGE_OVERSOLD | 1u << STAGE_LEDGER | 1u << STAGE_STALE |
            1u << STAGE_FOREVER);
}

/* ---- states that were seen ---------------------------------------------- */

/* It never grows: memory that nothing was written to costs nothing, and there are no more
 * nodes than half of this. Without memory every state is new: that costs time, and loses
 * nothing. */
enum { PLACES = 2000003 };

bool search_table_put(struct search_table *table,
                      const struct search_node *node)
{
    /* Half of the places stay free: a row of full ones would make each look a
     * long one. */
    size_t at = node->state / 2 % PLACES; /* it is odd */
    struct search_seen *seen;

    if (!table->places)
        table->places = calloc(PLACES, sizeof(*table->places));
    if (!table->places || table->n > PLACES / 2)
        return true;
    /* The same state with more of the bounds left is new: it leads to schedules that
     * the first could not afford. Both stay in the table. */
    for (; (seen = &table->places[at])->state != 0; at = (at + 1) % PLACES)
        if (seen->state == node->state &&
            search_is_as_free(table->bounds, &seen->used, &node->used))
            return false;
    *seen = (struct search_seen){node->state, node->used};
    table->n++;
    return true;
}
