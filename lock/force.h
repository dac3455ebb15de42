/*
 * Private to lock/: freeing a lock on one Redis server by force, and how its
 * holder comes to know.
 */
#ifndef DLOCK_FORCE_H
#define DLOCK_FORCE_H

#include "lock/strategy.h"

/* The slot `force` of strategies whose lock is the key of its name. */
enum dlock_status dlock_force_key(struct dlock_session *session,
                                  const struct dlock_attempt *attempt,
                                  struct dlock_error *error);

/* The same as a command, for who sends it by himself: reply 1 = freed. */
void dlock_force_fill(const struct dlock_attempt *attempt,
                      struct dlock_command *command);

/* For a renewal that found the lock gone: was it taken from OWNER by force? */
bool dlock_force_told(struct dlock_wire *wire, const char *name,
                      const char *owner, uint64_t limit_ms);

#endif
