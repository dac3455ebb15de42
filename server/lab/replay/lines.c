/* See game.h. A page speaks this with a process for each visitor: a stage is for one
 * thread, and is gone with its process. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/lab/picture/draw.h"
#include "server/lab/replay/game.h"
#include "server/lab/stage/stage_options.h"

struct lines {
    struct game game;
    const struct game_goal *goal;
    unsigned look;
    struct game_hint hint;
    bool has_hint; /* in this answer */
};

/* ---- answers ------------------------------------------------------------ */

static void write_moves(FILE *out, struct lines *lines)
{
    struct stage_move moves[STAGE_ENABLED_MAX];
    size_t n = stage_enabled(lines->game.stage, moves);
    static struct stage_view view;
    char text[4], phrase[GAME_PHRASE_BYTES];

    stage_look(lines->game.stage, &view);
    fprintf(out, ", \"over\": %s, \"moves\": [", view.over ? "true" : "false");
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "%s{\"move\": \"%s\", \"says\": ", i > 0 ? ", " : "",
                stage_move_text(moves[i], text));
        draw_json_say(out, game_phrase(&view, moves[i], phrase), lines->look);
        fputc('}', out);
    }
    fputc(']', out);
}

static void write_hint(FILE *out, const struct lines *lines)
{
    const struct game_hint *hint = &lines->hint;
    char text[4];

    fprintf(out, ", \"hint\": {\"schedules\": %" PRIu64 ", \"whole\": %s",
            hint->result.schedules, hint->result.is_whole ? "true" : "false");
    if (hint->fault != STAGE_FAULT_N)
        fprintf(out, ", \"move\": \"%s\", \"n\": %zu, \"fault\": \"%s\"",
                stage_move_text(hint->way.moves[0], text), hint->way.n,
                stage_fault_word(hint->fault));
    fputc('}', out);
}

static void write_state(FILE *out, struct lines *lines)
{
    struct game *game = &lines->game;
    char schedule[4 * STAGE_MOVES_MAX + 1];

    stage_text(game->moves, game->n, schedule, sizeof(schedule));
    fprintf(out, ", \"schedule\": \"%s\"", schedule);
    write_moves(out, lines);
    fputs(", ", out);
    draw_json(out, game->stage, game->scene, lines->look);
}

/* On one line, however it is written. False: there is no memory, or nobody reads. */
static bool answer(struct lines *lines, const char *error)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return false;
    fprintf(out, "{\"lock\": \"%s\"", lines->game.scene->lock);
    if (error) {
        fputs(", \"error\": ", out);
        draw_json_say(out, error, lines->look);
    }
    if (lines->has_hint)
        write_hint(out, lines);
    if (lines->game.stage)
        write_state(out, lines);
    fputc('}', out);
    (void)fclose(out);
    for (char *at = text; (at = strchr(at, '\n')) != NULL;)
        *at = ' ';
    (void)puts(text);
    free(text);
    return fflush(stdout) == 0;
}

/* ---- commands ----------------------------------------------------------- */

/* NULL, or an error; a game without a stage is over. */
static const char *move(struct game *game, const char *schedule)
{
    struct stage_move moves[STAGE_MOVES_MAX];
    int n = stage_parse(schedule, moves, game->error, sizeof(game->error));

    for (int i = 0; i < n; i++)
        if (!game_move(game, moves[i]))
            return game->error;
    return n < 0 ? game->error : NULL;
}

static const char *back(struct game *game, const char *number)
{
    char *end;
    unsigned long n = strtoul(number, &end, 10);

    if (end == number || *end || n > game->n)
        return "there are not so many moves";
    return game_back(game, n) ? NULL : game->error;
}

static const char *hint(struct lines *lines)
{
    struct game *game = &lines->game;

    lines->has_hint = game_hint(game, lines->goal, NULL, NULL, &lines->hint);
    return lines->has_hint ? NULL : game->error;
}

static const char *obey(struct lines *lines, char *line)
{
    lines->has_hint = false;
    line[strcspn(line, "\r\n")] = '\0';
    if (strncmp(line, "move ", 5) == 0)
        return move(&lines->game, line + 5);
    if (strncmp(line, "back ", 5) == 0)
        return back(&lines->game, line + 5);
    if (strcmp(line, "hint") == 0)
        return hint(lines);
    return "a line is: move MOVES, back N, or hint";
}

int lines_play(const struct stage_scene *scene, const struct stage_move moves[],
               size_t n, const struct game_goal *goal, unsigned look)
{
    static struct lines lines;
    struct game *game = &lines.game;
    const char *error = NULL;
    char line[4 * STAGE_MOVES_MAX + 16];

    lines = (struct lines){.goal = goal, .look = look & DRAW_CHINESE};
    stage_options_catch_signals();
    (void)setvbuf(stdin, NULL, _IONBF, 0);
    if (!game_open(game, scene))
        error = game->error;
    for (size_t i = 0; i < n && !error; i++)
        if (!game_move(game, moves[i]))
            error = game->error;
    while (answer(&lines, error) && game->stage && stage_options_wait_input() &&
           fgets(line, sizeof(line), stdin))
        error = obey(&lines, line);
    if (!game->stage)
        return 2;
    game_close(game);
    return 0;
}
