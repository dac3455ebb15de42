/*
 * Runs an experiment of steps: plays its schedule on the stage, draws what happens
 * as swimlanes, and looks at what came of it. See experiment.h.
 */
#include <inttypes.h>
#include <string.h>

#include "server/lab/experiments/experiment.h"
#include "server/lab/experiments/words.h"
#include "server/lab/picture/draw.h"
#include "server/lab/picture/save.h"
#include "server/lab/stage/stage_options.h"

static bool has_programs(const struct stage_scene *scene)
{
    for (unsigned i = 0; i < scene->buyers; i++)
        if (scene->roles[i].program)
            return true;
    return false;
}

static void tell_scene(const struct experiment_play *play, char text[],
                       size_t size)
{
    const struct stage_scene *scene = &play->scene;

    (void)snprintf(text, size, "lock %s, deduct %s: %u %s%s, stock %" PRId64,
                   scene->lock,
                   scene->deduct == DEDUCT_NAIVE ? "naive" : "guarded",
                   scene->buyers, has_programs(scene) ? "actor" : "buyer",
                   scene->buyers == 1 ? "" : "s", scene->stock);
}

static struct stage_scene scene_of(const struct experiment_play *play)
{
    struct stage_scene scene = play->scene;

    scene.quantity = scene.quantity > 0 ? scene.quantity : 1;
    scene.wait_ms = scene.wait_ms > 0 ? scene.wait_ms : 30000;
    return scene;
}

/* Whether `stockade replay` has flags for all of the scene. */
static bool has_flags(const struct stage_scene *scene)
{
    for (unsigned i = 0; i < scene->buyers; i++) {
        const struct stage_role *role = &scene->roles[i];

        if (role->product || role->user || role->other || role->quantity ||
            role->segments || role->key)
            return false;
    }
    return scene->max_hold_ms == 0 && scene->limit == 0;
}

static int write_flag(FILE *out, const char *name, int64_t value,
                      int64_t preset)
{
    return value > 0 && value != preset
               ? fprintf(out, " --%s %" PRId64, name, value)
               : 0;
}

/* "order,cancel": what each actor does; "" if all of them order. */
static void list_programs(const struct stage_scene *scene, char text[],
                          size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < scene->buyers && has_programs(scene); i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s",
                                 i == 0 ? " --programs " : ",",
                                 stage_role(scene, i).program);
}

static unsigned look_of(const struct experiment_run *run)
{
    return (run->colour ? DRAW_COLOUR : 0) |
           (run->language == EXPERIMENT_ZH ? DRAW_CHINESE : 0);
}

/* The command line that plays the same, to go on from there. */
static void tell_replay(const struct experiment_play *play, FILE *out)
{
    const struct stage_scene *scene = &play->scene;
    const char *deduct =
        scene->deduct == DEDUCT_GUARDED ? " --deduct guarded" : "";
    char programs[(STAGE_ACTORS_MAX + 1) * STAGE_NAME_BYTES];
    int n;

    if (!has_flags(scene)) {
        words_wrap(out, 0, play->schedule);
        fputc('\n', out);
        return;
    }
    list_programs(scene, programs, sizeof(programs));
    n = fprintf(out, "$ stockade replay");
    n += write_flag(out, "buyers", scene->buyers, 2);
    n += write_flag(out, "stock", scene->stock, 1);
    n += write_flag(out, "quantity", scene->quantity, 1);
    n += write_flag(out, "wait-ms", scene->wait_ms, 0);
    n += write_flag(out, "lease-ms", scene->lease_ms, 0);
    n += write_flag(out, "products", scene->products, 1);
    n += write_flag(out, "segments", scene->segments, 1);
    n += fprintf(out, "%s%s", scene->one_process ? " --one-process" : "",
                 scene->replica ? " --replica" : "");
    if (n + (int)(strlen(deduct) + strlen(programs) + strlen(scene->lock)) + 4 >
        WORDS_COLUMNS)
        n = fprintf(out, " \\\n   ") - 3;
    n += fprintf(out, "%s%s %s ", deduct, programs, scene->lock);
    fprintf(out, "%s'%s'\n\n",
            n + (int)strlen(play->schedule) + 2 > WORDS_COLUMNS ? "\\\n    "
                                                                : "",
            play->schedule);
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

    if (run->out) {
        tell_replay(play, run->out);
        draw_head(run->out, &play->scene, look_of(run));
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
        draw_steps(run->out, stage, &play->scene, drawn, moves, look_of(run));
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
    const struct stage_step *steps;
    size_t drawn, n;

    steps = stage_steps(stage, &drawn);
    stage_judge(stage, &run->verdict);
    (void)stage_steps(stage, &n); /* a program's check may have added why */
    for (size_t i = drawn; i < n && run->out; i++)
        draw_step(run->out, &steps[i], "", play->scene.buyers, look_of(run));
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
    if (run->out) {
        state[0] = '\0';
        draw_state(run->out, stage, &play->scene, state, look_of(run));
    }
    if (run->json)
        write_json(stage, play, run->json);
}

static bool run_steps(const struct experiment_play *play,
                      struct experiment_run *run)
{
    struct stage_scene scene = scene_of(play);
    struct stage_move moves[STAGE_MOVES_MAX];
    struct stage *stage;
    bool played;
    int n = stage_parse(play->schedule, moves, run->error, sizeof(run->error));

    if (n < 0)
        return false;
    stage = stage_open(&scene, run->error, sizeof(run->error));
    if (!stage)
        return false;
    played = play_moves(stage, play, moves, (size_t)n, run);
    if (played)
        conclude(stage, play, run);
    if (played && run->save)
        played = stage_save(run->save, stage, &scene, moves, (size_t)n,
                            run->name, run->error, sizeof(run->error));
    stage_close(stage);
    return played;
}

const struct experiment_kind steps_kind = {"steps", run_steps, tell_scene};
