/*
 * libdlock: looking at locks, and the operator's way to end one; a part of
 * dlock.h, which includes this. None of it needs to hold anything.
 */
#ifndef DLOCK_INSPECT_CALLS_H
#define DLOCK_INSPECT_CALLS_H

#include "lock/dlock.h"

DLOCK_BEGIN

#define DLOCK_LABEL_BYTES_MAX 120 /* "host:pid:label", without the NUL */

/* The holder of a name, as far as the strategy can tell. Its label, which redisson,
 * fenced, fair, multi and redlock keep with the lock, has options.label in it: 1 to 40
 * printable ASCII characters without blanks, '-' and ':'. It is for people: anybody can
 * write it. */
struct dlock_holder {
    uint64_t token;
    uint64_t remaining_ms; /* UINT64_MAX = no lease: held for ever */
    unsigned holds;
    bool held;
    char owner[DLOCK_OWNER_BYTES_MAX + 1];
    char label[DLOCK_LABEL_BYTES_MAX + 1]; /* "host:pid:label"; "" = unknown */
};

/* Somebody who waits for a name. */
struct dlock_waiting {
    char owner[DLOCK_OWNER_BYTES_MAX + 1]; /* "" where there is no queue */
};

/* The holder of NAME. DLOCK_MISUSE where the strategy cannot tell; DLOCK_UNKNOWN if that
 * depends on a server that did not answer. */
enum dlock_status dlock_inspect(struct dlock_session *session, const char *name,
                                struct dlock_holder *holder,
                                struct dlock_error *error);

/* The waiters for NAME: fills up to N_MAX of WAITERS, the next one to be served first; *n
 * is how many wait. Where waiters are woken but do not queue, *n is the clients that wait
 * or did a second ago, and WAITERS have no names. DLOCK_MISUSE as above. */
enum dlock_status dlock_inspect_waiters(struct dlock_session *session,
                                        const char *name,
                                        struct dlock_waiting waiters[],
                                        size_t n_max, size_t *n,
                                        struct dlock_error *error);

/* Frees NAME, whoever holds it: for an operator who knows better. The holder is told at
 * its next renewal, DLOCK_LOSS_FORCED, and by its release, DLOCK_LOST. DLOCK_LOST here:
 * nobody held it. DLOCK_MISUSE where the strategy cannot: none, process, and those in a
 * SQL database, in ZooKeeper, and of the textbook. */
enum dlock_status dlock_force_release(struct dlock_session *session,
                                      const char *name,
                                      struct dlock_error *error);

DLOCK_END

#endif
