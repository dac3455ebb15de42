/*
 * The products that the committer has read, and knows to be so still.
 *
 * Most of what an order costs is to read again what was read a moment ago: the
 * terms of its product, the stock of its segments. Between two transactions of the
 * committer none of that changes, as a rule, and the database can tell: it counts the
 * changes of this connection, and notices those of others. So there is one hard rule: if
 * anything has changed in between, whatever it is, all is forgotten. This is looked at
 * inside the transaction, when other connections cannot change anything.
 *
 * Inside a transaction orders take units from what is known here. The database
 * is told once for each segment, at the end, by an UPDATE that says how much
 * has to be there. So a sale cannot oversell even if something here were wrong.
 * All else - the terms, that there is not enough - rests on the rule.
 *
 * For the committer's thread only.
 */
#ifndef STORE_ROWS_H
#define STORE_ROWS_H

#include "db/sql.h"

/* A table that cannot grow is no reason to end the program. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct rows_segment {
    int64_t segment;
    int64_t stock; /* after the orders before */
    int64_t taken; /* by them, and not yet from the database's stock */
    int64_t terms; /* under which they were decided */
};

/* A product's terms, and its segments in use. */
struct rows_product {
    int64_t id;
    int64_t price_cents;
    int64_t limit_per_user;
    int64_t pay_within_s;
    int64_t opens_ms;
    int64_t ends_ms;
    int64_t segments; /* that it should have */
    int64_t stock;    /* of all segments in use */
    size_t n;         /* of these; 1 or more */
    bool counted;     /* what its users have, if it has a limit */

    /* rows.c's own: something was taken from it, and from the next ones. */
    bool dirty;
    struct rows_product *next_dirty;
    UT_hash_handle hh;

    struct rows_segment at[];
};

/* All zero: nothing is known. */
struct rows {
    struct sql *db;  /* of this transaction */
    int64_t epoch;   /* db->epoch at the last rows_end(); 0 = none is valid */
    int64_t changes; /* db->changes as of then */
    size_t n;
    struct rows_product *products;
    struct rows_product *dirty; /* something was taken from these */
};

/*
 * Inside a transaction, before anything is read: forgets all, and says false, unless
 * nothing has changed since the last rows_end(), in any table.
 */
bool rows_begin(struct rows *rows, struct sql *db);

/* Tells the database what was taken from each segment. */
enum store_status rows_flush(struct rows *rows);

/*
 * Does so. From then on what is known is how the database will be once this
 * transaction is committed. Without this call the next rows_begin() forgets all.
 */
enum store_status rows_end(struct rows *rows);

/* The transaction is void, or the end has come: gives all memory back. */
void rows_forget(struct rows *rows);

/*
 * A product, read if it is not known. *product is NULL if there is none. It is
 * valid until the next call of this function for another product.
 */
enum store_status rows_product(struct rows *rows, int64_t id,
                               struct rows_product **product);

/* The units in a segment, 0 if it is not in use; -1 = not known. */
int64_t rows_stock(const struct rows *rows, int64_t product_id,
                   int64_t segment);

/* NULL: not in use. */
struct rows_segment *rows_segment(struct rows_product *product,
                                  int64_t segment);

/* The segment in use with most units, but for BUT, which may be NULL. */
struct rows_segment *rows_richest(struct rows_product *product,
                                  const struct rows_segment *but);

/* Takes QUANTITY, which has to be there, from a segment of PRODUCT. */
void rows_take(struct rows *rows, struct rows_product *product,
               struct rows_segment *segment, int64_t quantity);

#endif
