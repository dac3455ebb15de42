/*
 * Scripts by their server's names: a short list, looked through.
 */
#include "lock/scripts.h"

#include <string.h>

const char *dlock_scripts_sha(const struct dlock_scripts *scripts,
                              const struct dlock_script *script)
{
    for (size_t i = 0; i < scripts->n; i++)
        if (scripts->known[i].script == script)
            return scripts->known[i].sha;
    return NULL;
}

void dlock_scripts_learn(struct dlock_scripts *scripts,
                         const struct dlock_script *script, const char *sha)
{
    if (scripts->n == DLOCK_SCRIPTS_MAX || strlen(sha) != DLOCK_SHA_BYTES)
        return;
    scripts->known[scripts->n].script = script;
    memcpy(scripts->known[scripts->n++].sha, sha, DLOCK_SHA_BYTES + 1);
}
