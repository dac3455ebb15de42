/*
 * Nodes of a search, without a stage: which of them are within the bounds, and which
 * are news. A search that says "all" relies on it.
 */
#ifndef SEARCH_BOUNDS_H
#define SEARCH_BOUNDS_H

#include <stdatomic.h>

#include "server/lab/explore/search.h"

/* The part of the bounds that has been used up; of SEARCH_MOVES, how many there are. */
struct search_used {
    uint8_t of[SEARCH_BOUNDS_N];
};

/* A schedule that was played, and what is true at its end. */
struct search_node {
    uint32_t parent;
    struct stage_move move; /* from there */
    signed char last;       /* who moved last; -1 = nobody yet */
    uint8_t moves_n;
    uint8_t inside; /* a bit for each actor; */
    uint8_t begun;  /* the same */
    uint8_t lapses;
    struct search_used used;
    unsigned faults;
    uint64_t state; /* what is still to come depends on it; never 0 */
    struct stage_move moves[STAGE_ENABLED_MAX];
    _Atomic uint32_t children[STAGE_ENABLED_MAX]; /* by each; 0 = not played */
};

/* ---- states that were seen (search.c) ----------------------------------- */

struct search_seen {
    uint64_t state; /* 0 = a free place */
    struct search_used used;
};

struct search_table {
    struct search_seen *places;
    size_t n, room;
    const struct search_bounds *bounds;
};

/* False: one like it, with no more used up, is in there. */
bool search_table_put(struct search_table *table,
                      const struct search_node *node);

/* ---- bounds (search_bounds.c) ------------------------------------------- */

/* The child of NODE by its move I, before it is played; false: it is not within
 * the bounds, or no different from another one. */
bool search_child(const struct search_bounds *bounds,
                  const struct search_node *node, unsigned i,
                  struct search_node *child);

/* The same, for what only playing it could tell. */
bool search_is_within(const struct search_bounds *bounds,
                      const struct search_node *node,
                      struct search_node *child);

/* With no less left than B, all that B leads to A leads to as well. */
bool search_is_as_free(const struct search_bounds *bounds,
                       const struct search_used *a,
                       const struct search_used *b);

/* The states after it are no news. */
bool search_is_end(const struct search_node *node);

#endif
