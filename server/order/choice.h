/*
 * Which lane an order goes to.
 *
 *   one segment        its lane, and only it: if it is short, we do not know
 *                      yet that there are others, and go on as below
 *   the warm keys      the lane of a segment that seems to have enough; if it
 *                      has not (STORE_SHORT), that of another one: a probe
 *   several probes     the lane of all segments: takes from as many as it needs
 *   no segment seems   one of them is asked all the same, for the store then
 *   to have enough     answers for the whole product: sold out, at the price of
 *                      one lock; or short, and on to the lane of all segments
 *
 * Warm keys are a guess. Whatever they say, an order is refused as sold out
 * only by the store, which has looked at all segments.
 *
 * From any thread, one at a time for a ticket. Never blocks.
 */
#ifndef CHOICE_H
#define CHOICE_H

#include "server/order/order.h"

struct app;

/*
 * Chooses for a ticket that is new at the desk. False: it cannot be taken now;
 * the outcome is set and there is nothing to settle.
 */
bool choice_make(const struct app *app, struct ticket *ticket);

/*
 * Chooses again for one whose segment had too few. False as above. Never for an
 * order of any segment: nobody can be short of that.
 */
bool choice_again(const struct app *app, struct ticket *ticket);

/* Whether the store's answer is one to choose again for. */
bool choice_is_short(const struct app *app, const struct ticket *ticket);

/* The ticket's outcome is final: tells the warm keys what became of it. */
void choice_settle(const struct app *app, struct ticket *ticket);

#endif
