/* An actor: a process that has what an instance of the service has, and runs the
 * real code of one order after the other, at the stage's pace. */
#ifndef STAGE_ACTOR_H
#define STAGE_ACTOR_H

#include "server/lab/stage/page.h"
#include "server/lab/stage/stage.h"

/* Never returns. INDEX: which actor, from 0. */
_Noreturn void actor_main(struct board *board, unsigned index,
                          const struct stage_scene *scene, const char *db_url,
                          const char *redis_url);

#endif
