/*
 * Steps without a wire: the same seam that call.h is for Redis, for strategies
 * whose backend is something else (directories, SQL, ZooKeeper).
 *
 *     status = dlock_step_begin(session, "mkdir", name, error);
 *     if (status != DLOCK_OK)
 *         return status;
 *     ... do it ...
 *     return dlock_step_end(session, "mkdir", name, "done", status, error);
 */
#ifndef DLOCK_STEP_H
#define DLOCK_STEP_H

#include "lock/core/client.h"

/* DLOCK_OK, or DLOCK_UNREACHABLE: the hook keeps it back, do not do it. */
enum dlock_status dlock_step_begin(const struct dlock_session *session,
                                   const char *step, const char *name,
                                   struct dlock_error *error);

/*
 * Tells the hook the REPLY, a short text for a person, and gives STATUS back;
 * or DLOCK_UNKNOWN, if the hook throws the reply away.
 */
enum dlock_status dlock_step_end(const struct dlock_session *session,
                                 const char *step, const char *name,
                                 const char *reply, enum dlock_status status,
                                 struct dlock_error *error);

#endif
