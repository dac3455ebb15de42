/*
 * Guarded placing: the right way to sell.
 */
#ifndef STORE_PLACE_H
#define STORE_PLACE_H

#include "db/sqlite.h"

/* The committer's work for store_place. */
struct place {
    struct store_order *const *orders;
    size_t n;
    const struct store_fence *fence; /* may be NULL */

    /* While it runs: */
    int64_t now_ms;               /* read inside the transaction */
    struct store_product product; /* of the order before; id 0 = none yet */
    int64_t left;                 /* of it, after the orders before */
    int64_t taken;                /* by them, and not yet from the stock */
};

enum store_status place_run(struct sqlite *db, void *place,
                            struct store_error *error);

/* Nothing was kept: gives every order the batch's STATUS. */
void place_fail(const struct place *place, enum store_status status);

#endif
