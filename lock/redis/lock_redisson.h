/*
 * Private to lock/: the slots of a lock on one Redis server, whose strategy has
 * a struct dlock_node_kind for a variant. redisson, fenced and fair are made of
 * them; what they do is told in strategy.h.
 */
#ifndef DLOCK_LOCK_REDISSON_H
#define DLOCK_LOCK_REDISSON_H

#include "lock/redis/force.h"
#include "lock/redis/node.h"
#include "lock/redis/wakeup.h"

enum dlock_status dlock_redisson_acquire(struct dlock_session *session,
                                         const struct dlock_attempt *attempt,
                                         struct dlock_grant *grant,
                                         uint64_t *busy_ms,
                                         struct dlock_error *error);
enum dlock_status dlock_redisson_extend(struct dlock_session *session,
                                        const struct dlock_attempt *attempt,
                                        struct dlock_error *error);
enum dlock_status dlock_redisson_release(struct dlock_session *session,
                                         const struct dlock_attempt *attempt,
                                         struct dlock_error *error);
enum dlock_status dlock_redisson_inspect(struct dlock_session *session,
                                         const struct dlock_attempt *attempt,
                                         struct dlock_holder *holder,
                                         struct dlock_error *error);
void dlock_redisson_withdraw(struct dlock_session *session,
                             const struct dlock_attempt *attempt);
void *dlock_redisson_watch(struct dlock_session *session, const char *name);

/* Where the server knows the waiters by their owners: kind->leave and kind->list. */
void dlock_redisson_give_up(struct dlock_session *session,
                            const struct dlock_attempt *attempt);
enum dlock_status dlock_redisson_waiters(struct dlock_session *session,
                                         const struct dlock_attempt *attempt,
                                         struct dlock_waiting waiters[],
                                         size_t n_max, size_t *n,
                                         struct dlock_error *error);

/* The kind of fenced, and of fenced-late. */
extern const struct dlock_node_kind dlock_fenced_kind;

#define DLOCK_REDISSON_CAPABILITIES                                            \
    (DLOCK_CAP_REMOTE | DLOCK_CAP_LEASE | DLOCK_CAP_OWNER | DLOCK_CAP_RENEW |  \
     DLOCK_CAP_REENTRANT | DLOCK_CAP_WAKE | DLOCK_CAP_TOKENS)

/* The slots that all of them have, and those of several servers as well. */
#define DLOCK_WAKEUP_FUNCTIONS                                                 \
    .watch = dlock_redisson_watch, .arm = dlock_wakeup_arm,                    \
    .disarm = dlock_wakeup_disarm, .unwatch = dlock_wakeup_leave,              \
    .wake_all = dlock_wakeup_all

#define DLOCK_REDISSON_FUNCTIONS                                               \
    .on_redis = true, .knows_copies = true, .open = dlock_wakeup_open,         \
    .close = dlock_wakeup_close, .acquire = dlock_redisson_acquire,            \
    .withdraw = dlock_redisson_withdraw, .release = dlock_redisson_release,    \
    .extend = dlock_redisson_extend, .inspect = dlock_redisson_inspect,        \
    .renew = dlock_node_renew, .forced = dlock_force_forced,                   \
    .force = dlock_force_node, DLOCK_WAKEUP_FUNCTIONS

#define DLOCK_WAITERS_FUNCTIONS                                                \
    .give_up = dlock_redisson_give_up, .waiters = dlock_redisson_waiters

#endif
