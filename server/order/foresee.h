/*
 * Orders with a key for what is known to be sold out. Who has bought with that
 * key before is to hear so; all others are refused without a lock and without a
 * transaction: a thread of the pool looks the key up. Many orders are one errand.
 */
#ifndef FORESEE_H
#define FORESEE_H

#include "server/order/order.h"

struct app;
struct desk;
struct foresee;

/* Both are borrowed. Freed when the pool has stopped. NULL: no memory. */
struct foresee *foresee_new(const struct app *app, struct desk *desk);
void foresee_free(struct foresee *foresee);

/*
 * Takes out of LIST, linked by next, whose keys are to be looked up, and returns
 * the rest. All have their places at the desk. Those taken are answered, or put
 * into its lanes. From any thread, not under the desk's mutex; does not block.
 */
struct ticket *foresee_take(struct foresee *foresee, struct ticket *list);

#endif
