/*
 * How many units each user has bought of a product that has a limit.
 *
 * The limit could be checked by adding up the user's orders, but then two
 * clicks at once both find nothing and both buy. A row per user and product is
 * where they meet: the second one's condition sees the first one's units.
 */
#ifndef STORE_PURCHASES_H
#define STORE_PURCHASES_H

#include "db/sqlite.h"

/* Adds the order's units unless that goes over LIMIT; *taken says if it did. */
enum store_status purchases_take(struct sqlite *db,
                                 const struct store_order *order, int64_t limit,
                                 bool *taken, struct store_error *error);

/* Takes a cancelled order's units off again, if the product has a limit. */
enum store_status purchases_give_back(struct sqlite *db,
                                      const struct store_order *order,
                                      struct store_error *error);

enum store_status purchases_read(struct sqlite *db, int64_t product_id,
                                 int64_t user_id, int64_t *units,
                                 struct store_error *error);

/* Counts a product's orders anew: it has got a limit just now. */
enum store_status purchases_backfill(struct sqlite *db, int64_t product_id,
                                     struct store_error *error);

#endif
