/*
 * Runs an experiment of steps: plays its schedule on the stage, draws what happens
 * as swimlanes, and looks at what came of it. See experiment.h.
 */
#include <inttypes.h>
#include <string.h>

#include "server/lab/experiments/experiment.h"
#include "server/lab/replay/game.h"

static void tell_scene(const struct experiment_play *play, char text[],
                       size_t size)
{
    const struct stage_scene *scene = &play->scene;

    (void)snprintf(
        text, size, "lock %s, deduct %s: %u %s%s, stock %" PRId64, scene->lock,
        scene->deduct == DEDUCT_NAIVE ? "naive" : "guarded", scene->buyers,
        command_has_programs(scene) ? "actor" : "buyer",
        scene->buyers == 1 ? "" : "s", scene->stock);
}

/* Whether a step was sent, or answered, TEXT. */
static bool was_said(const struct stage *stage, const char *text)
{
    const struct stage_step *steps;
    size_t n;

    steps = stage_steps(stage, &n);
    for (size_t i = 0; i < n; i++)
        if (strstr(steps[i].sent, text) || strstr(steps[i].reply, text))
            return true;
    return false;
}

/* The verdict, and how it looks on the stage then. */
static void conclude(struct game *game, const struct experiment_play *play,
                     struct experiment_run *run)
{
    static struct stage_view view;

    stage_look(game->stage, &view);
    run->verdict = game->verdict;
    run->stock = view.stock;
    run->sold = view.sold;
    run->orders = view.orders;
    run->is_over = view.over;
    /* Faults and remarks are compared exactly: one that is missing makes it another
     * story, as one too many does. */
    run->as_told =
        (run->verdict.faults | run->verdict.remarks) == play->faults &&
        run->sold == play->sold &&
        (play->faults & ~STAGE_REMARKS || view.over) &&
        (!play->says || was_said(game->stage, play->says));
    /* In brief the state was left out behind each move; once, at the end, it is drawn. */
    if (run->out && run->brief)
        draw_state(run->out, game->stage, game->scene, game->state,
                   run->look | DRAW_NO_MOVES);
    if (run->json)
        (void)json_object_update_new(
            run->json, json_pack("{s:o, s:s, s:o}", "lock",
                                 draw_json_text(play->scene.lock, 0),
                                 "schedule", play->schedule, "timeline",
                                 draw_json(game->stage, game->scene, 0)));
}

static bool run_steps(const struct experiment_play *play,
                      struct experiment_run *run)
{
    static struct game game;
    struct stage_move moves[STAGE_MOVES_MAX];
    bool played;
    int n = stage_parse(play->schedule, moves, &run->error);

    if (n < 0)
        return false;
    if (!game_open(&game, &play->scene, run->out,
                   run->look | (run->brief ? DRAW_NO_STATE : 0)))
        return fail_with(&run->error, "%s", game.error.text);
    game.name = run->name;
    if (run->out) {
        command_replay(run->out, &play->scene, play->schedule);
        fputs("\n\n", run->out);
    }
    game_draw(&game);
    /* A move that is none ends the play: half of a story has no verdict. */
    played = game_play(&game, moves, (size_t)n);
    if (played)
        conclude(&game, play, run);
    else
        (void)fail_with(&run->error, "move %zu: %s", game.n + 1,
                        game.error.text);
    if (played && run->save)
        played = game_save(run->save, &game, game_write_timeline, &run->error);
    /* The game owns its servers: it must be closed whatever came. */
    game_close(&game);
    return played;
}

const struct experiment_kind steps_kind = {"steps", run_steps, tell_scene};
