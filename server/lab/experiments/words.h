/* Words on a terminal, in the two languages: see server/lab/picture/chinese.h. */
#ifndef WORDS_H
#define WORDS_H

#include <stdio.h>

/* TEXT in lines as wide as OUT (draw_columns()), each behind INDENT columns. A Chinese
 * character takes two columns, and a line may end behind most of them. */
void words_wrap(FILE *out, int indent, const char *text);

/* The same of an English TEXT, in the language of LOOK (draw.h). */
void words_wrap_english(FILE *out, int indent, unsigned look, const char *text);

#endif
