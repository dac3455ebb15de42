/* The files of `stockade explore` share this: explore.c reads what is asked and
 * searches, explore_tell.c says what came of one lock, explore_all.c of all. */
#ifndef EXPLORE_H
#define EXPLORE_H

#include <stdio.h>

#include "server/lab/search/search.h"

/* The command: gets ARGV from its name on, and returns the exit status. */
int explore_main(int argc, char *argv[]);

enum { EXPLORE_AS_EXPECTED = 0, EXPLORE_BROKEN = 1, EXPLORE_COULD_NOT_RUN = 2 };

struct explore {
    struct stage_scene scene;
    struct search_bounds bounds;
    const struct search_bounds *wide; /* of random ones, if more; or NULL */
    struct search_result result;
    /* Beside it, when time was up: with one trouble at most, to where it came. */
    struct search_result calm;
    bool draws;               /* random ones are under way */
    uint64_t at_random;       /* and then so many random schedules */
    unsigned stages, seconds; /* 0 = as many as it likes */
    unsigned enough;   /* it ends when one of these is found, a bit each */
    unsigned random_s; /* at random, for so long; 0 = all schedules */
    int64_t seed;      /* of it, as asked for; 0 = any */
    uint64_t began_ms, until_ms; /* of the search; 0 = it has no end */
    uint64_t told_ms;            /* its last line of progress */
    uint64_t ms;                 /* that the search took */
    int json, markdown, help;
    bool asked;    /* with json: tells how far it is for each line of input */
    unsigned look; /* see draw.h */
    const char *flags; /* of a row of --all, "" or "--batched"; NULL = none */
    const char *only;  /* rows whose name has it; NULL = all */
};

/* Takes ARG, of the bound --NAME: "late", "moves". False: it is none. */
bool explore_take_bound(struct explore *explore, const char *name,
                        const char *arg);

/* Into explore->result. When its time is limited, and not enough for all within the
 * bounds, its third quarter goes to schedules with one trouble, because these are fewer
 * and reach further; and its last to random ones, which reach the end of any program:
 * a fault behind twenty moves and two troubles is met there or nowhere. A row whose
 * bounds are narrow, so that all can be played, has random ones within the wide bounds
 * even then. False and a text. */
bool explore_search(struct explore *explore, struct fail *error);

/* The worst that was found; NULL. */
const struct search_found *explore_worst(const struct explore *explore);

/* All bounds, and what is on the stage: two lines or three, and an empty one. */
void explore_tell_bounds(FILE *out, const struct explore *explore);

/* The verdict of the search in one line, until the next call. */
const char *explore_verdict(const struct explore *explore);

/* How much "none" is worth, until the next call: "all within these bounds", "all of up to
 * 7 moves", and of how many with one trouble and at random, or of random ones how long they
 * were, and their seed. */
const char *explore_extent(const struct explore *explore);

/* And the worst, as it happens. False and a text. */
bool explore_tell(const struct explore *explore, struct fail *error);

/* DONE: the search is over. False: nobody reads it. */
bool explore_tell_json(const struct explore *explore, bool done);

/* All locks that the stage plays, and whether each breaks as expected.h says: the
 * exit status. */
int explore_all(const struct explore *explore);

#endif
