/* Which word is probably meant by one that is none. */
#ifndef NEAREST_H
#define NEAREST_H

#include <stdbool.h>
#include <stddef.h>

/* Is WORD like NAME, and more so than those before? *LEAST is 0 at the first. */
bool nearest_is(const char *name, const char *word, size_t *least);

#endif
