/* See explore.h: what is said of one lock, to a person and to a program. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lock/textbook/textbook.h"
#include "server/lab/explore/explore.h"
#include "server/lab/picture/draw.h"
#include "server/lab/replay/game.h"
#include "server/lab/scene/stage_options.h"
#include "server/lab/world/world.h"

/* "naive", "guarded" or "batched" */
static const char *deduct(const struct explore *explore)
{
    return explore->scene.batched                  ? "batched"
           : explore->scene.deduct == DEDUCT_NAIVE ? "naive"
                                                   : "guarded";
}

const struct search_found *explore_worst(const struct explore *explore)
{
    /* The faults stand in the order of their weight (faults.txt): the first is
     * the worst. */
    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++)
        if (explore->result.faults[i].is_found)
            return &explore->result.faults[i];
    return NULL;
}

/* The troubles that there may be, or that there are none of, behind FIRST. */
static void tell_troubles(FILE *out, const struct explore *explore,
                          bool are_some, const char *first)
{
    for (int i = 0; i < SEARCH_BOUNDS_N; i++) {
        unsigned most = explore->bounds.most[i];

        if (!search_bound_rows[i].troubles[0] || (most > 0) != are_some)
            continue;
        draw_say(out, explore->look, "%s", first);
        draw_say(out, explore->look, "%s %u", search_bound_rows[i].troubles,
                 most);
        first = ", ";
    }
}

/* The moves that the scene has, and no bound lets a search play. */
static const char *never_played(const struct stage_scene *scene)
{
    /* The rows of --all are of locks on one server and on several. */
    return scene->replica ? "a+ while a can step, the replica's R and P"
           : !scene->lock || world_nodes_for(scene->lock) > 1
               ? "a+ while a can step, a server's own L and F"
               : "a+ while a can step";
}

/* Troubles that there are none of are told as well, because nothing is known of them. */
void explore_tell_bounds(FILE *out, const struct explore *explore)
{
    const struct search_bounds *bounds = &explore->bounds;
    const struct stage_scene *scene = &explore->scene;
    bool has_troubles = false;

    for (int i = 0; i < SEARCH_BOUNDS_N; i++)
        has_troubles |= search_bound_rows[i].troubles[0] && bounds->most[i] > 0;
    draw_say(out, explore->look,
             "%u buyer%s, stock %" PRId64 ", wait-ms %" PRId64
             ", lease-ms %" PRId64 ";\n",
             scene->buyers, scene->buyers == 1 ? "" : "s", scene->stock,
             scene->wait_ms, scene->lease_ms);
    draw_say(out, explore->look,
             "at most %u moves, %u times one who could go on has to wait "
             "(preemptions),\n",
             bounds->moves, bounds->preemptions);
    draw_say(out, explore->look, "%u waits that end by time, and ",
             bounds->waits);
    if (has_troubles) {
        draw_say(out, explore->look,
                 "%u troubles, of these at most:", bounds->troubles);
        tell_troubles(out, explore, true, "\n");
        tell_troubles(out, explore, false, ";\n");
    } else {
        draw_say(out, explore->look, "no troubles");
    }
    draw_say(out, explore->look, ";\n");
    draw_say(out, explore->look, "never played: %s", never_played(scene));
    fputs("\n\n", out);
}

const char *explore_extent(const struct explore *explore)
{
    static char text[200];
    const struct search_result *result = &explore->result;
    FILE *out = fmemopen(text, sizeof(text), "w");

    if (!out)
        return "?";
    /* "All" is said only of a search that was whole; else of the lengths that were. */
    if (explore->random_s > 0)
        fprintf(out,
                "at random, of up to %u moves and %" PRIu64
                " on average, seed %" PRIu64,
                result->moves,
                result->schedules ? result->moves_all / result->schedules : 0,
                explore->bounds.seed);
    else if (result->is_whole)
        fprintf(out, "all within these bounds");
    else
        fprintf(out, "all of up to %u moves", result->moves);
    /* The words on one trouble come behind: they are true beside either of the
     * two above. */
    if (explore->calm.is_whole)
        fprintf(out, ", and all with one trouble");
    else if (explore->calm.moves > result->moves)
        fprintf(out, ", with one trouble of up to %u", explore->calm.moves);
    if (explore->at_random > 0)
        fprintf(out, ", and %" PRIu64 " at random", explore->at_random);
    /* A text may use keys that the rules do not know of: nothing is said of these. */
    if (dlock_textbook_has_keys_beside(explore->scene.lock))
        fprintf(out, ", but keys beside $name were not watched");
    (void)fclose(out);
    return text;
}

const char *explore_verdict(const struct explore *explore)
{
    static char text[320];
    const struct search_result *result = &explore->result;
    const char *before = "breaks:";
    size_t used = 0;

    /* The line for none is there first, and faults are written over it. */
    (void)snprintf(text, sizeof(text),
                   result->is_whole ? "none in %" PRIu64 " schedules: %s"
                                    : "none in the %" PRIu64
                                      " that were played: %s",
                   result->schedules, explore_extent(explore));
    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++)
        if (result->faults[i].is_found) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s %s",
                                     before, stage_fault_word(i));
            before = ",";
        }
    return text;
}

