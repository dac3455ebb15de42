/*
 * Private to zk-fair: the places in a queue, as a directory shows them. A child
 * is called "OWNER:ATTEMPT:NUMBER"; what is not called so is no place.
 */
#ifndef DLOCK_ZK_QUEUE_H
#define DLOCK_ZK_QUEUE_H

#include "lock/zookeeper/zk.h"

struct dlock_zk_place {
    uint64_t number; /* UINT64_MAX: there is none */
    const char *child;
};

/* Of a child, or of a whole path; UINT64_MAX: it has none. */
uint64_t dlock_zk_queue_number(const char *child);

/* The last place before number BELOW. */
struct dlock_zk_place dlock_zk_queue_before(const struct dlock_zk_reply *queue,
                                            uint64_t below);

/* The first place behind AFTER; with NULL, the first of all. */
struct dlock_zk_place dlock_zk_queue_after(const struct dlock_zk_reply *queue,
                                           const struct dlock_zk_place *after);

#endif
