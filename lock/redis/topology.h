/*
 * One question to one server: who is in the cluster, and has which slots.
 */
#ifndef DLOCK_TOPOLOGY_H
#define DLOCK_TOPOLOGY_H

#include "lock/redis/map.h"

/*
 * Asks the one at ADDRESS and puts what it says into CLUSTER. DLOCK_OK: *LINK, the
 * connection, is the caller's. DLOCK_UNREACHABLE: CLUSTER is as it was.
 */
enum dlock_status dlock_topology_ask(const struct dlock_address *address,
                                     uint64_t until_ms,
                                     struct dlock_cluster *cluster,
                                     struct dlock_link *link,
                                     struct dlock_error *error);

#endif
