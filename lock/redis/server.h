/*
 * Private to lock/: one Redis server as the core knows it (strategy.h), and the
 * renewals of a pass, sent to it in one go.
 */
#ifndef DLOCK_REDIS_SERVER_H
#define DLOCK_REDIS_SERVER_H

#include "lock/core/client.h"
#include "lock/redis/call.h"

extern const struct dlock_server dlock_redis_server;

/*
 * Fills *command with what renews the lease of NAME for OWNER: its reply is the
 * answer of struct dlock_renew. Must not block; what it points to must outlive it.
 */
typedef void dlock_fill_renewal(const char *name, const char *owner,
                                uint64_t number, unsigned lease_ms,
                                struct dlock_command *command);

/* An exchange for each of RENEWS, to be freed. NULL: no memory, and each of them is
 * DLOCK_UNREACHABLE: it is tried again. */
struct dlock_exchange *dlock_redis_renewals(struct dlock_renew renews[],
                                            size_t n, unsigned lease_ms,
                                            dlock_fill_renewal *fill);

/* For a strategy's renew: all of it. */
void dlock_redis_renew(struct dlock *client, struct dlock_renew renews[],
                       size_t n, unsigned lease_ms, uint64_t limit_ms,
                       dlock_fill_renewal *fill);

#endif
