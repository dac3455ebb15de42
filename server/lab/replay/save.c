/* See game.h: a game as a file, for programs and for people. */

#include "server/lab/replay/game.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/lab/timeline/timeline.h"
#include "server/lab/world/world.h"

bool game_save(const char *path, const struct game *game, game_writer *write,
               struct fail *error)
{
    FILE *out = fopen(path, "we");
    bool good = out != NULL;

    /* A file that could not be written to its end is told at fclose(): a buffer may
     * hold all of it until then. */
    if (good)
        good = write(out, game) && !ferror(out);
    return (out && fclose(out) == 0 && good) ||
           fail_with(error, "%.900s: %s", path, strerror(errno));
}

/* ---- a timeline ------------------------------------------------------------- */

static bool write_head(FILE *out, const struct game *game)
{
    const struct stage_scene *scene = game->scene;
    char *settings = NULL, schedule[4 * STAGE_MOVES_MAX + 1];
    size_t size;
    FILE *flags = open_memstream(&settings, &size);

    if (flags)
        command_settings(flags, scene, ' ');
    if (!flags || fclose(flags) != 0) {
        free(settings);
        return false;
    }
    timeline_write_head(out,
                        &(struct timeline_head){
                            .source = "stage",
                            .scene = game->name,
                            .lock = scene->lock,
                            .settings = settings + (*settings == ' '),
                            .schedule = stage_text(game->moves, game->n,
                                                   schedule, sizeof(schedule)),
                            .actors_n = scene->buyers,
                            .started_us = WORLD_BEGINS_US});
    free(settings);
    return true;
}

bool game_write_timeline(FILE *out, const struct game *game)
{
    static struct stage_view view;
    unsigned remarks = game->verdict.remarks;
    size_t n;
    const struct stage_step *steps = stage_steps(game->stage, &n);
    json_t *verdict;
    bool good;

    if (!write_head(out, game))
        return false;
    for (size_t i = 0; i < n; i++) {
        struct timeline_event event = {.step = steps[i]};
        unsigned move = steps[i].move;

        if (steps[i].actor >= 0)
            event.actor[0] = (char)('a' + steps[i].actor);
        /* The reply was lost, of a step; a note of the same move was no command. */
        event.is_lost =
            steps[i].name[0] && move > 0 && game->moves[move - 1].kind == '~';
        timeline_write_event(out, &event);
    }
    /* The numbers are those of the end. */
    stage_look(game->stage, &view);
    verdict = json_pack(
        "{s:o, s:o*, s:b, s:I, s:I, s:I, s:I, s:i}", "verdict",
        draw_json_faults(game->verdict.faults), "remarks",
        remarks ? draw_json_faults(remarks) : NULL, "over", view.over, "stock",
        (json_int_t)view.stock, "sold", (json_int_t)view.sold, "orders",
        (json_int_t)view.orders, "events", (json_int_t)n, "dropped", 0);
    good = json_dumpf(verdict, out, JSON_COMPACT) == 0;
    fputc('\n', out);
    json_decref(verdict);
    return good;
}

/* ---- a picture ---------------------------------------------------------------
 *
 * Widths are in pixels of a typeface whose characters are equally wide.
 */

enum {
    EDGE = 16,
    MOVE_W = 36,
    TIME_W = 60,
    LANE_W = 320,
    LANE_COLUMNS = 38, /* characters that go into a lane */
    LINE_H = 18,
    GAP_H = 4, /* between two steps */
    BAR_W = 4,
    TOP = EDGE + 3 * LINE_H / 2, /* of the lanes, below the heading */
};

static const char style[] =
#include "server/lab/replay/svg.css.inc"
    ;

static int lane_x(unsigned actor)
{
    return EDGE + MOVE_W + TIME_W + (int)actor * LANE_W;
}

static void write_escaped(FILE *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] == '&')
            fputs("&amp;", out);
        else if (text[i] == '<')
            fputs("&lt;", out);
        else if (text[i] == '>')
            fputs("&gt;", out);
        else
            fputc(text[i], out);
}

/* TEXT from Y on, in lines of COLUMNS; returns how high they are. */
static int write_text(FILE *out, int x, int y, const char *class,
                      const char *text, size_t columns)
{
    int height = 0;

    do {
        size_t cut = draw_fit(text, columns);

        /* Each line is as wide as the lane, and goes on with the next word. */
        height += LINE_H;
        fprintf(out, "<text x=\"%d\" y=\"%d\"%s%s%s>", x, y + height - GAP_H,
                *class ? " class=\"" : "", class, *class ? "\"" : "");
        write_escaped(out, text, cut);
        fputs("</text>\n", out);
        text += cut;
        text += strspn(text, " ");
    } while (*text);
    return height;
}

