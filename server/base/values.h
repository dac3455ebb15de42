/*
 * Small values in the Redis where the locks are: stock hints; and that server's account of
 * itself. The users of a Redis server need rights for it: stockade.conf(5).
 */
#ifndef VALUES_H
#define VALUES_H

#include "lock/dlock.h"

#define VALUE_BYTES_MAX 63

/* A connection; belongs to one thread at a time, and not to a child of fork(2): there,
 * calls are DLOCK_MISUSE, and closing it frees memory. */
struct values;

/* A key, borrowed, and its text; "" = there is none, or a longer one. */
struct value {
    const char *key;
    char text[VALUE_BYTES_MAX + 1]; /* left alone by a get that fails */
    bool refused; /* the server answered with an error; set by each call */
};

/* A server as it describes itself; see values_about(). */
struct values_about {
    unsigned replicas; /* that are connected */
    bool needs_them;   /* to write: min-replicas-to-write is set */
};

/* Does not connect. Takes the first of several urls. TIMEOUT_MS is for connecting, and
 * again for each round trip. DLOCK_MISUSE: the url makes no sense, or a part of the
 * program is missing for it. */
enum dlock_status values_open(const char *url, unsigned timeout_ms,
                              struct values **values,
                              struct dlock_error *error);
void values_close(struct values *values);

/* Reads or writes N of them, 64 in a round trip. DLOCK_UNREACHABLE, DLOCK_UNKNOWN: of
 * some, see `refused`; where none is, there is no server. */
enum dlock_status values_get(struct values *values, struct value list[],
                             size_t n, struct dlock_error *error);
enum dlock_status values_set(struct values *values, struct value list[],
                             size_t n, struct dlock_error *error);

enum dlock_status values_about(struct values *values,
                               struct values_about *about,
                               struct dlock_error *error);

#endif
