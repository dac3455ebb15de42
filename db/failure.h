/*
 * How a failure travels inside db/: the status is returned, the detail for a
 * person goes to the caller's struct store_error, in one statement:
 *
 *     return failure_set(error, STORE_IO, "%s is a directory", path);
 */
#ifndef STORE_FAILURE_H
#define STORE_FAILURE_H

#include "db/store.h"

/*
 * Writes the text, cut to fit, and gives STATUS back. ERROR may be NULL. A
 * macro, so that the analyzers see that what comes back is no STORE_OK.
 */
#define failure_set(error, status, ...)                                        \
    (failure_text((error), __VA_ARGS__), (status))

void failure_text(struct store_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
