/*
 * Private to lock/: nodes that are left behind in a session that lives on: not
 * wanted any more, and not known to be deleted. The client's keeper deletes
 * them, as soon as the server lets it, without another call of their owner's.
 *
 * A delete goes by the path, and the next node of the session may have the same.
 * So while a name has a node left, the session does not make another for it.
 */
#ifndef DLOCK_ZK_LEFT_H
#define DLOCK_ZK_LEFT_H

#include "lock/zookeeper/zk_node.h"

/* NODE is on no list; it is the keeper's from here on. */
void dlock_zk_left_add(struct dlock_session *session,
                       struct dlock_zk_node *node);

/* Waits until no node is left for NAME, or else DLOCK_UNKNOWN at UNTIL_MS of
 * lease time. */
enum dlock_status dlock_zk_left_await(struct dlock_session *session,
                                      const char *name, uint64_t until_ms,
                                      struct dlock_error *error);

/* The same before an acquire, for one command timeout; or DLOCK_UNREACHABLE. */
enum dlock_status dlock_zk_left_none(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     struct dlock_error *error);

/* On the keeper's thread: deletes all; false: some are still left. */
bool dlock_zk_left_clear(struct dlock_zk_own *own);

/* The session of ZooKeeper has ended, and the keeper is not at it. */
void dlock_zk_left_forget(struct dlock_zk_own *own);

#endif
