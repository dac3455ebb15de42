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

enum config_lock_per { LOCK_PER_PRODUCT, LOCK_PER_USER };
enum config_deduct { DEDUCT_GUARDED, DEDUCT_NAIVE };
enum config_orders { ORDERS_BATCHED, ORDERS_ONE_BY_ONE };

struct config {
    char listen[128];     /* HOST:PORT as given */
    char inventory[1024]; /* URLs; "" = it has a database of its own */
    char db[1024];        /* sqlite:PATH, mysql:...; no order service has
                                 this .. no_seed, but for lock_wait_ms */
    char redis[1024];     /* spawn, or unix:PATH and redis://HOST:PORT */
    char lock[256];       /* a strategy of libdlock, or a FILE.lock */
    char lock_url[1024];  /* for locks that are not, or not only, in Redis */
    enum config_lock_per lock_per; /* what it is named after */
    int64_t lock_wait_ms;          /* longest wait for a lock */
    int64_t lock_lease_ms;         /* 0 = renewed by the watchdog */
    int64_t lock_max_hold_ms;      /* renewal ends then */
    enum config_deduct deduct;
    enum config_orders orders;
    int64_t workers;                /* orders at a time, one by one */
    int64_t think_ms;               /* business time between read and write */
    bool shared;                    /* others write to the same database */
    bool no_seed;                   /* leave an empty database empty */
    int64_t queue_max;              /* orders taken in and not answered */
    int64_t client_inflight_max;    /* orders in flight for one address */
    int64_t connections_max;        /* open HTTP connections, as many as fit */
    int64_t client_connections_max; /* those of one address; 0 = half of all */
    int64_t http_threads;
    int64_t request_deadline_ms; /* whole request, first byte to reply */
    char admin_token_file[1024]; /* "" = admin calls from loopback only */
    char trusted_proxy[1024];    /* see server/base/address.h */
    int64_t lab;                 /* port of the laboratory's page; 0 = none */
    bool lab_public;             /* on all addresses, for anybody */
    char lab_timeline[1024];     /* a file; "" = none */
    char lab_failpoint[1024];    /* see failpoint.h; "" = none */
    int64_t lab_lease_ms;        /* of the watchdog; 0 = as without a lab */
    enum log_level log_level;
    char config_file[1024];

    char admin_token[128];   /* read from its file; "" = there is none */
    int64_t descriptors;     /* that it needs, with all connections */
    int64_t descriptors_max; /* that it may have */
    bool check_config;       /* this and the next are flags, and no settings */
    bool help;               /* all else is unset then */
};

/*
 * Fills *config from ARGV (after the subcommand). 0, or -1 with a message in
 * ERROR that says where the mistake is, what was said there and what is wrong.
 * A variable STOCKADE_... that is no setting is logged, because others set such, too.
 */
int config_load(int argc, char *argv[], struct config *config, char *error,
                unsigned error_size);

/* The help text for the table, to standard output. */
void config_help(void);

/* The names of the settings in which A and B differ, with spaces between. */
const char *config_differences(const struct config *a, const struct config *b,
                               char *names, unsigned size);

/* Rules for several settings together are in config_rules.c. The first rule
 * that CONFIG breaks, for a person, and in *NAME the setting that breaks it; NULL if
 * it breaks none. */
const char *config_rules_broken(const struct config *config, const char **name);

/* Opens the file PATH to be read. A FIFO is waited for until somebody writes, five seconds at
 * most, because SIGHUP reads it again. NULL: *WHY says why not. */
FILE *config_rules_open(const char *path, const char **why);

/* Reads the admin token from its file, if there is one: one line, and nothing
 * behind it. 0, or -1 and what is wrong in ERROR. */
int config_rules_read_token(struct config *config, char *error,
                            unsigned error_size);

/* Whether it talks to a Redis: to one at all, and not to another server only. */
bool config_rules_uses_redis(const struct dlock_strategy_info *lock);

/*
 * How long one command may take to the lock server: a quarter of the longest
 * wait, so that a server which hangs is found out within that wait.
 */
unsigned config_rules_command_timeout_ms(const struct config *config);

/* "HOST:PORT" or "[::1]:PORT", port 0 = any, taken apart. False: it is neither. */
bool config_rules_listen(const char *text, char host[128], char port[6]);

/*
 * Decides what is the machine's matter: the HTTP threads, if they are left to it, and
 * the descriptors, of which the process gets as many as it may have. If these are too
 * few, connections_max becomes so much smaller, even less than none.
 */
void config_rules_fit(struct config *config);

#endif
