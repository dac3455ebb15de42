/*
 * Moving units from one cell of a product to another.
 *
 * Both cells' accounts change with their stock, so that each of them balances
 * before and after; and a row says what was moved, so that an audit can follow
 * it. All in the caller's transaction: there is no moment in which the units
 * are in neither cell, or in both.
 */
#ifndef STORE_TRANSFER_H
#define STORE_TRANSFER_H

#include "db/sqlite.h"

struct transfer_move {
    int64_t product_id;
    int64_t from;
    int64_t to;
    int64_t units;
    const char *key; /* taken once in all; "" = nobody will ask again */
};

/* Both cells and so many units have to be there. */
enum store_status transfer_move(struct sqlite *db,
                                const struct transfer_move *move,
                                struct store_error *error);

/* The committer's work for store_rebalance: a struct store_transfer. */
enum store_status transfer_run(struct sqlite *db, void *transfer,
                               struct store_error *error);

#endif
