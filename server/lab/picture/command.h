/* The command line that plays a schedule: `stockade replay --buyers 3 fair 'a b a'`. */
#ifndef PICTURE_COMMAND_H
#define PICTURE_COMMAND_H

#include <stdio.h>

#include "server/lab/stage/stage.h"

/* One that can be pasted, without a newline at its end. It has the flags that differ
 * from replay's own; it is broken to the columns of OUT. */
void command_replay(FILE *out, const struct stage_scene *scene,
                    const char *schedule);

/* Whether an actor does more than order. */
bool command_has_programs(const struct stage_scene *scene);

#endif
