/*
 * Filling a caller's struct dlock_error. The caller may have passed NULL, and
 * its text is only touched on failure; nothing else in the library needs to
 * remember either rule.
 */
#ifndef DLOCK_ERROR_H
#define DLOCK_ERROR_H

#include "lock/dlock.h"

/* Writes the text and gives STATUS back, so that failing is one line. */
enum dlock_status dlock_error_set(struct dlock_error *error,
                                  enum dlock_status status, const char *format,
                                  ...) __attribute__((format(printf, 3, 4)));

/*
 * For the end of a public call: tells the caller why it failed, "CALL: detail",
 * or leaves ERROR alone if it did not. A call that succeeds at the second try
 * has a text from the first: hence DETAIL, on the stack of the call. Where that
 * is empty, the status' own text has to do. Gives STATUS back.
 */
enum dlock_status dlock_error_report(struct dlock_error *error,
                                     enum dlock_status status, const char *call,
                                     const struct dlock_error *detail);

#endif
