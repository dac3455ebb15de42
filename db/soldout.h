/*
 * The products that are known to be sold out. Any thread can read it without waiting, so that
 * the refusals after the end of a sale cost neither a lock nor a transaction.
 *
 * It can forget, but it cannot be wrong. A note says: an order of so many units
 * was refused in generation G. The stock only falls, except by a cancel, a
 * restock and the like; each that changes anything begins a new generation
 * before it is committed, and notes of an older one count for nothing. So there
 * is no flag that could stick, and units that can be seen in the database are
 * not denied.
 *
 * Where other processes write as well, the generation is in the lock
 * file that all of them share (lockfile.h), and the same holds. Writes come one
 * after the other there, too: the database's write lock is taken when a
 * transaction begins. Either the refusal was decided before some cancel began:
 * then the generation that it has read is gone before the cancel is committed. Or
 * after the cancel was committed: then it has seen the cancel's units. A
 * process that is killed between this and its commit makes others look once more,
 * which is harmless. There is no commit without a new one: if it cannot be
 * set, the write fails.
 */
#ifndef STORE_SOLDOUT_H
#define STORE_SOLDOUT_H

#include <stdatomic.h>

#include "db/lockfile.h"

#define SOLDOUT_SLOTS 1024 /* products whose hashes meet forget each other */

struct soldout_note {
    atomic_uint_fast64_t version; /* odd while it is being written */
    atomic_uint_fast64_t generation;
    atomic_int_fast64_t product_id;
    atomic_int_fast64_t quantity; /* so many or more */
};

/* Begins in generation 1 and without notes. */
struct soldout {
    bool shared; /* others write as well: FILE has the generation */
    const struct lockfile *file;
    atomic_uint_fast64_t generation;
    struct soldout_note notes[SOLDOUT_SLOTS];
};

/* The generation to note an order under that is about to be decided. 0:
 * there is nothing to be noted, since one could not tell when it is over. */
uint64_t soldout_generation(const struct soldout *soldout);

/* An order of QUANTITY was refused, and the transaction that said so is committed;
 * GENERATION was read inside of it. From one thread only. */
void soldout_note(struct soldout *soldout, int64_t product_id, int64_t quantity,
                  uint64_t generation);

/* Some stock may rise with the write transaction that is under way, which must
 * not be committed if this fails. */
enum store_status soldout_forget(struct soldout *soldout,
                                 struct store_error *error);

/* In which generation an order of QUANTITY would be refused. 0: don't know. */
uint64_t soldout_knows(const struct soldout *soldout, int64_t product_id,
                       int64_t quantity);

#endif
