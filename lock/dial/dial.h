/*
 * From an address to a connection that commands can be sent on: looks the name
 * up, connects, logs in. Everything that there is to wait for is behind one
 * descriptor, so that who talks to several servers can wait for all of them.
 *
 * A dial belongs to one thread at a time. UNTIL_MS is real time (clock.h).
 */
#ifndef DLOCK_DIAL_H
#define DLOCK_DIAL_H

#include "lock/core/net.h"
#include "lock/dlock.h"
#include "lock/dlock_url.h"

struct dlock_dial;

/*
 * Begins, without waiting. ADDRESS is borrowed until _end. UNTIL_MS ends
 * nothing: it says how long a place can be waited for before the next is tried.
 * NULL: no memory or no descriptors, with a text in ERROR.
 */
struct dlock_dial *dlock_dial_begin(const struct dlock_address *address,
                                    uint64_t until_ms,
                                    struct dlock_error *error);

/* To be polled for reading, after _go_on has said DLOCK_BUSY. */
int dlock_dial_fd(const struct dlock_dial *dial);

/*
 * Goes on as far as it can without waiting: DLOCK_OK, and *LINK is the caller's, a
 * non-blocking, close-on-exec socket; DLOCK_BUSY if it has to be waited for;
 * DLOCK_UNREACHABLE with a text in ERROR. But for DLOCK_BUSY it is over then, and
 * only _end is left to be called.
 */
enum dlock_status dlock_dial_go_on(struct dlock_dial *dial,
                                   struct dlock_link *link,
                                   struct dlock_error *error);

/* Gives up what is under way; waits for nothing. NULL is fine. */
void dlock_dial_end(struct dlock_dial *dial);

/* All of it at once, until UNTIL_MS. Not DLOCK_BUSY. */
enum dlock_status dlock_dial(const struct dlock_address *address,
                             uint64_t until_ms, struct dlock_link *link,
                             struct dlock_error *error);

#endif
