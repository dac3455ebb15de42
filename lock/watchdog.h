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

#include "lock/wire_config.h"

struct dlock_renewal;
struct dlock_watchdog;

/* A lease to be renewed, and what came of it. */
struct dlock_renew {
    const char *name;
    const char *owner;
    uint64_t number; /* of the command, see dlock_number() */
    enum dlock_status status;
    int64_t
        answer; /* if that is DLOCK_OK: 1 = renewed, 0 = expired, -1 = taken,
                       or DLOCK_OVERTAKEN */
};

/* A script's reply to a late command, which it has not carried out. */
enum { DLOCK_OVERTAKEN = -2 };

/* Slots of a strategy: see strategy.h. */
typedef void dlock_renew_slot(struct dlock *client, struct dlock_renew renews[],
                              size_t n, unsigned lease_ms, uint64_t limit_ms);
typedef uint64_t dlock_forced_slot(struct dlock *client, const char *name,
                                   const char *owner, uint64_t limit_ms);

struct dlock_watchdog_config {
    const struct dlock_wire_config *wire;
    unsigned lease_ms;
    dlock_renew_slot *renew;   /* the strategy's, ... */
    dlock_forced_slot *forced; /* ... and this one, too */
    struct dlock *client;
    uint64_t valid_ms; /* how long a lease counts; see dlock_valid_ms() */
    dlock_lost_hook *on_lost; /* NULL = nobody wants to know */
    void *on_lost_ctx;
};

/* The thread starts with the first registration. NULL if out of memory. */
struct dlock_watchdog *
dlock_watchdog_open(const struct dlock_watchdog_config *config);
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

/*
 * OWNER's ATTEMPT got NAME as if OWNER had not had it: what older attempts had
 * won is lost, is renewed no more, and its holder is told.
 */
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

/* False if the grant is not being renewed; *deadline_ms is 0 if it was lost. */
bool dlock_watchdog_deadline(struct dlock_watchdog *watchdog, const char *owner,
                             uint64_t attempt, uint64_t *deadline_ms);

#endif
