/*
 * The cells that a product's stock is split over.
 *
 * All of these run inside the caller's transaction.
 */
#ifndef STORE_CELLS_H
#define STORE_CELLS_H

#include "db/sqlite.h"

/* Sees to it that the rows of the first SEGMENTS cells are there, empty. */
enum store_status cells_make(struct sqlite *db, int64_t product_id,
                             int64_t segments, struct store_error *error);

/* New units for the product: they enter at cell 0, and have to be dealt out. */
enum store_status cells_add(struct sqlite *db, int64_t product_id,
                            int64_t units, struct store_error *error);

/*
 * Deals all units of the product out evenly to its first SEGMENTS cells, or to
 * fewer if there are fewer units, and retires the others. A new epoch begins if
 * that changed anything.
 */
enum store_status cells_deal(struct sqlite *db, int64_t product_id,
                             int64_t segments, struct store_error *error);

/*
 * Units that were sold go back to the cell they came from; and on to the
 * poorest one in use if that is retired by now.
 */
enum store_status cells_give_back(struct sqlite *db, int64_t product_id,
                                  const struct store_part *part,
                                  struct store_error *error);

/* What was remembered of the cells is out of date. The epoch gets higher than
 * ABOVE as well. */
enum store_status cells_raise_epoch(struct sqlite *db, int64_t product_id,
                                    int64_t above, struct store_error *error);

/* The cells in use. STORE_NO_PRODUCT if there is no such product. */
enum store_status cells_get(struct sqlite *db, int64_t product_id,
                            struct store_cells *cells,
                            struct store_error *error);

/* Products with more than one segment. */
enum store_status cells_split_list(struct sqlite *db, int64_t after, size_t n,
                                   struct store_split splits[], size_t *n_found,
                                   struct store_error *error);

/* The product itself as well, of the same moment. */
enum store_status cells_get_all(struct sqlite *db, int64_t product_id,
                                struct store_product *product,
                                struct store_cells *cells,
                                struct store_error *error);

/* Units in retired cells. */
enum store_status cells_stranded(struct sqlite *db, int64_t *units,
                                 struct store_error *error);

/* The committer's work for store_even_out. */
struct cells_even_out {
    int64_t product_id;
    bool moved;
};

enum store_status cells_even_out_run(struct sqlite *db, void *even_out,
                                     struct store_error *error);

/* The committer's work for store_new_epoch. */
struct cells_new_epoch {
    int64_t product_id;
    int64_t above;
    struct store_cells *cells;
};

enum store_status cells_new_epoch_run(struct sqlite *db, void *new_epoch,
                                      struct store_error *error);

#endif
