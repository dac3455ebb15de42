/*
 * Orders by lock: one queue for each segment of a product, in the order in which
 * the orders came. Pure data, without threads or time of its own: dispatcher.c
 * moves orders through it, locks.c moves a queue through its states:
 *
 *     QUEUE_FREE     nobody here has the lock, nor tries to
 *     QUEUE_WANTED   orders wait: the lock is to be taken
 *     QUEUE_TAKING   it is being asked for, or waited for
 *     QUEUE_BUSY     another instance has it: it is to be waited for
 *     QUEUE_HELD     we have it: what waits may be placed
 *     QUEUE_GIVING   it is to be given back, or is being so
 *
 *     FREE -> WANTED -> TAKING -> HELD -> GIVING -> FREE
 *                       |    ^
 *                       v    |
 *                        BUSY
 *
 * The committer's thread only.
 */
#ifndef QUEUE_H
#define QUEUE_H

#include <uthash.h>

#include "server/order/lock_tasks.h"

enum queue_state {
    QUEUE_FREE,
    QUEUE_WANTED,
    QUEUE_TAKING,
    QUEUE_BUSY,
    QUEUE_HELD,
    QUEUE_GIVING,
};

TAILQ_HEAD(order_list, order);
TAILQ_HEAD(queue_list, queue);

struct lock_session; /* sessions.h */

struct queue_id {
    int64_t product_id;
    int64_t segment;
};

struct queue {
    struct queue_id id;
    enum queue_state state;
    struct order_list orders; /* that wait */
    size_t waiting;

    struct lock_task lock; /* it, and what is done about it */
    /* It takes the lock, has it, or gives it back; or tries next: NULL = any. */
    struct lock_session *session;
    struct store_fence fence; /* while it is held; points into LOCK */
    bool leaves;            /* to be given back when nothing is in the batch */
    bool to_others;         /* since another instance waits for it */
    bool has_placed;        /* orders were decided under this hold */
    bool is_thinking;       /* --think-ms has not passed: none may be placed */
    size_t quota;           /* so many orders may be placed under this hold */
    uint64_t held_us;       /* since when they may */
    uint64_t looked_us;     /* when a look at the lock was begun */
    uint64_t first_give_us; /* when giving it back was tried first; 0 = not */
    struct timer timer;     /* locks.c looks at the queue again */

    struct order *batch;     /* orders that the store has now, by next */
    uint64_t pushed_us;      /* of the last order; 0 = there was none */
    uint64_t gap_us;         /* between two, usually; UINT64_MAX = not known */
    struct queue_list *list; /* in which it stands: one at most */
    TAILQ_ENTRY(queue) place;
    TAILQ_ENTRY(queue) held_place; /* of those held */
    UT_hash_handle hh;
};

/* All queues. All zero = none. */
struct queues {
    struct queue *table;
    struct queue_list ready; /* held, with orders that may be placed */
    uint64_t now_us;         /* of this turn of the committer's thread */
    uint64_t at_store_us;    /* when the store took a batch; 0 = it has none */
};

void queues_init(struct queues *queues);

/* Every queue is empty, every lock given back. */
void queues_release(struct queues *queues);

struct queue *queue_find(struct queues *queues, int64_t product_id,
                         int64_t segment);

/* The same, made if there is none. NULL: no memory. */
struct queue *queue_need(struct queues *queues, int64_t product_id,
                         int64_t segment);

/* Forgets one that is QUEUE_FREE and empty. */
void queue_free(struct queues *queues, struct queue *queue);

/* Appends an order; or puts it in front, if it has waited before: AGAIN. */
void queue_push(struct queue *queue, struct order *order, bool again);

void queue_remove(struct order *order);

/* Up to N of the first orders, linked by next. */
struct order *queue_pop(struct queue *queue, size_t n);

/* Moves the queue to the end of LIST, if it does not stand there already; NULL =
 * out of all lists. */
void queue_list_put(struct queue *queue, struct queue_list *list);

/* Puts it among the ready ones, or takes it out, as it is now. */
void queue_update(struct queues *queues, struct queue *queue);

/*
 * Retention: until when the lock of a queue that is QUEUE_HELD is kept, as things
 * are, if nobody else is known to want it.
 *
 * To take a lock again costs two round trips, more than the order. So a lock is
 * kept for a few of the usual gaps between two orders, within bounds. If orders
 * come more seldom than that it is given back at once. While it is kept, orders
 * are placed even if the lock server has died: hence not for long. With orders
 * waiting it is kept until its longest time is over.
 *
 * Of many products that sell by turns each lock is kept for longer: to take and
 * give back thousands of them would be all that we do. QUEUES_N is how many
 * queues had orders lately.
 */
#define QUEUE_GAP_MAX_US 1000000 /* a longer one is a pause: nothing is known */
uint64_t queue_keep_until_us(const struct queue *queue, size_t queues_n);

#endif
