/* Actors: a process that has what an instance of the service has, and runs the
 * program of one actor, or with one_process of all, at the stage's pace. */
#ifndef STAGE_ACTOR_H
#define STAGE_ACTOR_H

#include "server/lab/world/world.h"

/* Never returns. FIRST: the process's first actor, from 0. */
_Noreturn void actor_main(const struct world *world, unsigned first,
                          const struct stage_scene *scene);

#endif
