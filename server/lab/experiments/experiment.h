/*
 * The experiments of `stockade lab`, and how to add one.
 *
 * An experiment is data, a row in the table of its family (experiments_*.c). It
 * says how a bug is shown, what comes of it, and that the fix, the same with one
 * thing changed, holds. tests/full/lab.t runs each of them both ways, ten times.
 *
 *     {.id = "06", .name = "the-crash", .text = {...},
 *      .bug = {.scene = EXPERIMENT_SCENE("setnx", .buyers = 2, .stock = 1),
 *              .schedule = "a a! b b+ b",
 *              .faults = EXPERIMENT_FAULT(STAGE_FOREVER),
 *              .says = "lock-timeout"},
 *      .fix = {.scene = EXPERIMENT_SCENE("set-nx-px", .buyers = 2, .stock = 1),
 *              .schedule = "a a! b L b b b b b b", .sold = 1},
 *      .rest = OUTLIVED_LEASE}
 *
 * Write the row with a schedule that may be wrong, `make -j2 all`, and look at
 * `stockade lab run 06`: it says which moves there are where yours is none, and what
 * was found where you expected something else.
 *
 * Kinds
 * -----
 * steps: a schedule on the stage (server/lab/stage/stage.h). Exact, the same every
 * time. `stockade explore LOCK` finds schedules; `stockade replay` shows them.
 *
 * Actors order by the service's own code. For code of your own write a program: a
 * function and a row in server/lab/lessons/lesson_*.c, and what it does, in Chinese,
 * in words.c. The scene names it:
 *
 *     .roles = {{.program = "order-off-by-one"}, {.program = "order-off-by-one"}}
 *
 * and `stockade explore --programs order-off-by-one,order-off-by-one none` finds its
 * schedules. experiments_order.c has examples.
 *
 * load: real instances under load, for what only numbers show, or what a schedule
 * shows already, "in the wild". The id of such a one ends in w: 06w.
 *
 * All of a family are of one kind.
 *
 * The fix
 * -------
 * .fix without a schedule plays the bug's. A fixed lock may have other steps, or
 * none where the bug has one. Then .fix has a schedule of its own, which tells the
 * same story: the same actors, and what happens to them from outside (a death, a
 * lease that ends, a reply that is lost) comes in the same order. What the lock has
 * to do better by itself, like a watchdog's turn, may be between. It goes on until
 * all are done, or "it holds" would say little. A fix may have remarks
 * (STAGE_REMARKS), and no faults: with tokens, two may be inside at once.
 *
 * .rest is there if the fixed lock still breaks: a schedule by which it does, and the
 * text .rest, which says how and where the lesson goes on.
 *
 * What is expected
 * ----------------
 * It went *as told* if exactly .faults came about, .sold units are sold by the
 * store's audit, and, with .says, a line of the timeline has this text. If no fault
 * is expected, all actors have to be done as well. A run whose kind measures numbers
 * decides by its own bounds (struct experiment_load).
 *
 * Text
 * ----
 * For learners, plain and short, in English and Chinese: the title; the symptom in
 * one line of 44 columns, as `lab list` has it; and three parts of one to four
 * sentences: what you will see, why, what fixes it. A new phrase that is drawn has its
 * Chinese in server/lab/picture/chinese.c.
 */
#ifndef EXPERIMENT_H
#define EXPERIMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "server/lab/stage/stage.h"

enum { EXPERIMENT_SCENE_BYTES = 500 };

enum experiment_language {
    EXPERIMENT_EN,
    EXPERIMENT_ZH,
    EXPERIMENT_LANGUAGES_N
};

struct experiment_text {
    const char *title;
    const char *symptom;
    const char *see;
    const char *why;
    const char *fix;
    const char *rest; /* what the fix leaves open; NULL: nothing */
};

struct experiment_load; /* see load.h */

