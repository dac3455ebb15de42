/* The files of the search share this: search_nodes.c says which schedules there are,
 * search.c goes through them in their order, search_stage.c plays them, random.c draws
 * some. */
#ifndef STAGE_SEARCH_PRIVATE_H
#define STAGE_SEARCH_PRIVATE_H

#include "server/lab/search/search.h"

enum {
    NODES_MAX = 1000000,
    NODE_ROOT = 1,           /* the start; 0 = no node */
    NODE_BEYOND = NODES_MAX, /* a schedule that is not within the bounds */
};

/* In memory that all processes of a search have mapped. */
struct search_shared {
    struct stage_scene scene;
    struct search_bounds bounds;
    _Atomic bool stop;                     /* nothing more is to be played */
    struct fail errors[SEARCH_STAGES_MAX]; /* "" = all is well */
    atomic_uint_fast64_t schedules;        /* played so far */

    /* Random schedules alone use these: */
    atomic_uint_fast64_t drawn, moves;
    atomic_uint longest;
    atomic_uint claimed; /* faults: who met one first shortens it */
    struct search_found faults[STAGE_FAULT_N];

    /* The search of all schedules uses these: */
    _Atomic uint32_t nodes_n;
    _Atomic uint32_t next; /* place in the queue to be taken up by a stage */
    uint32_t queue_n;
    uint32_t queue[NODES_MAX]; /* nodes to go on from, in their order */
    struct search_node nodes[NODES_MAX];
};

/* ---- a stage (search_stage.c) ----------------------------------------------- */

/* The process of stage INDEX, which says on LINE that it is there, and plays for each byte
 * that it gets. It sets stop when the stage is broken, and ends when that is set. */
_Noreturn void search_stage_main(struct search_shared *shared, unsigned index,
                                 int line);

/* How many processors we may use. ONLY: the number of one that is to be the only one; -1 =
 * none. */
unsigned search_processors(int only);

/* The state that STAGE is in, into NODE. False: the stage is broken, and ERROR says so. */
bool search_fill(struct stage *stage, struct search_node *node,
                 struct fail *error);

/* Plays CHILD of NODE, which the stage is at. False: it is not within the bounds, or the
 * stage is broken, and ERROR says so. */
bool search_play(struct stage *stage, const struct search_shared *shared,
                 const struct search_node *node, struct search_node *child,
                 struct fail *error);

/* ---- random schedules (random.c) -------------------------------------------- */

/* Plays some in the process of a stage, until shared->stop. False: ERROR says why. */
bool random_work(struct search_shared *shared, struct stage *stage,
                 struct fail *error);

/* The result so far. */
void random_look(const struct search_shared *shared,
                 struct search_result *result);

#endif
