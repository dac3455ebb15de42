/*
 * Warm keys: what is left of each segment, kept in Redis so that an order can
 * choose a segment that has what it wants, without asking the database.
 *
 *     stock:{P:k}   a hash: epoch, units, order, segments
 *                   of segment k of product P
 *
 * They are a guess, and the store decides again: a key that says too much costs
 * a probe, one that says too little is made up for by asking all segments
 * before anybody hears "sold out". So nothing here is ever waited for by an
 * order: orders choose by a copy in memory, and one thread, the warmer, tells
 * Redis what was sold and hears what other instances sold.
 *
 * The epoch is the product's in the database. Whoever writes the keys anew from
 * the database begins one of his own first; what was sold under an older epoch
 * is then refused by the keys, since the new count knows of it already. When the
 * keys are missing, Redis has lost its data, locks included: no order of the
 * product is taken (WARM_COLD) until they are rebuilt under the next epoch. Or
 * until Redis is away: then no lock can be had of it, and who has one from
 * others chooses by the copy.
 *
 * Products with one segment have a key as well, for people to look at; their
 * orders need not choose. All of them are written anew in turns, 64 products in
 * 100 ms: with few products that is every 2 seconds, with 64,000 in 100 seconds.
 *
 * Memory: of a product with segments, 200 bytes and 24 for each of them, and
 * 24 KiB once it sells; of others, nothing.
 */
#ifndef WARM_H
#define WARM_H

#include "db/store.h"

struct app;
struct warm;

/*
 * The step hook, as in the lock library and the store: every command to Redis
 * ("warm-load", "warm-take") calls it before it is sent and after its answer was
 * read, and every pass of the warmer ("warm-pass", product 0) before and after.
 * On the warmer's thread; may block. What the warmer does to the database calls
 * the store's hook.
 */
enum warm_phase { WARM_BEFORE, WARM_AFTER };

enum warm_verdict {
    WARM_GO,
    WARM_FAIL, /* a command, BEFORE: as if Redis were gone; AFTER: as if the
                  answer had been lost */
};

typedef enum warm_verdict warm_step_hook(void *ctx, const char *step,
                                         int64_t product_id,
                                         enum warm_phase phase);

struct warm_options {
    const char *redis_url;   /* as libdlock takes it; NULL = no keys, only the
                              copy. Of several servers the first has the keys */
    warm_step_hook *on_step; /* NULL = none */
    void *on_step_ctx;
};

/*
 * Loads all products with segments into the copy and starts the warmer, which
 * writes the keys. NULL and a log line on failure; a Redis that is away is none:
 * keys are written when it is back. Uses APP's config, metrics and store, which
 * have to live longer. The process has to ignore SIGPIPE.
 */
struct warm *warm_open(const struct app *app, const char *redis_url);

/* The same with a hook. */
struct warm *warm_open_with(const struct app *app,
                            const struct warm_options *options);

/* Stops the warmer after a last try, of a second or so, to tell Redis what was
 * sold. NULL is fine. */
void warm_close(struct warm *warm);

/* ---- choosing a segment: from any thread, never blocks -------------------- */

enum warm_choice {
    WARM_SINGLE,  /* the product has one segment (or we do not know it) */
    WARM_SEGMENT, /* ticket->segment seems to have enough */
    WARM_GATHER,  /* no segment seems to have enough: ask for any */
    WARM_COLD,    /* the keys are being rebuilt: not now */
};

/* Units that an order means to take from a segment. Only a WARM_SEGMENT has one
 * to settle. */
struct warm_ticket {
    int64_t product_id;
    int64_t epoch;
    int64_t segment;
    int64_t units;
    int64_t number; /* for WARM_SOLD: the order's, so that it is known whether a
                       newer epoch has counted it; 0 = not known */
};

/*
 * At random, each segment that has enough as likely as it has units left. They
 * are taken from the copy at once, so that the next order sees them gone. Cheap
 * where no product has segments.
 */
enum warm_choice warm_take(struct warm *warm, int64_t product_id, int64_t units,
                           struct warm_ticket *ticket);

/* How it went; to be called once for each WARM_SEGMENT. */
enum warm_outcome {
    WARM_SOLD,  /* they are sold: Redis is told */
    WARM_KEPT,  /* the order failed for another reason, or was there before:
                   they are there still */
    WARM_SHORT, /* the segment does not have them: others may have to give it
                   some (store_even_out, by the warmer, not at every call) */
};
void warm_settle(struct warm *warm, const struct warm_ticket *ticket,
                 enum warm_outcome outcome);

/* The product's units have moved otherwise: it was put, resized, restocked, an
 * order was cancelled or gathered. The warmer looks soon. */
void warm_moved(struct warm *warm, int64_t product_id);

/* ---- for people: may wait for the database and for Redis ------------------ */

/*
 * Loads a product's keys from the database under the next epoch. CELLS says what
 * is in them. STORE_NO_PRODUCT, or what the store says; STORE_OK also if Redis
 * is away, *in_redis says which.
 */
enum store_status warm_up(struct warm *warm, int64_t product_id,
                          struct store_cells *cells, bool *in_redis,
                          struct store_error *error);

#endif
