/*
 * The plays of experiments: one way to run each, and what comes of a run.
 *
 * Kinds
 * -----
 * steps: a schedule on the stage (server/lab/stage/stage.h). Exact, the same every
 * time.
 *
 * load: real instances under load (server/lab/load/load.h), for what only numbers
 * show, or what a schedule shows already, "in the wild".
 */
#ifndef PLAY_H
#define PLAY_H

#include "server/lab/load/buyers.h"
#include "server/lab/picture/draw.h"

/* Plays the crowd of LOAD, or one of its own, and measures a number, which it tells as
 * well: see measure.c. False: it could not. */
typedef bool measure_function(double *found);

/* Real instances, see load.h. */
struct experiment_load {
    unsigned instances;
    unsigned stock;
    const char *flags;                    /* of all */
    const char *each[SITE_INSTANCES_MAX]; /* of one; NULL = none */

    /* Without a story: one of these. */
    struct buyers_crowd crowd;
    unsigned wrk_connections; /* wrk, for two seconds */
    measure_function *measure;
    double least, most; /* its number, if it is as told */
};

/* One way to run it. It went as told if exactly .faults came about, .sold units are
 * sold by the store's audit, and a step has the text .says. If no fault is expected,
 * all actors have to be done as well. */
struct experiment_play {
    struct stage_scene scene; /* steps; load: .lock alone. NULL: no such way */
    struct experiment_load load; /* load */
    const char *schedule;        /* steps; load: the story, or NULL */
    unsigned faults; /* a bit for each enum stage_fault, remarks as well */
    int64_t sold;
    const char *says; /* NULL = any */
};

#define EXPERIMENT_FAULT(fault) (1u << (fault))

/* A run: what it writes while it happens, and what came of it. */
struct experiment_run {
    FILE *out;     /* for people, 80 columns; NULL = nothing */
    json_t *json;  /* for programs: an object that gets members, but none of
                     experiment_json()'s; NULL = nothing */
    unsigned look; /* see draw.h */
    bool brief;    /* steps: the state at the end only, not behind each move */
    const char *save; /* steps: a file for its timeline; or NULL */
    const char *name; /* of the experiment */

    struct stage_verdict verdict;
    int64_t stock, sold, orders; /* by the audit of the store, at the end */
    char said[200];              /* numbers in a few English words; "" = none */
    bool is_over;                /* steps: all are done or dead */
    bool as_told;
    struct fail error; /* why it could not be run, and what to do */
};

struct experiment_kind {
    const char *name; /* "steps" */

    /* False: it could not be run, or stage_options_interrupted(); RUN->error says
     * so. Leaves no process and no file behind, either way. */
    bool (*run)(const struct experiment_play *play, struct experiment_run *run);
    /* One line on what is played: "lock set-nx-px, deduct naive: 2 buyers, stock 1". */
    void (*scene)(const struct experiment_play *play, char text[], size_t size);
};

extern const struct experiment_kind load_kind; /* load.c */

/* An object for what came of RUN: "stock", "sold", "orders", "faults", "remarks", "said",
 * "as_told"; or "error". */
json_t *experiment_json(const struct experiment_run *run);

#endif
