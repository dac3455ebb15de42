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

/* Plays what was found once more in fresh processes, and takes back what does not come
 * out again. False and a text: that was so. */
bool search_confirm(const struct stage_scene *scene,
                    const struct search_bounds *bounds,
                    struct search_result *result, struct fail *error);

/* ---- stages (search_stages.c) ------------------------------------------- */

/* The state that STAGE is in, into NODE. */
void search_fill(struct stage *stage, const struct stage_scene *scene,
                 struct search_node *node);

/* Whether the process of a stage has ended without having said LEAVES, the last that it
 * does: then ERROR says so. An exit status tells nothing, because a process that has
 * opened a stage ignores SIGCHLD. *PID becomes 0 when it has ended in any way. */
bool search_stage_died(pid_t *pid, const atomic_bool *leaves,
                       struct fail *error);

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

    /* Random schedules alone use these: */
    const uint64_t *seed; /* NULL: there are none */
    atomic_uint_fast64_t drawn, schedules, moves;
    atomic_uint longest;
    atomic_uint claimed; /* faults: who met one first shortens it */
    struct search_found faults[STAGE_FAULT_N];

    /* The search of all schedules uses these: */
    uint32_t queue[NODES_MAX]; /* nodes to go on from, in their order */
    struct search_node nodes[NODES_MAX];
};

struct search_stages {
    struct search_shared *shared;
    pid_t pids[SEARCH_STAGES_MAX];
    unsigned n;
};

/* Opens N stages, 0 = one for each processor. The root is played when they are open; with
 * a SEED, which must stay, they play random schedules until shared->stop. */
bool search_stages_open(struct search_stages *stages,
                        const struct stage_scene *scene,
                        const struct search_bounds *bounds, unsigned n,
                        const uint64_t *seed);
void search_stages_close(struct search_stages *stages);

/* Whether one of them has an error: then ERROR has it. */
bool search_stages_failed(const struct search_stages *stages,
                          struct fail *error);

/* The work of a stage that plays random schedules (random.c), in its process; PARENT: of
 * that. */
void random_work(struct search_shared *shared, struct stage *stage,
                 struct fail *error, pid_t parent);

/* Plays all children of what is in the queue from shared->next on, or begins to,
 * the first time. False: shared->errors has it. WANTED is asked several times a
 * second whether to go on. */
bool search_stages_play(struct search_stages *stages, bool (*wanted)(void *ctx),
                        void *ctx);

#endif
