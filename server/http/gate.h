/*
 * The gate: looks at the head of a request before anybody acts on it.
 *
 * libmicrohttpd 0.9.75 reads requests more kindly than RFC 9112 allows, and
 * kindness here is a hole: whatever stands before us (a proxy, a cache) may
 * read the same bytes as two requests where we read one. So everything on
 * which two readers could differ is refused. Pure functions; no I/O.
 *
 * Refused, and the connection closed:
 *   400  Content-Length and Transfer-Encoding, or several of one of them; a
 *        length that is not digits; a coding other than chunked; several
 *        Hosts, or none in HTTP/1.1; spaces, controls or NULs where they do
 *        not belong; folded lines; lines that end in a bare LF
 *   413  a body that is announced as absurdly long
 *   414, 431  a target or a head that is too long
 *   505  any version but 1.0 and 1.1
 * Refused, but the connection goes on:
 *   413  a body that is too long, and can be read past
 *
 * Before the gate sees it, libmicrohttpd itself refuses what it cannot parse,
 * with a page of its own and a close: a request line or a header line without
 * its parts, "Content-Length: +4", a head beyond its buffer.
 */
#ifndef GATE_H
#define GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/http/problem.h"

#define GATE_HEAD_BYTES_MAX    8192
#define GATE_TARGET_BYTES_MAX  2048
#define GATE_BODY_BYTES_MAX    16384
#define GATE_SWALLOW_BYTES_MAX 1048576 /* read and thrown away for a 413 */
#define GATE_FIELDS_MAX        64

/* One header field as it was parsed. Borrowed. */
struct gate_field {
    const char *name;
    const char *value;
    size_t name_size;
    size_t value_size;
};

/* A request's head: what the parser made of it, and where it found that. */
struct gate_view {
    const char *method;
    const char *target; /* as sent: not decoded, query included */
    const char *version;
    size_t target_size;
    const struct gate_field *fields;
    size_t fields_n;

    /*
     * The head's bytes, in which the parser has only overwritten separators;
     * the strings above, and target_at, then point into them. With it the gate
     * sees what the parser dropped. NULL = not known, not checked.
     */
    const char *head;
    const char *target_at;
    size_t head_size;
};

struct gate_verdict {
    enum problem problem; /* PROBLEM_NONE = let it in */
    const char *detail;   /* static; "" if there is no problem */
    bool close;           /* where the next request begins is in doubt */
    uint64_t body_size;   /* as announced; 0 if chunked */
};

void gate_check(const struct gate_view *view, struct gate_verdict *verdict);

/* The field called NAME, or NULL. *N (may be NULL) says how many there are. */
const struct gate_field *gate_find(const struct gate_field fields[],
                                   size_t fields_n, const char *name,
                                   size_t *n);

#endif
