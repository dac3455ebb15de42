/* The flags that explore and replay have in common, and what is on the stage. */
#ifndef STAGE_OPTIONS_H
#define STAGE_OPTIONS_H

#include "server/lab/scene/scene.h"

/* Takes ARG, of the flag --NAME below, into the scene, which keeps pointers into it.
 * False: ARG makes no sense, which a line on standard error says. */
bool stage_options_take(struct stage_scene *scene, const char *name, char *arg);

/* The same with the line in ERROR, which begins with the flag's name. */
bool stage_options_set(struct stage_scene *scene, const char *name, char *arg,
                       struct fail *error);

/* Takes the next of "--stock 3 --batched" off *TEXT: NAME without its dashes; ARG, NULL if
 * the next word is a flag itself. False: there is no more. */
bool stage_options_next(char **text, char **name, char **arg);

/* For getopt_long(): puts the common flags, all with 'c' as their value, behind those that
 * are in FLAGS, and returns the place behind them. */
struct option;
struct option *stage_options_add(struct option *flags);

/* ARG, of the flag --NAME, as a number from LEAST to MOST. False: it is none, which a
 * line on standard error says. */
bool stage_options_number(const char *name, const char *arg, int64_t least,
                          int64_t most, int64_t *number);

/* From now on Ctrl-C and SIGTERM do not end the process: its caller asks for them,
 * and clears the stage away first. */
void stage_options_catch_signals(void);
bool stage_options_interrupted(void);

/* Waits until standard input, which nobody else reads, has something, or is at its end.
 * False: Ctrl-C or SIGTERM came. */
bool stage_options_wait_input(void);

/* Waits for the next line of it, without its end; one that has no room in SIZE is taken
 * whole, and is empty. False: there is none, or Ctrl-C or SIGTERM came. */
bool stage_options_read_line(char *line, int size);

/* Questions, lines of any text, that come to their end in the next part of it; waits for MS
 * at most. -1: it is at its end. */
int stage_options_questions(int ms);

#endif
