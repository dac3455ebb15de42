/* A program is the scheduler: a command a line, and for each an answer on a line. */
#ifndef REPLAY_LINES_H
#define REPLAY_LINES_H

#include "server/lab/replay/game.h"

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
 * of LOOK (draw.h). The exit status: 0, or 2 if the stage is broken, which the last answer says.
 */
int lines_play(const struct stage_scene *scene, const struct stage_move moves[],
               size_t n, const struct game_goal *goal, unsigned look);

#endif
