/*
 * Guarded placing: the right way to sell.
 *
 * Orders come in lots, each under locks of its own. What several lots of one
 * transaction have in common is done for all of them at once: rows are written
 * together, whosever they are.
 */
#ifndef STORE_PLACE_H
#define STORE_PLACE_H

#include "db/orders.h"
#include "db/recall.h"
#include "db/shelf.h"

#define PLACE_ROWS_MAX 64

/* A transaction in which orders are placed. place.c's own. */
struct placing {
    struct sqlite *db;
    struct recall *recall;
    struct shelf shelf;
    int64_t now_ms; /* of the lot, read inside the transaction */
    const struct store_fence *fence; /* of the lot; NULL: none, or stamped */
    uint64_t token;                  /* of the lot */
    size_t rows_n;
    struct orders_row rows[PLACE_ROWS_MAX]; /* to be written */
};

/* RECALL may be NULL. */
void placing_begin(struct placing *placing, struct sqlite *db,
                   struct recall *recall);

/*
 * Decides N orders, one after the other. STORE_STALE_FENCE: none of them is
 * placed, which does not hurt other lots. Any other failure is the transaction's
 * end.
 */
enum store_status placing_lot(struct placing *placing,
                              struct store_order *const orders[], size_t n,
                              const struct store_fence *fence,
                              struct store_error *error);

/* Has to follow: writes what still waits. Only then do all have numbers. */
enum store_status placing_end(struct placing *placing,
                              struct store_error *error);

/* The committer's work for store_place. */
struct place {
    struct store_order *const *orders;
    size_t n;
    const struct store_fence *fence; /* may be NULL */
};

enum store_status place_run(struct sqlite *db, void *place,
                            struct store_error *error);

/* Nothing was kept: gives every order STATUS. */
void place_fail(struct store_order *const orders[], size_t n,
                enum store_status status);

#endif
