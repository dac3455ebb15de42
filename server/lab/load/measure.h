/*
 * Measurements of the experiments about waiting and about segments, and the bounds
 * that they have to keep: each a function that their files name. A bound is a ratio inside of
 * one run, or a count, so that it holds on a machine that has other work as well.
 */
#ifndef MEASURE_H
#define MEASURE_H

#include "server/lab/load/load.h"

struct measure {
    const char *name; /* as in the file of an experiment */
    bool (*function)(struct load *load);
};

/* Functions that measure, and such that judge what was measured. NULL: there is none
 * of this name. */
const struct measure *measure_find(const char *name);

/* measure_segments.c */
bool measure_segments(struct load *load);
bool measure_segments_as_told(struct load *load);

#endif
