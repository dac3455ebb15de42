/*
 * Private to lock/: the grants that a session holds, as far as it knows, and the
 * watchdog, which renews the leases of a client's grants while they are held.
 *
 * The server counts holds, too, but its count may be ahead of ours: a command whose reply
 * was lost may have been carried out, a release may never have arrived. So a session says
 * with each command what the count is to become, by its own count, and what the server
 * had in excess is gone. Counting up and down there instead would keep a hold alive that
 * nobody knows of, for ever, since each re-entry renews it.
 *
 * A grant is reserved before the lock is asked for, so that memory or a thread fails
 * while nothing is held yet. Its renewal begins when it is added, and ends before the
 * lock is given back: after that nothing is sent for it any more, nor does the hook
 * begin; one that runs is not waited for. A grant is known by the attempt that won it,
 * because a session may lose a lock and take it anew before the loss is noticed.
 */
#ifndef DLOCK_HELD_H
#define DLOCK_HELD_H

#include "lock/core/client.h"

/* A session remembers so many releases without an answer, the last ones. */
enum { DLOCK_HELD_RELEASES_MAX = 64 };

/* Its thread starts with the first grant to be renewed. NULL if out of memory. */
struct dlock_watchdog *dlock_watchdog_open(struct dlock *client);
void dlock_watchdog_close(struct dlock_watchdog *watchdog);

/* Makes room for a grant of NAME, to be renewed or not. False: no memory or thread. */
bool dlock_held_reserve(struct dlock_session *session, const char *name,
                        bool renewed);

/* GRANT, of the name that was reserved, was won at GRANTED_AT_MS or later. MAX_HOLD_MS from
 * then on it is renewed no more; 0 = never. If it shows that the grants before it are lost,
 * since the count began anew, their holders are told. */
void dlock_held_add(struct dlock_session *session,
                    const struct dlock_grant *grant, uint64_t granted_at_ms,
                    unsigned max_hold_ms);

/* Nothing of NAME is held any more. */
void dlock_held_lost(struct dlock_session *session, const char *name);

/* Holds of NAME. */
unsigned dlock_held_count(const struct dlock_session *session,
                          const char *name);

/* GRANT is given back by the release ATTEMPT: its renewal ends, it counts no more, and
 * ATTEMPT has the holds that are left, and which release it repeats. False: its name is
 * held, but not by GRANT, which was given back before, or lost. *CUT_OFF: it was lost since
 * the server could not be reached. */
bool dlock_held_give(struct dlock_session *session,
                     const struct dlock_grant *grant,
                     struct dlock_attempt *attempt, bool *cut_off);

/* The release of what ATTEMPT won came to STATUS. */
void dlock_held_given(struct dlock_session *session, uint64_t attempt,
                      enum dlock_status status);

/* The lease of what ATTEMPT won was set by hand to end at DEADLINE_MS. DLOCK_UNKNOWN: or was
 * not, and the earlier end counts; DLOCK_LOST: it was found to be over. Waits for a renewal
 * that is under way. */
void dlock_held_reset(const struct dlock_session *session, uint64_t attempt,
                      uint64_t deadline_ms, enum dlock_status status);

/* The end of GRANT's lease, as renewed; 0 = it is over. From any thread. */
uint64_t dlock_held_deadline(const struct dlock_session *session,
                             const struct dlock_grant *grant);

/* Ends all renewal, and gives the memory back. */
void dlock_held_close(struct dlock_session *session);

#endif
