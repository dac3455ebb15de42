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
};

enum store_status place_run(struct sqlite *db, void *place,
                            struct store_error *error);

/* Nothing was kept: gives every order the batch's STATUS. */
void place_fail(const struct place *place, enum store_status status);

#endif
