/* See game.h. */
#include "server/lab/replay/game.h"

#include <stdio.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/lab/scene/stage_options.h"

enum { HINT_MS = 30000 }; /* that a hint is searched for, at most */

/* The stage is closed: the game is over. */
static bool give_up(struct game *game)
{
    stage_close(game->stage);
    game->stage = NULL;
    return false;
}

bool game_open(struct game *game, const struct stage_scene *scene, FILE *out,
               unsigned look)
{
    *game = (struct game){.scene = scene, .out = out, .look = look};
    game->stage = stage_open(scene, &game->error);
    /* The stage may be wrong from its start: a check of it is part of the verdict. */
    if (game->stage)
        stage_judge(game->stage, &game->verdict);
    if (game->stage && stage_is_broken(game->stage, &game->error))
        return give_up(game);
    return game->stage != NULL;
}

void game_close(struct game *game)
{
    (void)give_up(game);
}

/* Faults are judged after each move, because one may be of a moment only. */
static bool go_on(struct game *game, struct stage_move move)
{
    if (!stage_move(game->stage, move, &game->error))
        return false;
    /* A remark, too, has the move at which it came about. */
    stage_judge(game->stage, &game->verdict);
    if (stage_is_broken(game->stage, &game->error))
        return false;
    game->moves[game->n++] = move;
    game->inside[game->n] = 0;
    for (unsigned i = 0; i < game->scene->buyers; i++)
        if (stage_is_inside(game->stage, i))
            game->inside[game->n] |= 1u << i;
    return true;
}

static void draw_state_of(struct game *game)
{
    if (!(game->look & DRAW_NO_STATE))
        draw_state(game->out, game->stage, game->scene, game->state,
                   game->look);
}

/* All of the state is drawn, because nothing of it stands right above. */
void game_draw(struct game *game)
{
    static const char *const names[STAGE_ACTORS_MAX] = {"a", "b", "c", "d"};

    if (!game->out)
        return;
    game->state[0] = '\0';
    draw_names(game->out, names, game->scene->buyers, game->look);
    draw_state_of(game);
}

/* The steps since it was drawn last, and the state now. */
static void draw_news(struct game *game)
{
    if (!game->out)
        return;
    draw_steps(game->out, game->stage, game->scene, game->drawn, game->moves,
               game->look);
    draw_state_of(game);
    (void)fflush(game->out);
    /* The steps that were drawn are counted, because a move has any number of them. */
    (void)stage_steps(game->stage, &game->drawn);
}

bool game_play(struct game *game, const struct stage_move moves[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        /* Ctrl-C is asked for between two moves: a move that has begun must be played
         * to its end. */
        if (stage_options_interrupted())
            return fail_with(&game->error, "interrupted");
        if (!go_on(game, moves[i]))
            return false;
        draw_news(game);
    }
    return true;
}

bool game_move(struct game *game, struct stage_move move)
{
    char text[4];

    /* A move that is none must not cost the game: the stage says so by the same false
     * as a broken one. */
    if (game->n == STAGE_MOVES_MAX || !stage_has_move(game->stage, move))
        return fail_with(&game->error,
                         game->n == STAGE_MOVES_MAX
                             ? "%s would be one move too many: take some back"
                             : "there is no move %s now",
                         stage_move_text(move, text));
    if (!go_on(game, move))
        return give_up(game);
    draw_news(game);
    return true;
}

/* As it was after N moves, which are not drawn. */
static bool restore(struct game *game, size_t n)
{
    /* The verdict is made anew move by move: a fault of a move that was taken back
     * is gone. */
    if (!stage_begin(game->stage, &game->error))
        return give_up(game);
    game->verdict = (struct stage_verdict){.faults = 0};
    for (game->n = 0; game->n < n;)
        if (!go_on(game, game->moves[game->n]))
            return give_up(game);
    /* The moves were drawn when they were made: only what comes is news. */
    (void)stage_steps(game->stage, &game->drawn);
    return true;
}

