/*
 * Private to lock/redis/: commands to a Redis Cluster. A wire whose address is of one has a
 * connection of its own for a subscriber only. Commands go over others, one for each node,
 * which its struct dlock_cluster keeps: 16 KB, and 3 KB a node.
 */
#ifndef DLOCK_CLUSTER_H
#define DLOCK_CLUSTER_H

#include "lock/redis/call.h"

/* The cluster of WIRE, made if need be; NULL: no memory. Does not connect. */
struct dlock_cluster *dlock_cluster_of(struct dlock_wire *wire);

/* NULL is fine. */
void dlock_cluster_close(struct dlock_cluster *cluster);

/* Asks who has what, until somebody answers: DLOCK_OK, and *LINK, a connection to
 * that node, is the caller's; or DLOCK_UNREACHABLE. A subscriber keeps it, because what
 * is published at any node is heard at all. CLUSTER may be NULL: no memory. */
enum dlock_status dlock_cluster_ask(struct dlock_cluster *cluster,
                                    uint64_t until_ms, struct dlock_link *link);

/* As dlock_batch_exchange(). */
void dlock_cluster_exchange(struct dlock_wire *wire,
                            struct dlock_exchange exchanges[], size_t n,
                            uint64_t real_limit_ms);

#endif
