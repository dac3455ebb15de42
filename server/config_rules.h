/* What follows from several settings together. */
#ifndef CONFIG_RULES_H
#define CONFIG_RULES_H

#include "lock/dlock.h"
#include "server/config.h"

/* The first rule that CONFIG breaks, for a person; NULL if it breaks none. */
const char *config_rules_broken(const struct config *config);

/* Whether it talks to a Redis: to one at all, and not to another server only. */
bool config_rules_uses_redis(const struct dlock_strategy_info *lock);

/*
 * How long one command may take to the lock server: a quarter of the longest
 * wait, so that a server which hangs is found out within that wait.
 */
unsigned config_rules_command_timeout_ms(const struct config *config);

/* FLAG, "--desk" or "--desk=X", was the name of a setting in an earlier version:
 * what to say about it. NULL: it was not. */
const char *config_rules_renamed(const char *flag);

/* How many HTTP threads there are to be: as set, or one for two cores. */
int64_t config_rules_http_threads(const struct config *config);

#endif
