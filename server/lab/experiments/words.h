/* Words on a terminal, in the two languages: see server/lab/picture/chinese.h. */
#ifndef WORDS_H
#define WORDS_H

#include <stdio.h>

#include "server/lab/experiments/experiment.h"

/* TEXT in lines as wide as OUT (draw_columns()), each behind INDENT columns. A Chinese
 * character takes two columns, and a line may end behind most of them. */
void words_wrap(FILE *out, int indent, const char *text);

/* The same of an English TEXT, in LANGUAGE. */
void words_wrap_english(FILE *out, int indent,
                        enum experiment_language language, const char *text);

/* The English FORMAT, in LANGUAGE. Returns how many columns it takes. */
int words_say(FILE *out, enum experiment_language language, const char *format,
              ...) __attribute__((format(printf, 3, 4)));

#endif
