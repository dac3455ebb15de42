/*
 * Private to lock/: what the nodes of zk and zk-fair are called, and commands
 * about them.
 */
#ifndef DLOCK_ZK_NAME_H
#define DLOCK_ZK_NAME_H

#include "lock/zookeeper/zk.h"

/* Before the number of an attempt, in a node's name or data: whose it is. */
enum { DLOCK_ZK_TAG_BYTES_MAX = DLOCK_OWNER_BYTES_MAX + 24 };

/* The root's path, and the lock's name as one piece: "/dlock/stock:42". */
void dlock_zk_path(const struct dlock_session *session, const char *name,
                   char path[DLOCK_ZK_PATH_BYTES_MAX + 1]);

/* "OWNER:ATTEMPT:" */
void dlock_zk_tag(const struct dlock_session *session, uint64_t attempt,
                  char tag[DLOCK_ZK_TAG_BYTES_MAX + 1]);

/* The owner in "OWNER:ATTEMPT:..."; into holder or waiting. */
void dlock_zk_tag_owner(const char *tag, char owner[DLOCK_OWNER_BYTES_MAX + 1]);

/* One command about the lock of ATTEMPT. */
enum dlock_status dlock_zk_run(struct dlock_session *session,
                               const struct dlock_attempt *attempt,
                               struct dlock_zk_command *command,
                               struct dlock_zk_reply *reply,
                               struct dlock_error *error);

/* The same where the root has to be: the first time, it makes the root as well,
 * which is there for ever. */
enum dlock_status dlock_zk_run_rooted(struct dlock_session *session,
                                      const struct dlock_attempt *attempt,
                                      struct dlock_zk_command *command,
                                      struct dlock_zk_reply *reply,
                                      struct dlock_error *error);

/* One about the node that has the lock's name: the lock itself, or its
 * directory. In session IN of ZooKeeper; 0 = in any. */
enum dlock_status dlock_zk_ask(struct dlock_session *session,
                               const struct dlock_attempt *attempt,
                               enum dlock_zk_verb verb, const char *step,
                               uint64_t in, struct dlock_zk_reply *reply,
                               struct dlock_error *error);

#endif
