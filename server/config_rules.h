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

#endif
