/*
 * Which idempotency keys of a batch are new.
 *
 * Whether a key was used before is asked for each order, which costs nothing
 * where the database is in this process. Where each question is a round trip, one
 * question for all keys of a batch goes ahead; and only an order whose key was
 * found is looked up by itself. Two orders of the batch may have the same key:
 * only the first of them is new.
 *
 * For the committer's thread only.
 */
#ifndef STORE_KEYS_H
#define STORE_KEYS_H

#include "db/sql.h"
#include "db/store_batch.h"

/* All zero: none is known to be new. */
struct keys {
    struct known_key *fresh; /* a table */
    struct known_key *all;   /* its entries */
};

/* In a transaction: asks for the keys of all orders in the lots, which have to
 * stay where they are until keys_forget(). */
enum store_status keys_ask(struct keys *keys, struct sql *db,
                           const struct store_lot lots[], size_t n);

/* Whether no order has this key; says so once, since the first one of the batch has
 * it from then on. */
bool keys_take_new(struct keys *keys, const char *key);

void keys_forget(struct keys *keys);

#endif
