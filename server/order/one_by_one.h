/*
 * Order by order: every order on its own, as textbooks do it: take the lock,
 * decide, answer, give the lock back. It is for the lab and the load tests, where
 * the lock alone shall decide what happens.
 */
#ifndef ONE_BY_ONE_H
#define ONE_BY_ONE_H

#include "server/order/intake.h"

/* Hands counted orders, linked by next, to the workers of the app, first come
 * first served. Each is answered through the intake. */
void one_by_one_submit(struct intake *intake, struct order *list);

#endif
