/*
 * Checks of what a caller hands in: DLOCK_OK, or DLOCK_MISUSE with a text that
 * says what is wrong. Wrong arguments are never undefined behaviour.
 */
#ifndef DLOCK_CHECK_H
#define DLOCK_CHECK_H

#include "lock/core/client.h"

enum dlock_status dlock_check_name(const char *name, struct dlock_error *error);

/* Whether it is a grant of OWNER, as far as can be seen. */
enum dlock_status dlock_check_grant(const struct dlock_grant *grant,
                                    const char *owner,
                                    struct dlock_error *error);
enum dlock_status dlock_check_terms(const struct dlock *client,
                                    const struct dlock_terms *terms,
                                    struct dlock_error *error);

/* A lease that is given outright, so 0 is none. */
enum dlock_status dlock_check_lease(unsigned lease_ms,
                                    struct dlock_error *error);
enum dlock_status dlock_check_options(const struct dlock_options *options,
                                      struct dlock_error *error);

#endif
