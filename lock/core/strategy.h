/*
 * Private to lock/: what a lock strategy is, and what it is given.
 *
 * A strategy is one table of functions. The core has checked every argument before,
 * owns all waiting, and starts and ends renewal; a strategy is the lock itself: one
 * attempt per call.
 *
 * Statuses mean the same in every slot:
 *   DLOCK_UNREACHABLE  the call had no effect
 *   DLOCK_UNKNOWN      it may have had one
 * and come, as a rule, straight from what sends a command (redis/call.h).
 */
#ifndef DLOCK_STRATEGY_H
#define DLOCK_STRATEGY_H

#include "lock/core/sets.h" /* made by the Makefile */
#include "lock/dlock.h"

/* Tells a waiter that it is worth trying again: a thread that sleeps (wait.c), or an
 * asynchronous acquire (async/async.c). It is called once at most for each time that it
 * is armed, from any thread, with the caller's mutex: so it takes none but its own, calls
 * nothing of a lock, and returns at once. */
struct dlock_wake_call {
    void (*told)(void *ctx); /* NULL = nobody waits, or was told already */
    void *ctx;
};

/* With the mutex that guards CALL. */
static inline void dlock_wake_call(struct dlock_wake_call *call)
{
    void (*told)(void *ctx) = call->told;

    call->told = NULL;
    if (told != NULL)
        told(call->ctx);
}

/* A lease to be renewed, and what came of it. */
struct dlock_renew {
    const char *name;
    const char *owner;
    uint64_t number; /* of the command */
    enum dlock_status status;
    int64_t answer; /* with DLOCK_OK: 1 renewed, 0 expired, -1 taken, or: */
};

/* A script's reply to a late command, which it has not carried out. */
enum { DLOCK_OVERTAKEN = -2 };

/* Slots of a strategy, below, that the watchdog calls; N is DLOCK_PASS_MAX at most. */
enum { DLOCK_PASS_MAX = 64 };
typedef void dlock_renew_slot(struct dlock *client, struct dlock_renew renews[],
                              size_t n, unsigned lease_ms, uint64_t limit_ms);
typedef uint64_t dlock_forced_slot(struct dlock *client, const char *name,
                                   const char *owner, uint64_t limit_ms);

/* One acquire, extend or release, over all the times that it is sent. */
struct dlock_attempt {
    struct dlock_session *session;
    const char *name;
    uint64_t number;      /* of dlock_number(); the same when re-sent */
    unsigned holds;       /* of the session, before; release: afterwards */
    uint64_t repeats;     /* release: number of the first one of the same grant,
                             which got no answer; 0 = this is it */
    bool uncertain;       /* release: one of those may have worked */
    uint64_t undoes;      /* release: number of the acquire without a grant that
                             it takes back; 0 = none */
    unsigned lease_ms;    /* acquire, extend */
    bool renewed;         /* acquire: no lease was asked for */
    bool fenced;          /* acquire: the grant gets a token ... */
    uint64_t fence_floor; /* ... above this one */
    bool waits;           /* acquire: comes again, unless it got it */
    uint64_t limit_ms;    /* lease time at which the answer is due */
    struct dlock_grant *grant; /* acquire: its results, see there */
    uint64_t *busy_ms;
};

/* The connections that sessions and the watchdog have of their own, each to client->url.
 * _open does not connect, and borrows both; NULL: out of memory. _close of NULL does
 * nothing. */
struct dlock_wire;
struct dlock_wire_config;
struct dlock_wire_kind {
    enum dlock_status (*parse)(const char *url, struct dlock_address *address);
    struct dlock_wire *(*open)(const struct dlock_wire_config *config,
                               const char *owner);
    void (*close)(struct dlock_wire *wire);
};

struct dlock_strategy {
    struct dlock_strategy_info info;

    bool releases_always; /* also after a failed acquire: setnx-finally */
    bool drifts;          /* leases run on the clocks of several servers */
    bool knows_copies;    /* servers do, by their numbers: after DLOCK_UNKNOWN a
                          command may be sent again, and that answer counts */
    const struct dlock_wire_kind *wires; /* wire.h; NULL = there are none */
    const void *variant; /* the member of a family, for its own file only */

    /* Prepares what the client's sessions share, by client->url: client->own, which the core
     * frees behind close, or behind an open that failed; and for each of them session->own.
     * Must not connect or block; session_close may block for the wire, and gives nothing
     * back. NULL = nothing to prepare. */
    enum dlock_status (*open)(struct dlock *client);
    void (*close)(struct dlock *client);
    enum dlock_status (*session_open)(struct dlock_session *session);
    void (*session_close)(struct dlock_session *session);

    /*
     * One try. Blocks for the wire's round trip, never for another holder.
     * Re-sends after a lost reply only what may be sent twice.
     *   DLOCK_OK    grant->token is 0, ->holds 1 and ->deadline_ms that of the
     *               try, unless it sets another; the rest is the caller's
     *   DLOCK_BUSY  *busy_ms is how long at most, from the return on, if that
     *               is known; else it is left alone
     *   DLOCK_LOST  it took longer than the lease, and was given back
     *   DLOCK_UNREACHABLE, DLOCK_UNKNOWN
     */
    enum dlock_status (*acquire)(const struct dlock_attempt *attempt);

    /* Sets the lease to end attempt->lease_ms from now; if the session has more holds
     * than one, not before the others need it. Blocks for the wire. DLOCK_LOST if it
     * ended before. Only called with DLOCK_CAP_LEASE. */
    enum dlock_status (*extend)(const struct dlock_attempt *attempt);

