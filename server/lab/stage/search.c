/* See search.h. */
#include "server/lab/stage/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 2000000, PROGRESS_EVERY = 64 };

/* What has been used up of the bounds. */
struct used {
    uint8_t expiries, crashes, lost, late, forgets, preemptions, renewals;
};

/* A state, by the schedule that led to it first. */
struct node {
    uint32_t parent;
    struct stage_move move; /* from there */
    uint8_t depth, moves_n;
    signed char last; /* who moved last; -1 = nobody yet */
    uint8_t inside;   /* a bit for each actor; */
    uint8_t begun;    /* the same */
    uint8_t lapses;
    uint64_t now_us;
    struct used used;
    struct stage_move moves[STAGE_ENABLED_MAX];
};

struct seen {
    uint64_t hash; /* of a state, and who moved last; 0 = a free place */
    struct used used;
};

struct search {
    struct stage *stage;
    const struct stage_scene *scene;
    const struct search_bounds *bounds;
    struct search_result *result;
    struct node *nodes;
    size_t nodes_n, room;
    struct seen *seen; /* a table */
    size_t seen_n, seen_room;
};

/* ---- states that were seen ---------------------------------------------- */

/* With no more used, all that B leads to A leads to as well. */
static bool is_as_free(const struct used *a, const struct used *b)
{
    return a->expiries <= b->expiries && a->crashes <= b->crashes &&
           a->lost <= b->lost && a->late <= b->late &&
           a->forgets <= b->forgets && a->preemptions <= b->preemptions &&
           a->renewals <= b->renewals;
}

/* False: one like it, and as free, is in the table. */
static bool put(struct seen table[], size_t room, const struct seen *state)
{
    size_t at = state->hash % room;

    for (; table[at].hash != 0; at = (at + 1) % room)
        if (table[at].hash == state->hash &&
            is_as_free(&table[at].used, &state->used))
            return false;
    table[at] = *state;
    return true;
}

static bool grow_seen(struct search *search)
{
    size_t room = search->seen_room ? 2 * search->seen_room + 1 : 4099;
    struct seen *table = calloc(room, sizeof(*table));

    if (!table)
        return false;
    for (size_t i = 0; i < search->seen_room; i++)
        if (search->seen[i].hash != 0)
            (void)put(table, room, &search->seen[i]);
    free(search->seen);
    search->seen = table;
    search->seen_room = room;
    return true;
}

/* Whether the state is new. Without reduction, each is. */
static bool is_new(struct search *search, const struct node *node)
{
    struct seen state = {
        (stage_hash(search->stage) + (uint64_t)(node->last + 2)) *
                UINT64_C(1099511628211) |
            1,
        node->used};

    if (2 * search->seen_n >= search->seen_room && !grow_seen(search))
        return false;
    if (put(search->seen, search->seen_room, &state))
        search->seen_n++;
    else if (!search->bounds->no_reduction)
        return false;
    search->result->states = search->seen_n;
    return true;
}

/* ---- which moves are within the bounds ---------------------------------- */

static bool has_step(const struct node *node, signed char actor)
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

static bool is_allowed(const struct search_bounds *bounds,
                       const struct node *node, struct stage_move move,
                       struct used *used)
{
    bool acts = move.actor >= 0 && strchr("s~^", move.kind);

    /* They are all alike: who comes first is called a. */
    if (move.actor > 0 && !(node->begun & (1u << (move.actor - 1))) &&
        !bounds->no_reduction)
        return false;
    if (acts && node->last >= 0 && node->last != move.actor &&
        has_step(node, node->last) &&
        !spend(&used->preemptions, bounds->preemptions))
        return false;
    /* What becomes of servers is not searched for. */
    if (move.actor < -1 || strchr("RP", move.kind))
        return false;
    switch (move.kind) {
    case '~':
        return spend(&used->lost, bounds->lost);
    case '^':
        return move.actor < 0 || spend(&used->late, bounds->late);
    case '!':
        return spend(&used->crashes, bounds->crashes);
    case 'L':
        return spend(&used->expiries, bounds->expiries);
    case 'F':
        return spend(&used->forgets, bounds->forgets);
    case '+': /* who can look does not give up */
        return !has_step(node, move.actor);
    case 'w': /* of use only if it has something to keep */
        return bounds->renewals > 0 && (node->inside & (1u << move.actor));
    default:
        return true;
    }
}

/* ---- playing ------------------------------------------------------------ */

static size_t schedule_of(const struct search *search, const struct node *node,
                          struct stage_move moves[STAGE_MOVES_MAX])
{
    size_t n = node->depth;

    for (; node->depth > 0; node = &search->nodes[node->parent])
        moves[node->depth - 1] = node->move;
    return n;
}

