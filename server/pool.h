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

/* Either run() or refuse() is called, once, after the pool took it. */
struct errand {
    /* On a thread of the pool, with that thread's reader. */
    void (*run)(struct errand *errand, struct store_reader *reader);
    /* Its turn did not come in time, or the pool stops. Must not block. */
    void (*refuse)(struct errand *errand);
    void *owner;

    /* The pool's, while it has the errand. */
    struct errand *next;
    uint64_t due_ms;
};

/* NULL, and a line in the log, if it cannot be. */
struct pool *pool_open(const struct app *app);

/* false if the queue is full or the pool was stopped: nothing is called. From
 * any thread, until pool_close(). */
bool pool_submit(struct pool *pool, struct errand *errand);

/* Refuses what has not begun, ends the threads. From then on every errand is
 * refused; who submits some may still be at work. Again does nothing. NULL is
 * fine. */
void pool_stop(struct pool *pool);

/* Stops if that was not done, then frees. NULL is fine. */
void pool_close(struct pool *pool);

#endif
