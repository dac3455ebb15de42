/*
 * libdlock: distributed locks over Redis.
 *
 * Calling sequence
 * ----------------
 *     static void lost(void *ctx, const char *name, const char *owner,
 *                      enum dlock_loss why)
 *     {
 *         (void)owner, (void)why;
 *         stop_working_on(ctx, name);    (another thread: see dlock_lost_hook)
 *     }
 *
 *     struct dlock_options options = {.url = "redis://127.0.0.1:6379",
 *                                     .on_lost = lost, .on_lost_ctx = shop};
 *     struct dlock_terms terms = {.wait_ms = 1000,
 *                                 .fence_floor = last_token_of(resource)};
 *     struct dlock *client;
 *     struct dlock_session *session;
 *     struct dlock_grant grant;
 *     struct dlock_error error;
 *
 *     if (dlock_open(&options, &client, &error) != DLOCK_OK ||
 *         dlock_session_open(client, &session, &error) != DLOCK_OK)
 *         die("%s", error.text);
 *     switch (dlock_acquire(session, "stock:42", &terms, &grant, &error)) {
 *     case DLOCK_OK:
 *         announce(resource, grant.token);    (before anything is read)
 *         work();
 *         if (dlock_release(session, &grant, &error) == DLOCK_LOST)
 *             the work took longer than the lease: the resource knows which
 *             writes it has refused
 *         break;
 *     case DLOCK_BUSY:
 *     case DLOCK_TIMEOUT:
 *         somebody else has it: a no
 *     case DLOCK_UNKNOWN:
 *         the reply was lost, and the lock may be held in this session's name
 *         until its lease ends: a don't know
 *     default:
 *         nothing is held, and error.text says why
 *     }
 *     dlock_session_close(session);
 *     dlock_close(client);
 *
 * Which strategy: "fenced", the default, if the resource can refuse an old token;
 * "redisson" if it cannot; "fair" if who came first must be served first; "process"
 * and "none" for the time before there is a Redis.
 *
 * The promise of a lock, and its limits
 * -------------------------------------
 * A distributed lock is a lease: the right to be alone for a while. While the
 * holder works within its lease, nobody else holds the name. Nothing can
 * promise more: a process may be stopped between two of its instructions for
 * longer than any lease, wake up, and go on as if it still held the lock. If
 * that may cost more than a wasted effort, the resource itself has to refuse
 * the late holder. For that there are *fencing tokens*: a grant of a fenced
 * lock carries a number, and the resource refuses every number but the one that
 * was announced to it last. It rises above all those before, and above the
 * fence_floor, which should always be the last one that the resource has seen.
 *
 * Errors
 * ------
 * Every call that can fail returns an enum dlock_status and fills the caller's
 * struct dlock_error, which may be NULL and is left alone on success. The
 * library never prints, and never exits; where the kernel has no random numbers
 * (getrandom), it aborts.
 *
 * Ownership
 * ---------
 * A plain pointer parameter is borrowed for the call. What an _open made, its
 * _close frees; closing NULL does nothing. A grant is a value: it may be
 * copied and thrown away, nothing in it needs freeing. Use after close is an
 * error of the caller's; so is closing what another thread is in a call with.
 *
 * Threads
 * -------
 * A client (struct dlock) may be shared by threads. A session is the owner of
 * locks; it has one connection of its own and belongs to one thread at a time.
 * Ownership is never a thread id: a session may be handed to another thread,
 * and two sessions of one thread exclude each other. A session that is used by
 * two threads at once answers the second with DLOCK_MISUSE.
 * pthread_cancel() of a thread in a call takes effect after the call.
 *
 * After fork(2), what the parent has opened is not the child's: there, calls on
 * it answer DLOCK_MISUSE, or do nothing, and dlock_remaining_ms() is 0. Closing
 * it frees memory (not what threads were using) and talks to nobody. A hook or a
 * callback that forks must not return in the child.
 *
 * Limits
 * ------
 * Servers. A Redis needs maxmemory-policy noeviction, since an evicted lock is
 * lost, and a clock that does not jump, since leases end by it. A restart without
 * appendfsync always, or a failover, may lose locks, and let a second holder in. It
 * has to be version 5 or newer. Nodes of a Redis Cluster are such servers together,
 * each for the locks in its slots: dlock_url.h.
 *
 * Failovers. What was granted last may not have reached the replica that takes over;
 * and a primary that was cut off goes on granting, unless min-replicas-to-write is
 * set, up to min-replicas-max-lag. So after a failover there may be two holders until
 * the older one's lease ends, or its next command: exclusion needs tokens then, and the
 * clock of the new primary must not be further behind than the failover took. Textbook
 * locks follow a primary like others.
 *
 * Tokens. Each is above the last one of its name, and above the server's time in
 * microseconds, which is below 2^52 until 2112. So tokens rise, also if the server comes
 * back with old data or none, unless its clock was set back behind the last grant. With
 * several servers they count on from the last one, which is forgotten two minutes after
 * its last use, or with all data, and begin with the time. So there they rise unless
 * enough servers come back with old data, or their clocks differ by two minutes. In
 * either case fence_floor helps. A name that was given back leaves 200 bytes, for two
 * minutes, and each session that had it 150, for one.
 *
 * Time. Calls end after these times, whatever the server or the resolver of names does
 * (T, C: the command's and the connect timeout). Asynchronous calls may wait for a thread
 * before.
 *   acquire  wait_ms + T; to give back what tries may have won, C more, T more if
 *            it was won but too late, T more with several servers
 *   cancel   2 T and what acquire takes to give back; of fair and fenced, T more
 *   extend   2 T, and T more if a renewal is under way
 *   release  the same; T less if on_lost was told DLOCK_LOSS_UNREACHABLE
 *   inspect, waiters, force  T
 *   close    of a session what is left of its asynchronous call, which is cancelled, and
 *            of its callbacks, and T, or three seconds with zk and zk-fair; of a client
 *            that for each of its sessions, and C + T
 *
 * Losses. on_lost tells of locks that are renewed, and of zk and zk-fair; of the
 * others only the release does. All that a session has of sql-row is lost with its
 * connection, which ends with any of its calls that gets no answer, be it only a look:
 * from then on, dlock_remaining_ms() is 0. If the server ends it, that is found by the
 * session's next call.
 *
 * Repeated releases. Locks without a memo of releases (the textbook locks up to spin,
 * recorded) send none again after DLOCK_UNKNOWN. A caller that releases once more may
 * be told DLOCK_LOST, though its first release worked.
 */
