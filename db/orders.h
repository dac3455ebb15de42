/*
 * The orders table: writing, finding and cancelling orders.
 *
 * All of these run inside the caller's transaction. A return value other than
 * STORE_OK says that the database could not be asked; what became of the
 * order itself stands in order->status.
 */
#ifndef STORE_ORDERS_H
#define STORE_ORDERS_H

#include "db/sqlite.h"

/* An order that is sold, on its way into the table: what it says is filled in,
 * but for its number and id. */
struct orders_row {
    struct store_order *order;
    int64_t segment;        /* the first it drew from */
    int64_t limit_per_user; /* what it was held against; 0 = none */
    int64_t secret;         /* filled in as well */
};

/* Are the numbers of what is asked in range, and is the key a text? */
bool orders_valid(const struct store_order *order);

/* Clears everything that the store fills in. */
void orders_reset(struct store_order *order);

/*
 * Looks the order's key up. *decided: it was used before, and order->status
 * says STORE_OK (replayed, the stored order is filled in) or, if it was
 * another request, STORE_KEY_REUSED. Never decided without a key.
 */
enum store_status orders_replay(struct sqlite *db, struct store_order *order,
                                bool *decided, struct store_error *error);

/* Inserts the orders, whose numbers rise in the order of the rows; what they
 * took from more segments than the first is the caller's to note. */
enum store_status orders_insert(struct sqlite *db, struct orders_row rows[],
                                size_t n, struct store_error *error);

/* STORE_NO_ORDER if the id is unknown, or half right. */
enum store_status orders_get(struct sqlite *db, const char *id,
                             struct store_order *order,
                             struct store_error *error);

enum store_status orders_by_key(struct sqlite *db, const char *key,
                                struct store_order *order,
                                struct store_error *error);

enum store_status orders_parts(struct sqlite *db, const char *id,
                               struct store_parts *parts,
                               struct store_error *error);

/* The committer's work for store_cancel. */
struct orders_cancel {
    const char *id;
    struct store_order order; /* out */
};

enum store_status orders_cancel_run(struct sqlite *db, void *cancel,
                                    struct store_error *error);

#endif
