/*
 * Memory for the parser of JSON, which asks for some twenty small pieces a body
 * and gives them all back together: a few KiB of each thread's own, from which
 * pieces are cut off one after the other.
 *
 * scratch_malloc() and scratch_free() take the place of malloc() and free() for
 * the whole library, and are just these outside of begin and end.
 */
#ifndef SCRATCH_H
#define SCRATCH_H

#include <stddef.h>

/*
 * From here on this thread's pieces are scratch. Those of the last time must
 * not be used any more.
 */
void scratch_begin(void);
/* No more; what was cut off stays valid, and may be freed, until then. */
void scratch_end(void);

void *scratch_malloc(size_t size);
void scratch_free(void *piece);

#endif
