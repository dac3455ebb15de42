/*
 * The idempotency keys of a batch that are new. See place.h.
 *
 * Where the database is in this process its filter says so of most (filter.h). Where
 * each question is a round trip, one question for all keys of a batch goes ahead; and
 * only an order whose key was found is looked up by itself. Two orders of the batch
 * may have the same key: only the first of them is new.
 *
 * For the committer's thread only.
 */
#include "db/ledger/place.h"

#include <stdlib.h>
#include <string.h>

/* A table that cannot grow is no reason to end the program. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define ASK_MAX 64
#define FEW     8

struct known_key {
    const char *key; /* the order's */
    UT_hash_handle hh;
};

void keys_forget(struct keys *keys)
{
    HASH_CLEAR(hh, keys->fresh);
    free(keys->all);
    keys->all = NULL;
}

bool keys_take_new(struct keys *keys, const char *key)
{
    struct filter_span span = FILTER_BEGIN;
    struct known_key *known;

    if (keys->filter.next > 0)
        return key[0] != '\0' &&
               !filter_next(&keys->filter, filter_key(&keys->filter, key),
                            &span);
    HASH_FIND_STR(keys->fresh, key, known);
    if (known)
        HASH_DEL(keys->fresh, known);
    return known != NULL;
}

/* Takes those out that are used: N is ASK_MAX at most. */
static enum store_status ask(struct keys *keys, struct sql *db,
                             const struct known_key some[], size_t n)
{
    static const char few[] =
        "SELECT `key` FROM orders WHERE `key` IN (" SQL_MARKS_8 ")";
    static const char many[] =
        "SELECT `key` FROM orders WHERE `key` IN (" SQL_MARKS_64 ")";
    size_t marks = n <= FEW ? FEW : ASK_MAX;
    struct sql_query *query = sql_query(db, n <= FEW ? few : many);
    char used[STORE_KEY_BYTES_MAX + 1];

    for (size_t i = 0; i < marks; i++)
        sql_bind_text(query, (int)i + 1, i < n ? some[i].key : "");
    while (sql_next(query)) {
        sql_text(query, 0, used, sizeof(used));
        (void)keys_take_new(keys, used);
    }
    return sql_end(query);
}

/* Each once; without memory, or with a key that is none, it is not known. */
static size_t collect(struct keys *keys, const struct store_lot *lot, size_t n)
{
    struct known_key *known;

    for (size_t i = 0; i < lot->n; i++) {
        const char *key = lot->orders[i]->key;

        if (key[0] == '\0' || !memchr(key, '\0', STORE_KEY_BYTES_MAX + 1))
            continue;
        HASH_FIND_STR(keys->fresh, key, known);
        if (known)
            continue;
        known = &keys->all[n];
        known->key = key;
        HASH_ADD_KEYPTR(hh, keys->fresh, key, strlen(key), known);
        n += known->hh.tbl != NULL;
    }
    return n;
}

enum store_status keys_ask(struct keys *keys, struct sql *db,
                           const struct store_lot lots[], size_t n)
{
    enum store_status status = STORE_OK;
    size_t orders = 0, found = 0, some;

    keys_forget(keys);
    for (size_t i = 0; i < n; i++)
        orders += lots[i].n;
    keys->all = calloc(orders + 1, sizeof(*keys->all));
    if (!keys->all)
        return STORE_OK;
    for (size_t i = 0; i < n; i++)
        found = collect(keys, &lots[i], found);
    for (size_t i = 0; i < found && status == STORE_OK; i += some) {
        some = found - i < ASK_MAX ? found - i : ASK_MAX;
        status = ask(keys, db, keys->all + i, some);
    }
    if (status != STORE_OK)
        keys_forget(keys);
    return status;
}
