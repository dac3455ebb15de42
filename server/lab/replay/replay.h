/* `stockade replay`: plays a schedule (replay.c), or draws timelines (replay_file.c). */
#ifndef REPLAY_H
#define REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The command: gets ARGV from its name on, and returns the exit status: 0 nothing
 * broke, 1 something did, 2 it could not run. */
int replay_main(int argc, char *argv[]);

enum { REPLAY_FILES_MAX = 2 };

/* LOOK: see draw.h. Draws up to UNTIL moves of the timelines in N files, or events if
 * they have no moves; -1 = all. The exit status: 0 nothing broke, 1 something did, 2 one
 * could not be read to its end, of which all is drawn that could. */
int replay_files(char *const paths[], size_t n, int64_t until, unsigned look);

#endif
