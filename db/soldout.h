/*
 * What is known to be sold out, so that nobody has to look again for each of
 * the thousands who come too late. Read by any thread, without waiting; a
 * refusal costs neither a lock nor a transaction.
 *
 * It can forget, but it cannot be wrong. A note says: an order of so many units
 * was refused in generation G. The stock only falls, except by a cancel, a
 * restock and the like; each of them begins a new generation before it is
 * committed, and notes of an older one count for nothing. So there is no flag
 * that could stick, and nobody can see units in the database that are denied.
 *
 * Only where this process is the only writer: it hears of its own cancels.
 */
#ifndef STORE_SOLDOUT_H
#define STORE_SOLDOUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SOLDOUT_SLOTS 1024 /* products whose hashes meet forget each other */

struct soldout_note {
    atomic_uint_fast64_t version; /* odd while it is being written */
    atomic_uint_fast64_t generation;
    atomic_int_fast64_t product_id;
    atomic_int_fast64_t quantity; /* so many or more */
};

/* All zero but for the generation, which begins at 1. */
struct soldout {
    atomic_uint_fast64_t generation;
    struct soldout_note notes[SOLDOUT_SLOTS];
};

void soldout_init(struct soldout *soldout);

/* Of an order that is about to be decided: the generation to note it under. */
uint64_t soldout_generation(const struct soldout *soldout);

/*
 * An order of QUANTITY was refused, and the transaction that said so is
 * committed; GENERATION was read inside of it. From one thread only.
 */
void soldout_note(struct soldout *soldout, int64_t product_id, int64_t quantity,
                  uint64_t generation);

/* Some stock may rise with the transaction that is under way. */
void soldout_forget(struct soldout *soldout);

/* True: an order of QUANTITY would be refused. False: don't know. */
bool soldout_knows(const struct soldout *soldout, int64_t product_id,
                   int64_t quantity);

#endif
