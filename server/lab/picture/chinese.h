/*
 * What the laboratory draws, in Chinese.
 *
 * The stage tells what happens in English: its steps are kept in timelines and
 * compared by tests. Only the drawing is translated, by the phrases of chinese.txt.
 * tests/e2e/lab-zh.t finds one that is missing there.
 */
#ifndef PICTURE_CHINESE_H
#define PICTURE_CHINESE_H

#include <stddef.h>

/* Puts the English TEXT into Chinese. What has no phrase, like a command, stays. */
void chinese(char text[], size_t size);

/* TEXT, of a lock of lock/textbook/, with its claim and its comments in Chinese; it plays
 * the same. To be freed. NULL: no memory. */
char *chinese_lock(const char *text);

#endif
