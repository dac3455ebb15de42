/*
 * The settings of `stockade serve`: one table, settings.txt, gives each its name, its
 * default, its range and its help.
 *
 * A value comes from the first that has one: the flag, the environment
 * (STOCKADE_LOCK_WAIT_MS), the file (--config FILE), the default.
 */
#ifndef CONFIG_H
#define CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "lock/dlock.h"
#include "server/base/log.h"

#define CONFIG_SESSIONS_MAX 96 /* of the lock client, to sell in batches */
/* Requests that one inventory service may have at a time: so many connections. A
 * service that hangs takes no more than these with it. */
#define CONFIG_FLYING_MAX 256

enum config_lock_per { LOCK_PER_PRODUCT, LOCK_PER_USER };
enum config_deduct { DEDUCT_GUARDED, DEDUCT_NAIVE };
enum config_orders { ORDERS_BATCHED, ORDERS_ONE_BY_ONE };

/* A row of settings.txt as a field. */
#define CONFIG_TEXT(field)   char field[1024];
#define CONFIG_URL(field)    char field[1024];
#define CONFIG_NUMBER(field) int64_t field;
#define CONFIG_CHOICE(field) unsigned field; /* an enum */
#define CONFIG_FLAG(field)   bool field;
#define CONFIG_ASK(field)    bool field;
#define CONFIG_GONE(field)

struct config {
#define ROW(kind, field, ...) CONFIG_##kind(field)
#include "server/base/settings.inc"
    char admin_token[128]; /* read from its file; "" = there is none */
};

/* Fills *config from ARGV (after the subcommand), with --help just that. 0, or -1 with
 * a message in ERROR that says where the mistake is, what was said there and what is
 * wrong. A variable STOCKADE_... that is no setting is logged, because others set such,
 * too. */
int config_load(int argc, char *argv[], struct config *config, char *error,
                unsigned error_size);

/* The help text for the table, to standard output. */
void config_help(void);

/* Rules for several settings together are in config_rules.c. The first rule
 * that CONFIG breaks, for a person, and in *NAME the setting that breaks it; NULL if
 * it breaks none. */
const char *config_rules_broken(const struct config *config, const char **name);

/* Opens the file PATH to be read. A FIFO is waited for until somebody has written all of it,
 * five seconds at most, because SIGHUP reads it again. NULL: *WHY says why not. */
FILE *config_rules_open(const char *path, const char **why);

/* Reads the admin token from its file, if there is one: one line, and nothing
 * behind it. 0, or -1 and what is wrong in ERROR. */
int config_rules_read_token(struct config *config, char *error,
                            unsigned error_size);

/* Whether it talks to a Redis: to one at all, and not to another server only. */
bool config_rules_uses_redis(const struct dlock_strategy_info *lock);

/* How long one command may take to the lock server: a quarter of the longest wait, so
 * that a server which hangs is found out within that wait. */
unsigned config_rules_command_timeout_ms(const struct config *config);

/* "HOST:PORT" or "[::1]:PORT", port 0 = any, taken apart. False: it is neither. */
bool config_rules_listen(const char *text, char host[128], char port[6]);

/* Decides what is the machine's matter: the HTTP threads, if they are left to it, and
 * the descriptors, of which the process gets as many as it may have. If these are too
 * few, connections_max becomes so much smaller, and the log says so. False, and why: no
 * connections would be left. */
bool config_rules_fit(struct config *config, char *why, unsigned why_size);

#endif
