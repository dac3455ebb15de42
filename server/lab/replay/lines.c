/* See game.h. A page speaks this with a process for each visitor: a stage is for one
 * thread, and is gone with its process. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/lab/replay/game.h"
#include "server/lab/scene/stage_options.h"

struct lines {
    struct game game;
    const struct game_goal *goal;
    unsigned look;
    struct game_hint hint;
    bool has_hint; /* in this answer */
};

/* ---- answers ------------------------------------------------------------ */

/* False: nobody reads. */
static bool answer(struct lines *lines, bool has_failed)
{
    const struct game *game = &lines->game;
    const struct game_hint *hint = &lines->hint;
    struct stage_move moves[STAGE_ENABLED_MAX];
    char text[4], phrase[GAME_PHRASE_BYTES];
    static struct stage_view view;
    json_t *list = json_array(), *found;
    /* A game that is over still answers, once: with its error. */
    json_t *all = game->stage ? game_json(game, lines->look)
                              : json_pack("{s:o}", "lock",
                                          draw_json_text(game->scene->lock, 0));
    size_t n = game->stage ? stage_enabled(game->stage, moves) : 0;

    if (game->stage) {
        stage_look(game->stage, &view);
        (void)json_object_set(all, "moves", list);
    }
    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(
            list, json_pack("{s:s, s:o}", "move",
                            stage_move_text(moves[i], text), "says",
                            draw_json_text(game_phrase(&view, moves[i], phrase),
                                           lines->look)));
    /* The list is counted by ALL now; without a stage nobody has it. */
    json_decref(list);
    if (has_failed)
        (void)json_object_set_new(
            all, "error", draw_json_text(game->error.text, lines->look));
    if (lines->has_hint) {
        found = json_pack("{s:I, s:b}", "schedules",
                          (json_int_t)hint->result.schedules, "whole",
                          hint->result.is_whole);
        if (hint->fault != STAGE_FAULT_N)
            (void)json_object_update_new(
                found, json_pack("{s:s, s:I, s:s}", "move",
                                 stage_move_text(hint->way.moves[0], text), "n",
                                 (json_int_t)hint->way.n, "fault",
                                 stage_fault_word(hint->fault)));
        (void)json_object_set_new(all, "hint", found);
    }
    /* The answer must be out at once: the page waits for it. */
    draw_json_line(stdout, all);
    return fflush(stdout) == 0;
}

/* ---- commands ----------------------------------------------------------- */

/* False and an error of the game; without a stage it is over. */
static bool obey(struct lines *lines, char *line)
{
    struct game *game = &lines->game;
    struct stage_move moves[STAGE_MOVES_MAX];
    unsigned long back;
    char more;
    int n;

    line[strcspn(line, "\r")] = '\0';
    /* A hint is of one answer: the next one must not show it again. */
    lines->has_hint =
        strcmp(line, "hint") == 0 && game_hint(game, lines->goal, &lines->hint);
    if (strcmp(line, "hint") == 0)
        return lines->has_hint;
    if (strncmp(line, "back ", 5) == 0)
        /* A number of three digits at most has no overflow, and nothing may stand
         * behind it. */
        return (sscanf(line + 5, "%3lu%c", &back, &more) == 1 &&
                back <= game->n)
                   ? game_back(game, back)
                   : fail_with(&game->error, "there are not so many moves");
    if (strncmp(line, "move ", 5) != 0)
        return fail_with(&game->error,
                         "a line is: move MOVES, back N, or hint");
    n = stage_parse(line + 5, moves, &game->error);
    /* The moves before one that is refused stay made; the answer says where the
     * game is. */
    for (int i = 0; i < n; i++)
        if (!game_move(game, moves[i]))
            return false;
    return n >= 0;
}

int lines_play(const struct stage_scene *scene, const struct stage_move moves[],
               size_t n, const struct game_goal *goal, unsigned look)
{
    static struct lines lines;
    struct game *game = &lines.game;
    bool good;
    char line[4 * STAGE_MOVES_MAX + 16];

    /* Only the language is the page's: what is drawn for terminals has no place
     * in JSON. */
    lines = (struct lines){.goal = goal, .look = look & DRAW_CHINESE};
    stage_options_catch_signals();
    good = game_open(game, scene, NULL, 0);
    for (size_t i = 0; i < n && good; i++)
        good = game_move(game, moves[i]);
    /* Each answer is a state: first that of the start, and then one for each line. */
    while (answer(&lines, !good) && game->stage &&
           stage_options_read_line(line, sizeof(line)))
        good = obey(&lines, line);
    if (!game->stage)
        return 2;
    game_close(game);
    return 0;
}
