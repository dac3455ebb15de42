/*
 * A schedule that somebody makes move by move, on the stage: forth, back, and a hint.
 *
 *     struct game game;
 *
 *     if (!game_open(&game, &scene, stdout, look))
 *         ... game.error
 *     game_draw(&game);
 *     if (!game_move(&game, move))
 *         ... game.error; game.stage is NULL if it is over for good
 *     game_close(&game);
 *
 * A move cannot be taken back from real servers: all but the last are played anew. For
 * the hint a search plays on from where the game is; its stages want the processors, so
 * that the game's own is closed meanwhile, and is where it was afterwards.
 */
#ifndef REPLAY_GAME_H
#define REPLAY_GAME_H

#include "server/lab/picture/draw.h"
#include "server/lab/search/search.h"

/* A goal that a player is to bring about. */
struct game_goal {
    unsigned faults; /* a bit for each, any of them; 0 = whatever breaks */
    const struct search_bounds *bounds; /* of hints; NULL = GAME_HINT_BOUNDS */
};

struct game {
    const struct stage_scene *scene; /* borrowed */
    const char *name;                /* the experiment's; NULL = none */
    FILE *out;           /* where each move is drawn; NULL = nowhere */
    unsigned look;       /* see draw.h */
    struct stage *stage; /* NULL: it is broken; see error */
    struct stage_move moves[STAGE_MOVES_MAX]; /* so far */
    size_t n;
    unsigned inside[STAGE_MOVES_MAX + 1]; /* after so many: a bit for each */
    struct stage_verdict verdict;         /* so far */
    size_t drawn;                         /* steps; */
    char state[DRAW_STATE_BYTES_MAX];     /* and what was drawn behind them */
    struct fail error;
};

/* The outcome of a search from here. */
struct game_hint {
    enum stage_fault fault;  /* STAGE_FAULT_N: no way was found */
    struct search_found way; /* to it; from here */
    struct search_result result;
};

/* At the start. False and an error: it cannot be played. */
bool game_open(struct game *game, const struct stage_scene *scene, FILE *out,
               unsigned look);
void game_close(struct game *game);

/* Draws where it is: the head of the columns, and the state. */
void game_draw(struct game *game);

/* Goes on by N moves. False and an error: the next one is not enabled, the stage is broken,
 * or Ctrl-C came. What was played can be seen, and the game be closed. */
bool game_play(struct game *game, const struct stage_move moves[], size_t n);

/* False and an error: the move is not enabled, and nothing has happened; or the stage is
 * broken, and closed. */
bool game_move(struct game *game, struct stage_move move);

/* As it was after the first N moves, which is drawn. False and an error: the stage is
 * broken, and closed. */
bool game_back(struct game *game, size_t n);

/* Looks for the shortest way to one of the faults of GOAL that is not there yet; within
 * its bounds and half a minute, until Ctrl-C. False and an error: the stage is broken, and
 * closed. */
bool game_hint(struct game *game, const struct game_goal *goal,
               struct game_hint *hint);

#define GAME_HINT_BOUNDS                                                       \
    "one lease that ends, one crash, 2 waits that end by time, and 3 times "   \
    "one who could go on has to wait (preemptions)"
extern const struct search_bounds game_hint_bounds; /* the same */

/* A phrase for MOVE, in plain words: for a plain step its actor's next one, for the other
 * moves of that actor how they differ from it. VIEW: of before the move. Returns TEXT. */
enum { GAME_PHRASE_BYTES = 200 };
const char *game_phrase(const struct stage_view *view, struct stage_move move,
                        char text[GAME_PHRASE_BYTES]);

/* The game for programs: draw_json(), "lock" and "schedule". */
json_t *game_json(const struct game *game, unsigned look);

/* ---- files (save.c) ------------------------------------------------------------ */

/* A game as a timeline (server/lab/timeline/); as a picture for a slide or a post: SVG, light
 * or dark as its reader is. False: there is no memory for it. */
typedef bool game_writer(FILE *out, const struct game *game);
game_writer game_write_timeline, game_write_svg;

/* Writes GAME to the file PATH, in place of what it had. False and a text: it could not be
 * written. */
bool game_save(const char *path, const struct game *game, game_writer *write,
               struct fail *error);

/* ---- a person is the scheduler, one key a move (hand.c) --------------------- */

/* GOAL is told first, a hint leads there, and it is told when it is reached. With REACHED
 * that is the end: it gets the number of moves, or 0.
 *
 * Plays N moves, then those whose keys come on standard input, from a terminal or not,
 * until q, Ctrl-C or the end of it; and prints the schedule. Catches signals
 * (stage_options.h). LOOK: see draw.h. The exit status: 0 nothing broke, 1 something
 * did, 2 it could not be played, which standard error says. */
int hand_play(const struct stage_scene *scene, const struct stage_move moves[],
              size_t n, const struct game_goal *goal, unsigned look,
              unsigned *reached);

/* The next key, without Enter if a terminal has it; q at the end of the input. */
int hand_key(void);

/* ---- a program is, a command a line (lines.c) -------------------------------- */

/*
 * Answers what the game is at, and then each line of standard input until its end:
 *
 *     move a b~       goes on by these moves
 *     back 3          as it was after three moves
 *     hint            searches for the shortest way to a fault
 *
 * An answer is a JSON object: what `stockade replay --json` has, and "schedule", "moves"
 * ({"move": "a~", "says": "the same, ..."}), "over", after a hint "hint" ({"move", "n",
 * "fault"}, or {"schedules", "whole"} without a way), and "error" if a command could not
 * be done: the rest is true all the same. A hint leads to GOAL. Texts are in the language
 * of LOOK (draw.h). The exit status: 0, or 2 if the stage is broken, which the last answer
 * says.
 */
int lines_play(const struct stage_scene *scene, const struct stage_move moves[],
               size_t n, const struct game_goal *goal, unsigned look);

/* ---- `stockade replay` (replay.c) -------------------------------------------- */

/* Gets ARGV from its name on, and returns the exit status: 0 nothing broke, 1 something
 * did, 2 it could not run. */
int replay_main(int argc, char *argv[]);

enum { REPLAY_FILES_MAX = 2 };

/* LOOK: see draw.h. Draws up to UNTIL moves of the timelines in N files, or events if
 * they have no moves; -1 = all (replay_file.c). The exit status: 0 nothing broke, 1
 * something did, 2 nobody has looked, or one could not be read to its end: all is drawn
 * that could. */
int replay_files(char *const paths[], size_t n, int64_t until, unsigned look);

#endif
