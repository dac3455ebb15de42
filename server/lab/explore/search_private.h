/* The files of the search share this: search.c goes through the schedules in their
 * order and says which there are, random.c draws some, search_stages.c plays them. */
#ifndef STAGE_SEARCH_PRIVATE_H
#define STAGE_SEARCH_PRIVATE_H

#include <semaphore.h>
#include <sys/types.h>

#include "server/lab/explore/search.h"

enum {
    NODES_MAX = 1000000,
    NODE_ROOT = 1,           /* the start; 0 = no node */
    NODE_BEYOND = NODES_MAX, /* a schedule that is not within the bounds */
};

/* ---- stages (search_stages.c) ------------------------------------------- */

/* In memory that all processes of a search have mapped. */
struct search_shared {
    struct stage_scene scene;
    struct search_bounds bounds;
    _Atomic uint32_t nodes_n;
    _Atomic bool stop;
    uint32_t queue_n;
    _Atomic uint32_t next; /* place in the queue to be taken up by a stage */
    sem_t go[SEARCH_STAGES_MAX], done;
    struct fail errors[SEARCH_STAGES_MAX]; /* "" = all is well */
    atomic_bool leaves[SEARCH_STAGES_MAX];

    atomic_uint_fast64_t schedules; /* played so far */

    /* Random schedules alone use these: */
    atomic_uint_fast64_t drawn, moves;
    atomic_uint longest;
    atomic_uint claimed; /* faults: who met one first shortens it */
    struct search_found faults[STAGE_FAULT_N];

    /* The search of all schedules uses these: */
    uint32_t queue[NODES_MAX]; /* nodes to go on from, in their order */
    struct search_node nodes[NODES_MAX];
};

/* The state that STAGE is in, into NODE. */
void search_fill(struct stage *stage, const struct search_shared *shared,
                 struct search_node *node);

/* Plays CHILD of NODE, which the stage is at. False: it is not within the bounds, or the
 * stage is broken, and ERROR says so. */
bool search_play(struct stage *stage, const struct search_shared *shared,
                 const struct search_node *node, struct search_node *child,
                 struct fail *error);

/* Asked several times a second whether to go on. */
typedef bool search_wanted(void *ctx);

struct search_stages {
    struct search_shared *shared;
    pid_t pids[SEARCH_STAGES_MAX];
    unsigned n;
    search_wanted *wanted;
    void *ctx; /* of it */
};

/* Opens N stages, 0 = one for each processor, and plays the root. WANTED and its CTX are
 * set. False: ERROR says why; they are to be closed all the same. */
bool search_stages_open(struct search_stages *stages,
                        const struct stage_scene *scene,
                        const struct search_bounds *bounds, unsigned n,
                        struct fail *error);
void search_stages_close(struct search_stages *stages);

/* Plays all children of what is in the queue from shared->next on; or random schedules
 * until that is not wanted any more. False: ERROR says why. */
bool search_stages_play(struct search_stages *stages, struct fail *error);

/* The work of a stage that plays random schedules (random.c), in its process, until
 * shared->stop; PARENT: of that. False: ERROR says why. */
bool random_work(struct search_shared *shared, struct stage *stage,
                 struct fail *error, pid_t parent);

/* The result of the random schedules so far. */
void random_look(const struct search_shared *shared,
                 struct search_result *result);

#endif