/* No fault but an oversale, and that after the end of a lease. */
static bool has_outlived_only(const struct explore *explore)
{
    const struct search_found *sale = &explore->result.faults[STAGE_OVERSOLD];

    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++)
        if (i != STAGE_OVERSOLD && explore->result.faults[i].is_found)
            return false;
    /* An end of a lease within the schedule, as a move, is what any lock has. */
    for (size_t i = 0; sale->is_found && i < sale->n; i++)
        if (sale->moves[i].kind == 'L')
            return true;
    return false;
}

bool explore_tell(const struct explore *explore, struct fail *error)
{
    static struct game game;
    const struct search_found *worst = explore_worst(explore);
    const struct search_result *result = &explore->result;
    uint64_t per_second =
        result->schedules * 1000 / (explore->ms ? explore->ms : 1);
    bool good;

    draw_say(stdout, explore->look, "%s\n", explore_verdict(explore));
    printf("\n%s, %s: ", explore->scene.lock, deduct(explore));
    explore_tell_bounds(stdout, explore);
    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++)
        if (result->faults[i].is_found)
            printf("  %-16s '%s'\n", stage_fault_word(i),
                   search_text(&result->faults[i]));
    if (worst)
        putchar('\n');
    if (has_outlived_only(explore)) {
        draw_say(stdout, explore->look,
                 "Any lease can be outlived, that of a right lock as well: "
                 "--deduct guarded,\n");
        draw_say(stdout, explore->look,
                 "where the database decides, tells whether the lock is "
                 "right.\n\n");
    }
    if (explore->random_s > 0)
        draw_say(stdout, explore->look,
                 "%" PRIu64 " schedules, %s; %" PRIu64 " a second\n",
                 result->schedules, explore_extent(explore), per_second);
    else
        draw_say(stdout, explore->look,
                 "%" PRIu64 " schedules, %s; %" PRIu64 " states, %" PRIu64
                 " a second\n",
                 result->schedules, explore_extent(explore), result->states,
                 per_second);
    /* Ctrl-C is for the picture as well: it would be played on servers anew. */
    if (!worst || stage_options_interrupted())
        return true;
    good = game_open(&game, &explore->scene, stdout,
                     explore->look | DRAW_NO_STATE);
    if (good) {
        putchar('\n');
        game_draw(&game);
        good = game_play(&game, worst->moves, worst->n);
    }
    if (good)
        draw_verdict(stdout, &game.verdict, stage_is_over(game.stage),
                     explore->look);
    *error = game.error;
    game_close(&game);
    return good;
}

bool explore_tell_json(const struct explore *explore, bool done)
{
    const struct search_result *result = &explore->result;
    const struct stage_scene *scene = &explore->scene;
    json_t *faults = json_object(), *all;
    json_t *bounds = json_pack(
        "{s:I, s:I, s:I}", "stock", (json_int_t)scene->stock, "wait_ms",
        (json_int_t)scene->wait_ms, "lease_ms", (json_int_t)scene->lease_ms);

    for (int i = 0; i < SEARCH_BOUNDS_N; i++)
        (void)json_object_set_new(bounds,
                                  i == SEARCH_LOST ? "lost_replies"
                                                   : search_bound_rows[i].flag,
                                  json_integer(explore->bounds.most[i]));
    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++)
        if (result->faults[i].is_found)
            (void)json_object_set_new(
                faults, stage_fault_word(i),
                json_string(search_text(&result->faults[i])));
    all = json_pack(
        "{s:o, s:s, s:i, s:s*, s:o, s:s*, s:s, s:I, s:I, s:i, s:i, s:I, s:b, "
        "s:b, s:I, s:o}",
        "lock", draw_json_text(explore->scene.lock, 0), "deduct",
        deduct(explore), "buyers", (int)scene->buyers, "flags", explore->flags,
        "bounds", bounds, "never_played", never_played(scene), "verdict",
        explore_verdict(explore), "schedules", (json_int_t)result->schedules,
        "states", (json_int_t)result->states, "moves", (int)result->moves,
        "moves_with_one_trouble", (int)explore->calm.moves, "at_random",
        (json_int_t)explore->at_random, "whole", result->is_whole, "done", done,
        "ms", (json_int_t)explore->ms, "faults", faults);
    if (explore->random_s > 0)
        (void)json_object_update_new(
            all,
            json_pack("{s:I, s:I}", "seed", (json_int_t)explore->bounds.seed,
                      "moves_all", (json_int_t)result->moves_all));
    draw_json_line(stdout, all);
    /* A reader that has gone ends the search. */
    return fflush(stdout) == 0;
}
