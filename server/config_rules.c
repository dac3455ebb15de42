/*
 * What no row of the table can tell: the form of addresses, and which settings
 * do not go together. Each rule answers with what to do instead.
 */
#include "server/config_rules.h"

#include <string.h>

#include "lock/dlock.h"

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0 &&
           text[strlen(prefix)] != '\0';
}

const char *config_rules_broken(const struct config *c)
{
    const struct dlock_strategy_info *lock = dlock_strategy_find(c->lock);

    if (!has_prefix(c->db, "sqlite:"))
        return "--db takes sqlite:PATH";
    if (strcmp(c->redis, "spawn") != 0 && !has_prefix(c->redis, "unix:") &&
        !has_prefix(c->redis, "redis://"))
        return "--redis takes spawn, unix:PATH or redis://HOST:PORT";
    if (!strrchr(c->listen, ':'))
        return "--listen takes HOST:PORT, such as 127.0.0.1:8080";
    if (c->deduct == DEDUCT_NAIVE && c->desk == DESK_COMBINE)
        return "--deduct naive goes with --desk direct: a batch is one "
               "transaction already";
    if (c->shared && strcmp(c->redis, "spawn") == 0 &&
        (lock->capabilities & DLOCK_CAP_REMOTE))
        return "--shared needs a Redis that all instances use: give --redis "
               "unix:PATH or redis://HOST:PORT, not spawn";
    return NULL;
}
