/* See search.h. The schedules in their order: what they have found, and which of
 * them are gone on with. */
#include "server/lab/explore/search_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct search {
    struct search_stages stages;
    struct search_table seen;
    search_progress *progress;
    void *ctx;
    struct search_result *result;
};

/* ---- in their order ----------------------------------------------------- */

static void note_faults(struct search *search, const struct search_node *node)
{
    const struct search_node *nodes = search->stages.shared->nodes;

    for (int i = 0; i < STAGE_FAULT_N; i++) {
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
        if ((!is_new && !shared->bounds.no_reduction) || search_is_end(child))
            continue;
        if (child->used.of[SEARCH_MOVES] < shared->bounds.moves)
            shared->queue[shared->queue_n++] = number;
    }
    search->result->states = search->seen.n;
}

static bool is_wanted(void *ctx)
{
    struct search *search = ctx;
    struct search_result now = *search->result;

    now.schedules = search->stages.shared->nodes_n - NODE_ROOT - 1;
    return !search->progress || search->progress(search->ctx, &now);
}

static bool run(struct search *search)
{
    struct search_shared *shared = search->stages.shared;
    uint32_t done = 0, end;

    if (!search_stages_play(&search->stages, is_wanted, search))
        return false;
    shared->queue[shared->queue_n++] = NODE_ROOT;
    note_faults(search, &shared->nodes[NODE_ROOT]);
    while (done < shared->queue_n && !shared->stop) {
        uint64_t before = search->result->schedules;
        bool good;

        shared->next = done;
        end = shared->queue_n;
        good = search_stages_play(&search->stages, is_wanted, search);
        for (; done < end; done++)
            go_on_from(search, &shared->nodes[shared->queue[done]]);
        if (!good)
            return false;
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
                           enum stage_fault fault, char *error, size_t size)
{
    struct stage *stage = stage_open(scene, error, size);
    bool good = stage != NULL;
    unsigned faults = 0;

    for (size_t i = 0; good && i < n; i++) {
        good = stage_move(stage, moves[i], error, size);
        faults = stage_faults(stage);
    }
    stage_close(stage);
    return good && (faults & (1u << fault));
}

bool search_confirm(const struct stage_scene *scene,
                    const struct search_bounds *bounds,
                    struct search_result *result, char *error, size_t size)
{
    struct stage_move moves[STAGE_MOVES_MAX];
    bool good = true;

    memcpy(moves, bounds->from, sizeof(moves));
    for (int i = 0; i < STAGE_FAULT_N; i++) {
        struct search_found *found = &result->faults[i];
        char text[4 * STAGE_MOVES_MAX + 1], why[200] = "it does not break";

        memcpy(moves + bounds->from_n, found->moves,
               found->n * sizeof(moves[0]));
        if (!found->is_found ||
            is_fault_again(scene, moves, bounds->from_n + found->n,
                           (enum stage_fault)i, why, sizeof(why)))
            continue;
        stage_text(moves, bounds->from_n + found->n, text, sizeof(text));
        (void)snprintf(error, size,
                       "an error of the stage's own, and no finding: %s by "
                       "'%s' does not come out again in fresh processes: %s",
                       stage_fault_word((enum stage_fault)i), text, why);
        found->is_found = good = false;
    }
    return good;
}

bool search_run(const struct stage_scene *scene,
                const struct search_bounds *bounds, unsigned stages,
                search_progress *progress, void *ctx,
                struct search_result *result, char *error, size_t error_size)
{
    struct search search = {.progress = progress, .ctx = ctx, .result = result};
    bool good;

    *result = (struct search_result){.is_whole = true};
    search.seen.bounds = bounds;
    good = search_stages_open(&search.stages, scene, bounds, stages, NULL);
    if (!good)
        (void)snprintf(error, error_size, "no memory for the search");
    else
        good = run(&search);
    if (!good)
        (void)search_stages_failed(&search.stages, error, error_size);
    if (!good || search.stages.shared->stop)
        result->is_whole = false;
    search_stages_close(&search.stages);
    free(search.seen.places);
    return good && search_confirm(scene, bounds, result, error, error_size);
}
