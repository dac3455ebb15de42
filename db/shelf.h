/*
 * What is left of a product while a batch of orders is decided.
 *
 * The transaction has the write lock from its first statement on, so what it
 * reads nobody else can change before it ends: the product's terms and the
 * stock of the cells that are asked for are read once, or remembered from the
 * last transaction (recall.h), orders take from that,
 * and the cells are told when the next product or segment comes, or the batch
 * ends. That UPDATE carries the condition all the same: it takes the units if
 * there are that many, or the whole batch is undone.
 */
#ifndef STORE_SHELF_H
#define STORE_SHELF_H

#include "db/recall.h"
#include "db/sqlite.h"

struct shelf_cell {
    int64_t segment;
    int64_t left;  /* after the orders before */
    int64_t taken; /* by them, and not yet from the stock */
};

struct shelf {
    struct recall *recall;
    struct store_product product; /* its terms; id 0 = none yet */
    int64_t segment;              /* one, or any */
    int64_t left;                 /* in the cells */
    int64_t elsewhere; /* in the product's others; -1 = not looked yet */
    size_t cells_n;
    struct shelf_cell cells[STORE_SEGMENTS_MAX];
};

/* RECALL may be NULL. */
void shelf_init(struct shelf *shelf, struct recall *recall);

/* Turns to a product's segment. *found: there is such a product. */
enum store_status shelf_turn(struct sqlite *db, struct shelf *shelf,
                             int64_t product_id, int64_t segment, bool *found,
                             struct store_error *error);

/* How to refuse an order of QUANTITY, which is more than what is left: SHORT,
 * or SOLD_OUT. *answer is that. */
enum store_status shelf_refusal(struct sqlite *db, struct shelf *shelf,
                                int64_t quantity, enum store_status *answer,
                                struct store_error *error);

/* Takes QUANTITY, which must be left, from the cells in ascending order. */
void shelf_take(struct shelf *shelf, int64_t quantity,
                struct store_parts *parts);

/* Tells the cells what was taken. */
enum store_status shelf_flush(struct sqlite *db, struct shelf *shelf,
                              struct store_error *error);

#endif
