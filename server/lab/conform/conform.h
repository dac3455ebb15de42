/*
 * Conformance: every property of a lock, measured against every lock.
 *
 * A lock is not asked what it can do. Processes take it, are stopped, killed
 * between any two of their commands, overtaken; servers are lost; and what
 * happened then is the answer. A lock that is there to be wrong has to be
 * found wrong: a property that it holds by accident is as much a difference
 * from what is expected as one that a right lock has lost.
 *
 * Processes, not threads, play the parts, for only a process can be stopped
 * or killed as a whole, with its watchdog. This is how they descend:
 *
 *     suite       one, waits for all             suite.c
 *     lock        one per lock: its servers      conform.c, testbed.c
 *     check       one per property: bounded      alone.c to zk.c
 *     actors      holders, waiters, strangers    cast.c, deed.c
 *
 * Each forks the next while it still has a single thread, and dies with its
 * parent: whatever goes wrong in a check, killing it cleans up.
 */
#ifndef CONFORM_H
#define CONFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "lock/dlock.h"
#include "server/lab/expected.h"

enum conform_verdict {
    CONFORM_UNTESTED, /* the question makes no sense, or nobody can ask it */
    CONFORM_HOLDS,
    CONFORM_FAILS,
    CONFORM_NOT_ASKED, /* what the question needs was not given */
};

/* The result of one check. A value; it goes through a pipe. */
struct conform_result {
    enum conform_verdict verdict;
    unsigned ms;    /* how long it took */
    char text[200]; /* the evidence, one line */
};

/* Servers that the suite does not start itself. NULL = there is none. */
struct conform_servers {
    const char
        *redis_url; /* for locks on one server, instead of a private one */
    const char *sql_url;
    const char *zk_url;
    const char *zk_ensemble; /* several ZooKeepers that may be killed, for M */
    const char *zk_node;     /* the command that does it, see zk_ensemble.h */
    const char *dir; /* where a lock's own folder is made; NULL = /tmp */
};

/* NULL if the servers that the lock needs are there, else what is missing. */
const char *conform_missing(const struct expected *expected,
                            const struct conform_servers *servers);

/* Whether what was found is what was EXPECTED of property INDEX. */
bool conform_agrees(const struct expected *expected, size_t index,
                    enum conform_verdict found);

/*
 * Tests a lock: starts its servers, runs each check in a process of its own
 * and hands every result to ON_RESULT as soon as it is there. false and a text
 * if the servers do not start. To be called from a process with one thread.
 */
bool conform_run(const struct expected *expected,
                 const struct conform_servers *servers,
                 void (*on_result)(void *ctx, size_t index,
                                   const struct conform_result *result),
                 void *ctx, char *error, size_t error_size);

/* How many times slower than usual all is: STOCKADE_SLOW, for sanitizers. */
unsigned conform_slow(void);

#endif
