/* See search.h: which schedules are within the bounds, and which of them are no
 * different from others; and then all of them in their order: what they have found, and
 * which are gone on with. */
#include "server/lab/explore/search_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    if (kind > SEARCH_TROUBLES && !spend(bounds, used, SEARCH_TROUBLES))
        return false;
    return ++used->of[kind] <= bounds->most[kind];
}

/* The moves of each bound. */
static const char *const counted[] = {
#define ROW(bound, member, of_one, at_random, expected, moves, ...) moves,
#include "server/lab/explore/bounds.inc"
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
    if (acts && node->last >= 0 && node->last != move.actor &&
        has_step(node, node->last) && !spend(bounds, used, SEARCH_PREEMPTIONS))
        return false;
    /* A single server that begins anew forgets all; its clock is not searched for. */
    if (move.actor < -1)
        return move.kind == '!' && spend(bounds, used, SEARCH_FORGETS);
    /* An actor that can look does not give up; a watchdog is of use only if it has
     * something to keep. */
    if (strchr("RP", move.kind) ||
        (move.kind == '+' && has_step(node, move.actor)) ||
        (move.kind == 'w' &&
         (move.actor < 0 || !(node->inside & (1u << move.actor)))))
        return false;
    for (int bound = 0; bound < SEARCH_BOUNDS_N; bound++)
        if (strchr(counted[bound], move.kind) &&
            !(move.kind == '^' && move.actor < 0))
            return spend(bounds, used, (enum search_bound)bound);
    return true;
}

/* The rest of one bound, where no more troubles are left of all. */
static unsigned left(const struct search_bounds *bounds,
                     const struct search_used *used, unsigned kind)
{
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
    if (!is_allowed(bounds, node, child->move, &child->used))
        return false;
    child->used.of[SEARCH_MOVES]++;
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
        !spend(bounds, &child->used, SEARCH_EXPIRIES))
        return false;
    /* The last actor was not preempted if it cannot go on. */
    if (child->last >= 0 && !has_step(child, child->last))
        child->last = -1;
    return true;
}

/* The units are sold, or the lock is lost. */
bool search_is_end(const struct search_bounds *bounds,
                   const struct search_node *node)
{
    return node->faults & ~bounds->passes &
           (1u << STAGE_OVERSOLD | 1u << STAGE_LEDGER | 1u << STAGE_STALE |
            1u << STAGE_FOREVER);
}

/* ---- states that were seen ---------------------------------------------- */

static bool put(struct search_table *table, const struct search_seen *seen)
{
    size_t at = seen->state % table->room;

    for (; table->places[at].state != 0; at = (at + 1) % table->room)
        if (table->places[at].state == seen->state &&
            search_is_as_free(table->bounds, &table->places[at].used,
                              &seen->used))
            return false;
    table->places[at] = *seen;
    table->n++;
    return true;
}

static bool grow(struct search_table *table)
{
    struct search_table next = *table;

    next.n = 0;
    next.room = table->room ? 2 * table->room + 1 : 4099;
    next.places = calloc(next.room, sizeof(*next.places));
    if (!next.places)
        return false;
    for (size_t i = 0; i < table->room; i++)
        if (table->places[i].state != 0)
            (void)put(&next, &table->places[i]);
    free(table->places);
    *table = next;
    return true;
}

bool search_table_put(struct search_table *table,
                      const struct search_node *node)
{
    const struct search_seen seen = {node->state, node->used};

    /* Without memory every state is new: that costs time, and loses nothing. */
    return (2 * table->n >= table->room && !grow(table)) || put(table, &seen);
}

/* ---- in their order ----------------------------------------------------- */

struct search {
    struct search_stages stages;
    struct search_table seen;
    search_progress *progress;
    void *ctx;
    struct search_result *result;
};

static void note_faults(struct search *search, const struct search_node *node)
{
    const struct search_node *nodes = search->stages.shared->nodes;

    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++) {
        struct search_found *found = &search->result->faults[i];

        if (!(node->faults & (1u << i)) || found->is_found)
            continue;
        found->is_found = true;
        found->n = node->used.of[SEARCH_MOVES];
        for (const struct search_node *each = node;
             each->used.of[SEARCH_MOVES] > 0; each = &nodes[each->parent])
            found->moves[each->used.of[SEARCH_MOVES] - 1] = each->move;
    }
}

