/*
 * A cluster as one wire knows it: its nodes, with a connection to each that was
 * needed, and which of them has which slot. It is asked for when it is needed, from
 * any node that answers, and again after a node has failed; in between, nodes
 * correct it (MOVED).
 *
 * Each wire has its own, so there is nothing to lock: 16 KB, and 3 KB a node.
 */
#ifndef DLOCK_MAP_H
#define DLOCK_MAP_H

#include "lock/dlock.h"
#include "lock/redis/wire.h"

enum {
    DLOCK_MAP_SLOTS_N = 16384,
    DLOCK_MAP_NODES_MAX = 250, /* replicas included */
    DLOCK_MAP_NO_NODE = 255,
};

struct dlock_map_node {
    unsigned index;
    bool is_known; /* a node of the cluster, when that was asked last */
    bool is_primary;
    uint64_t rest_until_ms; /* real time; a connection has failed, for `why` */
    struct dlock_error why;
    struct dlock_wire_config config;
    struct dlock_wire *wire;
};

struct dlock_cluster {
    const struct dlock_wire_config *config;
    const char *owner;
    bool is_stale;          /* something has failed since it was asked for */
    uint64_t again_at_ms;   /* real time; not before is it asked for anew */
    struct dlock_error why; /* the last time, if that failed */
    unsigned turn;          /* who is asked first */
    uint8_t slots[DLOCK_MAP_SLOTS_N]; /* of nodes, or DLOCK_MAP_NO_NODE */
    size_t nodes_n;
    struct dlock_map_node *nodes[DLOCK_MAP_NODES_MAX];
};

/* The cluster of WIRE, made if need be; NULL: no memory. Does not connect. */
struct dlock_cluster *dlock_map_of(struct dlock_wire *wire);

/* NULL is fine. */
void dlock_map_close(struct dlock_cluster *cluster);

/* The slot of KEY, as Redis has it. */
unsigned dlock_map_slot(const char *key);

/* Asks who has what, until somebody answers: DLOCK_OK, and *LINK, a connection to
 * that node, is the caller's; or DLOCK_UNREACHABLE. A subscriber keeps it, because what
 * is published at any node is heard at all. CLUSTER may be NULL: no memory. */
enum dlock_status dlock_map_ask(struct dlock_cluster *cluster,
                                uint64_t until_ms, struct dlock_link *link);

/* Asks, if it is stale or there is none, but not too often. */
void dlock_map_refresh(struct dlock_cluster *cluster, uint64_t until_ms);

/* The node that has SLOT; asks as above. NULL: none is known to. */
struct dlock_map_node *dlock_map_find(struct dlock_cluster *cluster,
                                      unsigned slot, uint64_t until_ms);

/* The node at HOST, PORT, made if need be. NULL: no memory, or too many. */
struct dlock_map_node *dlock_map_node(struct dlock_cluster *cluster,
                                      const char *host, const char *port);

/* NODE has these slots. */
void dlock_map_give(struct dlock_cluster *cluster, unsigned first,
                    unsigned last, const struct dlock_map_node *node);

#endif
