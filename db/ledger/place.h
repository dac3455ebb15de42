/*
 * Guarded placing: the right way to sell.
 *
 * Orders come in lots, each under a lock of its own. What several lots of one
 * transaction have in common is done for all of them at once: rows are written
 * together, whosever they are, and a segment's stock is written once.
 *
 * For the committer's thread only.
 */
#ifndef STORE_PLACE_H
#define STORE_PLACE_H

#include "db/ledger/filter.h"
#include "db/soldout.h"
#include "db/store_async.h"

#define PLACE_ROWS_MAX 64

/* The last order that a transaction has written: if it is in the database, all of the
 * transaction is. */
struct place_proof {
    int64_t number; /* 0 = none */
    int64_t secret;
};

/* The products that were read and are as they were; place.c has the rule. All zero:
 * none. */
struct rows {
    int64_t epoch; /* db->epoch after the last transaction; 0 = none is valid */
    int64_t changes; /* db->changes as of then */
    size_t n;        /* products and segments */
    struct rows_product *products;
    struct rows_product *dirty; /* something was taken from these */
};

/* A transaction in which orders are placed. */
struct place {
    struct soldout *soldout; /* the store's, and its hook */
    struct step step;
    struct rows rows;
    uint64_t generation; /* of what is sold out, when the lots were taken */
    size_t lots_n;
    struct store_lot lots[STORE_LOTS_MAX]; /* the source's */

    struct sql *db;
    int64_t now_ms;   /* of the lot, read inside the transaction */
    int64_t clock_ms; /* by sql_clock(), for what is to be paid; 0 = not read */
    bool held;        /* orders were sold that are to be paid; kept or not */
    const struct store_lot *lot;
    bool stamped; /* the lot's fence is announced */
    struct keys keys;
    struct place_proof proof;
    /* The fence that was stamped last, while no row has changed since; token 0 = none. */
    struct {
        uint64_t token;
        char name[STORE_FENCE_NAME_BYTES_MAX + 1];
        char owner[STORE_FENCE_NAME_BYTES_MAX + 1];
    } announced;
    size_t pending_n;
    struct store_order *pending[PLACE_ROWS_MAX]; /* sold, to be written */
};

/* Asks the source for lots. */
void place_take(struct place *place, const struct store_source *source);

/* Decides them, in the transaction that is open. A failure is its end. */
enum store_status place_lots(struct place *place, struct sql *db);

/* The transaction ended with STATUS: answers the lots. */
void place_done(struct place *place, const struct store_source *source,
                enum store_status status, const struct store_error *error);

/* Decides one lot that no source has, whose fence is valid. STORE_STALE_FENCE: none of
 * it is placed, and nothing was written. */
enum store_status place_alone(struct place *place, struct sql *db,
                              const struct store_lot *lot);

/* Nothing was kept: gives the lot and every order STATUS. */
void place_fail(struct store_lot *lot, enum store_status status);

/* The transaction is void, or the end has come: what is known of products is not known
 * any more, and its memory is given back. */
void place_forget(struct place *place);

#endif
