/* Ready means that an order would have a chance: the store can be read and the
 * lock server answers. */
#ifndef READY_H
#define READY_H

#include <stdbool.h>
#include <stddef.h>

struct worker;

/* False: WHY says what is missing. A look is bounded by libdlock's timeouts. From
 * any thread that may wait. */
bool ready_look(const struct worker *worker, char *why, size_t size);

#endif
