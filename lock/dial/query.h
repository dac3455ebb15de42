/*
 * One question to a server on a new connection, before it is anybody's: what a
 * sentinel knows, and whether a server is a primary. The replies are a text, or
 * texts in pairs of name and value, so that the parser of the wire is not needed.
 */
#ifndef DLOCK_QUERY_H
#define DLOCK_QUERY_H

#include "lock/core/net.h"

enum { DLOCK_QUERY_BYTES_MAX = 4095 }; /* of a reply; longer ones are refused */

struct dlock_query {
    unsigned skipped; /* replies of one line before it, which do not count */
    size_t used;
    char reply[DLOCK_QUERY_BYTES_MAX + 1];
};

/* Sends LINE, words with blanks between. SKIPPED: see above. */
enum dlock_status dlock_query_begin(struct dlock_query *query,
                                    struct dlock_link link, const char *line,
                                    unsigned skipped,
                                    struct dlock_error *error);

/*
 * Takes what has come, without waiting: DLOCK_OK if it is all there, DLOCK_BUSY
 * if more is to come, DLOCK_UNREACHABLE if the server refused or is gone.
 */
enum dlock_status dlock_query_go_on(struct dlock_query *query,
                                    struct dlock_link link,
                                    struct dlock_error *error);

/* Of a reply in pairs: the value called NAME. False: none, or too long. */
bool dlock_query_value(const struct dlock_query *query, const char *name,
                       char *value, size_t size);

/* Of a reply that is one text: whether LINE is one of its lines. */
bool dlock_query_has_line(const struct dlock_query *query, const char *line);

#endif