/* One way to run it. */
struct experiment_play {
    struct stage_scene scene; /* steps; .lock = NULL: no such way; .quantity and
                                 .wait_ms, if 0, are 1 and 30000 */
    const char *schedule;     /* steps; load: the story, see load.h */
    const struct experiment_load *load; /* load; NULL: no such way */
    unsigned faults; /* a bit for each enum stage_fault, remarks as well */
    int64_t sold;
    const char *says; /* a text that a step has; NULL = any */
};

/* The naive way to deduct: only the lock protects the stock. */
#define EXPERIMENT_SCENE(lock_name, ...)                                       \
    {                                                                          \
        .lock = (lock_name), .deduct = DEDUCT_NAIVE, __VA_ARGS__               \
    }
/* The service's way: one transaction decides. */
#define EXPERIMENT_GUARDED(lock_name, ...)                                     \
    {                                                                          \
        .lock = (lock_name), .deduct = DEDUCT_GUARDED, __VA_ARGS__             \
    }
#define EXPERIMENT_FAULT(fault) (1u << (fault))

struct experiment {
    const char *id; /* "08", as in the list of the README; "08w" in the wild */
    const char *name; /* "longer-than-the-lease" */
    struct experiment_text text[EXPERIMENT_LANGUAGES_N];
    struct experiment_play bug;
    struct experiment_play fix;  /* may be left out */
    struct experiment_play rest; /* shows what the fix leaves open; the same */
};

/* Its plays in the order in which they are told: bug, fix, rest. */
enum { EXPERIMENT_PLAYS_N = 3 };
const struct experiment_play *
experiment_play(const struct experiment *experiment, unsigned index);
/* "bug", "fix", "rest". */
const char *experiment_play_word(unsigned index);
/* The heading of a play: "With the bug". */
const char *experiment_play_title(const struct experiment *experiment,
                                  unsigned index);

/* A run: what it writes while it happens, and what came of it. */
struct experiment_run {
    FILE *out;  /* for people, 80 columns; NULL = nothing */
    FILE *json; /* for programs: members of an object, without its braces, and
                   none of faults, sold, stock, orders, said; NULL = nothing */
    bool colour;
    bool brief; /* steps: the state at the end only, not behind each move */
    enum experiment_language language;
    const char *save; /* steps: a file for its timeline; or NULL */
    const char *name; /* of the experiment */

    struct stage_verdict verdict;
    int64_t stock, sold, orders; /* by the audit of the store, at the end */
    char said[200];              /* numbers in a few words; "" = none */
    bool is_over;                /* steps: all are done or dead */
    bool as_told;
    char error[400]; /* why it could not be run, and what to do */
};

struct experiment_kind {
    const char *name; /* "steps" */

    /* False: it could not be run, or stage_options_interrupted(); RUN->error says
     * so. Leaves no process and no file behind, either way. */
    bool (*run)(const struct experiment_play *play, struct experiment_run *run);
    /* One line on what is played: "lock set-nx-px, deduct naive: 2 buyers, stock 1". */
    void (*scene)(const struct experiment_play *play, char text[], size_t size);
};

extern const struct experiment_kind steps_kind; /* steps.c */
extern const struct experiment_kind load_kind;  /* server/lab/load/load.c */

struct experiment_family {
    const char *title[EXPERIMENT_LANGUAGES_N];
    const struct experiment_kind *kind;
    const struct experiment *experiments;
    size_t n;
};

/* ---- all of them (experiments.c) ----------------------------------------- */

/* The families, in the order in which they are told. NULL: no more. */
const struct experiment_family *experiment_family(size_t index);

/* All by their numbers: "08", "08w", "09". NULL: no more. */
const struct experiment *experiment_at(size_t index,
                                       const struct experiment_family **family);

/* By id or name, or by how one name only begins; "8" is "08". NULL: there is none. */
const struct experiment *
experiment_find(const char *name, const struct experiment_family **family);

/* The name that is probably meant; NULL: none is like it. */
const char *experiment_nearest(const char *name);

bool experiment_has(const struct experiment_play *play);

#endif
