/*
 * The experiments of `stockade lab`.
 *
 * An experiment is a text file in this folder. It says how a bug is shown, what comes
 * of it, and that the fix, the same with one thing changed, holds. README.md in
 * server/lab is the manual of these files. tests/e2e/lab.t and
 * tests/full/lab-load.t run each of them both ways.
 *
 * Kinds
 * -----
 * steps: a schedule on the stage (server/lab/stage/stage.h). Exact, the same every
 * time.
 *
 * load: real instances under load (server/lab/load/load.h), for what only numbers
 * show, or what a schedule shows already, "in the wild".
 */
#ifndef EXPERIMENT_H
#define EXPERIMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/lab/experiments/reader.h"
#include "server/lab/load/buyers.h"
#include "server/lab/picture/draw.h"

enum { EXPERIMENT_SCENE_BYTES = 500 };

/* Its texts, in each language. */
enum {
    EXPERIMENT_TITLE,
    EXPERIMENT_SYMPTOM,
    EXPERIMENT_SEE,
    EXPERIMENT_WHY,
    EXPERIMENT_HOW,      /* it is fixed */
    EXPERIMENT_TEXT_REST /* what the fix leaves open; NULL: nothing */
};

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

/* In the order in which they are told. */
enum {
    EXPERIMENT_BUG,
    EXPERIMENT_FIX,  /* may be left out */
    EXPERIMENT_REST, /* what the fix leaves open; the same */
    EXPERIMENT_PLAYS_N
};

struct experiment {
    struct reader_entry entry;
    const struct experiment_kind *kind;
    struct experiment_play plays[EXPERIMENT_PLAYS_N];
};

/* "bug", "fix", "rest". */
const char *experiment_play_word(unsigned index);
/* The heading of a play: "With the bug". */
const char *experiment_play_title(const struct experiment *experiment,
                                  unsigned index);

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

/* An object for what came of RUN: "stock", "sold", "orders", "faults", "remarks", "said",
 * "as_told"; or "error". */
json_t *experiment_json(const struct experiment_run *run);

extern const struct experiment_kind steps_kind; /* steps.c */
extern const struct experiment_kind load_kind;  /* server/lab/load/load.c */

/* ---- `stockade lab list`, `show` and `run` (lab_list.c, lab_run.c) ---------------- */

enum lab_status { LAB_AS_TOLD = 0, LAB_NOT_AS_TOLD = 1, LAB_COULD_NOT_RUN = 2 };

struct lab_options {
    int json, brief, help, by_hand;
    int fix;                      /* run -i: not the bug, but what fixes it */
    unsigned look;                /* see draw.h */
    const char *lock;             /* run -i: in place of its own; or NULL */
    const char *save;             /* run: a file; or NULL */
    const struct experiment *own; /* of --file; or NULL */
    int names_n;
    char **names;
};

/* Each gets ARGV from its name on, and returns the exit status. */
int lab_list_main(int argc, char *argv[]);
int lab_show_main(int argc, char *argv[]);
int lab_run_main(int argc, char *argv[]);

/* False: a flag is wrong, which is said. */
bool lab_options_read(int argc, char *argv[], struct lab_options *options);

/* The name of a play, for people. */
void lab_scene(const struct experiment *experiment,
               const struct experiment_play *play, unsigned look);

#endif
