/*
 * Runs an experiment of steps: plays its schedule on the stage, draws what happens
 * as swimlanes, and looks at what came of it. See experiment.h.
 */
#include <inttypes.h>
#include <string.h>

#include "server/lab/experiments/experiment.h"
#include "server/lab/stage/draw.h"
#include "server/lab/stage/stage_options.h"

void steps_scene(const struct experiment_play *play, char text[], size_t size)
{
    const struct stage_scene *scene = &play->scene;

    (void)snprintf(
        text, size, "%s, %s: %u buyer%s, stock %" PRId64 ", quantity %" PRId64,
        scene->lock, scene->deduct == DEDUCT_NAIVE ? "naive" : "guarded",
        scene->buyers, scene->buyers == 1 ? "" : "s", scene->stock,
        scene->quantity);
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
    size_t drawn = 0;

    if (run->out)
        draw_head(run->out, &play->scene, run->colour);
    for (size_t i = 0; i < n; i++) {
        char error[300] = "interrupted";

        if (stage_options_interrupted() ||
            !stage_move(stage, moves[i], error, sizeof(error))) {
            (void)snprintf(run->error, sizeof(run->error), "move %zu: %s",
                           i + 1, error);
            return false;
        }
        if (!run->out)
            continue;
        draw_steps(run->out, stage, &play->scene, drawn, moves, run->colour);
        (void)fflush(run->out);
        (void)stage_steps(stage, &drawn);
    }
    return true;
}

static void write_json(struct stage *stage, const struct experiment_play *play,
                       FILE *json)
{
    fprintf(json, "\"lock\": ");
    draw_json_string(json, play->scene.lock);
    fprintf(json, ", \"schedule\": ");
    draw_json_string(json, play->schedule);
    fprintf(json, ", \"timeline\": {");
    draw_json(json, stage, &play->scene);
    fputc('}', json);
}

/* What came of it; and how it looks on the stage then. */
static void conclude(struct stage *stage, const struct experiment_play *play,
                     struct experiment_run *run)
{
    static struct stage_view view;
    static char state[DRAW_STATE_BYTES_MAX];

    run->faults = stage_faults(stage);
    stage_look(stage, &view);
    run->stock = view.stock;
    run->sold = view.sold;
    run->orders = view.orders;
    run->as_told = run->faults == play->faults && run->sold == play->sold &&
                   (play->faults != 0 || view.over) &&
                   (!play->says || was_said(stage, play->says));
    if (run->out) {
        state[0] = '\0';
        draw_state(run->out, stage, &play->scene, state, run->colour);
    }
    if (run->json)
        write_json(stage, play, run->json);
}

bool steps_run(const struct experiment_play *play, struct experiment_run *run)
{
    struct stage_move moves[STAGE_MOVES_MAX];
    struct stage *stage;
    bool played;
    int n = stage_parse(play->schedule, moves, run->error, sizeof(run->error));

    if (n < 0)
        return false;
    stage = stage_open(&play->scene, run->error, sizeof(run->error));
    if (!stage)
        return false;
    played = play_moves(stage, play, moves, (size_t)n, run);
    if (played)
        conclude(stage, play, run);
    stage_close(stage);
    return played;
}
