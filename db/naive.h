/*
 * The textbook's way to sell: read, think, write.
 *
 * Right only if nobody else does the same in between, that is, under a lock
 * that works. It is here for the laboratory.
 */
#ifndef STORE_NAIVE_H
#define STORE_NAIVE_H

#include "db/sqlite.h"

/* Is it an order that the naive way can place? From one cell, that is. */
bool naive_valid(const struct store_order *order);

/* On a reader's connection. */
enum store_status naive_select(struct sqlite *db, struct store_order *order,
                               int64_t *stock, struct store_error *error);

/* The committer's work for store_stamp (fence only) and store_naive_*. */
struct naive {
    const struct store_fence *fence; /* may be NULL, but not for a stamp */
    int64_t product_id;              /* update */
    int64_t segment;                 /* update */
    int64_t stock;                   /* update */
    struct store_order order;        /* insert: in and out */
};

enum store_status naive_stamp_run(struct sqlite *db, void *naive,
                                  struct store_error *error);

enum store_status naive_update_run(struct sqlite *db, void *naive,
                                   struct store_error *error);

enum store_status naive_insert_run(struct sqlite *db, void *naive,
                                   struct store_error *error);

#endif
