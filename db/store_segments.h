/*
 * Segmented stock: a product whose units are split over many cells, so that its
 * orders need not all wait for one lock. Part of store.h, which includes this
 * file.
 *
 * The cells in the database are the truth. Whoever keeps what they hold
 * elsewhere, to choose a cell by, keeps a guess: the store decides again.
 *
 * Selling
 * -------
 * An order asks for one segment, or for any. From one it takes all its units or
 * none: STORE_SHORT says that the segment has too few, and that the product has
 * enough, so ask for any. STORE_SOLD_OUT is only said of the whole product. An
 * order for any takes from as many cells as it needs, in ascending order, all
 * or nothing. What was taken from where is stored with it, and a cancel returns
 * it there; order->from_segment says the cell, or any if there were several.
 *
 * Dealing out
 * -----------
 * A put with other segments, a restock and store_even_out() deal the units out
 * anew, evenly, to the cells; of fewer units than cells each gets one, and the
 * cells without are retired until there are more. store_rebalance() moves some
 * by hand. All of these are one transaction, may come at any moment of a sale,
 * and raise the product's epoch if anything moved: what somebody remembers of an
 * older epoch is out of date. Orders need not stop for it, but for the naive
 * ones: those write back what they have read, and what was moved meanwhile is
 * lost or doubled, unless their locks are held.
 *
 * A retired cell has no stock. What a cancel returns to one is moved on, in the
 * same transaction, to the poorest of the others, so that nothing is stranded.
 *
 * On account
 * ----------
 * For each cell, retired or not: initial = stock + sold. Units enter at cell 0,
 * and each move between two cells is on record: the audit adds up both.
 */
#ifndef STORE_SEGMENTS_H
#define STORE_SEGMENTS_H

#include "db/store.h"

/* A cell that orders may be placed in. */
struct store_cell {
    int64_t segment;
    int64_t initial; /* in stock, or sold from it */
    int64_t stock;
};

/* All of a product's, ascending, as they were at one moment. */
struct store_cells {
    int64_t epoch;
    int64_t segments; /* that it should have; fewer units than that: fewer */
    int64_t number;   /* of the last order placed by then, of any product: one
                         with a higher number is not counted yet */
    size_t n;         /* 1 or more */
    struct store_cell cells[STORE_SEGMENTS_MAX];
};

/* A product with more than one segment. */
struct store_split {
    int64_t product_id;
    int64_t epoch;
};

/* What one order took from one cell. */
struct store_part {
    int64_t segment;
    int64_t units;
};

struct store_parts {
    size_t n;                                    /* 1 or more */
    struct store_part parts[STORE_SEGMENTS_MAX]; /* ascending */
};

/* Units on their way from cell to cell: what was asked above, what became of it
 * below. */
struct store_transfer {
    int64_t product_id;
    int64_t from;
    int64_t to;
    int64_t units; /* 1 .. STORE_NUMBER_MAX; fewer if there are fewer */
    char id[STORE_KEY_BYTES_MAX + 1]; /* chosen by the caller; not "" */

    bool replayed; /* it was done before, and nothing has moved now */
    int64_t moved;
};

/*
 * Moves units between two cells of a product. The same id again moves nothing
 * and says what was moved then; STORE_KEY_REUSED if it was between others.
 * STORE_RANGE if there is no such cell, or none that is in use to move to.
 */
enum store_status store_rebalance(struct store *store,
                                  struct store_transfer *transfer,
                                  struct store_error *error);

/*
 * Deals a product's stock out evenly: for when one cell has run dry and others
 * have not. Needs no id: to do it twice is to do it once. *moved (NULL: not
 * wanted) says whether anything was uneven.
 */
enum store_status store_even_out(struct store *store, int64_t product_id,
                                 bool *moved, struct store_error *error);

/*
 * Begins a new epoch, higher than ABOVE as well, and says what the cells have at
 * its beginning. Nobody else is told the same epoch by this: who writes down
 * elsewhere what the cells have, under this number, is the only one to do so.
 * ABOVE is the highest number met there, 0 for none; STORE_RANGE if it is
 * STORE_NUMBER_MAX or more.
 */
enum store_status store_new_epoch(struct store *store, int64_t product_id,
                                  int64_t above, struct store_cells *cells,
                                  struct store_error *error);

/* Up to N products with more than one segment and id > after, ascending. */
enum store_status store_split_list(struct store_reader *reader, int64_t after,
                                   size_t n, struct store_split splits[],
                                   size_t *n_found, struct store_error *error);

/* All cells in use, and the epoch, of one moment. */
enum store_status store_cells_get(struct store_reader *reader,
                                  int64_t product_id, struct store_cells *cells,
                                  struct store_error *error);

/* The same, and the product: their numbers add up. */
enum store_status store_product_cells(struct store_reader *reader,
                                      int64_t product_id,
                                      struct store_product *product,
                                      struct store_cells *cells,
                                      struct store_error *error);

/*
 * Units in retired cells, of all products: none, unless there is a mistake.
 * Walks through all cells, which takes a moment where there are millions.
 */
enum store_status store_stranded(struct store_reader *reader, int64_t *units,
                                 struct store_error *error);

/* What an order took from where, and a cancel has returned or would return. */
enum store_status store_order_parts(struct store_reader *reader, const char *id,
                                    struct store_parts *parts,
                                    struct store_error *error);

#endif
