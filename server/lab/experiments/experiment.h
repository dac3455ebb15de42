/*
 * The experiments of `stockade lab`.
 *
 * An experiment is a text file in this folder. It says how a bug is shown, what comes
 * of it, and that the fix, the same with one thing changed, holds. README.md in
 * server/lab is the manual of these files. tests/e2e/lab.t and
 * tests/full/lab-load.t run each of them both ways.
 */
#ifndef EXPERIMENT_H
#define EXPERIMENT_H

#include "server/lab/experiments/reader.h"
#include "server/lab/load/play.h"

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

extern const struct experiment_kind steps_kind; /* steps.c */

extern struct reader_folder experiments; /* experiments.c */

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
