/*
 * Connecting to one server that may be at several places: one after the other
 * is tried, and those that have not answered yet stay in the race. The first
 * that connects wins. (RFC 8305 calls it "happy eyeballs".)
 */
#ifndef DLOCK_RACE_H
#define DLOCK_RACE_H

#include "lock/dial/lookup.h"

struct dlock_race {
    struct dlock_places places;
    size_t begun_n;            /* of the places */
    int fds[DLOCK_PLACES_MAX]; /* of those begun; -1 = out of the race */
    int poll_fd;               /* an epoll, where the others are watched */
    int failure;               /* errno of the last that failed */
};

/* How long one place is waited for before the next is tried as well. */
uint64_t dlock_race_step_ms(const struct dlock_race *race, uint64_t left_ms);

/*
 * Tries the next place that does not fail at once. The socket, if that was
 * connected at once; else -1: see _is_over.
 */
int dlock_race_next(struct dlock_race *race);

/* Whether there are places that were not tried yet. */
bool dlock_race_has_next(const struct dlock_race *race);

/*
 * Looks at those under way. The winner's socket, or -1. *LOST says that one
 * has dropped out: the next need not wait.
 */
int dlock_race_look(struct dlock_race *race, bool *lost);

/* Nobody is in it any more, and nobody is left to be tried. */
bool dlock_race_is_over(const struct dlock_race *race);

/* Closes all that are still in it but KEEP, which may be -1. */
void dlock_race_end(struct dlock_race *race, int keep);

#endif
