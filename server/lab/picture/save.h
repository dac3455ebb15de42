/* A schedule that was played on a stage, kept as a timeline (server/lab/timeline/). */
#ifndef PICTURE_SAVE_H
#define PICTURE_SAVE_H

#include "server/lab/stage/stage.h"

/*
 * Writes what the N moves have done since stage_begin() to the file PATH, in place of
 * what it had. NAME: of the experiment; "" = none. False and a text: it could not
 * be written.
 */
bool stage_save(const char *path, struct stage *stage,
                const struct stage_scene *scene,
                const struct stage_move moves[], size_t n, const char *name,
                char *error, size_t error_size);

#endif
