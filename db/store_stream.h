/*
 * Placing orders without waiting for each: a stream of them into the store.
 * Part of store.h, which includes this file.
 *
 * Whoever has orders only says that there are some. The committer comes for
 * them when its next transaction begins, and takes what has gathered by then:
 * a batch is closed as late as it can be, and while one is on its way to the
 * disk the next one grows by itself. Nobody sleeps in between, so an order
 * costs two changes of thread, and under load none.
 *
 *     orders come     store_stream_wake()
 *     BEGIN           take()       which orders, under which locks?
 *     COMMIT, fsync
 *     it is decided   done()       answer them; wake again if there are more
 */
#ifndef STORE_STREAM_H
#define STORE_STREAM_H

#include "db/store.h"

#define STORE_LOTS_MAX 256 /* lots that share one transaction */

struct store_stream;

/* Orders that are placed under one lock, in the order given. */
struct store_lot {
    struct store_order *const *orders;
    size_t n;
    const struct store_fence *fence; /* NULL = unfenced */
    void *owner;                     /* the taker's own */

    /*
     * How it ended, as store_place() would have said: STORE_OK, look at each
     * order; STORE_STALE_FENCE, nothing of this lot was written, which does not
     * hurt the other lots; else nothing is to be acknowledged.
     */
    enum store_status status;
};

/* Who has orders to place. Both are called on the committer's thread, in turns,
 * and must not wait for anything that waits for the store. */
struct store_source {
    /*
     * Fills up to N_MAX of LOTS and says how many. They, and all they point to,
     * have to stay as they are until done().
     */
    size_t (*take)(void *ctx, struct store_lot lots[], size_t n_max);
    /* What was taken is decided, and on disk where it says so. */
    void (*done)(void *ctx, struct store_lot lots[], size_t n,
                 const struct store_error *error);
    void *ctx;
};

/* Makes a stream. SOURCE is copied. */
enum store_status store_stream_open(struct store *store,
                                    const struct store_source *source,
                                    struct store_stream **stream,
                                    struct store_error *error);

/*
 * There are orders: take() will be called, once for any number of calls. From
 * any thread, done() included. False: the store is closing, and it will not.
 */
bool store_stream_wake(struct store_stream *stream);

/*
 * Whether an order of QUANTITY units, one without a key, is sure to be refused
 * as sold out: one was, and nothing came back since, in another process neither.
 * False: don't know. From any thread; does not look into the database. (Of a
 * product that was sold out when its sale ended it goes on saying so.)
 */
bool store_knows_sold_out(const struct store *store, int64_t product_id,
                          int64_t quantity);

/*
 * The same of an order that may have a key: looks whether there is one with that
 * key already, which would have to be told of it. *SOLD_OUT: it is sure to be
 * refused. If it is not, or cannot be looked up, nothing is known.
 */
enum store_status store_look_sold_out(const struct store *store,
                                      struct store_reader *reader,
                                      const struct store_order *order,
                                      bool *sold_out,
                                      struct store_error *error);

/* What a look at a refusal from memory has shown. */
enum store_check {
    STORE_CHECK_NOTHING, /* none is made now, or the units may have come since */
    STORE_CHECK_RIGHT,   /* the product does not have that many */
    STORE_CHECK_WRONG,   /* it has, and had when the refusal was made */
};

/*
 * Looks whether store_knows_sold_out() is right. For a service that wants to know
 * that it does what it promises. *FOUND is NOTHING if the database cannot be read.
 */
enum store_status store_check_sold_out(const struct store *store,
                                       struct store_reader *reader,
                                       int64_t product_id, int64_t quantity,
                                       enum store_check *found,
                                       struct store_error *error);

/*
 * Returns when all calls of take() and done() have that are under way, and those
 * that they have woken the stream for. From any thread but the committer's.
 */
void store_stream_settle(struct store_stream *stream);

/*
 * To be called when nobody wakes the stream any more, done() included. Returns
 * when the last done() has. NULL is fine.
 */
void store_stream_close(struct store_stream *stream);

#endif
