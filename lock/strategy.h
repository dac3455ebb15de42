/*
 * Private to lock/: what a lock strategy is, and what it is given.
 *
 * A strategy is one table of functions. The dispatcher (dlock.c, wait.c) has
 * checked every argument before, owns all waiting, and starts and ends renewal;
 * what is left for a strategy is the lock itself: one attempt per call.
 *
 * Statuses mean the same in every slot:
 *   DLOCK_UNREACHABLE  the call had no effect
 *   DLOCK_UNKNOWN      it may have had one
 * and come, as a rule, straight from dlock_call().
 */
#ifndef DLOCK_STRATEGY_H
#define DLOCK_STRATEGY_H

#include <stdatomic.h>

#include "lock/book.h"
#include "lock/call.h"
#include "lock/wakeup.h"
#include "lock/watchdog.h"

/* A release that got no answer; if it is called again, it is the same one. */
struct dlock_doubt {
    uint64_t number; /* of the attempt; 0 = none */
    unsigned holds;  /* of the grant */
    char name[DLOCK_NAME_BYTES_MAX + 1];
};

struct dlock {
    const struct dlock_strategy *strategy;
    const struct dlock_clock *clock;
    struct dlock_wire_config wire; /* for all connections of this client */
    unsigned watchdog_lease_ms;
    struct dlock_watchdog *watchdog; /* NULL if the strategy cannot renew */
    struct dlock_wakeup *wakeup;     /* NULL unless its open made one */
    char id[33];                     /* 32 random hex digits */
    atomic_uint_fast64_t sessions_n;
    atomic_bool waits_ended; /* nobody waits any more: dlock_end_waits() */
};

struct dlock_session {
    struct dlock *client;
    struct dlock_wire *wire; /* NULL without DLOCK_CAP_REMOTE */
    char owner[DLOCK_OWNER_BYTES_MAX + 1];
    uint64_t attempts_n;    /* numbers the attempts; only rises */
    struct dlock_book book; /* what it knows to hold */
    struct dlock_doubt doubt;
};

/* One acquire, extend or release, over all the times that it is sent. */
struct dlock_attempt {
    const char *name;
    uint64_t number;      /* rises within a session; the same when re-sent */
    unsigned holds;       /* acquire: that the session has already;
                             release: that it is to have afterwards */
    unsigned lease_ms;    /* acquire, extend */
    uint64_t fence_floor; /* acquire */
    uint64_t limit_ms;    /* lease time at which the answer is due */
};

struct dlock_strategy {
    struct dlock_strategy_info info;

    /* What tells the members of a family apart; for its own file only. */
    const void *variant;

    /*
     * Prepares what the client's sessions share. Must not connect or block.
     * NULL = nothing to prepare. close undoes it, after the last session.
     */
    enum dlock_status (*open)(struct dlock *client, struct dlock_error *error);
    void (*close)(struct dlock *client);

    /*
     * One try. Blocks for the wire's round trip, never for another holder.
     * Re-sends after a lost reply only what may be sent twice.
     *   DLOCK_OK    grant->token and ->holds are set; the rest is the caller's
     *   DLOCK_BUSY  *busy_ms is how long at most, if that is known; else it is
     *               left alone
     *   DLOCK_UNREACHABLE, DLOCK_UNKNOWN
     */
    enum dlock_status (*acquire)(struct dlock_session *session,
                                 const struct dlock_attempt *attempt,
                                 struct dlock_grant *grant, uint64_t *busy_ms,
                                 struct dlock_error *error);

    /*
     * Sets the lease to end attempt->lease_ms from now. Blocks for the wire.
     * DLOCK_LOST if it ended before. Only called with DLOCK_CAP_LEASE.
     */
    enum dlock_status (*extend)(struct dlock_session *session,
                                const struct dlock_attempt *attempt,
                                struct dlock_error *error);

    /*
     * Gives one hold back. Blocks for the wire. DLOCK_LOST if it was not held;
     * whether the strategy can tell is part of the lesson.
     */
    enum dlock_status (*release)(struct dlock_session *session,
                                 const struct dlock_attempt *attempt,
                                 struct dlock_error *error);

    /* Fills *holder, which is all zero. Blocks for the wire. NULL = cannot. */
    enum dlock_status (*inspect)(struct dlock_session *session,
                                 const struct dlock_attempt *attempt,
                                 struct dlock_holder *holder,
                                 struct dlock_error *error);

    /*
     * DLOCK_CAP_RENEW: fills *command with what renews the lease of NAME for
     * OWNER: reply 1 = renewed, 0 = expired, -1 = taken. Called on the
     * watchdog's thread; must not block; what it points to must outlive it.
     */
    void (*renewal)(const char *name, const char *owner, unsigned lease_ms,
                    struct dlock_command *command);

    /*
     * DLOCK_CAP_WAKE. watch: from now on, no release of NAME is missed; NULL =
     * no memory, poll instead. Must not block. wait blocks until it is worth
     * trying again, at the latest until UNTIL_MS; it returns at once the first
     * time, or as soon as watching works, because the lock may have become free
     * just before. unwatch: UNUSED says that the last wake-up led to no answer,
     * so that somebody else needs it.
     */
    void *(*watch)(struct dlock_session *session, const char *name);
    void (*wait)(struct dlock_session *session, void *watch, uint64_t until_ms);
    void (*unwatch)(struct dlock_session *session, void *watch, bool unused);

    /* DLOCK_CAP_WAKE: every wait of the client returns, and soon. */
    void (*wake_all)(struct dlock *client);
};

/* The strategy called NAME, or NULL (strategy.c). */
const struct dlock_strategy *dlock_strategy_called(const char *name);

/* The families, each from the file of its name. */
extern const struct dlock_strategy dlock_strategy_none;
extern const struct dlock_strategy dlock_strategy_process;
extern const struct dlock_strategy *const dlock_strategy_ladder[]; /* to NULL */
extern const struct dlock_strategy dlock_strategy_redisson;
extern const struct dlock_strategy dlock_strategy_fenced;

#endif
