/*
 * The desk: takes orders in, answers each exactly once.
 *
 * Who waits too long is refused. Two manners (--desk):
 *   combine  a lane per lock. Keepers take the locks and keep them while orders
 *            come; the store comes for all that wait in lanes whose lock is
 *            held, decides them in one transaction, and they are answered;
 *   direct   every order on its own, first come first served, as many at a
 *            time as there are workers, each of which takes the lock, lets the
 *            store decide, answers and gives the lock back. For the lab and the
 *            load tests, where the lock alone shall decide what happens.
 */
#ifndef DESK_H
#define DESK_H

#include "server/order/order.h"

struct app;
struct desk;

/* Starts the threads. NULL and a log line if that fails. */
struct desk *desk_open(const struct app *app);

/*
 * Hands a ticket in: true, and done() will be called once; or false, the
 * outcome is set already (ORDER_OVERLOADED, ORDER_SHUTTING_DOWN) and done()
 * will not be called. Never blocks. From any thread.
 */
bool desk_submit(struct desk *desk, struct ticket *ticket);

/*
 * Whether it is known already how the order would end: then the outcome is set,
 * it is counted, and need not be handed in. From any thread.
 */
bool desk_foresees(struct desk *desk, struct ticket *ticket);

/* Orders taken in and not answered yet. */
size_t desk_depth(const struct desk *desk);

/*
 * Refuses new orders, and with ORDER_SHUTTING_DOWN those no worker has begun;
 * returns when every ticket is answered and every lock given back, or its
 * server found to be away. Ends all waits of the lock client; what is left is a
 * command to the lock server and a commit or two.
 */
void desk_stop(struct desk *desk);

/* Stops if that was not done, then frees. NULL is fine. */
void desk_close(struct desk *desk);

#endif
