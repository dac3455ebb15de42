/*
 * Runs an experiment of steps: plays its schedule on the stage, draws what happens
 * as swimlanes, and looks at what came of it. See experiment.h.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "server/lab/experiments/experiment.h"
#include "server/lab/experiments/words.h"
#include "server/lab/picture/draw.h"
#include "server/lab/picture/save.h"
#include "server/lab/stage/stage_options.h"

/* Does an actor more than order? */
static bool has_programs(const struct stage_scene *scene)
{
    for (unsigned i = 0; i < scene->buyers; i++)
        if (strcmp(stage_role(scene, i).program, "order") != 0)
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

/* A command line that can be pasted, in lines that end with a backslash. */
struct command {
    FILE *out;
    int column;
};

/* One word or flag with its value. One that is wider than a line is broken behind its
 * commas: the shell puts it together again. */
static void write_word(struct command *command, const char *format, ...)
{
    int columns = draw_columns(command->out) - 2; /* for the backslash */
    char text[500];
    const char *at = text;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (command->column > 0 &&
        command->column + 1 + (int)strlen(text) > columns)
        command->column = fprintf(command->out, " \\\n   ") - 3;
    if (command->column > 0)
        command->column += fprintf(command->out, " ");
    while (command->column + (int)strlen(at) > columns && strchr(at, ',')) {
        const char *cut = strchr(at, ',') + 1;

        fprintf(command->out, "%.*s\\\n", (int)(cut - at), at);
        command->column = 0;
        at = cut;
    }
    command->column += fprintf(command->out, "%s", at);
}

static void write_flag(struct command *command, const char *name, int64_t value,
                       int64_t preset)
{
    if (value > 0 && value != preset)
        write_word(command, "--%s %" PRId64, name, value);
}

/* The settings of a role besides its program: ":user=5:key=k". */
static size_t list_settings(const struct stage_role *role, char text[],
                            size_t size)
{
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{"product", role->product},
                   {"other", role->other},
                   {"user", role->user},
                   {"quantity", role->quantity},
                   {"segments", role->segments}};
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (numbers[i].value > 0)
            used += (size_t)snprintf(text + used, size - used, ":%s=%" PRId64,
                                     numbers[i].name, numbers[i].value);
    if (role->key)
        used +=
            (size_t)snprintf(text + used, size - used, ":key=%s", role->key);
    return used;
}

/* "order,cancel:key=k": what each actor does; "" if all of them just order. */
static void list_programs(const struct stage_scene *scene, char text[],
                          size_t size)
{
    bool is_plain = !has_programs(scene);
    char settings[100];
    size_t used = 0;

    for (unsigned i = 0; i < scene->buyers; i++)
        if (list_settings(&scene->roles[i], settings, sizeof(settings)) > 0)
            is_plain = false;
    text[0] = '\0';
    for (unsigned i = 0; i < scene->buyers && !is_plain; i++) {
        (void)list_settings(&scene->roles[i], settings, sizeof(settings));
        used += (size_t)snprintf(text + used, size - used, "%s%s%s",
                                 i == 0 ? "--programs " : ",",
                                 stage_role(scene, i).program, settings);
    }
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
    char programs[(STAGE_ACTORS_MAX + 1) * 2 * STAGE_NAME_BYTES];
    struct command command = {.out = out};

    list_programs(scene, programs, sizeof(programs));
    write_word(&command, "%s replay", draw_program());
    write_flag(&command, "buyers", scene->buyers, 2);
    write_flag(&command, "stock", scene->stock, 1);
    write_flag(&command, "quantity", scene->quantity, 1);
    write_flag(&command, "wait-ms", scene->wait_ms, 30000);
    write_flag(&command, "lease-ms", scene->lease_ms, 0);
    write_flag(&command, "products", scene->products, 1);
    write_flag(&command, "segments", scene->segments, 1);
    write_flag(&command, "limit", scene->limit, 0);
    write_flag(&command, "max-hold-ms", scene->max_hold_ms, 0);
    if (scene->one_process)
        write_word(&command, "--one-process");
    if (scene->replica)
        write_word(&command, "--replica");
    if (scene->batched)
        write_word(&command, "--batched");
    else if (scene->deduct == DEDUCT_GUARDED)
        write_word(&command, "--deduct guarded");
    if (programs[0])
        write_word(&command, "%s", programs);
    write_word(&command, "%s", scene->lock);
    write_word(&command, "'%s'", play->schedule);
    fputs("\n\n", out);
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
        tell_replay(play, run->out);
        draw_head(run->out, &play->scene, look_of(run));
        if (!run->brief)
            draw_state(run->out, stage, &play->scene, state, look_of(run));
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
        if (!run->brief)
            draw_state(run->out, stage, &play->scene, state, look_of(run));
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
    if (run->out && run->brief) {
        state[0] = '\0';
        draw_state(run->out, stage, &play->scene, state,
                   look_of(run) | DRAW_NO_MOVES);
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
