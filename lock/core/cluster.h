/*
 * Private to lock/: commands to a Redis Cluster, each to the node that has its
 * key: what a library of its own brings, lock/cluster/.
 *
 * A wire whose address is of a cluster has a connection of its own for a
 * subscriber only. Commands go over others, one for each node, which this keeps.
 */
#ifndef DLOCK_CLUSTER_PRIVATE_H
#define DLOCK_CLUSTER_PRIVATE_H

#include "lock/dlock.h"
#include "lock/dlock_url.h"
#include "lock/core/net.h"

struct dlock_cluster; /* of one wire */
struct dlock_command;
struct dlock_exchange;
struct dlock_reply;
struct dlock_wire;

struct dlock_cluster_kind {
    /* As dlock_call_exchange() of redis/call.h, and what is said there. */
    enum dlock_status (*exchange)(struct dlock_wire *wire,
                                  const struct dlock_command *command,
                                  uint64_t real_limit_ms,
                                  struct dlock_reply *reply,
                                  struct dlock_error *error);

    /* Several at once; those whose status is DLOCK_OK, which it sets. */
    void (*batch)(struct dlock_wire *wire, struct dlock_exchange *exchanges,
                  size_t n, uint64_t real_limit_ms, struct dlock_error *error);

    /* A connection to any node that answers. */
    enum dlock_status (*dial)(struct dlock_wire *wire, uint64_t until_ms,
                              struct dlock_link *link,
                              struct dlock_error *error);

    void (*close)(struct dlock_cluster *cluster);
};

/* As registered. NULL: this program does not have it. */
extern const struct dlock_cluster_kind *dlock_cluster_made;

/* Whether ADDRESS is of a cluster, and this program can talk to one. */
static inline bool dlock_cluster_has(const struct dlock_address *address)
{
    return address->cluster && dlock_cluster_made != NULL;
}

#endif
