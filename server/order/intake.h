/*
 * The intake: where orders of all threads come in, to wait for the dispatcher's
 * thread. It bounds how many are under way, and refuses at once what is known to
 * be sold out.
 *
 * All of it is lock-free, and from any thread but for intake_take().
 */
#ifndef INTAKE_H
#define INTAKE_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/order/order.h"

#define INTAKE_CHECKS 1024 /* products that meet share their second */

struct intake {
    const struct app *app;
    _Atomic(struct order *) inbox; /* the last one first */
    atomic_size_t depth;           /* orders taken in and not answered */
    atomic_int away; /* customers who were answered and are not back */
    atomic_bool
        is_timed;       /* the dispatcher looks soon, though nobody wakes it */
    atomic_bool closed; /* the service is shutting down */
    atomic_uint_fast64_t check_due_ms[INTAKE_CHECKS];
    pthread_mutex_t hints_mutex; /* one_by_one.c's: guards app->hints */
};

/* Orders linked by next, in the order in which they came. Those that find no
 * place are answered here. Returns the others, that were counted. */
struct order *intake_count(struct intake *intake, struct order *list);

/* Puts such orders into the inbox, and wakes the store's source; if they RETURN,
 * only when all are back, or nobody looks at the time. */
void intake_put(struct intake *intake, struct order *list, bool returns);

/* All orders in the inbox, in the order in which they came. */
struct order *intake_take(struct intake *intake);

/* An order that was counted has its outcome: calls done(). */
void intake_answer(struct order *order, uint64_t now_us);

/*
 * Whether the order is sure to be refused as sold out; then it is, and counted.
 * An order with a key is not: its key may be known. And now and then one of a
 * product is let through, so that the store looks whether we are right.
 */
bool intake_refuses(struct intake *intake, struct order *order);

/* Order by order: hands counted orders, linked by next, to the workers, first come
 * first served. one_by_one.c says what that is for. */
void one_by_one_submit(struct intake *intake, struct order *list);

/* All of one such order, the task's owner, on the calling thread. */
void one_by_one_run(struct task *task, struct worker *worker);

#endif