/* The steps from Y on, with bars for those who were inside while a row happened. Returns
 * where they end. */
static int write_steps(FILE *out, const struct game *game, int y)
{
    char text[DRAW_STEP_BYTES], ms[24];
    unsigned last = 0;
    size_t n;
    const struct stage_step *steps = stage_steps(game->stage, &n);

    for (const struct stage_step *step = steps; step < steps + n; step++) {
        /* The insiders are those behind the move: a bar stands beside what was done
         * while its actor was inside. */
        unsigned inside = game->inside[step->move];
        int x = lane_x(step->actor > 0 ? (unsigned)step->actor : 0), height;
        size_t columns = LANE_COLUMNS;
        const char *class = "";
        char move[4] = "";

        if (step->move > 0 && step->move != last)
            (void)stage_move_text(game->moves[step->move - 1], move);
        last = step->move;
        (void)snprintf(ms, sizeof(ms), "%6" PRIu64, step->at_us / 1000);
        (void)write_text(out, EDGE, y, "", move, MOVE_W);
        (void)write_text(out, EDGE + MOVE_W, y, "quiet", ms, TIME_W);
        /* The world's lines go over all lanes. */
        if (step->actor < 0) {
            columns *= game->scene->buyers;
            class = "world";
        }
        height = write_text(out, x, y, step->mark[0] ? "bad" : class,
                            draw_step_text(step, game->look, text), columns) +
                 GAP_H;
        for (unsigned actor = 0; actor < STAGE_ACTORS_MAX; actor++)
            if (inside & 1u << actor)
                fprintf(out,
                        "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" "
                        "height=\"%d\"/>\n",
                        inside & (inside - 1) ? "clash" : "in",
                        lane_x(actor) - 2 * BAR_W, y, BAR_W, height);
        y += height;
    }
    return y;
}

/* What stands around BODY: the paper, and a lane for each actor. */
static void write_all(FILE *out, const char *body, const char *heading,
                      unsigned actors_n, int lanes_h, int height)
{
    int width = lane_x(actors_n) + EDGE;

    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
            "height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\">\n<title>",
            width, height, width, height);
    write_escaped(out, heading, strlen(heading));
    fprintf(out,
            "</title>\n<style>\n%s</style>\n<rect class=\"paper\" width=\"%d\" "
            "height=\"%d\"/>\n",
            style, width, height);
    (void)write_text(out, EDGE, EDGE, "quiet", heading, strlen(heading));
    for (unsigned i = 0; i < actors_n; i++) {
        fprintf(out,
                "<rect class=\"lane\" x=\"%d\" y=\"%d\" width=\"%d\" "
                "height=\"%d\"/>\n",
                lane_x(i) - 3 * BAR_W, TOP, LANE_W - BAR_W, lanes_h);
        (void)write_text(out, lane_x(i), TOP, "name",
                         (const char[]){(char)('a' + (char)i), '\0'}, 1);
    }
    fputs(body, out);
    fputs("</svg>\n", out);
}

bool game_write_svg(FILE *out, const struct game *game)
{
    char schedule[4 * STAGE_MOVES_MAX + 1], heading[sizeof(schedule) + 300];
    const struct stage_scene *scene = game->scene;
    char *body = NULL, *verdict = NULL, *rest, *line;
    size_t size, verdict_size;
    FILE *text = open_memstream(&body, &size);
    FILE *lines = open_memstream(&verdict, &verdict_size);
    bool good = text && lines;
    int end = 0, y;

    /* The body is written before the frame: its height is the frame's. */
    stage_text(game->moves, game->n, schedule, sizeof(schedule));
    (void)snprintf(heading, sizeof(heading), "%.250s, %s: %s", scene->lock,
                   scene->deduct == DEDUCT_NAIVE ? "naive" : "guarded",
                   schedule);
    /* The verdict is drawn as for a terminal, and cut into lines. */
    if (good) {
        end = write_steps(text, game, TOP + LINE_H + GAP_H);
        draw_verdict(lines, &game->verdict, stage_is_over(game->stage),
                     game->look & DRAW_CHINESE);
    }
    /* A text is whole only if its fclose() says so: it may need memory. */
    good = lines && fclose(lines) == 0 && good;
    /* The lanes end with the steps; the verdict stands below. */
    y = end + 2 * GAP_H;
    for (rest = good ? verdict : NULL;
         (line = strsep(&rest, "\n")) != NULL && *line;)
        y += write_text(text, EDGE, y, game->verdict.faults ? "bad" : "", line,
                        (size_t)2 * LANE_COLUMNS);
    good = text && fclose(text) == 0 && good;
    if (good)
        write_all(out, body, heading, scene->buyers, end - TOP, y + EDGE);
    free(verdict);
    free(body);
    return good;
}
