/*
 * libdlock-cluster: urls of the kind cluster:, of dlock_url.h. Each lock is on the
 * node of a Redis Cluster that has its slot, and is followed when the slot moves or
 * a replica takes over.
 *
 * A program that links the library, pkg-config's dlock-cluster, registers it:
 *
 *     dlock_register(&dlock_cluster, &error);
 *
 * All keys of a lock are in one slot. While that slot moves to another node, a lock
 * in it is renewed, but neither taken nor given back: whoever wants to waits until
 * the move is over, within the time of the call. A move that was broken off keeps
 * them waiting: redis-cli --cluster fix ends it. A name with a '}' in it needs a
 * {tag}, or it is refused: CROSSSLOT.
 *
 * A release that a primary died with may wake nobody: waiters of fenced and fair
 * look by themselves within 700 ms, those of redisson when the lease would have
 * ended. Until the cluster has a new primary, calls are DLOCK_UNREACHABLE. What a
 * failover may lose is in dlock.h; tokens rise across it, as with sentinels.
 */
#ifndef DLOCK_CLUSTER_PUBLIC_H
#define DLOCK_CLUSTER_PUBLIC_H

#include "lock/dlock.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct dlock_strategies dlock_cluster;

#ifdef __cplusplus
}
#endif

#endif