#ifndef DLOCK_H
#define DLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lock/dlock_step.h"

DLOCK_BEGIN

#define DLOCK_NAME_BYTES_MAX  512 /* longest lock name, without the NUL */
#define DLOCK_OWNER_BYTES_MAX 48  /* an owner id as text, without the NUL */
#define DLOCK_LEASE_MS_MAX    86400000u /* a day; longer leases are misuse */
#define DLOCK_WAIT_MS_MAX     86400000u

/* Status, name and the text that dlock_status_text() gives: one list. */
#define DLOCK_STATUS_MAP(X)                                                    \
    X(DLOCK_OK, "ok")                                                          \
    X(DLOCK_BUSY, "somebody else holds the lock")                              \
    X(DLOCK_TIMEOUT, "the lock did not become free within the wait time")      \
    X(DLOCK_LOST, "the lease has ended: this session does not hold the lock")  \
    X(DLOCK_UNKNOWN, "the reply was lost: the lock may be held")               \
    X(DLOCK_UNREACHABLE, "the lock server cannot be reached")                  \
    X(DLOCK_MISUSE, "wrong use of the lock library")                           \
    X(DLOCK_DEADLOCK, "everybody waits for another one, in a circle")

enum dlock_status {
#define DLOCK_STATUS_ENUM(name, text) name,
    DLOCK_STATUS_MAP(DLOCK_STATUS_ENUM)
#undef DLOCK_STATUS_ENUM
        DLOCK_STATUS_N
};

struct dlock;            /* a client: options, watchdog, subscriber */
struct dlock_session;    /* an owner of locks, with a connection of its own */
struct dlock_strategies; /* kinds of locks, to be registered */

