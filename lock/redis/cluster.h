/*
 * Private to lock/redis/: commands to a Redis Cluster, each to the node that has its
 * key.
 *
 * A wire whose address is of a cluster has a connection of its own for a subscriber
 * only. Commands go over others, one for each node, which its struct dlock_cluster
 * keeps (map.h).
 */
#ifndef DLOCK_CLUSTER_H
#define DLOCK_CLUSTER_H

#include "lock/redis/call.h"

/* As dlock_call_exchange(), and what is said there. */
enum dlock_status dlock_cluster_exchange(struct dlock_wire *wire,
                                         const struct dlock_command *command,
                                         uint64_t real_limit_ms,
                                         struct dlock_reply *reply,
                                         struct dlock_error *error);

/* Several at once; those whose status is DLOCK_OK, which it sets. */
void dlock_cluster_batch(struct dlock_wire *wire,
                         struct dlock_exchange *exchanges, size_t n,
                         uint64_t real_limit_ms, struct dlock_error *error);

#endif
