/* Texts of what cannot be done in the laboratory: FORMAT is as printf's. Whatever takes a
 * struct fail writes there why it fails. */
#ifndef FAIL_H
#define FAIL_H

#include <stdarg.h>
#include <stdbool.h>

/* The reason for which something cannot be done, for a person. */
struct fail {
    char text[1040];
};

/* Into ERROR, cut to its size. Returns false. */
bool fail_with(struct fail *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same, behind the text that ERROR has already. */
bool fail_more(struct fail *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same of a LINE in a FILE that was read: "FILE:LINE: ...". */
bool fail_in_file(struct fail *error, const char *file, unsigned line,
                  const char *format, va_list args)
    __attribute__((format(printf, 4, 0)));

/* A line on standard error, behind "stockade: ". Returns false. */
bool fail_aloud(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same of a command. Returns its exit status: it could not run. */
#define fail_to_run(...) ((void)fail_aloud(__VA_ARGS__), 2)

/* The exit status of a command that ended with STATUS: another one, and a line, if not all
 * that it has printed got there, because a file that is cut must not look whole. Who reads
 * from a pipe may have had enough. */
int fail_unless_told(int status);

#endif
