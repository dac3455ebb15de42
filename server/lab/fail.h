/* Texts of what cannot be done in the laboratory: FORMAT is as printf's. */
#ifndef FAIL_H
#define FAIL_H

#include <stdbool.h>
#include <stddef.h>

/* Into ERROR, cut to its size. Returns false. */
bool fail_with(char *error, size_t error_size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A line on standard error, behind "stockade: ". Returns false. */
bool fail_aloud(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same of a command. Returns its exit status: it could not run. */
#define fail_to_run(...) ((void)fail_aloud(__VA_ARGS__), 2)

/* The exit status of a command that ended with STATUS: another one, and a line, if not all
 * that it has printed got there, because a file that is cut must not look whole. Who reads
 * from a pipe may have had enough. */
int fail_unless_told(int status);

#endif
