/*
 * A pool of threads for errands that may block: reading an order, listing
 * products, a cancel, an audit. So no HTTP thread ever waits for the database.
 * Each thread has a reader of the store of its own.
 */
#ifndef POOL_H
#define POOL_H

#include <stdbool.h>

#include "db/store.h"

struct app;
struct pool;

/* Done once, on a thread of the pool, with that thread's reader. */
struct errand {
    void (*run)(struct errand *errand, struct store_reader *reader);
    void *owner;
    struct errand *next; /* the pool's, while it has the errand */
};

struct pool *pool_open(const struct app *app);

/* false if the queue is full or the pool is stopping: run() is not called. */
bool pool_submit(struct pool *pool, struct errand *errand);

/* Runs what is queued, then ends the threads. NULL is fine. */
void pool_close(struct pool *pool);

#endif
