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
    struct timeline_head head = {.source = "stage",
                                 .actors_n = scene->buyers,
                                 .started_us = WORLD_BEGINS_US};

    (void)snprintf(head.scene, sizeof(head.scene), "%s",
                   game->name ? game->name : "");
    (void)snprintf(head.lock, sizeof(head.lock), "%s", scene->lock);
    (void)snprintf(
        head.settings, sizeof(head.settings),
        "--buyers %u --deduct %s --stock %" PRId64 " --quantity %" PRId64
        " --wait-ms %" PRId64 " --lease-ms %" PRId64,
        scene->buyers, scene->deduct == DEDUCT_NAIVE ? "naive" : "guarded",
        scene->stock, scene->quantity, scene->wait_ms, scene->lease_ms);
    stage_text(game->moves, game->n, head.schedule, sizeof(head.schedule));
    for (unsigned i = 0; i < scene->buyers; i++)
        head.actors[i][0] = (char)('a' + (char)i);
    timeline_write_head(out, &head);
}

void game_write_timeline(FILE *out, const struct game *game)
{
    static struct stage_view view;
    size_t n;
    const struct stage_step *steps = stage_steps(game->stage, &n);
    struct timeline_verdict verdict = {.is_known = true, .events = n};

    write_head(out, game);
    for (const struct stage_step *step = steps; step < steps + n; step++) {
        struct timeline_event event = {
            .at_us = step->at_us,
            .phase = step->name[0] ? TIMELINE_STEP : TIMELINE_NOTE,
            .outcome = timeline_outcome_of(step->reply),
            .move = step->move};

        if (step->actor >= 0)
            event.actor[0] = (char)('a' + step->actor);
        if (step->move > 0 && game->moves[step->move - 1].kind == '~' &&
            event.phase == TIMELINE_STEP)
            event.outcome = TIMELINE_UNKNOWN;
        (void)snprintf(event.part, sizeof(event.part), "%s", step->who);
        (void)snprintf(event.step, sizeof(event.step), "%s", step->name);
        (void)snprintf(event.key, sizeof(event.key), "%s", step->key);
        (void)snprintf(event.sent, sizeof(event.sent), "%s", step->sent);
        (void)snprintf(event.reply, sizeof(event.reply), "%s", step->reply);
        (void)snprintf(event.mark, sizeof(event.mark), "%s", step->mark);
        timeline_write_event(out, &event);
    }
    stage_look(game->stage, &view);
    verdict.over = view.over;
    verdict.stock = view.stock;
    verdict.sold = view.sold;
    verdict.orders = view.orders;
    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++) {
        if (game->verdict.faults & 1u << i)
            (void)snprintf(verdict.faults[verdict.faults_n++],
                           TIMELINE_NAME_BYTES, "%s", stage_fault_word(i));
        if (game->verdict.remarks & 1u << i)
            (void)snprintf(verdict.remarks[verdict.remarks_n++],
                           TIMELINE_NAME_BYTES, "%s", stage_fault_word(i));
    }
    timeline_write_verdict(out, &verdict);
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
