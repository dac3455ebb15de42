/*
 * The suite: many locks at once, each in a process of its own with servers of
 * its own. Most of a check's time is waiting for a lease to end, so more of
 * them run at once than there are processors.
 */
#ifndef SUITE_H
#define SUITE_H

#include "server/lab/conform/conform.h"
#include "server/lab/servers/folder.h"

enum { SUITE_LOCKS_MAX = 48 };

/* A row of the table. */
struct suite_lock {
    const struct dlock_strategy_info *info;
    const struct expected *expected; /* NULL = there is no row */
    struct expected own;             /* the row of a lock of somebody's own */
    const char *missing;             /* why it is not run; NULL = it is */
    bool started;
    struct conform_result results[PROPERTIES_N];
    unsigned results_n; /* of them there; all, unless its process broke off */
};

struct suite {
    struct suite_lock locks[SUITE_LOCKS_MAX];
    size_t locks_n;
    struct conform_servers servers;
    unsigned jobs;        /* locks at a time */
    struct folder folder; /* all servers and files are in it, while it runs */
};

/* Puts ONLY this lock, or all of this build (NULL). false: no such lock. */
bool suite_fill(struct suite *suite, const char *only);

/*
 * Runs them. ON_PROGRESS (may be NULL) is told after every result how many of
 * all are there. false and a text if it could not. A signal that ends us
 * (Ctrl-C) first takes away all servers and files. To be called from a process
 * with one thread.
 */
bool suite_run(struct suite *suite,
               void (*on_progress)(void *ctx, size_t done, size_t all),
               void *ctx, char *error, size_t error_size);

/* Whether INDEX of a lock that was run differs from what is expected. */
bool suite_differs(const struct suite_lock *lock, size_t index);

/* Locks of which there are results. */
size_t suite_measured(const struct suite *suite);

/* All of them, and locks without a row or with results missing. */
size_t suite_differences(const struct suite *suite);

#endif
