/*
 * The copy in memory of what segments have left, by which orders choose.
 *
 * Knows no threads, no database and no Redis: the caller has a mutex, and puts
 * in what he has read elsewhere.
 */
#ifndef WARM_COPY_H
#define WARM_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "db/store.h"
#include "server/warm/warm.h"

struct copy_cell {
    int64_t left; /* when it was last heard of */
    int64_t sold; /* since then: the key does not know yet */
    int64_t out;  /* of tickets that are not settled, of any epoch */
};

/* A sale of ours, of some time ago. */
struct copy_sale {
    int64_t number; /* the order's; 0 = none */
    int64_t segment;
    int64_t units;
};

/* What the warmer is to do about a product. */
struct copy_chores {
    bool renew;  /* count anew, under an epoch of our own */
    bool write;  /* the same, as soon as Redis is there: the keys are wrong */
    bool adopt;  /* somebody else has counted: take over his keys */
    bool spread; /* a segment has run dry while others have not */
    bool weigh;  /* by a new count some are retired: rightly? */
    bool tell;   /* a segment has sold */
    bool look;   /* at the keys, even if there is nothing to tell */
    bool doubt;  /* a key is missing: who has taken it away? */
};

struct copy_product {
    int64_t id;
    int64_t epoch;
    int64_t number;   /* orders up to this one are in the count */
    int64_t segments; /* that it should have; 1 = there is nothing to choose */
    bool cold;
    bool asked_for; /* since the warmer looked last */
    struct copy_chores chores;
    uint64_t renewed_ms, spread_ms, looked_ms, asked_ms;
    size_t n;                /* cells in use */
    size_t room;             /* that there is memory for */
    struct copy_cell *cells; /* [room] */
    struct copy_sale *sales; /* our last ones, a ring; NULL = none yet */
    size_t sales_at;
};

/* Products by id. They stay where they are, and are never removed. */
struct copy {
    struct copy_slot {
        int64_t id; /* here as well: to be found without a look at each */
        struct copy_product *product;
    } * slots; /* ascending */
    size_t n, room;
};

void copy_free(struct copy *copy);

/* NULL if it is not there. */
struct copy_product *copy_find(const struct copy *copy, int64_t product_id);

/* The product, new and empty if it was not there; NULL if out of memory. */
struct copy_product *copy_hold(struct copy *copy, int64_t product_id);

/*
 * A new count, which knows of the orders up to CELLS' number. What we have sold
 * later than that is sold since, and to be told. Tickets that are out stay out.
 * False if out of memory: nothing has changed.
 */
bool copy_count(struct copy_product *product, const struct store_cells *cells);

/*
 * Takes UNITS from a segment that has them. RANDOM is any 64 bits. False: none
 * has.
 */
bool copy_take(struct copy_product *product, int64_t units, uint64_t random,
               struct warm_ticket *ticket);

void copy_settle(struct copy_product *product, const struct warm_ticket *ticket,
                 enum warm_outcome outcome);

/* The key says that LEFT are left, after it was told of TOLD. */
void copy_hear(struct copy_product *product, size_t cell, int64_t told,
               int64_t left);

/*
 * One segment is empty or retired, and on average those in use are not nearly
 * empty. False once they have been evened out: for so many units none is empty,
 * and none that could have some is retired.
 */
bool copy_uneven(const struct copy_product *product);

#endif
