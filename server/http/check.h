/*
 * The check of a request's head and target, before anybody acts on it.
 *
 * libmicrohttpd 0.9.75 reads more than RFC 9112 allows. A proxy or cache before
 * us may then read the same bytes as two requests where we read one. So
 * everything that two readers could understand differently is refused. Pure
 * functions; no I/O.
 *
 * Refused, and the connection closed:
 *   400  Content-Length and Transfer-Encoding, or several of one of them; a
 *        length that is not digits; a coding other than chunked; blanks after
 *        either, with which libmicrohttpd takes it for another; several Hosts,
 *        or none in HTTP/1.1; spaces, controls or NULs where they do not
 *        belong; folded lines; lines that end in a bare LF
 *   413  a body that is announced as absurdly long
 *   414, 431  a target or a head that is too long, or has too many parts
 *   505  any version but 1.0 and 1.1
 * Refused, but the connection goes on:
 *   413  a body that is too long, and can be read past
 *
 * What libmicrohttpd cannot parse it refuses itself before, with a page of its own
 * and a close: a request line or a header line without
 * its parts, "Content-Length: +4", a head beyond its buffer.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/http/problem.h"

#define CHECK_HEAD_BYTES_MAX    8192
#define CHECK_TARGET_BYTES_MAX  2048
#define CHECK_BODY_BYTES_MAX    16384
#define CHECK_SWALLOW_BYTES_MAX 1048576 /* read and thrown away for a 413 */
#define CHECK_FIELDS_MAX        64
#define CHECK_ARGUMENTS_MAX     64 /* of the query */

/* One header field as it was parsed. Borrowed; with a NUL at each end. */
struct check_field {
    const char *name;
    const char *value;
    size_t name_size;
    size_t value_size;
    size_t blanks; /* that came after the value */
};

/* A request's head: what the parser made of it, and where it found that. */
struct check_head {
    const char *method, *version;
    const char *target; /* as sent: not decoded, query included */
    size_t target_size;

    /* The head's bytes, in which the parser has only overwritten separators; the
     * strings above (the target's is target_at) and the fields then point into them.
     * With it the check sees what the parser dropped. NULL = not known, not checked. */
    const char *bytes, *target_at;
    size_t size;

    size_t fields_n; /* one more than may be: it has too many */
    struct check_field fields[CHECK_FIELDS_MAX + 1];
};

struct check_verdict {
    enum problem problem; /* PROBLEM_NONE = accepted */
    const char *detail;   /* static; "" if there is no problem */
    bool close;           /* where the next request begins is in doubt */
    uint64_t body_size;   /* as announced; 0 if chunked */
};

void check_head(const struct check_head *head, struct check_verdict *verdict);

/* The field called NAME, of several the first, or NULL. *N (may be NULL) says how many
 * there are. */
const struct check_field *check_find(const struct check_head *head,
                                     const char *name, size_t *n);

/*
 * Splits a TARGET that was checked, "/api/orders/7?key=a%2Fb", into path and
 * query, decoded once and strictly. What a proxy before us could understand
 * differently ("..", "%2f", "%00", a backslash) is refused, not repaired.
 *
 * Decodes the path into PATH, which has room for target_size + 1 bytes, and
 * points *QUERY to what follows the "?", or to "". NULL if all is well, or else
 * what is wrong, as static text.
 */
const char *target_split(const char *target, size_t target_size, char *path,
                         const char **query);

/* Whether a name is in the query, and whether its value can be used. */
enum target_found { TARGET_ABSENT, TARGET_FOUND, TARGET_BAD };

/* Looks NAME up in a query and decodes its value into VALUE. TARGET_BAD if it is
 * malformed, too long or there twice. */
enum target_found target_query(const char *query, const char *name, char *value,
                               size_t value_size);

#endif
