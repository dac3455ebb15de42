/*
 * What the experiments about waiting and about segments measure, and the bounds
 * that they have to keep: for struct experiment_load. A bound is a ratio inside of
 * one run, or a count, so that it holds on a machine that has other work as well.
 */
#ifndef MEASURE_H
#define MEASURE_H

#include "server/lab/load/load.h"

/* 19: how many were refused, although units were left. */
bool measure_refused(struct load *load); /* half of them, and more */
bool measure_nobody_refused(struct load *load);

/* 20: requests to Redis an order. How late the slowest is, is told; but a busy
 * machine makes any order late. */
bool measure_waiting(struct load *load);
bool measure_polls(struct load *load);
bool measure_sleeps(struct load *load);

/* 21: by how many later orders one was overtaken, by the ledger. */
bool measure_overtakes(struct load *load);
bool measure_is_unfair(struct load *load);
bool measure_is_fair(struct load *load);

/* 38: orders a second by segments. */
bool measure_segments(struct load *load);
bool measure_segments_as_told(struct load *load);

#endif
