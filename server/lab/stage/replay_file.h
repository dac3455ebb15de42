/* `stockade replay FILE [FILE]`: draws timelines. */
#ifndef REPLAY_FILE_H
#define REPLAY_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REPLAY_FILES_MAX = 2 };

/* Draws up to UNTIL moves of the timelines in N files, or events if they have no moves;
 * -1 = all. The exit status: 0 nothing broke, 1 something did, 2 one could not be
 * read to its end, of which all is drawn that could. */
int replay_files(char *const paths[], size_t n, int64_t until);

#endif
