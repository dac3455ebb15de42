/*
 * libdlock: small values in the Redis where the locks are. No lock needs it. A program
 * that keeps a value beside its locks must find the same server in the same way (logins,
 * TLS, sentinels, clusters) within the same bounds.
 */
#ifndef DLOCK_VALUES_H
#define DLOCK_VALUES_H

#include "lock/dlock.h"

DLOCK_BEGIN

#define DLOCK_VALUE_BYTES_MAX 63

/* A connection; belongs to one thread at a time, and not to a child of fork(2): there,
 * calls are DLOCK_MISUSE, and closing it frees memory. */
struct dlock_values;

/* A key, borrowed, and its text; "" = there is none, or a longer one. */
struct dlock_value {
    const char *key;
    char text[DLOCK_VALUE_BYTES_MAX + 1]; /* left alone by a get that fails */
    bool refused; /* the server answered with an error; set by each call */
};

/* A server as it describes itself; see dlock_values_about(). */
struct dlock_about {
    unsigned version;  /* the first number of it */
    unsigned replicas; /* that are connected */
    bool needs_them;   /* to write: min-replicas-to-write is set */
};

/* Does not connect. Takes the first of several urls. TIMEOUT_MS, 1 to
 * DLOCK_WAIT_MS_MAX, is for connecting, and again for each round trip. DLOCK_MISUSE: the url makes no sense, or a
 * part of the program is missing for it. */
enum dlock_status dlock_values_open(const char *url, unsigned timeout_ms,
                                    struct dlock_values **values,
                                    struct dlock_error *error);
void dlock_values_close(struct dlock_values *values);

/* Reads or writes N of them, 64 in a round trip. DLOCK_UNREACHABLE, DLOCK_UNKNOWN: of
 * some, see `refused`; where none is, there is no server. */
enum dlock_status dlock_values_get(struct dlock_values *values,
                                   struct dlock_value list[], size_t n,
                                   struct dlock_error *error);
enum dlock_status dlock_values_set(struct dlock_values *values,
                                   struct dlock_value list[], size_t n,
                                   struct dlock_error *error);

enum dlock_status dlock_values_about(struct dlock_values *values,
                                     struct dlock_about *about,
                                     struct dlock_error *error);

DLOCK_END

#endif
