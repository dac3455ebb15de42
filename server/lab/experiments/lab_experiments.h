/* `stockade lab list`, `show` and `run`: what they have in common. */
#ifndef LAB_EXPERIMENTS_H
#define LAB_EXPERIMENTS_H

#include "server/lab/experiments/experiment.h"

enum lab_status { LAB_AS_TOLD = 0, LAB_NOT_AS_TOLD = 1, LAB_COULD_NOT_RUN = 2 };

struct lab_options {
    bool json, brief, help, by_hand;
    unsigned look;                /* see draw.h */
    bool fix;                     /* run -i: not the bug, but what fixes it */
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

/* NULL: there is none, which is said, with the one that is probably meant. */
const struct experiment *lab_find(const char *name);

/* The name of a play, for people. */
void lab_scene(const struct experiment *experiment,
               const struct experiment_play *play, unsigned look);

/* "oversold, foreign-release"; "none". */
void lab_faults(FILE *out, unsigned faults, unsigned look);

#endif