    /* Gives one hold back. Blocks for the wire. DLOCK_LOST if it was not held, and the
     * strategy can tell. */
    enum dlock_status (*release)(const struct dlock_attempt *attempt);

    /* After an acquire that came to nothing, and that the server may yet carry out: takes
     * back what it gets by attempt->number or a lower one. Waits for no answer. Without
     * this slot, tries see to that by themselves, or nobody. With it, a try that is
     * repeated gets what the first one got, and when. */
    void (*withdraw)(const struct dlock_attempt *attempt);

    /* After an acquire with attempt->waits was told no for the last time: leaves the
     * queue. (An acquire without an answer leaves it by itself.) Blocks for the wire at
     * most. NULL = there is no queue. */
    void (*give_up)(const struct dlock_attempt *attempt);

    /* Milliseconds until a grant that has no lease is lost, as far as the client
     * knows; 0 = it is lost, UINT64_MAX = nothing threatens it. From any thread;
     * must not block. NULL = grant->deadline_ms says all. */
    uint64_t (*remaining)(const struct dlock_session *session,
                          const struct dlock_grant *grant);

    /* Fills *holder: not held, and if it is, once and without an end. Blocks for
     * the wire. NULL = cannot. */
    enum dlock_status (*inspect)(const struct dlock_attempt *attempt,
                                 struct dlock_holder *holder);

    /* DLOCK_CAP_RENEW: sends N renewals in one go and fills in what came of them; after
     * a no, the last attempt of OWNER's whose hold of NAME was ended by force, 0 = none
     * is known. On the watchdog's thread, over client->renewal_wire, with wires. */
    dlock_renew_slot *renew;
    dlock_forced_slot *forced;

    /* Without DLOCK_CAP_WAKE: microseconds to sleep before look number LOOK, from 1. DICE
     * is random. NULL = short, and the same for all looks. */
    uint64_t (*pause_us)(unsigned look, uint16_t dice);

    /* DLOCK_CAP_WAKE; none of them blocks. watch: from now on, no release of NAME is
     * missed; NULL = no memory, poll instead. arm: *CALL is called once, as soon as it is
     * worth trying again; inside of arm the first time, or if watching works only now,
     * because the lock may have become free just before. It returns until when to wait
     * for that at most: UNTIL_MS or earlier. disarm: *CALL is not called any more; the
     * next try uses the wake-up. unwatch: the lock is free at FREE_MS at the latest, by
     * what the waiter heard last, so nobody must sleep for much longer; 0 = the try after
     * the last wake-up got no answer, so another waiter must get the wake-up; NULL =
     * there is nothing to leave. */
    void *(*watch)(struct dlock_session *session, const char *name);
    uint64_t (*arm)(void *watch, uint64_t until_ms,
                    const struct dlock_wake_call *call);
    void (*disarm)(void *watch);
    void (*unwatch)(void *watch, uint64_t free_ms);

    /* DLOCK_CAP_WAKE: all that are armed are called; those that dlock_wait_ended() are
     * over, the others go on after one more try. */
    void (*wake_all)(struct dlock *client);

    /* Fills up to N_MAX of WAITERS, the next to be served first; *n is how many there
     * are. Blocks for the wire. NULL = cannot. */
    enum dlock_status (*waiters)(const struct dlock_attempt *attempt,
                                 struct dlock_waiting waiters[], size_t n_max,
                                 size_t *n);

    /* Frees the name, whoever holds it, and leaves word for the holder's renewal.
     * DLOCK_LOST: nobody did. Blocks for the wire. NULL = cannot. */
    enum dlock_status (*force)(const struct dlock_attempt *attempt);
};

/* How long a lease of LEASE_MS counts on our clock: with several servers, whose clocks
 * run differently, 1 % and 2 ms less. */
static inline uint64_t dlock_valid_ms(const struct dlock_strategy *strategy,
                                      unsigned lease_ms)
{
    uint64_t drift_ms = strategy->drifts ? lease_ms / 100 + 2 : 0;

    return lease_ms > drift_ms ? lease_ms - drift_ms : 0;
}

/* The strategy called NAME, or NULL (strategies.c); and instructions, for a person, to
 * have it in the program: NULL if there is none of that name. */
const struct dlock_strategy *dlock_strategy_called(const char *name);
const char *dlock_strategy_where(const char *name);

/* The core that a part belongs to. Its name has the version, so a part of another version
 * does not link, nor load. It points to what is the core's own: a part of another copy of
 * the core points elsewhere, and is not registered. */
extern const char *const DLOCK_CORE;

/* The parts of one library: strategies, which NULL ends; TLS. A program that loads it has
 * a copy: with its size, the soname must change. */
struct dlock_strategies {
    const char *const *core; /* &DLOCK_CORE */
    const struct dlock_strategy *const *all;
    const struct dlock_tls_kind *tls; /* tls.h; or NULL */
};

/* Defines STRATEGIES: those that strategies.txt has of SET, each as dlock_strategy_NAME in
 * the file of its family. */
#define DLOCK_STRATEGIES(strategies, set)                                      \
    DLOCK_SET_##set(DLOCK_STRATEGY_DECLARE)                                    \
        const struct dlock_strategies strategies = {                           \
            .core = &DLOCK_CORE,                                               \
            .all = (const struct dlock_strategy *const[]){                     \
                DLOCK_SET_##set(DLOCK_STRATEGY_POINTER) NULL}};
#define DLOCK_STRATEGY_DECLARE(name)                                           \
    extern const struct dlock_strategy dlock_strategy_##name;
#define DLOCK_STRATEGY_POINTER(name) &dlock_strategy_##name,

#endif
