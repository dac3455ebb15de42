/*
 * The search: the shortest schedules that break a lock, within bounds.
 *
 * Breadth first: all schedules of n moves before any of n + 1, so that the first
 * one that breaks something is a shortest one. Nothing that has happened to real
 * servers can be taken back, so each is played from the start, but for those that
 * only go on where another one ended. Several stages play at once, each in a
 * process and on a processor of its own; what is found depends on the order of the
 * schedules, and not on who plays them (search_stage.c).
 *
 * Reduction. Two schedules that end in the same state have the same futures: what
 * each actor that is not done has heard, and when, what is in Redis and in the
 * database, the clock, and what is left of the bounds are all that decides them
 * (stage_hash()). So only the first of them is gone on with, unless more of the
 * bounds is left to the other. Steps that do not touch each other lead to one state
 * in either order: this is what sleep sets avoid, and more than that. Of buyers that
 * are alike a comes first. A process may die at any time, because others can have
 * seen it alive until then.
 */
#ifndef STAGE_SEARCH_H
#define STAGE_SEARCH_H

#include <stdatomic.h>

#include "server/lab/stage/stage.h"

enum { SEARCH_STAGES_MAX = 8 };

/* The bounds, which bounds.txt explains. Those behind SEARCH_TROUBLES are troubles. */
enum search_bound {
#define ROW(bound, ...) bound,
#include "server/lab/search/bounds.inc"
    SEARCH_BOUNDS_N
};

/* A bound, as bounds.txt has it; TROUBLES is "" if it is of none. */
struct search_bound_row {
    const char *moves, *flag, *troubles;
    unsigned of_one, at_random, expected;
};
extern const struct search_bound_row search_bound_rows[SEARCH_BOUNDS_N];

struct search_bounds {
    union {
        struct {
#define ROW(bound, member, ...) unsigned member;
#include "server/lab/search/bounds.inc"
        };
        unsigned most[SEARCH_BOUNDS_N];
    };
    uint64_t seed; /* of random schedules (random.c); 0: all are played */
    bool no_reduction;
    bool are_alike;  /* all actors; the search sets it */
    unsigned passes; /* faults behind which it does go on */
    /* The schedule behind which the search begins: none of its moves counts. */
    struct stage_move from[STAGE_MOVES_MAX];
    unsigned from_n;
};

struct search_found {
    bool is_found;
    struct stage_move moves[STAGE_MOVES_MAX]; /* behind bounds.from */
    size_t n;
};

/* Its moves as a text, until the next call. */
const char *search_text(const struct search_found *found);

struct search_result {
    struct search_found faults[STAGE_FAULT_N];
    uint64_t schedules; /* played */
    uint64_t states;    /* that differ */
    unsigned moves; /* of the longest ones of which all were played; of random
                           schedules, of the longest */
    uint64_t moves_all; /* of random schedules: of all together */
    bool is_whole;      /* all within the bounds was played */
};

/* Told several times a second; false: that is enough. */
typedef bool search_progress(void *ctx, const struct search_result *result);

/* On STAGES stages; 0 = one for each processor. To be called from a process with
 * one thread: it forks. PROGRESS may be NULL. What is found is played once more, in
 * fresh processes. False and a text: a stage is broken, or what was found did not come
 * out again; *RESULT has the rest. */
bool search_run(const struct stage_scene *scene,
                const struct search_bounds *bounds, unsigned stages,
                search_progress *progress, void *ctx,
                struct search_result *result, struct fail *error);

/* ---- nodes, without a stage: which are within the bounds, and which are news ----
 *
 * A search that says "all" relies on it.
 */

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
    uint8_t begun; /* a bit for each actor */
    uint8_t lapses;
    struct search_used used;
    unsigned faults;
    uint64_t state; /* what is still to come depends on it; never 0 */
    struct stage_move moves[STAGE_ENABLED_MAX];
    _Atomic uint32_t children[STAGE_ENABLED_MAX]; /* by each; 0 = not played */
};

struct search_seen {
    uint64_t state; /* 0 = a free place */
    struct search_used used;
};

struct search_table {
    struct search_seen *places;
    size_t n;
    const struct search_bounds *bounds;
};

/* False: one like it, with no more used up, is in there. */
bool search_table_put(struct search_table *table,
                      const struct search_node *node);

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
bool search_is_end(const struct search_bounds *bounds,
                   const struct search_node *node);

/* Shortens FOUND, which breaks FAULT on STAGE, until *STOP: then it is longer than it needs
 * to be. False and a text: the stage is broken, or FOUND does not break it. */
bool random_shorten(struct stage *stage, unsigned fault,
                    const _Atomic bool *stop, struct search_found *found,
                    struct fail *error);

#endif
