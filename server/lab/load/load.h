/*
 * Experiments with real instances. README.md in server/lab says how one is written,
 * and play.h has what all experiments have.
 *
 * Instances of `stockade serve` are started on one database and one Redis, with the
 * flags of all and those of each; product 1 has .stock units (product 2 as well, if
 * the story sells it). Then a story is played, which is the schedule of the
 * experiment; or a crowd comes, or a function measures. At the end the servers are
 * stopped, and the store's audit says what was sold.
 *
 * Faults of a story come by --lab-failpoint, so each is at its step, and not at a time:
 * it goes the same way on a machine that is fast, slow or busy.
 */
#ifndef LOAD_H
#define LOAD_H

#include "server/lab/load/play.h"

/* An instance's state, in a story: the order, from 1, that stands at a failpoint under the
 * lock, 0 = none. */
struct load_lane {
    size_t held;
    uint64_t since_us;
};

/* One that is under way. */
extern struct load {
    const struct experiment_load *play;
    const char *lock;
    const char *story; /* NULL: none */
    struct experiment_run *run;
    uint64_t begun_us; /* the sale; 0 = the servers are started yet */
    struct load_lane lanes[SITE_INSTANCES_MAX];
    int64_t seen_by_wrk; /* orders that were confirmed */
    double found;        /* by .measure of the table */
    size_t sold; /* the order, from 1, whose sale is told now; 0 = none */
} load;

enum { LOAD_SOLD_ANY = -1 }; /* for experiment_play.sold: some, by luck */

/* ---- for those who measure ------------------------------------------------ */

/* A line in the column of instance WHO; -1: of the world. */
void load_tell(int who, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The crowd of the table buys, and that is told. */
bool load_crowd(void);

/* Instance WHO with FLAGS, and those of the table; waits until it is there. */
bool load_start(unsigned who, const char *flags);

/* ---- its parts --------------------------------------------------------------- */

bool load_story(void); /* load_story.c */
bool load_wrk(void);   /* load_wrk.c */

/*
 * measure.c: the measurements of experiments about waiting and about segments, as the
 * files of experiments name them. A bound is of a ratio inside of one run, or of a count,
 * so that it holds on a machine that has other work as well. NULL: there is none of this
 * NAME.
 */
measure_function *measure_find(const char *name);

/* The "lanes" of an event, a word for each instance as it stands then: "held",
 * "clash" (it thinks that it has the lock, and so does another), "waits" for an answer,
 * "unknown" (it died with an order), or "". */
json_t *load_lanes(void);

/* ---- a page watches a run, by standard input and output (load_watch.c) --------- */

/*
 * Runs PLAY, and answers how far it is: at once, and then for each line of standard
 * input, "look". An answer is a JSON object on a line:
 *
 *     "done"       false while it goes on; the answer that says true is the last one
 *     "lock", "flags", "timeline"     as `lab run --json` has them, so far; texts are in
 *                  the language of LOOK (draw.h); events of a story have "lanes" (load.h)
 *     "units"      that are for sale when it begins; 0: none
 *     "samples"    each has "ms"; "stock", the units left by the database, or null; and
 *                  what the instances have counted by then: orders "placed", "sold_out",
 *                  "overloaded" and of "lock_timeout"; all "orders" that were answered,
 *                  in how many seconds, "orders_s"; and so for "waits" for a lock
 *     "stock" to "as_told"            what came of it, when it is done; or "error". With
 *                  another lock than its own, nothing was told of it
 *
 * A viewer that has not looked for 15 seconds, or has closed standard input, is gone: the run
 * ends. The exit status: 0, or 2 if it could not be run.
 */
int load_watch_main(const struct experiment_play *play, unsigned look);

/* LOAD begins, and has not ended yet: nothing comes of it if nobody watches its run. */
void load_watch_begin(void);
void load_watch_end(void);

/* For the site, which asks while it waits: answers, and takes samples, if the run is
 * watched. True: the run is to end, because its viewer is gone, or by Ctrl-C. */
bool load_watch_ends(void);

/* ---- stories (load_story.c) ----------------------------------------------------- */

/* From where on STORY is none, of so many instances; NULL: it is one. */
const char *load_story_wrong(const char *story, unsigned instances);

/* HOLDER: who has the lock of SEGMENT of PRODUCT, asked where the lock is. False: nobody
 * says, and site.error why. */
bool load_look(int64_t product, unsigned segment, struct dlock_holder *holder);

/* Words that say why load_look() would not see who has a lock; NULL: it does. */
const char *load_unseen(void);

#endif
