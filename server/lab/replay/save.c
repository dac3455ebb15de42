/* See game.h. */
#include "server/lab/replay/game.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "server/lab/fail.h"
#include "server/lab/timeline/timeline.h"
#include "server/lab/world/world.h"

static void write_head(FILE *out, const struct game *game)
{
    const struct stage_scene *scene = game->scene;
    char settings[256], schedule[4 * STAGE_MOVES_MAX + 1];

    (void)snprintf(
        settings, sizeof(settings),
        "--buyers %u --deduct %s --stock %" PRId64 " --quantity %" PRId64
        " --wait-ms %" PRId64 " --lease-ms %" PRId64,
        scene->buyers, scene->deduct == DEDUCT_NAIVE ? "naive" : "guarded",
        scene->stock, scene->quantity, scene->wait_ms, scene->lease_ms);
    timeline_write_head(out,
                        &(struct timeline_head){
                            .source = "stage",
                            .scene = game->name,
                            .lock = scene->lock,
                            .settings = settings,
                            .schedule = stage_text(game->moves, game->n,
                                                   schedule, sizeof(schedule)),
                            .actors_n = scene->buyers,
                            .started_us = WORLD_BEGINS_US});
}

void game_write_timeline(FILE *out, const struct game *game)
{
    static struct stage_view view;
    unsigned remarks = game->verdict.remarks;
    size_t n;
    const struct stage_step *steps = stage_steps(game->stage, &n);
    json_t *verdict;

    write_head(out, game);
    for (size_t i = 0; i < n; i++) {
        struct timeline_event event = {.step = steps[i]};
        unsigned move = steps[i].move;

        if (steps[i].actor >= 0)
            event.actor[0] = (char)('a' + steps[i].actor);
        event.is_lost =
            steps[i].name[0] && move > 0 && game->moves[move - 1].kind == '~';
        timeline_write_event(out, &event);
    }
    stage_look(game->stage, &view);
    verdict = json_pack(
        "{s:o, s:o*, s:b, s:I, s:I, s:I, s:I, s:i}", "verdict",
        draw_json_faults(game->verdict.faults), "remarks",
        remarks ? draw_json_faults(remarks) : NULL, "over", view.over, "stock",
        (json_int_t)view.stock, "sold", (json_int_t)view.sold, "orders",
        (json_int_t)view.orders, "events", (json_int_t)n, "dropped", 0);
    (void)json_dumpf(verdict, out, JSON_COMPACT);
    fputc('\n', out);
    json_decref(verdict);
}

bool game_save(const char *path, const struct game *game, game_writer *write,
               struct fail *error)
{
    FILE *out = fopen(path, "we");
    bool good = out != NULL;

    if (good) {
        write(out, game);
        good = !ferror(out);
    }
    return (out && fclose(out) == 0 && good) ||
           fail_with(error, "%s: %s", path, strerror(errno));
}
