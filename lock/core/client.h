/*
 * Private to lock/: a client and its sessions, as all of the core and the strategies
 * see them; with clock and error, which nearly all need. Making them and taking them
 * down is in core/dlock.c.
 */
#ifndef DLOCK_CLIENT_H
#define DLOCK_CLIENT_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "lock/core/clock.h"
#include "lock/core/error.h"
#include "lock/core/forks.h"
#include "lock/core/strategy.h"
#include "lock/dlock_url.h"

struct dlock_async;

enum {
    DLOCK_SILENT_MAX = 8
}; /* nodes of a cluster that are known to be silent */

/* FNV-1a of N bytes, on top of HASH, which begins as the number below. */
#define DLOCK_HASH_BEGIN UINT64_C(14695981039346656037)
static inline uint64_t dlock_hash(uint64_t hash, const void *bytes, size_t n)
{
    for (const unsigned char *at = bytes; n > 0; n--)
        hash = (hash ^ *at++) * UINT64_C(1099511628211);
    return hash;
}

/* All connections of a client have this, whatever server they go to. */
struct dlock_wire_config {
    struct dlock_address address; /* of a Redis server */
    unsigned node;                /* its place in the url, for the step hook */
    unsigned connect_timeout_ms;
    unsigned command_timeout_ms;
    const struct dlock_clock *clock;
    /* Where another server may take over, else NULL: which one the last connection of
     * all was made to; 0 = none yet, or it is silent. */
    atomic_uint_fast64_t *primary;
    atomic_uint_fast64_t *silent; /* of a cluster, else NULL: see silence.h */
    dlock_step_hook *on_step;
    void *on_step_ctx;
};

struct dlock {
    LIST_HEAD(dlock_sessions, dlock_session) sessions; /* that are open */
    unsigned forks; /* of dlock_forks(), at its open */
    const struct dlock_strategy *strategy;
    const struct dlock_clock *clock;
    struct dlock_wire_config wire; /* for all connections of this client */
    const char *url;               /* of the options; gone after open */
    unsigned watchdog_lease_ms;
    unsigned longest_lease_ms; /* of any client; 0 = see dlock.h */
    dlock_lost_hook *on_lost;  /* NULL = nobody wants to know */
    void *on_lost_ctx;
    struct dlock_watchdog *watchdog;       /* see held.h */
    struct dlock_wire *renewal_wire;       /* its own; NULL without a server */
    struct dlock_wakeup *wakeup;           /* NULL unless its open made one */
    struct dlock_async *async;             /* threads for asynchronous calls */
    void *own;                             /* what else its open made */
    char id[33];                           /* 32 random hex digits */
    char label[DLOCK_LABEL_BYTES_MAX + 1]; /* "host:pid:label"; "" = none */
    atomic_uint_fast64_t sessions_n;
    atomic_uint_fast64_t numbers_n;                /* see dlock_number() */
    atomic_uint_fast64_t primary;                  /* of wire.primary */
    atomic_uint_fast64_t silent[DLOCK_SILENT_MAX]; /* of wire.silent */
    atomic_bool waits_ended; /* nobody waits any more: dlock_end_waits() */
};

/* A cancel state that must not be restored: another thread leaves the session. */
enum { DLOCK_CANCEL_STATE_KEPT = -1 };

/* A session does one thing at a time. */
enum dlock_session_state {
    DLOCK_SESSION_IDLE,
    DLOCK_SESSION_CALLING,
    DLOCK_SESSION_CANCELLED, /* calling, and asked to come to an end */
    DLOCK_SESSION_ANSWERED,  /* an acquire whose caller is to be told */
};

struct dlock_session {
    struct dlock *client;
    LIST_ENTRY(dlock_session) link; /* of the client's */
    atomic_int state;               /* of enum dlock_session_state */
    int cancel_state;               /* of the thread, before it entered */
    atomic_bool closing;            /* begins no asynchronous call, nor waits */
    struct dlock_wire *wire;        /* to one Redis server; or NULL */
    char owner[DLOCK_OWNER_BYTES_MAX + 1];
    LIST_HEAD(dlock_holds, dlock_hold) holds; /* what it knows to hold */
    struct dlock_hold *reserved;              /* for the acquire under way */
    bool may_come_late;    /* an acquire's command: it got no answer */
    struct dlock_job *job; /* asynchronous call, up to its callback ... */
    unsigned jobs_n;       /* ... and with those in callbacks; see async/ */
    void *own;             /* what the strategy's session_open made */
};

/* The number of a new command: servers that can refuse one that is lower than the owner's
 * last, because it comes late (numbers.lua). From any thread. */
static inline uint64_t dlock_number(struct dlock *client)
{
    return atomic_fetch_add(&client->numbers_n, 1) + 1;
}

static inline bool dlock_is_ours(const struct dlock *client)
{
    return client->forks == dlock_forks();
}

/* Whether this session is to wait no more. */
static inline bool dlock_wait_ended(const struct dlock_session *session)
{
    return atomic_load(&session->client->waits_ended) ||
           atomic_load(&session->closing) ||
           atomic_load(&session->state) == DLOCK_SESSION_CANCELLED;
}

/* Lease time by which a command has to be answered, from now. */
static inline uint64_t dlock_session_limit(const struct dlock_session *session,
                                           unsigned timeouts_n,
                                           unsigned wait_ms)
{
    const struct dlock *client = session->client;

    return dlock_clock_now(client->clock) + wait_ms +
           (uint64_t)timeouts_n * client->wire.command_timeout_ms;
}

/* The step hook, step.c: both halves of a step. Before: DLOCK_OK; or the hook keeps it
 * back (DLOCK_UNREACHABLE), or holds its words up (DLOCK_UNKNOWN): then it must not be
 * done, and there is no other half. After: the reply is a short text for a person, or
 * NULL: there was none. Gives STATUS back; or DLOCK_UNKNOWN, if the hook throws the reply
 * away. */
enum dlock_status dlock_step_before(const struct dlock_wire_config *config,
                                    const struct dlock_step *step);
enum dlock_status dlock_step_after(const struct dlock_wire_config *config,
                                   const struct dlock_step *step,
                                   enum dlock_status status);

/* The same for a strategy whose backend is no Redis (directories, SQL, ZooKeeper).
 * *UNTIL_MS is the end of the attempt's time as real time: it counts from the hook's
 * return, because a pause there is no deadline. */
enum dlock_status dlock_step_begin(const struct dlock_attempt *attempt,
                                   const char *step, uint64_t *until_ms);
enum dlock_status dlock_step_end(const struct dlock_attempt *attempt,
                                 const char *step, const char *reply,
                                 enum dlock_status status);

#endif
