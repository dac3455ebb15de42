/* A schedule drawn for people (a column for each actor), and as JSON
 * for programs. */
#ifndef PICTURE_DRAW_H
#define PICTURE_DRAW_H

#include <jansson.h>
#include <stdio.h>

#include "server/lab/stage/stage.h"

/* How it looks: some of these. What is just "true" has colours. */
enum {
    DRAW_COLOUR = 1,
    DRAW_CHINESE = 2,
    DRAW_NO_MOVES = 4, /* in the state */
    DRAW_NO_STATE = 8,
};

/* The look of standard output: colours, if it is a terminal that may have them. */
unsigned draw_look(void);

/* Colours, as a terminal is told of them. */
#define DRAW_RED    "\033[31m"
#define DRAW_GREEN  "\033[32m"
#define DRAW_YELLOW "\033[33m"
#define DRAW_BOLD   "\033[1m"

/* How many columns OUT has: those of the terminal, or 80. */
int draw_columns(FILE *out);

/* The program as it was called, for command lines that can be pasted. */
const char *draw_program(void);

/* The English FORMAT, in the language of LOOK. Returns how many columns it takes. */
int draw_say(FILE *out, unsigned look, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The English TEXT in a colour, if LOOK has any. */
void draw_in(FILE *out, unsigned look, const char *colour, const char *text);

/* "08 Longer than the lease", in bold. */
void draw_title(FILE *out, unsigned look, const char *id, const char *title);

/* A TEXT in a paragraph under its LABEL, which is English; and an empty line. */
void draw_paragraph(FILE *out, unsigned look, const char *label,
                    const char *text);

/* The head of the columns. */
void draw_names(FILE *out, const char *const names[], unsigned n,
                unsigned look);

/* A step in short, in English: what people look for in it, not all that was sent. */
enum { DRAW_STEP_BYTES = 500 };
void draw_step_words(const struct stage_step *step, char text[DRAW_STEP_BYTES]);

/* The same in the language of LOOK, and what is wrong about it. Returns TEXT. */
const char *draw_step_text(const struct stage_step *step, unsigned look,
                           char text[DRAW_STEP_BYTES]);

/* How many bytes of TEXT go into ROOM columns. */
size_t draw_fit(const char *text, size_t room);

/* TEXT in lines as wide as OUT, each behind INDENT columns. */
void draw_text(FILE *out, int indent, const char *text);
/* The same of an English TEXT, in the language of LOOK. */
void draw_english(FILE *out, int indent, unsigned look, const char *text);

/* One step, under the text of its MOVE, "" = none; or NULL: with a time to the
 * microsecond. Its actor is a number below COLUMNS, or -1. */
void draw_step(FILE *out, const struct stage_step *step, const char *move,
               unsigned columns, unsigned look);

/* The steps from FROM on, a line each, under the move they belong to. */
void draw_steps(FILE *out, const struct stage *stage,
                const struct stage_scene *scene, size_t from,
                const struct stage_move moves[], unsigned look);

enum { DRAW_STATE_BYTES_MAX = 8192 };

/* What is in Redis and SQLite, who is inside, who would do what, and which moves there
 * are: the lines that were not in BEFORE, which then has all. */
void draw_state(FILE *out, struct stage *stage, const struct stage_scene *scene,
                char before[DRAW_STATE_BYTES_MAX], unsigned look);

/* The faults of VERDICT, and at which move each came about, if it has one. */
void draw_verdict(FILE *out, const struct stage_verdict *verdict, bool over,
                  unsigned look);

/* ---- for programs (json.c) ------------------------------------------------------ */

/* The English TEXT in the language of LOOK. Bytes that are no UTF-8 are question marks: a
 * text may be cut within a character, and a reply may be of any bytes. */
json_t *draw_json_text(const char *text, unsigned look);
/* A list of their words. */
json_t *draw_json_faults(unsigned faults);
/* Steps, state, faults, remarks, and at which move each came about. */
json_t *draw_json(struct stage *stage, const struct stage_scene *scene,
                  unsigned look);
/* Writes VALUE, which is taken, as a line. */
void draw_json_line(FILE *out, json_t *value);
/* The English ERROR of a command: on standard output {"error": ...}. */
void draw_json_error(const char *error, unsigned look);

/* ---- in Chinese (chinese.c) ------------------------------------------------------ */

/*
 * The stage tells what happens in English: its steps are kept in timelines and
 * compared by tests. Only the drawing is translated, by the phrases of chinese.txt.
 * tests/e2e/lab-zh.t finds one that is missing there.
 */

/* A text that fits the PATTERN is told in other WORDS. A * is any text, as short as
 * possible; $1 is the first of them, put into these words as well if one fits. */
struct phrase {
    const char *pattern, *words;
};

/* Puts TEXT into the words of the first that fits of PHRASES, which end with a NULL; it
 * stays as it is if none does. Newlines at its end stay. */
void phrase_put(const struct phrase *phrases, char text[], size_t size);

/* Puts the English TEXT into the language of LOOK. What has no phrase, like a command,
 * stays. */
void translate(char text[], size_t size, unsigned look);

/* TEXT, of a lock of lock/textbook/, with its claim and its comments in Chinese; it plays
 * the same. To be freed. NULL: no memory. */
char *chinese_lock(const char *text);

/* ---- commands (command.c) ------------------------------------------------------- */

/* The command line that plays a schedule: `stockade replay --buyers 3 fair
 * 'a b a'`, without a newline at its end. It has the flags that differ from replay's own;
 * it is broken to the columns of OUT. */
void command_replay(FILE *out, const struct stage_scene *scene,
                    const char *schedule);

/* Its flags alone, each with BEFORE in front. */
void command_settings(FILE *out, const struct stage_scene *scene, char before);

/* Whether an actor does more than order. */
bool command_has_programs(const struct stage_scene *scene);

#endif
