/*
 * An order on its way through the service: the vocabulary of server/order.
 *
 * It belongs to whoever made it (an HTTP request) and must stay in place until
 * done() was called. All that is not asked begins as 0.
 */
#ifndef ORDER_H
#define ORDER_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "db/store.h"
#include "lock/dlock.h"
#include "server/base/order_outcome.h"
#include "server/base/tasks.h"
#include "server/base/timers.h"

#define ORDER_TRIES_MAX  3 /* of an order whose lock was overtaken */
#define ORDER_PROBES_MAX 2 /* segments with too few units; then it gathers */

struct queue;

/* Where orders come in: it bounds how many are under way. */
struct intake {
    const struct app *app;
    atomic_size_t depth; /* orders taken in and not answered */
    atomic_bool closed;  /* the service is shutting down */
};

struct order {
    struct store_order record;  /* what is asked; filled when placed */
    enum order_outcome outcome; /* the answer */
    char detail[200];           /* for a person: why, when it is not a yes */

    /* Called once when the answer is there: on the committer's thread, on a worker, or
     * on the thread that hands the order in. Must not block. The dispatcher does not
     * touch the order afterwards. */
    void (*done)(struct order *order);
    void *owner; /* for done() */

    /* The dispatcher's, while it has the order. */
    struct intake *intake; /* that counts it */
    uint64_t submitted_us; /* monotonic */
    struct timer limit;    /* it has waited for too long */
    struct queue *queue;
    unsigned tries;   /* how often its lock was overtaken */
    unsigned probes;  /* segments that had too few units */
    bool is_fallback; /* outcome and detail are set, unless its key is known */
    struct order *next;       /* in a list of those that are on their way */
    TAILQ_ENTRY(order) place; /* in its queue */
    struct task task;         /* order by order: the whole of it */
};

/* The struct that has MEMBER at that address. */
#define CONTAINER_OF(address, type, member)                                    \
    ((type *)(void *)((char *)(address)-offsetof(type, member)))

/* A status that is no other outcome is ORDER_STORE_UNAVAILABLE: nobody could look. */
enum order_outcome order_outcome_of(enum store_status status);

/* The answer is OUTCOME; WHY is for a person, and copied. */
void order_set_outcome(struct order *order, enum order_outcome outcome,
                       const char *why);

/* The same of a "not now", of which nothing was ordered. If the order has a key that
 * nobody has looked up, the text says that an earlier try may have ordered. */
void order_not_now(struct order *order, enum order_outcome outcome,
                   const char *why);

/* The same of an order that the store was asked about: STATUS and ERROR are those of
 * the whole batch, order->record.status that of the order. */
void order_set_decided(struct order *order, enum store_status status,
                       const struct store_error *error);

/* Orders linked by next, in the order in which they came. Those that find no
 * place are answered here. Returns the others, that were counted. From any thread. */
struct order *order_begin(struct intake *intake, struct order *list);

/* An order that was counted has its outcome: calls done(). From any thread. */
void order_end(struct order *order, uint64_t now_us);

/* A list of orders, linked by next, from its last to its first. */
struct order *order_list_reversed(struct order *list);

/* ---- one_by_one.c: every order on its own, on a worker ------------------------ */

/* Hands counted orders, linked by next, to the workers, first come first served.
 * From any thread. */
void one_by_one_submit(struct intake *intake, struct order *list);

/* All of one such order, the task's owner, on the calling thread. */
void one_by_one_run(struct task *task, struct worker *worker);

#endif
