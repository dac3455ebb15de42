/* A person is the scheduler: one key a move. */
#ifndef REPLAY_HAND_H
#define REPLAY_HAND_H

#include "server/lab/replay/game.h"

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

#endif
