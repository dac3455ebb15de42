/*
 * Private to zk-fair: fencing tokens from a counter in the lock's directory,
 * for when ZooKeeper's own numbers are behind the resource's last token: it has
 * lost its data, or another lock was in use before. A directory with a counter
 * in it stays, as it is not empty.
 */
#ifndef DLOCK_ZK_FENCE_H
#define DLOCK_ZK_FENCE_H

#include "lock/zookeeper/zk.h"

/* Whether the directory has a counter already. It counts for all, then. */
bool dlock_zk_fence_counts(const struct dlock_zk_reply *directory);

/* The next token: above the last, and the floor. To be called by the holder. */
enum dlock_status dlock_zk_fence_count(struct dlock_session *session,
                                       const struct dlock_attempt *attempt,
                                       uint64_t *token,
                                       struct dlock_error *error);

#endif
