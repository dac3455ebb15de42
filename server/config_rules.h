/* Whether the settings go together. */
#ifndef CONFIG_RULES_H
#define CONFIG_RULES_H

#include "server/config.h"

/* The first rule that CONFIG breaks, for a person; NULL if it breaks none. */
const char *config_rules_broken(const struct config *config);

#endif