/* Detail of a failure, for a person: "release: redis: timed out". */
struct dlock_error {
    char text[200];
};

/* Called from several threads. With a test's own, a lease of an hour ends in a
 * microsecond. */
struct dlock_clock {
    uint64_t (*now_ms)(void *ctx); /* never set; goes on in a suspended host */
    void (*random)(void *ctx, void *bytes, size_t len);
    void *ctx;
};

/* Why a lock was lost, and the text that dlock_loss_text() gives: one list. */
#define DLOCK_LOSS_MAP(X)                                                      \
    X(DLOCK_LOSS_EXPIRED, "expired before it was renewed")                     \
    X(DLOCK_LOSS_FORCED, "released by force")                                  \
    X(DLOCK_LOSS_TAKEN, "taken by somebody else")                              \
    X(DLOCK_LOSS_FLUSHED, "gone from the server before its lease ended")       \
    X(DLOCK_LOSS_UNREACHABLE, "server unreachable until its lease ended")      \
    X(DLOCK_LOSS_OVERHELD, "held longer than max_hold_ms")

enum dlock_loss {
#define DLOCK_LOSS_ENUM(name, text) name,
    DLOCK_LOSS_MAP(DLOCK_LOSS_ENUM)
#undef DLOCK_LOSS_ENUM
        DLOCK_LOSS_N
};

/*
 * Told when a grant that is being renewed was found lost, within one renewal
 * period (a third of watchdog_lease_ms), or at the end of its lease while the
 * server cannot be asked. Runs on the watchdog's thread; must return soon and must
 * not call into libdlock. Nobody waits for it: it may still run when a release of
 * the grant has returned. A grant that was lost has to be released all the same:
 * until then, its session and its client remember it.
 */
typedef void dlock_lost_hook(void *ctx, const char *name, const char *owner,
                             enum dlock_loss reason);

struct dlock_options {
    const char *strategy; /* see dlock_strategy_info(); NULL = "fenced" */
    const char
        *url; /* "unix:PATH", "redis://[USER:PASSWORD@]HOST:PORT[/DB]", ...
                        see dlock_url.h; of strategies that are registered, as
                        their header says; others without DLOCK_CAP_REMOTE
                        ignore it */
    unsigned connect_timeout_ms; /* to look up, connect, log in, but for no
                                    longer than a call lasts; 0 = 500 */
    unsigned command_timeout_ms; /* 0 = 1000 */
    unsigned watchdog_lease_ms;  /* lease while renewed, timeout of a ZooKeeper
                                    session; 0 = 10000 */
    unsigned longest_lease_ms; /* redlock: that any client takes; a server that
                          has been up for less gets no vote. 0 = that of the
                          watchdog, or of the acquire if it is longer */
    const struct dlock_clock *clock; /* NULL = CLOCK_BOOTTIME, getrandom */
    dlock_step_hook *on_step;        /* NULL = none */
    void *on_step_ctx;
    dlock_lost_hook *on_lost; /* NULL = none */
    void *on_lost_ctx;
    const char *label; /* for people, see dlock_inspect.h; NULL = none */
};

/* The terms of one acquire. All zero means: try once, keep while we live. */
struct dlock_terms {
    unsigned wait_ms;     /* 0 = fail at once with DLOCK_BUSY */
    unsigned lease_ms;    /* 0 = renewed by the watchdog until released; of
                             locks that are not renewed, the watchdog's lease,
                             once; ignored by locks that have no lease */
    unsigned max_hold_ms; /* renewal stops then; 0 = never */
    unsigned deadlock_ms; /* look for deadlocks after so long; 0 = never. See
                             dlock_deadlock.h */
    bool fenced;          /* the grant is to have a fencing token: of use with
                             DLOCK_CAP_TOKENS, needless with _FENCED, and
                             misuse without either */
    uint64_t fence_floor; /* tokens granted are above this: the resource's last
                             token. 0 = none yet; 2^52 is the highest */
};

struct dlock_grant {
    char name[DLOCK_NAME_BYTES_MAX + 1];
    char owner[DLOCK_OWNER_BYTES_MAX + 1];
    unsigned holds;       /* 1; more after re-entry */
    uint64_t attempt;     /* of the session, that won it: tells grants apart */
    uint64_t token;       /* fencing token; 0 if the strategy has none */
    uint64_t deadline_ms; /* end of the lease at grant time, on the client's
                             monotonic clock; UINT64_MAX = no lease */
};

