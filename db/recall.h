/*
 * What the committer has read and knows to be so still.
 *
 * Where many products sell, each order is a lot of its own, and most of what it
 * costs is to read again what was read a moment ago: the terms of the product,
 * the stock of its cell, the fence. Between two transactions of the stream
 * nobody has changed any of that, as a rule, and the database can tell: it counts
 * the changes of this connection, and notices those of others. So the rule is
 * one, and a hard one: if anything has changed in between, whatever it is, all is
 * forgotten. It is looked at inside the transaction, when nobody can change
 * anything any more.
 *
 * A sale cannot oversell by it: units are taken from the cell by an UPDATE that
 * says how much has to be there. All else - the terms, the fence, that there is
 * not enough - rests on that rule.
 *
 * The committer's thread only. Where a recall may be NULL nothing is known.
 */
#ifndef STORE_RECALL_H
#define STORE_RECALL_H

#include "db/sqlite.h"

/* A cell that is in use, with the terms of its product. */
struct recall_cell {
    int64_t product_id;
    int64_t segment;
    int64_t stock;
    int64_t price_cents;
    int64_t limit_per_user;
    int64_t opens_ms;
    int64_t ends_ms;
    int64_t segments;
};

struct recall;

/* NULL: no memory. */
struct recall *recall_new(void);

/* NULL is fine. */
void recall_free(struct recall *recall);

/*
 * Inside a transaction, before it reads: forgets all, unless nothing has changed
 * since the last recall_end().
 */
enum store_status recall_begin(struct recall *recall, struct sqlite *db,
                               struct store_error *error);

/*
 * In that transaction: what is kept is how the database will be once it is
 * committed. Without this call the next recall_begin() forgets all.
 */
void recall_end(struct recall *recall, struct sqlite *db);

/* The transaction is void. */
void recall_forget(struct recall *recall);

/* False: not known. */
bool recall_find_cell(const struct recall *recall, int64_t product_id,
                      int64_t segment, struct recall_cell *cell);

/* As it was read. */
void recall_keep_cell(struct recall *recall, const struct recall_cell *cell);

/* It was written. A cell that is not known stays so. */
void recall_set_stock(struct recall *recall, int64_t product_id,
                      int64_t segment, int64_t stock);

/* Whether this token of this owner is the one that was announced last; false also
 * if that is not known. The list that FENCE may begin is not followed. */
bool recall_is_announced(const struct recall *recall,
                         const struct store_fence *fence);

/* It is. */
void recall_keep_fence(struct recall *recall, const struct store_fence *fence);

#endif
