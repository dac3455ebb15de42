/*
 * Private to lock/: freeing a lock on one Redis server by force, and how its
 * holder comes to know.
 */
#ifndef DLOCK_FORCE_H
#define DLOCK_FORCE_H

#include "lock/redis/node.h"

/*
 * The slot `force` of strategies whose lock is the key of its name: for those
 * with a struct dlock_node_kind, and for others.
 */
enum dlock_status dlock_force_node(struct dlock_session *session,
                                   const struct dlock_attempt *attempt,
                                   struct dlock_error *error);
enum dlock_status dlock_force_key(struct dlock_session *session,
                                  const struct dlock_attempt *attempt,
                                  struct dlock_error *error);

/* The holder that was seen; all zero: nobody has looked yet. */
struct dlock_force_seen {
    char owner[DLOCK_OWNER_BYTES_MAX + 1];
    uint64_t attempt; /* the owner's last command */
};

/* The same as a command, for callers that send it themselves. Reply 1: freed; 0:
 * nobody held it; -1: _look takes the holder from it; the next command frees the
 * lock if SEEN is that holder. SEEN has to outlive COMMAND. */
void dlock_force_fill(const struct dlock_session *session,
                      const struct dlock_node_kind *kind,
                      const struct dlock_attempt *attempt,
                      const struct dlock_force_seen *seen,
                      struct dlock_command *command);
bool dlock_force_look(const struct dlock_reply *reply,
                      struct dlock_force_seen *seen);

/*
 * For a renewal that found the lock gone, the question whether it was taken
 * from OWNER by force, and what the reply says: 0 = no, or the last attempt of
 * OWNER's of whose holds that is true. OWNER has to outlive COMMAND.
 */
void dlock_force_fill_ask(const char *name, const char *owner,
                          struct dlock_command *command);
uint64_t dlock_force_read(const struct dlock_reply *reply);

/* A strategy's `forced`: asks one server. No answer is 0. */
dlock_forced_slot dlock_force_forced;

#endif
