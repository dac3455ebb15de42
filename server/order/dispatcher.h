/*
 * The dispatcher: takes orders in, answers each exactly once.
 *
 * Two ways to sell (--orders):
 *   batched      orders queue by their lock, that of a segment of a product.
 *                Locks are taken by libdlock's asynchronous calls, and kept while
 *                orders come. When the store is ready, all orders of all queues
 *                whose lock is held are decided in one transaction, and answered;
 *   one-by-one   every order on its own, as many at a time as there are workers:
 *                see one_by_one.c.
 *
 * Batched, all state of orders under way belongs to the store's committer
 * thread: see store_async.h. Nobody else touches it, so it has no mutex.
 */
#ifndef DISPATCHER_H
#define DISPATCHER_H

#include "server/order/order.h"

struct dispatcher;

/* Of app->store, locks, workers. NULL and a log line if that fails. */
struct dispatcher *dispatcher_open(const struct app *app);

/* Hands orders in, linked by next, in the order in which they came. done() is called
 * once for each, maybe before this returns. Never blocks. From any thread. Many at once
 * are cheaper than each on its own: waking up is dear. */
void dispatcher_submit(struct dispatcher *dispatcher, struct order *list);

/* Refuses an order of which it is known already that it would be: then the outcome is
 * set, it is counted, and need not be handed in; done() is not called. An order with a
 * key is not refused, because its key may be known; and now and then one of a product
 * is let through, so that the store looks whether we are right. From any thread. */
bool dispatcher_refuse_known(struct dispatcher *dispatcher,
                             struct order *order);

/* Orders taken in and not answered yet; at most --queue-max. */
size_t dispatcher_depth(const struct dispatcher *dispatcher);

/* How often the committer's thread has looked for orders so far; and has it look once
 * more, soon. If it says the same number twice, that thread hangs, or has had no time
 * yet. From any thread, until dispatcher_stop(). */
uint64_t dispatcher_beat(struct dispatcher *dispatcher);

/* Refuses new orders, and with ORDER_SHUTTING_DOWN those that nobody has begun; returns
 * when every order is answered and every lock given back, or its server found to be
 * away. Ends all waits of the lock client; what is left is a command to the lock server
 * and a commit or two. Stops the workers as well. */
void dispatcher_stop(struct dispatcher *dispatcher);

/* Stops if that was not done, then frees. NULL is fine. */
void dispatcher_close(struct dispatcher *dispatcher);

#endif
