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

enum dlock_status dlock_redisson_open(struct dlock *client,
                                      struct dlock_error *error);
void dlock_redisson_close(struct dlock *client);
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
enum dlock_status dlock_redisson_waiters(struct dlock_session *session,
                                         const struct dlock_attempt *attempt,
                                         struct dlock_waiting waiters[],
                                         size_t n_max, size_t *n,
                                         struct dlock_error *error);
void dlock_redisson_withdraw(struct dlock_session *session,
                             const struct dlock_attempt *attempt);
void *dlock_redisson_watch(struct dlock_session *session, const char *name);
uint64_t dlock_redisson_arm(struct dlock_session *session, void *watched,
                            uint64_t until_ms,
                            const struct dlock_wake_call *call);
void dlock_redisson_disarm(struct dlock_session *session, void *watched);
void dlock_redisson_unwatch(struct dlock_session *session, void *watched,
                            bool unused);
void dlock_redisson_wake_all(struct dlock *client);

/* Of fenced, and of fenced-late. */
extern const struct dlock_node_kind dlock_fenced_kind;

#define DLOCK_REDISSON_CAPABILITIES                                            \
    (DLOCK_CAP_REMOTE | DLOCK_CAP_LEASE | DLOCK_CAP_OWNER | DLOCK_CAP_RENEW |  \
     DLOCK_CAP_REENTRANT | DLOCK_CAP_WAKE | DLOCK_CAP_TOKENS)

/* All slots but those of waiters: .watch, .waiters, .give_up. */
#define DLOCK_REDISSON_FUNCTIONS                                               \
    .knows_copies = true, .open = dlock_redisson_open,                         \
    .close = dlock_redisson_close, .withdraw = dlock_redisson_withdraw,        \
    .acquire = dlock_redisson_acquire, .extend = dlock_redisson_extend,        \
    .release = dlock_redisson_release, .inspect = dlock_redisson_inspect,      \
    .server = &dlock_redis_server, .renew = dlock_node_renew,                  \
    .forced = dlock_force_forced, .arm = dlock_redisson_arm,                   \
    .disarm = dlock_redisson_disarm, .unwatch = dlock_redisson_unwatch,        \
    .wake_all = dlock_redisson_wake_all, .force = dlock_force_node

#endif
