/*
 * From an address to a connection that commands can be sent on: looks the name
 * up, connects, logs in.
 *
 * UNTIL_MS is real time (clock.h).
 */
#ifndef DLOCK_DIAL_H
#define DLOCK_DIAL_H

#include "lock/core/net.h"
#include "lock/dlock.h"
#include "lock/dlock_url.h"

/*
 * Waits until UNTIL_MS at most: DLOCK_OK, and *LINK is the caller's, a non-blocking,
 * close-on-exec socket; or DLOCK_UNREACHABLE with a text in ERROR.
 */
enum dlock_status dlock_dial(const struct dlock_address *address,
                             uint64_t until_ms, struct dlock_link *link,
                             struct dlock_error *error);

/*
 * The same on a thread of its own, for a caller that has other servers to wait for as
 * well. The thread may outlive the caller, until UNTIL_MS. A dial belongs to one thread
 * at a time. NULL: no memory, thread or descriptor, with a text in ERROR.
 */
struct dlock_dial *dlock_dial_begin(const struct dlock_address *address,
                                    uint64_t until_ms,
                                    struct dlock_error *error);

/* Readable once there is an outcome. */
int dlock_dial_fd(const struct dlock_dial *dial);

/* The outcome, as of dlock_dial(), or DLOCK_BUSY. */
enum dlock_status dlock_dial_go_on(struct dlock_dial *dial,
                                   struct dlock_link *link,
                                   struct dlock_error *error);

/* Gives up what is under way; waits for nothing. NULL is fine. */
void dlock_dial_end(struct dlock_dial *dial);

#endif
