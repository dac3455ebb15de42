/*
 * Silent nodes in a table without a mutex: a child of fork(2) must not find one locked. An
 * entry is the hash of a node's address; its lowest bit says that a session asks the node at
 * this moment. 0 is no entry. Of more nodes than the table holds, those that were silent
 * before are asked by everybody.
 */
#include "lock/redis/silence.h"

#include <string.h>

enum { ASKED = 1 };

/* Never 0, and with room for ASKED. */
static uint64_t entry_of(const struct dlock_address *address)
{
    uint64_t hash =
        dlock_hash(DLOCK_HASH_BEGIN, address->host, strlen(address->host) + 1);

    hash = dlock_hash(hash, address->port, strlen(address->port));
    return (hash | 2) & ~(uint64_t)ASKED;
}

/* The place of ENTRY, or with 0 a free one; NULL: there is none, or no table. */
static atomic_uint_fast64_t *find(atomic_uint_fast64_t *silent, uint64_t entry)
{
    for (size_t i = 0; silent != NULL && i < DLOCK_SILENT_MAX; i++)
        if ((atomic_load(&silent[i]) & ~(uint64_t)ASKED) == entry)
            return &silent[i];
    return NULL;
}

bool dlock_silence_may_ask(const struct dlock_wire_config *config, bool *alone)
{
    uint_fast64_t entry = entry_of(&config->address);
    atomic_uint_fast64_t *place = find(config->silent, entry);

    *alone = place != NULL &&
             atomic_compare_exchange_strong(place, &entry, entry | ASKED);
    return place == NULL || *alone;
}

/* An answer ends the silence whoever got it, because the node may have gone on before the
 * session that asks it has heard so. */
void dlock_silence_end(const struct dlock_wire_config *config, bool alone,
                       bool answered)
{
    uint64_t entry = entry_of(&config->address);
    atomic_uint_fast64_t *place = find(config->silent, entry);

    if (place != NULL && (answered || alone))
        atomic_store(place, answered ? 0 : entry);
    if (place != NULL || answered || config->silent == NULL)
        return;
    place = find(config->silent, 0);
    /* In a full table one makes room: it may have left, and is asked by nobody. */
    if (place == NULL)
        place = &config->silent[(entry >> 2) % DLOCK_SILENT_MAX];
    atomic_store(place, entry);
}

bool dlock_silence_is_silent(const struct dlock_wire_config *config,
                             const struct dlock_address *address)
{
    return find(config->silent, entry_of(address)) != NULL;
}
