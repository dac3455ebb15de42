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
 * A distributed lock is a lease: while the holder works within it, nobody else
 * holds the name. Nothing can promise more: a process may be stopped for longer
 * than any lease, and go on as if it still held the lock. If that may cost more
 * than a wasted effort, the resource has to refuse the late holder. For that
 * there are *fencing tokens*: a grant of a fenced lock carries a number, above all
 * those before and above the fence_floor, which should always be the last one that
 * the resource has seen; the resource refuses every number but the one that was
 * announced to it last.
 *
 * Errors
 * ------
 * Every call that can fail returns an enum dlock_status and fills the caller's
 * struct dlock_error, which may be NULL and is left alone on success. The
 * library never prints, and never exits; without random numbers (getrandom) it aborts.
 *
 * Ownership
 * ---------
 * A pointer parameter is borrowed for the call. An _open is undone by its _close, which
 * does nothing to NULL, and must not come while another thread is in a call with it. A
 * grant is a value: it may be copied and thrown away.
 *
 * Threads
 * -------
 * A client (struct dlock) may be shared by threads. A session is the owner of
 * locks; it has one connection of its own and belongs to one thread at a time: a
 * second one is answered DLOCK_MISUSE. It may be handed to another thread, and two
 * sessions of one thread exclude each other. pthread_cancel() of a thread in a call
 * takes effect after the call.
 *
 * In a child of fork(2), calls on what the parent has opened answer DLOCK_MISUSE,
 * or do nothing, and dlock_remaining_ms() is 0. Closing it frees memory and talks to
 * nobody. A hook or a callback that forks must not return in the child.
 *
 * Limits
 * ------
 * Servers. A Redis, version 5 or newer, needs maxmemory-policy noeviction, and a clock
 * that does not jump, since leases end by it. A restart without appendfsync always, or
 * a failover, may lose locks, and let a second holder in. Nodes of a Redis Cluster are
 * such servers together, each for the locks in its slots: dlock_url.h.
 *
 * Failovers. What was granted last may not have reached the replica that takes over;
 * and a primary that was cut off goes on granting, unless min-replicas-to-write is
 * set, up to min-replicas-max-lag. So after a failover there may be two holders until
 * the older one's lease ends, or its next command: exclusion needs tokens then, and the
 * clock of the new primary must not be further behind than the failover took.
 *
 * Tokens. Each is above the last one of its name, and above the server's time in
 * microseconds, which is below 2^52 until 2112. So tokens rise, also if the server comes
 * back with old data or none, unless its clock was set back behind the last grant. With
 * several servers they begin with the time and count on from the last one, which is
 * forgotten two minutes after its last use, or with all data: there they rise unless
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
 * connection, which ends with any of its calls that gets no answer: from then on,
 * dlock_remaining_ms() is 0. If the server ends it, the session's next call tells.
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

/* Told when a grant that is being renewed was found lost, within one renewal period (a
 * third of watchdog_lease_ms), or at the end of its lease while the server cannot be
 * asked. Runs on the watchdog's thread, also after a release of the grant has returned;
 * must return soon and must not call into libdlock. A grant that was lost has to be
 * released all the same: until then, it is remembered. */
typedef void dlock_lost_hook(void *ctx, const char *name, const char *owner,
                             enum dlock_loss reason);

