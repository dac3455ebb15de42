/* Which stops of the path a learner at a terminal has solved: a line for each in one small
 * text file, "no-lock broken 6 mended". A browser keeps its own. */
#ifndef PATH_PROGRESS_H
#define PATH_PROGRESS_H

#include "server/lab/path/path.h"

struct progress {
    bool is_broken;
    bool is_mended; /* or the search has agreed that it cannot be broken */
    unsigned moves; /* the fewest by which it was broken */
};

/* $XDG_STATE_HOME/stockade/path, or ~/.local/state/stockade/path. NULL: there is no
 * home. */
const char *progress_file(void);

/* Nothing of stops that nobody has begun; a line that makes no sense says nothing. */
void progress_read(struct progress all[PATH_STOPS_MAX]);

/* False and a text: it cannot be kept. */
bool progress_write(const struct progress all[PATH_STOPS_MAX], char *error,
                    size_t error_size);

bool progress_is_solved(const struct path_stop *stop,
                        const struct progress *progress);

#endif
