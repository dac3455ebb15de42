/*
 * The text of a failure, for a person. It belongs to the thread, as errno does: a
 * function that fails says why, and the public call at the end of the way tells its
 * caller, who may not want to know. So nothing in between hands it on.
 */
#ifndef DLOCK_ERROR_H
#define DLOCK_ERROR_H

#include "lock/dlock.h"

/* Says why, in place of what this thread said before. The arguments may be of that
 * text. */
void dlock_error_say(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* The same, and STATUS, so that failing is one line. As a macro, compilers and analyzers
 * see which one that is. */
#define dlock_error_set(status, ...) (dlock_error_say(__VA_ARGS__), (status))

/* The text of this thread; "" = nothing was said since the last public call. */
const char *dlock_error_text(void);

/* Takes the text away, and puts it back: around calls whose failure nobody is told, and
 * where a call goes on on another thread. */
struct dlock_error dlock_error_take(void);
void dlock_error_put(const struct dlock_error *error);

/* The end of each public call: fills ERROR, unless NULL, with "CALL: text", or with CALL
 * NULL with the text, if it failed, and leaves it alone if not. A call that succeeds at
 * the second try has a text from the first; after this, none is left. Where nothing was
 * said, the status' own text has to do. Gives STATUS back. */
enum dlock_status dlock_error_report(struct dlock_error *error,
                                     enum dlock_status status,
                                     const char *call);

#endif
