/*
 * Everything that can be wrong with a request: a table (problems.txt) that begins with
 * the outcomes of an order and has the same columns. RFC 9457 wants the title of a type to
 * stay the same; what is special about one case goes into its detail. The types are URNs,
 * because they are names and not pages.
 */
#ifndef PROBLEM_H
#define PROBLEM_H

#include "server/base/order_outcome.h"

#define PROBLEM_TYPE_PREFIX "urn:stockade:problem:"

/* An order's outcome is a problem of the same number. */
enum problem {
#define ROW(name, ...) PROBLEM_##name,
#include "server/base/order_outcomes.inc"
#define ROW(name, ...) PROBLEM_##name,
#include "server/http/problems.inc"
    PROBLEM_N,
    PROBLEM_NONE = PROBLEM_PLACED
};

/* The row of the table. The strings are static. */
struct problem_row {
    const char *type; /* PROBLEM_TYPE_PREFIX and the slug: "sold-out" */
    const char *title;
    const char *retry; /* for Retry-After; "0" = none */
    unsigned retry_s;
    unsigned status;
};

const struct problem_row *problem_row(enum problem problem);

#endif
