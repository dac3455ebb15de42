/*
 * libdlock-quorum: locks on several independent Redis servers.
 *
 *   multi    One lock on all of them: none that loses its data lets a second
 *            holder in.
 *   redlock  One lock on more than half of them: it goes on when the others fail.
 *
 * A program that links the library, pkg-config's dlock-quorum, registers them:
 *
 *     dlock_register(&dlock_quorum_strategies, &error);
 *
 * Their url is a list of those of dlock_url.h, of different servers, with commas between.
 */
#ifndef DLOCK_QUORUM_PUBLIC_H
#define DLOCK_QUORUM_PUBLIC_H

#include "lock/dlock.h"

DLOCK_BEGIN

extern const struct dlock_strategies dlock_quorum_strategies;

DLOCK_END

#endif