static void note_faults(struct search *search, const struct node *node,
                        unsigned faults)
{
    for (int i = 0; i < STAGE_FAULT_N; i++) {
        struct search_found *found = &search->result->faults[i];

        if (!(faults & (1u << i)) || found->is_found)
            continue;
        found->is_found = true;
        found->n = schedule_of(search, node, found->moves);
    }
}

/* What is true of the state that the stage is in. */
static void fill(struct search *search, struct node *node)
{
    node->moves_n = (uint8_t)stage_enabled(search->stage, node->moves);
    node->lapses = (uint8_t)stage_lapses(search->stage);
    node->now_us = stage_now_us(search->stage);
    node->inside = 0;
    for (unsigned i = 0; i < search->scene->buyers; i++)
        if (stage_is_inside(search->stage, i))
            node->inside |= (uint8_t)(1u << i);
}

static bool play(struct search *search, const struct node *node, char *error,
                 size_t error_size)
{
    struct stage_move moves[STAGE_MOVES_MAX];
    size_t n = schedule_of(search, node, moves);

    if (!stage_begin(search->stage, error, error_size))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!stage_move(search->stage, moves[i], error, error_size))
            return false;
    search->result->schedules++;
    search->result->moves = node->depth;
    return true;
}

/* The end of a lease that came with the end of a wait counts as well; and a
 * watchdog's pass when it begins, not its second command. */
static bool is_within(const struct search *search, const struct node *node,
                      struct node *child)
{
    if (child->move.kind == 'w' && child->now_us > node->now_us &&
        !spend(&child->used.renewals, search->bounds->renewals))
        return false;
    if (child->move.kind == '+' && child->lapses > node->lapses)
        return spend(&child->used.expiries, search->bounds->expiries);
    return true;
}

static bool make_room(struct search *search)
{
    size_t room = search->room ? 2 * search->room : 1024;
    struct node *nodes;

    if (search->nodes_n < search->room)
        return true;
    if (room > NODES_MAX)
        return false;
    nodes = realloc(search->nodes, room * sizeof(*nodes));
    if (!nodes)
        return false;
    search->nodes = nodes;
    search->room = room;
    return true;
}

/* The units are sold, or the lock is lost: what comes after that is no news. */
static bool is_end(unsigned faults)
{
    return faults & (1u << STAGE_OVERSOLD | 1u << STAGE_LEDGER |
                     1u << STAGE_STALE | 1u << STAGE_FOREVER);
}

static bool go_on(struct search *search, size_t index, char *error,
                  size_t error_size)
{
    for (unsigned i = 0; i < search->nodes[index].moves_n; i++) {
        struct node child = search->nodes[index];
        const struct node *node;
        unsigned faults;

        child.parent = (uint32_t)index;
        child.move = child.moves[i];
        if (!is_allowed(search->bounds, &search->nodes[index], child.move,
                        &child.used))
            continue;
        child.depth++;
        if (child.move.actor >= 0) {
            child.last = child.move.actor;
            child.begun |= (uint8_t)(1u << child.move.actor);
        }
        if (!play(search, &child, error, error_size))
            return false;
        fill(search, &child);
        node = &search->nodes[index];
        if (!is_within(search, node, &child))
            continue;
        faults = stage_faults(search->stage);
        note_faults(search, &child, faults);
        if (!is_new(search, &child) || is_end(faults))
            continue;
        if (!make_room(search)) {
            (void)snprintf(error, error_size,
                           "more than %d states: narrower bounds are needed",
                           NODES_MAX);
            return false;
        }
        search->nodes[search->nodes_n++] = child;
    }
    return true;
}

bool search_run(struct stage *stage, const struct stage_scene *scene,
                const struct search_bounds *bounds, search_progress *progress,
                void *ctx, struct search_result *result, char *error,
                size_t error_size)
{
    struct search search = {
        .stage = stage, .scene = scene, .bounds = bounds, .result = result};
    bool good, wanted = true;

    *result = (struct search_result){.is_whole = true};
    good = make_room(&search) && stage_begin(stage, error, error_size);
    if (good) {
        search.nodes[0] = (struct node){.last = -1};
        fill(&search, &search.nodes[0]);
        search.nodes_n = 1;
        note_faults(&search, &search.nodes[0], stage_faults(stage));
    }
    for (size_t i = 0; i < search.nodes_n && good && wanted; i++) {
        if (search.nodes[i].depth >= bounds->moves) {
            result->is_whole = false;
            break;
        }
        good = go_on(&search, i, error, error_size);
        wanted = !progress || progress(ctx, result);
    }
    result->is_whole = result->is_whole && good && wanted;
    free(search.nodes);
    free(search.seen);
    return good;
}