struct dlock_options {
    const char *strategy; /* see dlock_strategy_info(); NULL = "fenced" */
    const char *url;      /* dlock_url.h; of strategies that are registered, as
                             their header says; others without
                             DLOCK_CAP_REMOTE ignore it */
    unsigned connect_timeout_ms; /* to look up, connect, log in; 0 = 500 */
    unsigned command_timeout_ms; /* 0 = 1000 */
    unsigned watchdog_lease_ms;  /* lease while renewed, timeout of a ZooKeeper
                                    session; 0 = 10000 */
    unsigned longest_lease_ms; /* redlock: of any client; a server that has been
                          up for less gets no vote. 0 = that of the watchdog, or
                          of the acquire if it is longer */
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
                             locks that are not renewed, its lease, once;
                             ignored by locks that have no lease */
    unsigned max_hold_ms; /* renewal stops then; 0 = never */
    unsigned deadlock_ms; /* see dlock_more.h; 0 = never */
    bool fenced;          /* the grant is to have a fencing token: DLOCK_MISUSE
                             without DLOCK_CAP_TOKENS or _FENCED */
    uint64_t fence_floor; /* tokens granted are above this: the resource's last
                             token. 0 = none yet; 2^53 - 1 is the highest */
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

/* Adds strategies of a library of their own (dlock_more.h): when the program begins,
 * before any other thread calls libdlock. DLOCK_MISUSE: they are of another copy of
 * libdlock in this program; or there are too many. */
enum dlock_status dlock_register(const struct dlock_strategies *strategies,
                                 struct dlock_error *error);

/* The strategies of this program, from no lock to the complete one: INDEX from 0 until it
 * returns NULL; and the one called NAME, or NULL. Static. */
const struct dlock_strategy_info *dlock_strategy_info(size_t index);
const struct dlock_strategy_info *dlock_strategy_find(const char *name);

/* Makes a client. Does not connect. DLOCK_MISUSE for an unknown strategy or a malformed
 * url, a label or a time that is out of bounds. The hooks and the clock have to live as
 * long as the client. */
enum dlock_status dlock_open(const struct dlock_options *options,
                             struct dlock **client, struct dlock_error *error);

/* Ends all waiting of the client's sessions, now and for good: an acquire that waits, or
 * would, answers DLOCK_TIMEOUT after the try under way. Locks that are held stay held and
 * renewed. For shutting down: call it, join the threads, close. From any thread. */
void dlock_end_waits(struct dlock *client);

/* Its open sessions as well. Waits for all callbacks, which may close theirs meanwhile,
 * but open none. NULL is fine. */
void dlock_close(struct dlock *client);

/* Makes a new owner. Does not connect. */
enum dlock_status dlock_session_open(struct dlock *client,
                                     struct dlock_session **session,
                                     struct dlock_error *error);

/* Forgets the owner and stops renewing what it still holds, as a crash would; does not
 * release it. An asynchronous call under way is cancelled, and its callback returns before
 * this does. NULL is fine. */
void dlock_session_close(struct dlock_session *session);

/* This session's owner id: 32 hex digits of the client, "-", a counter. It lives as long
 * as the session. */
const char *dlock_session_owner(const struct dlock_session *session);

/*
 * Takes the lock NAME: 1 to 512 printable ASCII bytes without ":dlock-",
 * which names what the library keeps beside a lock. A server that does not answer, or
 * refuses, is asked again until the wait is over, whatever its reason (LOADING, OOM, a
 * wrong login: somebody may put it right); the text is then that of the last failure.
 * After DLOCK_UNKNOWN, the session's next acquire of NAME takes over what may be held, if
 * the strategy can tell its attempts apart.
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

/* Ends the acquire that the session is in, if any, synchronous or not, from any thread: it
 * answers DLOCK_TIMEOUT after the try under way, and what that try may have won is given
 * back before; if no reply says so, DLOCK_UNKNOWN, as ever. */
void dlock_cancel(struct dlock_session *session);

/* Sets the grant's lease to end lease_ms from now. A grant that the watchdog renews goes
 * on to be renewed, after a third of this lease. A lock that the session holds more than
 * once is kept for as long as another grant of it counts on. DLOCK_LOST if this session
 * does not hold the lock any more, or the lease was over when the answer came; after
 * DLOCK_UNKNOWN, the earlier of its two ends counts. DLOCK_MISUSE where the strategy has
 * no lease, or lease_ms is 0. */
enum dlock_status dlock_extend(struct dlock_session *session,
                               struct dlock_grant *grant, unsigned lease_ms,
                               struct dlock_error *error);

/* Gives the lock back; of a re-entered lock, one hold. Renewal has stopped when this
 * returns, whatever it returns. After DLOCK_UNKNOWN and DLOCK_UNREACHABLE it may be
 * called again (zk goes on by itself). DLOCK_LOST if it was not held any more, or given
 * back before: a warning that somebody else may have held it as well. If the session has
 * meanwhile taken NAME anew, the new grant stays; another session's grant is
 * DLOCK_MISUSE. A grant of which DLOCK_LOST was said elsewhere has to be released as
 * well, once. */
enum dlock_status dlock_release(struct dlock_session *session,
                                const struct dlock_grant *grant,
                                struct dlock_error *error);

/* Milliseconds until the grant's lease, as renewed, ends by the client's own clock, which
 * started before the server's; 0 = it is over, was lost or given back, or is another
 * session's; UINT64_MAX = no lease, or of zk and zk-fair, while the server is heard of; then
 * what is left of their session. From any thread. */
uint64_t dlock_remaining_ms(const struct dlock_session *session,
                            const struct dlock_grant *grant);

DLOCK_END

/* Looking at locks; calls with a callback; where a Redis is. */
#include "lock/dlock_async.h"
#include "lock/dlock_inspect.h"
#include "lock/dlock_url.h"

#endif
