/*
 * Words of a line of text that says what a test is to do, with blanks between them.
 */
#ifndef WORDS_H
#define WORDS_H

#include <stdbool.h>
#include <string.h>

/* WORD may be NULL, if the line had no more. */
static inline bool is(const char *word, const char *which)
{
    return word != NULL && strcmp(word, which) == 0;
}

/* The next of *REST, which strtok_r() keeps; or NULL. */
static inline char *next_word(char **rest)
{
    return strtok_r(NULL, " ", rest);
}

/* The words behind "->", or NULL; TEXT ends before it. */
static inline char *cut_at_arrow(char *text)
{
    char *arrow = strstr(text, "-> ");

    if (arrow == NULL)
        return NULL;
    *arrow = '\0';
    return arrow + strlen("-> ");
}

#endif
