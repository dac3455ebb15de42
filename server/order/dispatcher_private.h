/*
 * What dispatcher.c and dispatcher_batch.c share, and nobody else includes:
 * dispatcher.c brings orders into their queues, dispatcher_batch.c from there into
 * the store and back.
 */
#ifndef DISPATCHER_PRIVATE_H
#define DISPATCHER_PRIVATE_H

#include <pthread.h>

#include "db/store_batch.h"
#include "server/order/dispatcher.h"
#include "server/order/intake.h"
#include "server/order/locks.h"

#define BATCH_MAX 1024 /* orders that share one transaction */
#define LOT_MAX   512  /* of them, those of one queue */

struct dispatcher {
    const struct app *app;
    struct intake intake;
    bool is_batched;            /* not one by one */
    atomic_uint_fast64_t beats; /* calls of attend() */

    /* The committer's thread's. */
    struct queues queues;
    struct locks *locks;
    struct timers limits;  /* of the orders that wait */
    struct queue unlocked; /* of orders that need no lock; not in the table */
    struct store_order *batch[BATCH_MAX];
    uint64_t gather_since_us, gather_till_us; /* see attend() */
    bool stopping;

    pthread_mutex_t mutex; /* guards is_idle */
    pthread_cond_t idle;
    bool is_idle; /* stopping, and nothing is left to do */
};

/* An order that is in no queue has its outcome. */
void dispatcher_answer(struct dispatcher *d, struct order *order);

/* The same of a "not now"; but an order with a key is looked up before. */
void dispatcher_refuse(struct dispatcher *d, struct order *order,
                       enum order_outcome outcome, const char *why);

/* Into the queue of the segment that the order asks. AGAIN: in front, since it
 * has waited before. */
void dispatcher_enqueue(struct dispatcher *d, struct order *order, bool again);

/* The same, of a segment that is chosen here. */
void dispatcher_choose(struct dispatcher *d, struct order *order, bool again);

/* Orders that came in go into their queues. */
void dispatcher_take_in(struct dispatcher *d);

/* What the store calls: see db/store_batch.h. */
size_t dispatcher_take(void *ctx, struct store_lot lots[], size_t n_max);
void dispatcher_done(void *ctx, struct store_lot lots[], size_t n,
                     const struct store_error *error);

#endif
