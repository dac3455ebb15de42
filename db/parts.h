/*
 * What an order took from where.
 *
 * Most orders take all from one cell, which stands in their own row. What one
 * took from further cells has rows here.
 */
#ifndef STORE_PARTS_H
#define STORE_PARTS_H

#include "db/sqlite.h"

/* Notes all PARTS but the first, which is in the order's own row. */
enum store_status parts_insert(struct sqlite *db, int64_t number,
                               const struct store_parts *parts,
                               struct store_error *error);

/* All parts of an order of QUANTITY whose own row says SEGMENT. */
enum store_status parts_read(struct sqlite *db, int64_t number, int64_t segment,
                             int64_t quantity, struct store_parts *parts,
                             struct store_error *error);

#endif
