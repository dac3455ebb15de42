/* What follows from several settings together. */
#ifndef CONFIG_RULES_H
#define CONFIG_RULES_H

#include "server/config.h"

/* The first rule that CONFIG breaks, for a person; NULL if it breaks none. */
const char *config_rules_broken(const struct config *config);

/*
 * How long one command may take to the lock server: a quarter of the longest
 * wait, so that a server which hangs is found out within that wait.
 */
unsigned config_rules_command_timeout_ms(const struct config *config);

#endif
