/*
 * Several locks at once: those of the segments that a critical section is about.
 * Usually one; all of a product's for an order that takes from several of them.
 *
 * They are taken in ascending order of segment, by everybody, and nobody waits
 * for one while he has any that comes after it: so two who want the same locks
 * cannot block each other for ever. What is written under them is written under
 * all of them: whoever has lost one writes nothing.
 *
 * A worker that cannot give its locks back, since the lock server is away, tries
 * for a while, for all of them together; then it gives up all that it has.
 */
#ifndef HOLDS_H
#define HOLDS_H

#include "server/order/hold.h"

/* All zero holds nothing. To be freed with _release. */
struct holds {
    size_t n; /* that are held */
    size_t room;
    struct hold *at; /* by ascending segment */
};

/* Whose locks, and how to wait for them. */
struct holds_terms {
    int64_t product_id;
    int64_t segment;       /* STORE_SEGMENT_ANY: of all that are in use now */
    uint64_t submitted_us; /* of the order that waits: hold_patience_ms() */
    bool may_wait;         /* else each is tried once */
};

/*
 * Takes the locks. ORDER_PLACED: all of them are held; or the outcome for who
 * waits for them, and why. Either way holds_leave() has to follow: after a
 * failure some may be held.
 */
enum order_outcome holds_take(struct worker *worker,
                              const struct holds_terms *terms,
                              struct holds *holds, struct dlock_error *error);

/* What is written under them is written under this, until holds_leave(). */
const struct store_fence *holds_fence(const struct holds *holds);

/* When the first was taken; for who holds some. */
uint64_t holds_since_us(const struct holds *holds);

/* Whether the lease of any is over. Of those that WORKER took; from any thread
 * that holds the worker's mutex, while nobody takes or leaves them. */
bool holds_lost(const struct worker *worker, const struct holds *holds);

/* The work under them ended with an error. */
void holds_failed(struct holds *holds);

/* Gives them back, or up: see hold_leave(). */
void holds_leave(struct worker *worker, struct holds *holds);

/* Frees the memory; nothing is held. */
void holds_release(struct holds *holds);

#endif
