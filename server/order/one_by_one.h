/*
 * Order by order: every order on its own, on a worker. one_by_one.c says what that
 * is for.
 */
#ifndef ONE_BY_ONE_H
#define ONE_BY_ONE_H

#include "server/order/order.h"

/* Hands counted orders, linked by next, to the workers, first come first served.
 * From any thread. */
void one_by_one_submit(struct intake *intake, struct order *list);

/* All of one such order, the task's owner, on the calling thread. */
void one_by_one_run(struct task *task, struct worker *worker);

#endif
