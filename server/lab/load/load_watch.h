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
 *                  LANGUAGE
 *     "samples"    [{"ms", "placed", "sold_out", "not_now", "stock", "latency_ms",
 *                  "wait_ms"}]: orders so far, as the instances count them; units left,
 *                  by the database; and means since the sample before of an order's
 *                  time and of the time that it waited for its lock. What is not known
 *                  is null
 *     "stock" to "as_told"            what came of it, when it is done; or "error"
 *
 * Who has not looked for 15 seconds, or has closed standard input, has gone: the run
 * ends. The exit status: 0, or 2 if it could not be run.
 */
int load_watch_main(const struct experiment_play *play,
                    enum experiment_language language);

/* For load.c: LOAD, whose run is watched, begins, and has not ended yet. */
void load_watch_begin(struct load *load);
void load_watch_end(void);

/* For the site, which asks while it waits: answers, and takes samples. True: the run
 * is to end. */
bool load_watch_ends(void);

#endif
