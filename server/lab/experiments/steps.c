/*
 * Runs an experiment of steps: plays its schedule on the stage, draws what happens
 * as swimlanes, and looks at what came of it. See experiment.h.
 */
#include <inttypes.h>
#include <string.h>

#include "server/lab/experiments/experiment.h"
#include "server/lab/picture/draw.h"
#include "server/lab/stage/stage_options.h"

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

/* False: a move was not enabled, or Ctrl-C came: the run has the text. */
static bool play_moves(struct stage *stage, const struct experiment_play *play,
                       const struct stage_move moves[], size_t n,
                       struct experiment_run *run)
{
    static char state[DRAW_STATE_BYTES_MAX];
    size_t drawn = 0;

    state[0] = '\0';
    if (run->out) {
        command_replay(run->out, &play->scene, play->schedule);
        fputs("\n\n", run->out);
        draw_head(run->out, &play->scene, run->look);
        if (!run->brief)
            draw_state(run->out, stage, &play->scene, state, run->look);
    }
    for (size_t i = 0; i < n; i++) {
        char error[300] = "interrupted";

        if (stage_options_interrupted() ||
            !stage_move(stage, moves[i], error, sizeof(error))) {
            (void)snprintf(run->error, sizeof(run->error), "move %zu: %s",
                           i + 1, error);
            return false;
        }
        stage_judge(stage, &run->verdict);
        if (!run->out)
            continue;
        draw_steps(run->out, stage, &play->scene, drawn, moves, run->look);
        if (!run->brief)
            draw_state(run->out, stage, &play->scene, state, run->look);
        (void)fflush(run->out);
        (void)stage_steps(stage, &drawn);
    }
    return true;
}

static void write_json(struct stage *stage, const struct experiment_play *play,
                       FILE *json)
{
    json_t *members = json_pack("{s:o, s:s, s:o}", "lock",
                                draw_json_text(play->scene.lock, 0), "schedule",
                                play->schedule, "timeline",
                                draw_json(stage, &play->scene, 0));

    (void)json_dumpf(members, json, JSON_EMBED);
    json_decref(members);
}

/* The verdict, and how it looks on the stage then. */
static void conclude(struct stage *stage, const struct experiment_play *play,
                     struct experiment_run *run)
{
    static struct stage_view view;
    static char state[DRAW_STATE_BYTES_MAX];
    const struct stage_step *steps;
    size_t drawn, n;

    steps = stage_steps(stage, &drawn);
    stage_judge(stage, &run->verdict);
    (void)stage_steps(stage, &n); /* a program's check may have added why */
    for (size_t i = drawn; i < n && run->out; i++)
        draw_step(run->out, &steps[i], "", play->scene.buyers, run->look);
    stage_look(stage, &view);
    run->stock = view.stock;
    run->sold = view.sold;
    run->orders = view.orders;
    run->is_over = view.over;
    run->as_told =
        (run->verdict.faults | run->verdict.remarks) == play->faults &&
        run->sold == play->sold &&
        (play->faults & ~STAGE_REMARKS || view.over) &&
        (!play->says || was_said(stage, play->says));
    if (run->out && run->brief) {
        state[0] = '\0';
        draw_state(run->out, stage, &play->scene, state,
                   run->look | DRAW_NO_MOVES);
    }
    if (run->json)
        write_json(stage, play, run->json);
}

static bool run_steps(const struct experiment_play *play,
                      struct experiment_run *run)
{
    const struct stage_scene *scene = &play->scene;
    struct stage_move moves[STAGE_MOVES_MAX];
    struct stage *stage;
    bool played;
    int n = stage_parse(play->schedule, moves, run->error, sizeof(run->error));

    if (n < 0)
        return false;
    stage = stage_open(scene, run->error, sizeof(run->error));
    if (!stage)
        return false;
    played = play_moves(stage, play, moves, (size_t)n, run);
    if (played)
        conclude(stage, play, run);
    if (played && run->save)
        played = stage_save(run->save, stage, scene, moves, (size_t)n,
                            run->name, run->error, sizeof(run->error));
    stage_close(stage);
    return played;
}

const struct experiment_kind steps_kind = {"steps", run_steps, tell_scene};
