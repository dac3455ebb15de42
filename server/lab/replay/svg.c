/* See game.h. Widths are in pixels of a typeface whose characters are equally wide. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/lab/replay/game.h"

enum {
    EDGE = 16,
    MOVE_W = 36,
    TIME_W = 60,
    LANE_W = 320,
    LANE_COLUMNS = 38, /* characters that go into a lane */
    LINE_H = 18,
    GAP_H = 4, /* between two steps */
    BAR_W = 4,
};

static const char style[] =
#include "server/lab/replay/svg.css.inc"
    ;

static int lane_x(unsigned actor)
{
    return EDGE + MOVE_W + TIME_W + (int)actor * LANE_W;
}

/* ---- texts --------------------------------------------------------------- */

static void write_escaped(FILE *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '&')
            fputs("&amp;", out);
        else if (text[i] == '<')
            fputs("&lt;", out);
        else if (text[i] == '>')
            fputs("&gt;", out);
        else
            fputc(text[i], out);
    }
}

static void write_text(FILE *out, int x, int y, const char *class,
                       const char *text, size_t n)
{
    fprintf(out, "<text x=\"%d\" y=\"%d\"%s%s%s>", x, y,
            *class ? " class=\"" : "", class, *class ? "\"" : "");
    write_escaped(out, text, n);
    fputs("</text>\n", out);
}

/* In lines of COLUMNS; returns how high they are. */
static int write_lines(FILE *out, int x, int y, const char *class,
                       const char *text, size_t columns)
{
    int height = 0;

    while (*text) {
        size_t cut = draw_fit(text, columns);

        height += LINE_H;
        write_text(out, x, y + height - GAP_H, class, text, cut);
        text += cut;
        while (*text == ' ')
            text++;
    }
    return height;
}

/* ---- steps --------------------------------------------------------------- */

/* One step from Y on; returns how high it is. MOVE: its text, "" = as before. */
static int write_step(FILE *out, const struct stage_step *step,
                      const char *move, unsigned buyers, unsigned look, int y)
{
    char text[DRAW_STEP_BYTES], ms[24];
    size_t columns = LANE_COLUMNS;
    int x = lane_x(step->actor > 0 ? (unsigned)step->actor : 0);

    if (step->actor < 0)
        columns *= buyers;
    (void)draw_step_text(step, look, text);
    (void)snprintf(ms, sizeof(ms), "%6" PRIu64, step->at_us / 1000);
    write_text(out, EDGE, y + LINE_H - GAP_H, "", move, strlen(move));
    write_text(out, EDGE + MOVE_W, y + LINE_H - GAP_H, "quiet", ms, strlen(ms));
    return GAP_H + write_lines(out, x, y,
                               step->mark[0]     ? "bad"
                               : step->actor < 0 ? "world"
                                                 : "",
                               text, columns);
}

/* With bars for those who were inside while a row happened. */
static int write_steps(FILE *out, const struct game *game, int y)
{
    const struct stage_step *steps;
    unsigned last = 0, inside;
    size_t n;

    steps = stage_steps(game->stage, &n);
    for (size_t i = 0; i < n; i++) {
        unsigned move = steps[i].move;
        char text[4] = "";
        int height;

        if (move > 0 && move != last)
            (void)stage_move_text(game->moves[move - 1], text);
        last = move;
        height = write_step(out, &steps[i], text, game->scene->buyers,
                            game->look, y);
        inside = game->inside[move];
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

/* ---- the whole ----------------------------------------------------------- */

static void write_all(FILE *out, const char *body, const char *heading,
                      const struct stage_scene *scene, int lanes_h, int height)
{
    int width = lane_x(scene->buyers) + EDGE;

    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
            "height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\">\n<title>",
            width, height, width, height);
    write_escaped(out, heading, strlen(heading));
    fprintf(out,
            "</title>\n<style>\n%s</style>\n<rect class=\"paper\" width=\"%d\" "
            "height=\"%d\"/>\n",
            style, width, height);
    write_text(out, EDGE, EDGE + LINE_H - GAP_H, "quiet", heading,
               strlen(heading));
    for (unsigned i = 0; i < scene->buyers; i++) {
        const char name[] = {(char)('a' + (char)i), '\0'};

        fprintf(out,
                "<rect class=\"lane\" x=\"%d\" y=\"%d\" width=\"%d\" "
                "height=\"%d\"/>\n",
                lane_x(i) - 3 * BAR_W, EDGE + 3 * LINE_H / 2, LANE_W - BAR_W,
                lanes_h);
        write_text(out, lane_x(i), EDGE + 5 * LINE_H / 2 - GAP_H, "name", name,
                   1);
    }
    fputs(body, out);
    fputs("</svg>\n", out);
}

void game_write_svg(FILE *out, const struct game *game)
{
    const int top = EDGE + 3 * LINE_H / 2;
    char schedule[4 * STAGE_MOVES_MAX + 1], heading[sizeof(schedule) + 300];
    const struct stage_scene *scene = game->scene;
    char *body = NULL, *verdict = NULL, *rest, *line;
    size_t size, verdict_size;
    FILE *text = open_memstream(&body, &size);
    FILE *lines = open_memstream(&verdict, &verdict_size);
    int end, y;

    if (!text || !lines)
        return;
    stage_text(game->moves, game->n, schedule, sizeof(schedule));
    (void)snprintf(heading, sizeof(heading), "%.250s, %s: %s", scene->lock,
                   scene->deduct == DEDUCT_NAIVE ? "naive" : "guarded",
                   schedule);
    end = write_steps(text, game, top + LINE_H + GAP_H);
    draw_verdict(lines, &game->verdict, true, game->look & DRAW_CHINESE);
    (void)fclose(lines);
    y = end + 2 * GAP_H;
    for (rest = verdict; (line = strsep(&rest, "\n")) != NULL;)
        y += write_lines(text, EDGE, y, game->verdict.faults ? "bad" : "", line,
                         (size_t)2 * LANE_COLUMNS);
    (void)fclose(text);
    write_all(out, body, heading, scene, end - top, y + EDGE);
    free(verdict);
    free(body);
}