/* Schedules of the next length are behind those of this one. */
static void go_on_from(struct search *search, const struct search_node *node)
{
    struct search_shared *shared = search->stages.shared;

    for (unsigned i = 0; i < node->moves_n; i++) {
        uint32_t number = node->children[i];
        const struct search_node *child = &shared->nodes[number];
        bool is_new;

        if (number == 0)
            continue;
        search->result->schedules++;
        if (number == NODE_BEYOND)
            continue;
        note_faults(search, child);
        is_new = search_table_put(&search->seen, child);
        if ((!is_new && !shared->bounds.no_reduction) ||
            search_is_end(&shared->bounds, child))
            continue;
        if (child->used.of[SEARCH_MOVES] < shared->bounds.moves)
            shared->queue[shared->queue_n++] = number;
    }
    search->result->states = search->seen.n;
}

static bool is_wanted(void *ctx)
{
    struct search *search = ctx;
    struct search_shared *shared = search->stages.shared;
    struct search_result now = *search->result;

    if (shared->bounds.seed)
        random_look(shared, &now);
    else if (now.schedules < shared->schedules)
        now.schedules = shared->schedules;
    return !search->progress || search->progress(search->ctx, &now);
}

static bool run(struct search *search, struct fail *error)
{
    struct search_shared *shared = search->stages.shared;
    uint32_t done = 0, end;
    bool good;

    if (shared->bounds.seed) {
        good = search_stages_play(&search->stages, error);
        random_look(shared, search->result);
        return good;
    }
    if (shared->bounds.moves > 0)
        shared->queue[shared->queue_n++] = NODE_ROOT;
    note_faults(search, &shared->nodes[NODE_ROOT]);
    while (done < shared->queue_n && !shared->stop) {
        uint64_t before = search->result->schedules;

        end = shared->queue_n;
        good = search_stages_play(&search->stages, error);
        for (; done < end; done++)
            go_on_from(search, &shared->nodes[shared->queue[done]]);
        if (!good)
            return false;
        shared->next = done;
        if (!shared->stop && search->result->schedules > before)
            search->result->moves++;
        if (!is_wanted(search))
            shared->stop = true;
    }
    return true;
}

/* ---- confirmed ---------------------------------------------------------- */

/* Whether FOUND comes out again where nobody has played before: what actors keep from
 * one schedule to the next would be a fault of ours. */
static bool is_fault_again(const struct stage_scene *scene,
                           const struct stage_move moves[], size_t n,
                           enum stage_fault fault, struct fail *error)
{
    struct stage *stage = stage_open(scene, error);
    bool good = stage != NULL;
    unsigned faults = 0;

    for (size_t i = 0; good && i < n; i++) {
        good = stage_move(stage, moves[i], error);
        faults = stage_faults(stage);
    }
    stage_close(stage);
    return good && (faults & (1u << fault));
}

/* Plays what was found once more in fresh processes, and takes back what does not come
 * out again. False and a text: that was so. */
static bool confirm(const struct stage_scene *scene,
                    const struct search_bounds *bounds,
                    struct search_result *result, struct fail *error)
{
    struct stage_move moves[STAGE_MOVES_MAX];
    bool good = true;

    memcpy(moves, bounds->from, sizeof(moves));
    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++) {
        struct search_found *found = &result->faults[i];
        struct fail why = {"it does not break"};
        char text[4 * STAGE_MOVES_MAX + 1];

        memcpy(moves + bounds->from_n, found->moves,
               found->n * sizeof(moves[0]));
        if (!found->is_found ||
            is_fault_again(scene, moves, bounds->from_n + found->n, i, &why))
            continue;
        (void)fail_with(
            error,
            "an error of the stage's own, and no finding: %s by "
            "'%s' does not come out again in fresh processes: %.199s",
            stage_fault_word(i),
            stage_text(moves, bounds->from_n + found->n, text, sizeof(text)),
            why.text);
        found->is_found = good = false;
    }
    return good;
}

bool search_run(const struct stage_scene *scene,
                const struct search_bounds *bounds, unsigned stages,
                search_progress *progress, void *ctx,
                struct search_result *result, struct fail *error)
{
    struct search search = {.stages = {.wanted = is_wanted, .ctx = &search},
                            .seen = {.bounds = bounds},
                            .progress = progress,
                            .ctx = ctx,
                            .result = result};
    bool good;

    *result = (struct search_result){.is_whole = true};
    good = search_stages_open(&search.stages, scene, bounds, stages, error) &&
           run(&search, error);
    if (!good || search.stages.shared->stop)
        result->is_whole = false;
    search_stages_close(&search.stages);
    free(search.seen.places);
    return good && confirm(scene, bounds, result, error);
}
