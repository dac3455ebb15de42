/*
 * The desk: takes orders in, answers each exactly once.
 *
 * Who waits too long is refused. Two manners (--desk):
 *   combine  a lane per segment of a product, and thus per lock (choice.h says
 *            which). Keepers take the locks and keep them while orders come;
 *            the store comes for all that wait in lanes whose lock is held,
 *            decides them in one transaction, and they are answered;
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
 * Hands tickets in, linked by next: done() will be called once for each. Those
 * that come back, linked in the same way, were not taken: their outcome is set
 * already (ORDER_OVERLOADED, ORDER_SHUTTING_DOWN), and done() will not be
 * called. Never blocks. From any thread. Many at once are cheaper than each on
 * its own: the waking up is dear.
 */
struct ticket *desk_submit(struct desk *desk, struct ticket *list);

/*
 * Whether it is known already how the order would end: then the outcome is set,
 * it is counted, and need not be handed in. From any thread. (Who has a key may
 * have bought before: that is looked up when the order was handed in.)
 */
bool desk_foresees(struct desk *desk, struct ticket *ticket);

/* Orders taken in and not answered yet, also those whose keys are looked up; at
 * most --queue-max. (For an instant one more, who is being turned away.) */
size_t desk_depth(const struct desk *desk);

/*
 * Refuses new orders, and with ORDER_SHUTTING_DOWN those no worker has begun;
 * returns when every ticket is answered and every lock given back, or its
 * server found to be away; but for tickets whose keys the pool looks up, which are
 * answered when that stops. Ends all waits of the lock client; what is left is a
 * command to the lock server and a commit or two.
 */
void desk_stop(struct desk *desk);

/* Stops if that was not done, then frees. NULL is fine. */
void desk_close(struct desk *desk);

#endif
