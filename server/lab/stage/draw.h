/* A schedule drawn for people (80 columns, a column for each actor), and as JSON
 * for programs. */
#ifndef STAGE_DRAW_H
#define STAGE_DRAW_H

#include <stdio.h>

#include "server/lab/stage/stage.h"

#define DRAW_RED    "\033[31m"
#define DRAW_GREEN  "\033[32m"
#define DRAW_YELLOW "\033[33m"
#define DRAW_FAINT  "\033[2m"
#define DRAW_BOLD   "\033[1m"
#define DRAW_PLAIN  "\033[0m"

/* CODE, one of these; "" if OUT is no terminal, or NO_COLOR is set. */
const char *draw_tint(FILE *out, const char *code);

/* The head of the columns. */
void draw_head(FILE *out, const struct stage_scene *scene);

/* The same, with the names of the columns. */
void draw_names(FILE *out, const char *const names[], unsigned n);

/* One step, in the column of its actor, of so many. MOVE: the text of the move that it
 * belongs to, "" = none; NULL: it has none, and its time is drawn to the microsecond. */
void draw_step(FILE *out, const struct stage_step *step, const char *move,
               unsigned columns);

/* The steps from FROM on, a line each, under the move they belong to. */
void draw_steps(FILE *out, const struct stage *stage,
                const struct stage_scene *scene, size_t from,
                const struct stage_move moves[]);

enum { DRAW_STATE_BYTES_MAX = 8192 };

/* What is in Redis and SQLite, who is inside, and who would do what: the lines
 * that were not in BEFORE, which then has all. */
void draw_state(FILE *out, struct stage *stage, const struct stage_scene *scene,
                char before[DRAW_STATE_BYTES_MAX]);

/* What broke. OVER: nothing more can. */
void draw_verdict(FILE *out, unsigned faults, bool over);

/* TEXT, which is UTF-8, in quotes. */
void draw_json_string(FILE *out, const char *text);
/* BEFORE, and then a member of an object: "name": "value". */
void draw_json_member(FILE *out, const char *before, const char *name,
                      const char *value);
/* An array of the words of faults. */
void draw_json_faults(FILE *out, unsigned faults);
/* The members of an object, without its braces: steps, state, faults. */
void draw_json(FILE *out, struct stage *stage, const struct stage_scene *scene);

#endif
