/*
 * Private to the wire: which scripts it has had loaded, and the names that the
 * server gave them. They stay valid over connections: a server that has
 * forgotten one says so.
 */
#ifndef DLOCK_SCRIPTS_H
#define DLOCK_SCRIPTS_H

#include "lock/command.h"

enum {
    DLOCK_SCRIPTS_MAX = 8, /* that one wire may come to use */
    DLOCK_SHA_BYTES = 40,
};

struct dlock_scripts {
    size_t n;
    struct {
        const struct dlock_script *script;
        char sha[DLOCK_SHA_BYTES + 1];
    } known[DLOCK_SCRIPTS_MAX];
};

/* The server's name for SCRIPT, or NULL if it was never asked. */
const char *dlock_scripts_sha(const struct dlock_scripts *scripts,
                              const struct dlock_script *script);

/* A full table is no harm: the script goes as text, as it would unlearnt. */
void dlock_scripts_learn(struct dlock_scripts *scripts,
                         const struct dlock_script *script, const char *sha);

#endif
