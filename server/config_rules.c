/*
 * What no row of the table can tell: the form of addresses, and which settings
 * do not go together. Each rule answers with what to do instead.
 */
#include "server/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lock/dlock.h"

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0 &&
           text[strlen(prefix)] != '\0';
}

/* "HOST:PORT" with digits for a port that there is; 0 means any. */
static bool is_address(const char *text)
{
    const char *colon = strrchr(text, ':');
    const char *port = colon ? colon + 1 : "";
    size_t digits = strspn(port, "0123456789");

    return colon && colon != text && digits > 0 && digits <= 5 &&
           port[digits] == '\0' && strtol(port, NULL, 10) <= 65535;
}

/* One server and more. Which locks take several, libdlock knows. */
static bool is_redis_list(const char *text)
{
    struct dlock_address one;

    while ((text = dlock_url_parse(text, &one)) && *text)
        text++; /* a comma */
    return text;
}

/* Where the lock lives, if it is not in Redis alone. */
static const char *lock_url_broken(const struct config *c, unsigned lock)
{
    if (lock & (DLOCK_CAP_SQL | DLOCK_CAP_RECORD))
        return has_prefix(c->lock_url, "mysql:")
                   ? NULL
                   : "this lock needs a database: --lock-url "
                     "mysql:unix:PATH?db=NAME&user=NAME or "
                     "mysql://USER:PASSWORD@HOST:PORT/DB";
    if (lock & DLOCK_CAP_ZK)
        return has_prefix(c->lock_url, "zk:")
                   ? NULL
                   : "this lock needs a ZooKeeper: --lock-url zk:HOST:PORT, "
                     "several with commas between";
    return *c->lock_url ? "--lock-url is for locks that are not in Redis: see "
                          "--lock"
                        : NULL;
}

const char *config_rules_broken(const struct config *c)
{
    const struct dlock_strategy_info *lock = dlock_strategy_find(c->lock);

    if (!has_prefix(c->db, "sqlite:"))
        return "--db takes sqlite:PATH";
    if (strcmp(c->redis, "spawn") != 0 && !is_redis_list(c->redis))
        return "--redis takes spawn, unix:PATH or "
               "redis://[USER:PASSWORD@]HOST:PORT[/DB]; several of the last "
               "two, with commas between, for multi and redlock";
    if (!is_address(c->listen))
        return "--listen takes HOST:PORT, such as 127.0.0.1:8080, with a port "
               "up to 65535";
    if (strspn(c->currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != 3)
        return "--currency takes three capital letters, such as EUR";
    if (c->deduct == DEDUCT_NAIVE && c->orders == ORDERS_BATCHED)
        return "--deduct naive goes with --orders one-by-one: a batch is one "
               "transaction already";
    if (c->shared && strcmp(c->redis, "spawn") == 0 &&
        config_rules_uses_redis(lock))
        return "--shared needs a Redis that all instances use: give --redis "
               "unix:PATH or redis://HOST:PORT, not spawn";
    return lock_url_broken(c, lock->capabilities);
}

const char *config_rules_renamed(const char *flag)
{
    if (strncmp(flag, "--desk", 6) == 0 && strchr("=", flag[6]))
        return "--desk is called --orders now: combine is batched, direct is "
               "one-by-one";
    return NULL;
}

int64_t config_rules_http_threads(const struct config *config)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    if (config->http_threads > 0)
        return config->http_threads;
    return cores > 3 ? cores / 2 : 1;
}

bool config_rules_uses_redis(const struct dlock_strategy_info *lock)
{
    unsigned elsewhere = DLOCK_CAP_SQL | DLOCK_CAP_ZK;

    return (lock->capabilities & DLOCK_CAP_REMOTE) &&
           !(lock->capabilities & elsewhere);
}

unsigned config_rules_command_timeout_ms(const struct config *config)
{
    int64_t ms = config->lock_wait_ms / 4;

    return ms < 100 ? 100 : ms > 1000 ? 1000 : (unsigned)ms;
}
