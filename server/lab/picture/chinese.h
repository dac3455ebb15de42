/*
 * What the laboratory draws, in Chinese.
 *
 * The stage tells what happens in English: its steps are kept in timelines and
 * compared by tests. Only the drawing is translated, by one table of phrases.
 * tests/e2e/lab-zh.t finds a phrase that is missing in it.
 */
#ifndef PICTURE_CHINESE_H
#define PICTURE_CHINESE_H

#include <stddef.h>

/* Puts the English TEXT into Chinese. What is not in the table, like a command,
 * stays. */
void chinese(char text[], size_t size);

#endif
