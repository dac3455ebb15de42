/*
 * Private to lock/: one Redis server's part in a lock, as redisson, fenced,
 * fair, multi and redlock share it: what is sent to it, and what its replies
 * mean. The lock is a hash, owner -> holds, with its token and numbers of commands
 * (numbers.lua); beside it are what each owner released last, and the fence counter.
 */
#ifndef DLOCK_NODE_H
#define DLOCK_NODE_H

#include "lock/redis/call.h"

/* A command for each of RENEWS, to be freed, whose reply is the answer of struct
 * dlock_renew. NULL: no memory, and each of them is DLOCK_UNREACHABLE. */
struct dlock_command *dlock_node_renewals(struct dlock_renew renews[], size_t n,
                                          unsigned lease_ms);

/* A strategy's `variant`: its scripts are acquire.lua, release.lua, force.lua and
 * renew.lua after parts of their own. */
struct dlock_node_kind {
    const struct dlock_script *acquire;
    const struct dlock_script *release;
    const struct dlock_script *force;
    const struct dlock_script *renew;
    const char *channel; /* suffix: what a release is published on */

    /* Where the server knows the waiters (waiters.lua, fair_queue.lua); else NULL. */
    const struct dlock_script *leave;
    const struct dlock_script *list;
    const char *keys[2]; /* suffixes: where they are kept; NULL = no such key */
};

#define DLOCK_NODE_CAPABILITIES                                                \
    (DLOCK_CAP_REMOTE | DLOCK_CAP_LEASE | DLOCK_CAP_OWNER | DLOCK_CAP_RENEW |  \
     DLOCK_CAP_REENTRANT | DLOCK_CAP_WAKE | DLOCK_CAP_TOKENS)

/* It wakes one waiter of each client: acquire.lua and release.lua as they are. */
extern const struct dlock_node_kind dlock_node_plain;

/* A channel for each waiter that the server knows: this and its owner id. */
#define DLOCK_NODE_TURN_CHANNEL ":dlock-turn:"

static inline const struct dlock_node_kind *
dlock_node_kind_of(const struct dlock_session *session)
{
    return session->client->strategy->variant;
}

/* The keys that all scripts have: lock, done, FENCED: fence, the waiters'. */
void dlock_node_add_keys(const struct dlock_session *session, bool fenced,
                         struct dlock_command *command);

/* The fence counter as a key, and its life after its last use: beyond what the
 * clocks of several servers differ by, since acquire.lua goes on from the time. */
enum { DLOCK_FENCE_LIFE_MS = 120000 };
void dlock_node_add_fence(struct dlock_command *command);

/* Puts one command together. ATTEMPT has to outlive COMMAND. */
typedef void dlock_node_fill(const struct dlock_attempt *attempt,
                             struct dlock_command *command);

/* A release leaves attempt->holds holds. An undo is the release of an acquire that
 * came to nothing, and wakes nobody. An extend may shorten the lease. */
dlock_node_fill dlock_node_fill_acquire;
dlock_node_fill dlock_node_fill_release;
dlock_node_fill dlock_node_fill_undo;
dlock_node_fill dlock_node_fill_extend;
dlock_node_fill dlock_node_fill_inspect;

/* How long a release is remembered: longer than a copy of it, or of an older acquire, can
 * be on its way. */
uint64_t dlock_node_done_life_ms(const struct dlock_session *session);

/* Replies as the strategy's slot is to answer them. */
enum dlock_status dlock_node_read_acquire(const struct dlock_reply *reply,
                                          struct dlock_grant *grant,
                                          uint64_t *busy_ms);
/* The reply to a release or an extend: a negative one is a no. */
enum dlock_status dlock_node_read_done(const struct dlock_reply *reply);
void dlock_node_read_inspect(const struct dlock_reply *reply,
                             struct dlock_holder *holder);

/* A strategy's slots, on one server. */
enum dlock_status dlock_node_inspect(const struct dlock_attempt *attempt,
                                     struct dlock_holder *holder);
enum dlock_status dlock_node_force(const struct dlock_attempt *attempt);
dlock_renew_slot dlock_node_renew;
dlock_forced_slot dlock_node_forced;

/* Force, and how the holder comes to know ------------------------------------------ */

/* The holder that was seen; all zero: nobody has looked yet. */
struct dlock_node_seen {
    char owner[DLOCK_OWNER_BYTES_MAX + 1];
    uint64_t attempt; /* the owner's last command */
};

/* The same as a command, for callers that send it themselves. Reply 1: freed; 0:
 * nobody held it; -1: _read_seen takes the holder from it; the next command frees the
 * lock if SEEN is that holder. SEEN has to outlive COMMAND. _read_seen: false if it is the
 * one that SEEN was, so that to name it does not help: no owner of this library's. Then
 * the reply is the last, and _force_end tells what came of it. */
void dlock_node_fill_force(const struct dlock_node_kind *kind,
                           const struct dlock_attempt *attempt,
                           const struct dlock_node_seen *seen,
                           struct dlock_command *command);
bool dlock_node_read_seen(const struct dlock_reply *reply,
                          struct dlock_node_seen *seen);
enum dlock_status dlock_node_force_end(const struct dlock_reply *reply);

/* The question whether a lock that is gone was taken from OWNER by force, and what the
 * reply says: 0 = no, or OWNER's last attempt of whose holds that is true. OWNER has to
 * outlive COMMAND. */
void dlock_node_fill_forced(const char *name, const char *owner,
                            struct dlock_command *command);
uint64_t dlock_node_read_forced(const struct dlock_reply *reply);

#endif
