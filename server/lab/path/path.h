/*
 * The path: stops in an order that teaches. At each the learner reads a lock, breaks it
 * by hand, and chooses what mends it; the search judges the choice, and the next stop
 * begins with what the mend leaves open. Some locks are right: there the search has to
 * agree that it cannot be done.
 *
 * A stop is a text file in this folder, called NUMBER-NAME.txt. README.md in server/lab is
 * the manual of these files.
 */
#ifndef PATH_PATH_H
#define PATH_PATH_H

#include "server/lab/experiments/experiment.h"
#include "server/lab/search/search.h"

enum { PATH_CHOICES_MAX = 4, PATH_STOPS_MAX = 40 };

/* Its texts, in each language. */
enum {
    PATH_TITLE,
    PATH_LITERATURE, /* what books and tutorials say */
    PATH_STILL,      /* what is wrong with the mend */
    PATH_REDISSON,   /* what to type there */
    PATH_REDSYNC,
    PATH_SPRING,
    PATH_TEXTS_N
};

/* A change that may mend the lock, or not: the stop's scene with it; .lock = NULL: none. */
struct path_choice {
    const char *text[EXPERIMENT_LANGUAGES_N];
    struct stage_scene scene;
};

struct path_stop {
    struct reader_entry entry;
    const char *code; /* the lock: '|' between the lines, dots that indent */
    struct stage_scene scene;
    const char *schedule; /* that breaks it; NULL: it cannot be done */
    const char *shortest; /* with fewer moves, and more trouble; or the same */
    unsigned faults;  /* the goal, any of them: a bit for each stage_fault */
    unsigned without; /* those that a mend must not bring either; the same */
    struct search_bounds bounds; /* of hints, and of the judge */
    struct path_choice choices[PATH_CHOICES_MAX]; /* 'a', 'b', ... */
};

extern struct reader_folder stops; /* path.c */

/* The scene of CHOICE, 'a' to 'd', or of the stop itself, 0. NULL: no such choice. */
const struct stage_scene *path_scene(const struct path_stop *stop, char choice);

/* How many moves the shortest known schedule has; 0: there is none. */
unsigned path_fewest(const struct path_stop *stop);

/* ---- the judge: nothing in a stop's file says which choice is right ---- */

/* The seconds that a search takes at most, unless told otherwise; most take one or two. */
enum { PATH_JUDGE_S = 20, PATH_JUDGE_S_MAX = 3600 };

enum path_answer {
    PATH_HOLDS,
    PATH_BREAKS,
    PATH_UNKNOWN, /* time was up first */
    PATH_FAILED   /* it could not be searched */
};

/* Searches what CHOICE plays for the stop's faults, within its bounds and SECONDS, and
 * tells what came of it on standard output: in words, or as a JSON object on one line:
 *
 *     {"choice", "answer": "holds" | "breaks" | "unknown", "says", "bounds",
 *      "fault" and "schedule" if it breaks, "others": [faults of another kind]}
 *
 * LOOK: see draw.h. A text in ERROR if it failed. */
enum path_answer path_judge(const struct path_stop *stop, char choice,
                            unsigned seconds, bool json, unsigned look,
                            struct fail *error);

/* ---- the command (lab_path.c) --------------------------------------------- */

/* `stockade lab path`: gets ARGV from its name on, and returns the exit status. */
int lab_path_main(int argc, char *argv[]);

#endif