/* Capabilities of a strategy. */
enum dlock_capability {
    DLOCK_CAP_REMOTE = 1 << 0,      /* needs a server: excludes across hosts */
    DLOCK_CAP_LEASE = 1 << 1,       /* a dead holder is got rid of */
    DLOCK_CAP_OWNER = 1 << 2,       /* only the owner can release */
    DLOCK_CAP_RENEW = 1 << 3,       /* the watchdog renews it */
    DLOCK_CAP_REENTRANT = 1 << 4,   /* the same session may lock again */
    DLOCK_CAP_WAKE = 1 << 5,        /* waiters are woken, they do not poll */
    DLOCK_CAP_FENCED = 1 << 6,      /* grants carry a fencing token */
    DLOCK_CAP_FENCED_LATE = 1 << 7, /* to be compared at the write only: wrong,
                                       and there to be seen failing */
    DLOCK_CAP_SQL = 1 << 8,         /* it lives in a SQL database */
    DLOCK_CAP_RECORD = 1 << 9,      /* in Redis, with a record in one */
    DLOCK_CAP_ZK = 1 << 10,         /* it lives in ZooKeeper */
    DLOCK_CAP_TOKENS = 1 << 11,     /* grants carry a fencing token if the terms
                                       ask for it */
};

struct dlock_strategy_info {
    const char *name;      /* as in --lock NAME */
    const char *claim;     /* one sentence: what it promises */
    unsigned capabilities; /* of enum dlock_capability */
};

/* For a person. Never NULL. */
const char *dlock_status_text(enum dlock_status status);
const char *dlock_loss_text(enum dlock_loss loss);

/*
 * Adds strategies that are in a library of their own (dlock_quorum.h, dlock_sql.h,
 * dlock_zk.h): when the program begins, before any other thread calls libdlock.
 * DLOCK_MISUSE: this program has two copies of libdlock, and they are the other
 * one's; or there are too many.
 */
enum dlock_status dlock_register(const struct dlock_strategies *strategies,
                                 struct dlock_error *error);

/*
 * The strategies of this program, from no lock to the complete one: INDEX from 0
 * until it returns NULL. Static.
 */
const struct dlock_strategy_info *dlock_strategy_info(size_t index);

/* The one called NAME, or NULL. Static. */
const struct dlock_strategy_info *dlock_strategy_find(const char *name);

/*
 * Makes a client. Does not connect: a server that is away now may be back at
 * the first acquire. DLOCK_MISUSE for an unknown strategy or a malformed url.
 * The hooks and the clock have to live as long as the client.
 */
enum dlock_status dlock_open(const struct dlock_options *options,
                             struct dlock **client, struct dlock_error *error);

/*
 * Ends all waiting of the client's sessions, now and for good: an acquire that
 * waits, or would, answers DLOCK_TIMEOUT after the try under way. Locks that
 * are held stay held and renewed. For shutting down: call it, join the threads,
 * close. From any thread.
 */
void dlock_end_waits(struct dlock *client);

/* Its open sessions as well. Waits for all callbacks, which may close theirs meanwhile,
 * but open none. NULL is fine. */
void dlock_close(struct dlock *client);

/* Makes a new owner. Does not connect. */
enum dlock_status dlock_session_open(struct dlock *client,
                                     struct dlock_session **session,
                                     struct dlock_error *error);

/*
 * Forgets the owner and stops renewing what it still holds; does not release
 * it: that is what a crash would do as well. An asynchronous call under way is
 * cancelled, and its callback returns before this does. NULL is fine.
 */
void dlock_session_close(struct dlock_session *session);

/* This session's owner id: 32 hex digits of the client, "-", a counter. It lives as long
 * as the session. */
const char *dlock_session_owner(const struct dlock_session *session);

