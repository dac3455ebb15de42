/*
 * The settings lab-... of a service: faults on purpose at the steps of its locks and
 * of its store, a timeline of these steps, and the laboratory's page beside it. Without
 * them none of it is there.
 */
#ifndef LAB_HOOKS_H
#define LAB_HOOKS_H

#include <stdbool.h>
#include <sys/types.h>

#include "db/store.h"
#include "lock/dlock.h"

struct config;
struct failpoints;
struct timeline_live;

struct lab_hooks {
    struct failpoints *failpoints;  /* NULL = none */
    struct timeline_live *timeline; /* NULL = none */
    pid_t page;                     /* the process; 0 = none */
};

/* Before other threads start. False: a setting cannot be read, which is logged. */
bool lab_hooks_open(struct lab_hooks *hooks, const struct config *config);

/* When the service starts indeed, on the main thread: the timeline's file is written from
 * here on, and the page is there. False: it cannot be, which is logged. */
bool lab_hooks_begin(struct lab_hooks *hooks, const struct config *config);

/* What clients and stores are to be opened with. */
void lab_hooks_of_locks(struct lab_hooks *hooks, const struct config *config,
                        struct dlock_options *options);
void lab_hooks_of_store(struct lab_hooks *hooks, struct store_options *options);

/* When locks and store are closed. */
void lab_hooks_close(struct lab_hooks *hooks);

#endif