bool game_back(struct game *game, size_t n)
{
    if (!restore(game, n))
        return false;
    game_draw(game);
    return true;
}

json_t *game_json(const struct game *game, unsigned look)
{
    json_t *all = draw_json(game->stage, game->scene, look);
    char schedule[4 * STAGE_MOVES_MAX + 1];

    (void)json_object_set_new(all, "lock",
                              draw_json_text(game->scene->lock, 0));
    (void)json_object_set_new(
        all, "schedule",
        json_string(
            stage_text(game->moves, game->n, schedule, sizeof(schedule))));
    return all;
}

/* ---- hint --------------------------------------------------------------- */

/* A search for faults, up to an end. */
struct hunt {
    unsigned goal;
    uint64_t ends_ms;
};

/* Faults that were there before have a way of no moves. */
static enum stage_fault nearest(const struct hunt *hunt,
                                const struct search_result *result)
{
    const struct search_found *faults = result->faults;
    enum stage_fault best = STAGE_FAULT_N;

    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++)
        if (faults[i].is_found && faults[i].n > 0 && (hunt->goal & 1u << i) &&
            (best == STAGE_FAULT_N || faults[i].n < faults[best].n))
            best = i;
    return best;
}

static bool is_wanted(void *ctx, const struct search_result *result)
{
    const struct hunt *hunt = ctx;

    return nearest(hunt, result) == STAGE_FAULT_N &&
           clock_ms() < hunt->ends_ms && !stage_options_interrupted();
}

const struct search_bounds game_hint_bounds = {.expiries = 1,
                                               .crashes = 1,
                                               .waits = 2,
                                               .troubles = 2,
                                               .preemptions = 3,
                                               .moves = STAGE_MOVES_MAX};

bool game_hint(struct game *game, const struct game_goal *goal,
               struct game_hint *hint)
{
    struct search_bounds bounds =
        goal->bounds ? *goal->bounds : game_hint_bounds;
    struct hunt hunt = {goal->faults ? goal->faults : ~0u,
                        clock_ms() + HINT_MS};

    /* Faults that are there already, and those that are no goal, must not end
     * the search. */
    bounds.passes = game->verdict.faults | ~hunt.goal;
    /* The game's moves are played before each schedule, and do not count in
     * its bounds. */
    bounds.from_n = (unsigned)game->n;
    memcpy(bounds.from, game->moves, sizeof(bounds.from));
    /* The stages of the search want its processor. */
    (void)give_up(game);
    if (!search_run(game->scene, &bounds, 0, is_wanted, &hunt, &hint->result,
                    &game->error))
        return false;
    hint->fault = nearest(&hunt, &hint->result);
    if (hint->fault != STAGE_FAULT_N)
        hint->way = hint->result.faults[hint->fault];
    /* The game goes on whether a way was found or not. */
    game->stage = stage_open(game->scene, &game->error);
    return game->stage && restore(game, game->n);
}

/* ---- phrases ------------------------------------------------------------ */

const char *game_phrase(const struct stage_view *view, struct stage_move move,
                        char text[GAME_PHRASE_BYTES])
{
    /* The stage calls a step of a lock by its name: the same in plain words. */
    static const struct {
        const char *step, *words;
    } steps[] = {
#define ROW(step, words) {step, words},
#include "server/lab/replay/steps.inc"
    };
    const char *phrase;

    /* The number of a server begins with 1; for others the phrase has no number. */
    if (move.kind != 's') {
        (void)snprintf(text, GAME_PHRASE_BYTES, stage_move_words(move),
                       -1 - move.actor);
        return text;
    }
    phrase = view->actors[move.actor].next;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        if (strcmp(steps[i].step, phrase) == 0)
            phrase = steps[i].words;
    (void)snprintf(text, GAME_PHRASE_BYTES, "%s", phrase);
    return text;
}
