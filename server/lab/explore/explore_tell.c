/* See explore.h: what is said of one lock, to a person and to a program. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/lab/picture/draw.h"
#include "server/lab/explore/explore.h"

static uint64_t per_second(const struct explore *explore)
{
    return explore->result.schedules * 1000 / (explore->ms ? explore->ms : 1);
}

const char *explore_deduct(const struct explore *explore)
{
    return explore->scene.batched                  ? "batched"
           : explore->scene.deduct == DEDUCT_NAIVE ? "naive"
                                                   : "guarded";
}

const struct search_found *explore_worst(const struct explore *explore)
{
    for (int i = 0; i < STAGE_FAULT_N; i++)
        if (explore->result.faults[i].is_found)
            return &explore->result.faults[i];
    return NULL;
}

void explore_tell_bounds(const struct explore *explore)
{
    const struct search_bounds *bounds = &explore->bounds;

    draw_say(stdout, explore->look,
             "%u buyer%s, stock %" PRId64
             "; at most %u preemptions, and %u of: "
             "%u expiries,\n",
             explore->scene.buyers, explore->scene.buyers == 1 ? "" : "s",
             explore->scene.stock, bounds->preemptions, bounds->troubles,
             bounds->expiries);
    draw_say(stdout, explore->look,
             "%u crashes, %u lost replies, %u late commands, %u losses of all "
             "data, %u renewals\n",
             bounds->crashes, bounds->lost, bounds->late, bounds->forgets,
             bounds->renewals);
    putchar('\n');
}

bool explore_draw_worst(const struct explore *explore, char *error,
                        size_t error_size)
{
    const struct search_found *found = explore_worst(explore);
    struct stage *stage = stage_open(&explore->scene, error, error_size);
    struct stage_verdict verdict;
    bool good = stage != NULL;

    for (size_t i = 0; good && i < found->n; i++) {
        good = stage_move(stage, found->moves[i], error, error_size);
        if (good)
            stage_judge(stage, &verdict);
    }
    if (good) {
        putchar('\n');
        draw_head(stdout, &explore->scene, explore->look);
        draw_steps(stdout, stage, &explore->scene, 0, found->moves,
                   explore->look);
        draw_verdict(stdout, &verdict, true, explore->look);
    }
    stage_close(stage);
    return good;
}

void explore_tell(const struct explore *explore)
{
    const struct search_result *result = &explore->result;
    char text[4 * STAGE_MOVES_MAX + 1];

    printf("%s, %s:\n", explore->scene.lock, explore_deduct(explore));
    explore_tell_bounds(explore);
    for (int i = 0; i < STAGE_FAULT_N; i++) {
        const struct search_found *found = &result->faults[i];

        if (!found->is_found)
            continue;
        stage_text(found->moves, found->n, text, sizeof(text));
        printf("  %-16s '%s'\n", stage_fault_word((enum stage_fault)i), text);
    }
    if (!explore_worst(explore))
        draw_say(stdout, explore->look,
                 "  none in %" PRIu64 " schedules within these bounds\n",
                 result->schedules);
    putchar('\n');
    draw_say(stdout, explore->look,
             "%" PRIu64 " schedules, %" PRIu64
             " states, up to %u moves, %" PRIu64 " a second%s\n",
             result->schedules, result->states, result->moves,
             per_second(explore),
             result->is_whole ? "" : "; not all within the bounds");
}

void explore_tell_json(const struct explore *explore)
{
    const struct search_result *result = &explore->result;
    char text[4 * STAGE_MOVES_MAX + 1];
    bool first = true;

    printf("{\"lock\": \"%s\", \"deduct\": \"%s\", \"buyers\": %u, "
           "\"schedules\": %" PRIu64 ", \"states\": %" PRIu64
           ", \"moves\": %u, \"whole\": %s, \"ms\": %" PRIu64 ", \"faults\": {",
           explore->scene.lock, explore_deduct(explore), explore->scene.buyers,
           result->schedules, result->states, result->moves,
           result->is_whole ? "true" : "false", explore->ms);
    for (int i = 0; i < STAGE_FAULT_N; i++) {
        const struct search_found *found = &result->faults[i];

        if (!found->is_found)
            continue;
        stage_text(found->moves, found->n, text, sizeof(text));
        printf("%s\"%s\": \"%s\"", first ? "" : ", ",
               stage_fault_word((enum stage_fault)i), text);
        first = false;
    }
    printf("}}\n");
}
