/*
 * A private Redis Cluster for a test: real nodes on ports of 127.0.0.1, each primary
 * with an equal share of the slots; and how a slot moves, step by step, as redis-cli
 * --cluster reshard does it.
 *
 * As with redis_server.h, anything that goes wrong aborts the test program.
 */
#ifndef REDIS_CLUSTER_H
#define REDIS_CLUSTER_H

#include "tests/support/redis_server.h"

enum { REDIS_CLUSTER_NODES_MAX = 6 };

struct redis_cluster {
    unsigned primaries_n;
    unsigned nodes_n; /* the primaries, then their replicas in the same order */
    struct redis_server *nodes[REDIS_CLUSTER_NODES_MAX];
    char ids[REDIS_CLUSTER_NODES_MAX][41];
    char url[200]; /* of the primaries */
};

/* TIMEOUT_MS: of a node that does not answer, until it has failed. */
struct redis_cluster *redis_cluster_start(unsigned primaries_n,
                                          bool with_replicas,
                                          unsigned timeout_ms);
void redis_cluster_stop(struct redis_cluster *cluster);

/* Which node has the slot of KEY at the start; KEY as a url or a command has it. */
unsigned redis_cluster_owner(const struct redis_cluster *cluster,
                             const char *key);

/* The primary after NODE; and whether KEY is on SERVER. */
unsigned redis_cluster_next(const struct redis_cluster *cluster, unsigned node);
bool redis_cluster_has(const struct redis_server *server, const char *key);

/* The slot of KEY begins to move; one key of it moves; it has moved. */
void redis_cluster_move_begin(const struct redis_cluster *cluster,
                              const char *key, unsigned from, unsigned to);
void redis_cluster_move_key(const struct redis_cluster *cluster,
                            const char *key, unsigned from, unsigned to);
void redis_cluster_move_end(const struct redis_cluster *cluster,
                            const char *key, unsigned from, unsigned to);

/* All of it, with all keys that are there. */
void redis_cluster_move(const struct redis_cluster *cluster, const char *key,
                        unsigned from, unsigned to);

#endif
