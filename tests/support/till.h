/*
 * One instance's store and its stream of orders, over a database that others
 * share: orders are placed as the service places them, one at a time. Aborts if
 * it cannot be set up.
 */
#ifndef TILL_H
#define TILL_H

#include <pthread.h>
#include <stdatomic.h>

#include "db/store.h"
#include "tests/support/temp_dir.h"

struct till {
    struct store *store;
    struct store_stream *stream;
    struct store_reader *reader; /* one thread at a time */
    store_step_hook *on_step;
    void *ctx;
    atomic_int commits;
    pthread_mutex_t mutex;
    pthread_cond_t decided;
    struct store_order *order; /* to be placed */
    bool is_decided;
};

/* ON_STEP may be NULL. *till stays where it is until _close. */
void till_open(struct till *till, const struct temp_dir *dir,
               store_step_hook *on_step, void *ctx);
void till_close(struct till *till);

/* Puts product 1 on sale. */
void till_put(struct till *till, int64_t stock);

/* Buys units of product 1; fills *order. */
enum store_status till_buy(struct till *till, int64_t quantity,
                           struct store_order *order);

/* Whether QUANTITY units of product 1 are known not to be there. */
bool till_knows(const struct till *till, int64_t quantity);

/* What the database says that is left of product 1. */
int64_t till_stock(struct till *till);

#endif
