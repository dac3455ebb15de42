/*
 * Products and their stock cells.
 */
#ifndef STORE_PRODUCTS_H
#define STORE_PRODUCTS_H

#include "db/sqlite.h"

/* *found: there is one, and *product is filled in. */
enum store_status products_find(struct sqlite *db, int64_t id,
                                struct store_product *product, bool *found,
                                struct store_error *error);

/* products_find() for who needs it: STORE_NO_PRODUCT if there is none. */
enum store_status products_get(struct sqlite *db, int64_t id,
                               struct store_product *product,
                               struct store_error *error);

enum store_status products_list(struct sqlite *db, int64_t after, size_t n,
                                struct store_product products[],
                                size_t *n_found, struct store_error *error);

/* Is PRODUCT on sale at NOW_MS? STORE_OK, STORE_NOT_OPEN, STORE_ENDED. */
enum store_status products_window(const struct store_product *product,
                                  int64_t at_ms);

/* The committer's work for store_product_put. */
struct products_put {
    struct store_product product; /* in: what to store; out: what is stored */
    bool created;                 /* out */
};

enum store_status products_put_run(struct sqlite *db, void *put,
                                   struct store_error *error);

/* The committer's work for store_restock. */
struct products_restock {
    int64_t product_id;
    int64_t quantity;
    const char *key;
    struct store_product product; /* out */
};

enum store_status products_restock_run(struct sqlite *db, void *restock,
                                       struct store_error *error);

#endif