/*
 * Takes the lock NAME: 1 to 512 printable ASCII bytes without ":dlock-",
 * which names what the library keeps beside a lock. An outage is part of the
 * wait: a server that does not answer, or refuses, is asked again until the wait
 * is over, whatever its reason (LOADING, READONLY, OOM; also a wrong type or
 * login, which somebody may put right; dlock_try() tells at once). The text is
 * then that of the last failure. After DLOCK_UNKNOWN, the session's next acquire
 * of NAME takes over what may be held, if the strategy can tell its attempts
 * apart.
 *   DLOCK_OK           *grant is filled
 *   DLOCK_BUSY         held by another, and wait_ms is 0
 *   DLOCK_TIMEOUT      held by another at the end, or the wait was ended
 *   DLOCK_LOST         granted, but the answer took longer than the lease: not
 *                      held. Of locks with DLOCK_CAP_RENEW; others say OK, and
 *                      dlock_remaining_ms() 0
 *   DLOCK_UNKNOWN      the reply was lost, or the server broke off in the middle:
 *                      may be held until its lease ends
 *   DLOCK_UNREACHABLE  nothing was sent, or the server refused: not held. Rights
 *                      that its user needs: dlock(3)
 *   DLOCK_MISUSE       the name or the terms make no sense
 *   DLOCK_DEADLOCK     the holder waits for this session: see terms.deadlock_ms
 */
enum dlock_status dlock_acquire(struct dlock_session *session, const char *name,
                                const struct dlock_terms *terms,
                                struct dlock_grant *grant,
                                struct dlock_error *error);

/* One attempt: dlock_acquire() with wait_ms 0. TERMS may be NULL: all zero. */
enum dlock_status dlock_try(struct dlock_session *session, const char *name,
                            const struct dlock_terms *terms,
                            struct dlock_grant *grant,
                            struct dlock_error *error);

/*
 * Ends the acquire that the session is in, if it is in one, synchronous or not,
 * from any thread: it answers DLOCK_TIMEOUT after the try under way, and what
 * that try may have won is given back before. Nothing stays held or renewed;
 * only after DLOCK_UNKNOWN the lock may be held until its lease ends, as ever.
 */
void dlock_cancel(struct dlock_session *session);

/*
 * Sets the grant's lease to end lease_ms from now. A grant that the watchdog renews
 * goes on to be renewed, to its own lease, after a third of this one. If the session holds
 * the lock more than once, the server keeps it for as long as another grant of
 * it counts on. DLOCK_LOST if this session does not hold the lock any more,
 * or if the lease was over when the answer came; after DLOCK_UNKNOWN, it
 * counts to the earlier of its two ends. DLOCK_MISUSE where the strategy has
 * no lease.
 */
enum dlock_status dlock_extend(struct dlock_session *session,
                               struct dlock_grant *grant, unsigned lease_ms,
                               struct dlock_error *error);

/*
 * Gives the lock back; of a re-entered lock, one hold. Renewal has stopped
 * when this returns, whatever it returns. After DLOCK_UNKNOWN and
 * DLOCK_UNREACHABLE it may be called again (zk goes on by itself). DLOCK_LOST if
 * it was not held any more, or given back before, which is not an error of the
 * caller but a warning: somebody else may have held it as well. If the session has
 * meanwhile taken NAME anew, the new grant stays; another session's grant is
 * DLOCK_MISUSE. A grant of which DLOCK_LOST was said elsewhere has to be released
 * as well, once: until then it is remembered.
 */
enum dlock_status dlock_release(struct dlock_session *session,
                                const struct dlock_grant *grant,
                                struct dlock_error *error);

/*
 * Milliseconds until the grant's lease ends by the client's own clock, which
 * started before the server's; 0 = it is over, was lost or given back, or the grant is
 * another session's; UINT64_MAX = no lease. Takes the watchdog's renewals into account; of
 * zk and zk-fair, the session: UINT64_MAX while the server is heard of, then what is
 * left of it. From any thread.
 */
uint64_t dlock_remaining_ms(const struct dlock_session *session,
                            const struct dlock_grant *grant);

DLOCK_END

/* Looking at locks; calls with a callback; where a Redis is. */
#include "lock/dlock_async.h"
#include "lock/dlock_inspect.h"
#include "lock/dlock_url.h"

#endif
