/*
 * Waiting for a lock: tries, and what lies between them.
 */
#ifndef DLOCK_WAIT_H
#define DLOCK_WAIT_H

#include "lock/strategy.h"

/*
 * Tries until the lock is granted or DEADLINE_MS of lease time has passed; at
 * least once. Fills grant->deadline_ms, ->token and ->holds, and *granted_at_ms
 * with a time before the grant. DLOCK_BUSY is the answer if it was not free the
 * last time, DLOCK_LOST if it was granted too late for its lease; as from a
 * strategy, if there was none; DLOCK_TIMEOUT if the wait was ended meanwhile.
 */
enum dlock_status dlock_wait_acquire(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     uint64_t deadline_ms,
                                     struct dlock_grant *grant,
                                     uint64_t *granted_at_ms,
                                     struct dlock_error *error);

/*
 * Calls CALL, a strategy's release or extend, again and again while there is no
 * answer and attempt->limit_ms has not come: after DLOCK_UNKNOWN only where the
 * server knows copies.
 */
enum dlock_status
dlock_wait_insist(struct dlock_session *session,
                  const struct dlock_attempt *attempt,
                  enum dlock_status (*call)(struct dlock_session *session,
                                            const struct dlock_attempt *attempt,
                                            struct dlock_error *error),
                  struct dlock_error *error);

#endif
