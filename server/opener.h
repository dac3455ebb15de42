/*
 * Opens what may not be there yet, such as the database, on a thread of its own: a
 * try may hang in a look-up or in a disk. Each second once more, until it is open or
 * cannot be.
 */
#ifndef OPENER_H
#define OPENER_H

#include <stdbool.h>

enum opener_answer { OPENER_NOT_NOW, OPENER_OPEN, OPENER_NEVER };

struct opener;

/* TRY is called on the thread with CTX, until it says OPENER_OPEN or OPENER_NEVER.
 * NULL: no memory, no thread. */
struct opener *opener_start(enum opener_answer (*try)(void *ctx), void *ctx);

/* An eventfd, readable once no further try will be made. */
int opener_fd(const struct opener *opener);

/*
 * Makes no further try, waits for the one under way for WAIT_MS at most, and frees.
 * Its answer; OPENER_NOT_NOW also if it has not come to its end: it may still touch
 * CTX then, so that the process has to end. *HANGS says so.
 */
enum opener_answer opener_end(struct opener *opener, unsigned wait_ms,
                              bool *hangs);

#endif
