/* See search_private.h: which schedules are within the bounds, and which of them
 * are no different from others. */
#include <string.h>

#include "server/lab/explore/search_private.h"

static bool has_step(const struct search_node *node, signed char actor)
{
    for (unsigned i = 0; i < node->moves_n; i++)
        if (node->moves[i].actor == actor && node->moves[i].kind == 's')
            return true;
    return false;
}

/* Counts it, and tells whether that is within the bounds. */
static bool spend(uint8_t *used, unsigned bound)
{
    return ++*used <= bound;
}

/* Actors that are alike have their letters in the order in which they come. */
static bool is_another(const struct search_bounds *bounds,
                       const struct search_node *node, struct stage_move move)
{
    return bounds->are_alike && move.actor > 0 &&
           !(node->begun & (1u << (move.actor - 1)));
}

static bool is_allowed(const struct search_bounds *bounds,
                       const struct search_node *node, struct stage_move move,
                       struct search_used *used)
{
    bool acts = move.actor >= 0 && strchr("s~^-xl", move.kind);

    if (!bounds->no_reduction && is_another(bounds, node, move))
        return false;
    if (acts && node->last >= 0 && node->last != move.actor &&
        has_step(node, node->last) &&
        !spend(&used->preemptions, bounds->preemptions))
        return false;
    /* A single server that begins anew forgets all; its clock is not searched for. */
    if (move.actor < -1)
        return move.kind == '!' && spend(&used->forgets, bounds->forgets);
    if (strchr("RP", move.kind))
        return false;
    switch (move.kind) {
    case '~':
        return spend(&used->lost, bounds->lost);
    case '^':
        return move.actor < 0 || spend(&used->late, bounds->late);
    case '-':
    case 'x':
        return spend(&used->refusals, bounds->refusals);
    case '!':
        return spend(&used->crashes, bounds->crashes);
    case 'L':
    case 'H':
        return spend(&used->expiries, bounds->expiries);
    case 'F':
        return spend(&used->forgets, bounds->forgets);
    case '+': /* who can look does not give up */
        return !has_step(node, move.actor) &&
               spend(&used->waits, bounds->waits);
    case 'w': /* of use only if it has something to keep */
        return move.actor >= 0 && (node->inside & (1u << move.actor)) &&
               spend(&used->renewals, bounds->renewals);
    default:
        return true;
    }
}

static unsigned troubles(const struct search_used *used)
{
    return (unsigned)used->expiries + used->crashes + used->lost + used->late +
           used->forgets + used->renewals + used->refusals;
}

/* The rest of one bound, where as many troubles are left of all. */
static unsigned left(unsigned bound, unsigned used, unsigned troubles_left)
{
    return bound - used < troubles_left ? bound - used : troubles_left;
}

bool search_is_as_free(const struct search_bounds *bounds,
                       const struct search_used *a, const struct search_used *b)
{
    unsigned a_left = bounds->troubles - troubles(a);
    unsigned b_left = bounds->troubles - troubles(b);
    const unsigned kinds[][3] = {
        {bounds->expiries, a->expiries, b->expiries},
        {bounds->crashes, a->crashes, b->crashes},
        {bounds->lost, a->lost, b->lost},
        {bounds->late, a->late, b->late},
        {bounds->forgets, a->forgets, b->forgets},
        {bounds->renewals, a->renewals, b->renewals},
        {bounds->refusals, a->refusals, b->refusals},
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (left(kinds[i][0], kinds[i][1], a_left) <
            left(kinds[i][0], kinds[i][2], b_left))
            return false;
    return a_left >= b_left && a->preemptions <= b->preemptions &&
           a->waits <= b->waits && a->depth <= b->depth;
}

bool search_child(const struct search_bounds *bounds,
                  const struct search_node *node, unsigned i,
                  struct search_node *child)
{
    *child = (struct search_node){.move = node->moves[i],
                                  .last = node->last,
                                  .begun = node->begun,
                                  .used = node->used};
    if (!is_allowed(bounds, node, child->move, &child->used) ||
        troubles(&child->used) > bounds->troubles)
        return false;
    child->used.depth++;
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
    if (child->move.kind == '+' && child->lapses > node->lapses &&
        !spend(&child->used.expiries, bounds->expiries))
        return false;
    if (troubles(&child->used) > bounds->troubles)
        return false;
    /* Who cannot go on is not kept from it. */
    if (child->last >= 0 && !has_step(child, child->last))
        child->last = -1;
    return true;
}

/* The units are sold, or the lock is lost. */
bool search_is_end(const struct search_node *node)
{
    return node->faults & (1u << STAGE_OVERSOLD | 1u << STAGE_LEDGER |
                           1u << STAGE_STALE | 1u << STAGE_FOREVER);
}

bool search_widen(struct search_bounds *bounds, const struct search_bounds *by)
{
    const struct {
        unsigned *bound, by;
    } rows[] = {
        {&bounds->expiries, by->expiries},
        {&bounds->crashes, by->crashes},
        {&bounds->lost, by->lost},
        {&bounds->late, by->late},
        {&bounds->forgets, by->forgets},
        {&bounds->waits, by->waits},
        {&bounds->renewals, by->renewals},
        {&bounds->refusals, by->refusals},
        {&bounds->troubles, by->troubles},
        {&bounds->preemptions, by->preemptions},
        {&bounds->moves, by->moves},
    };
    bool is_wider = false;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].by > *rows[i].bound) {
            *rows[i].bound = rows[i].by;
            is_wider = true;
        }
    return is_wider;
}
