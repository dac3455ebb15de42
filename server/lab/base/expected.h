/*
 * The properties that each lock must hold, and how it must break: one table, which all read
 * that measure locks.
 *
 *     stockade lab locks   the conformance suite (conform.h): a sign per property
 *     stockade explore     the search of the stage: the faults of all schedules
 *     experiments          which verdict is the right one
 *
 * A row is a lock. More faults than the row allows are a bug; fewer are a lost test, or
 * a lock that is better than it claims: both are failures. A lock without a row is one
 * as well, because its row must say what it is good for, and what it is bad at.
 *
 * The two halves of a row have to fit: the search may break a lock only in a way
 * in which a property that the row says fails would break it
 * (tests/test_conform.c).
 */
#ifndef EXPECTED_H
#define EXPECTED_H

#include <stdbool.h>
#include <stddef.h>

#include "server/lab/base/fail.h"

/* The columns of the table, in its order. */
enum {
#define ROW(property, check, letter, text) property,
#include "server/lab/base/properties.inc"
    PROPERTIES_N
};

struct property {
    const char *letter; /* "X2" */
    const char *text;   /* what it means, one line */
};

extern const struct property properties[PROPERTIES_N];

/* The sign of a lock of somebody's own, of which nobody has said anything. */
enum { EXPECTED_ANYTHING = '?' };

/* Where a lock keeps its state: what has to run before it can be tested. */
enum kept {
    KEPT_LOCALLY,  /* nothing */
    KEPT_IN_REDIS, /* nodes_n private redis-servers */
    KEPT_IN_SQL,   /* a client/server SQL database, by its url */
    KEPT_IN_BOTH,  /* one private redis-server and the database */
    KEPT_IN_ZK,    /* ZooKeeper, by its url */
};

/* A row. */
struct expected {
    const char *lock;
    const char *verdicts; /* a sign per property: '#' holds, '.' fails,
                             '-' cannot be tested; or EXPECTED_ANYTHING */
    enum kept kept;
    unsigned nodes_n;   /* KEPT_IN_REDIS */
    bool aged;          /* nodes count only when they have been up for longer
                         than any lease */
    const char *faults; /* of the stage, by their words, with blanks between:
                           what a search of all troubles finds for one unit, but
                           for Redis's loss of its data. Remarks (STAGE_REMARKS)
                           are none: every lease can be outlived. NULL: the
                           stage does not play it */
};

/* Whether NAME is a lock of this build, or a FILE.lock, which is read. False: ERROR says
 * why not, and which there are. */
bool expected_lock(const char *name, struct fail *error);

/* NULL: there is no row. */
const struct expected *expected_of(const char *lock);

/* Whether WORD is in LIST, which has blanks between; a NULL has none. */
bool expected_has_word(const char *list, const char *word);

/* Whether the search is to find the fault of that word. */
bool expected_breaks(const struct expected *expected, const char *fault);

#endif
