/* A schedule as a picture, for a slide or a post: SVG, light or dark as its reader is. */
#ifndef PICTURE_SVG_H
#define PICTURE_SVG_H

#include "server/lab/stage/stage.h"

/* Notes for a picture, besides the steps: the caller makes one after each move. */
struct svg_notes {
    unsigned
        inside[STAGE_MOVES_MAX + 1]; /* after that move: a bit for each actor */
};

void svg_note(struct svg_notes *notes, const struct stage *stage,
              const struct stage_scene *scene, size_t move);

/* Writes to PATH what has happened on STAGE by MOVES, and VERDICT. LOOK: see draw.h.
 * False and a text: the file cannot be written. */
bool svg_save(const char *path, const struct stage *stage,
              const struct stage_scene *scene, const struct stage_move moves[],
              size_t n, const struct svg_notes *notes,
              const struct stage_verdict *verdict, unsigned look, char *error,
              size_t error_size);

#endif
