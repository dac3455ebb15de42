/*
 * What `serve --lab` adds to a service: faults on purpose at the steps of its locks
 * and of its store, and a timeline of these steps. Without --lab none of it is there.
 */
#ifndef LESSONS_H
#define LESSONS_H

#include <stdbool.h>

#include "db/store.h"
#include "lock/dlock.h"

struct config;
struct failpoints;
struct timeline_live;

struct lessons {
    struct failpoints *failpoints;  /* NULL = none */
    struct timeline_live *timeline; /* NULL = none */
};

/* Before other threads start. False: a setting cannot be read, which is logged. */
bool lessons_open(struct lessons *lessons, const struct config *config);

/* When the service starts indeed: the timeline's file is written from here on.
 * False: it cannot be, which is logged. */
bool lessons_begin(struct lessons *lessons, const struct config *config);

/* What clients and stores are to be opened with. */
void lessons_of_locks(struct lessons *lessons, const struct config *config,
                      struct dlock_options *options);
void lessons_of_store(struct lessons *lessons, struct store_options *options);

/* When locks and store are closed. */
void lessons_close(struct lessons *lessons);

#endif
