/* Private to lock/dial/: the primary that sentinels name, for a dial to a url of the
 * kind sentinel:. */
#ifndef DLOCK_SENTINEL_H
#define DLOCK_SENTINEL_H

#include "lock/core/net.h"
#include "lock/dlock_url.h"

/* As dlock_dial(), to the primary. */
enum dlock_status dlock_sentinel_find(const struct dlock_address *address,
                                      uint64_t until_ms,
                                      struct dlock_link *link,
                                      struct dlock_error *error);

#endif
