/* A program watches a run under load: a page, by standard input and output. */
#ifndef LOAD_WATCH_H
#define LOAD_WATCH_H

#include "server/lab/load/load.h"

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

/* For load.c: LOAD, whose run is watched, begins, and has not ended yet. */
void load_watch_begin(struct load *load);
void load_watch_end(void);

/* For the site, which asks while it waits: answers, and takes samples. True: the run
 * is to end. */
bool load_watch_ends(void);

#endif
