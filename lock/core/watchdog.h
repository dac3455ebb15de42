/*
 * The watchdog: renews the leases of a client's grants while they are held.
 *
 * A renewal is registered before the lock is asked for, so that all that can
 * fail (memory, a thread) fails while nothing is held yet; it is confirmed with
 * the grant, and cancelled before the lock is given back. Cancelling waits for
 * a renewal that is under way: when it returns, nothing is sent for the grant
 * any more, nor does the hook begin; one that runs is not waited for. A grant is
 * known by its owner and the attempt that won it: the same owner may lose a lock
 * and take it anew before its loss has been noticed.
 *
 * All functions may be called from any thread.
 */
#ifndef DLOCK_WATCHDOG_H
#define DLOCK_WATCHDOG_H

#include "lock/core/client.h"

struct dlock_watchdog;
struct dlock_renewal; /* of one grant */

/* The thread starts with the first registration. NULL if out of memory. */
struct dlock_watchdog *dlock_watchdog_open(struct dlock *client);
void dlock_watchdog_close(struct dlock_watchdog *watchdog);

/* A renewal that is not active yet. NULL: no memory or no thread. */
struct dlock_renewal *dlock_watchdog_register(struct dlock_watchdog *watchdog,
                                              const char *name,
                                              const char *owner,
                                              uint64_t attempt);

/*
 * Makes it active: it was granted at GRANTED_AT_MS or later. MAX_HOLD_MS from then on
 * it is renewed no more; 0 = as long as it is held.
 */
void dlock_watchdog_confirm(struct dlock_watchdog *watchdog,
                            struct dlock_renewal *renewal,
                            uint64_t granted_at_ms, unsigned max_hold_ms);

/* Instead of confirming: there was no grant. NULL is fine. */
void dlock_watchdog_discard(struct dlock_watchdog *watchdog,
                            struct dlock_renewal *renewal);

/* Ends renewal of one grant, or of all of an owner. True: the grant was lost since
 * the server could not be reached. */
bool dlock_watchdog_cancel(struct dlock_watchdog *watchdog, const char *owner,
                           uint64_t attempt);
void dlock_watchdog_cancel_owner(struct dlock_watchdog *watchdog,
                                 const char *owner);

/* OWNER's ATTEMPT got NAME as if OWNER had not had it: the grants of older attempts
 * are lost, are renewed no more, and their holder is told. */
void dlock_watchdog_supersede(struct dlock_watchdog *watchdog, const char *name,
                              const char *owner, uint64_t attempt);

/*
 * The grant's lease was set anew by hand, to end at DEADLINE_MS; UNCERTAIN: or it
 * was not, and what counts is the earlier end. Waits for a renewal that is under
 * way.
 */
void dlock_watchdog_reset(struct dlock_watchdog *watchdog, const char *owner,
                          uint64_t attempt, uint64_t deadline_ms,
                          bool uncertain);

/* *DEADLINE_MS becomes the end of the lease of a grant that is being renewed; 0: it was
 * lost. Other grants leave it alone. */
void dlock_watchdog_deadline(struct dlock_watchdog *watchdog, const char *owner,
                             uint64_t attempt, uint64_t *deadline_ms);

#endif
