/*
 * The calls of the lock library, and what goes with each: the look into the store
 * before it, and what metrics and health hear of its answer. Two ways: a worker
 * waits for the answer, or it comes into an inbox. What they are for is decided by
 * the callers, one_by_one.c and locks.c.
 */
#ifndef LOCK_TASKS_H
#define LOCK_TASKS_H

#include <stdatomic.h>

#include "server/base/health.h"
#include "server/order/order.h"

#define LOCK_NAME_BYTES  64
#define LOCK_ERROR_BYTES 200

/* Where results wait for the committer's thread; the last one stands first. */
struct lock_inbox {
    const struct app *app; /* the store's source is woken */
    _Atomic(struct lock_task *) first;
};

enum lock_task_kind {
    LOCK_TAKE, /* try to get the lock, or wait for it */
    LOCK_GIVE, /* give it back */
};

/* One lock, and what is to be done about it next. It is other threads' from
 * lock_task_begin() until it is in the inbox, as its session is. */
struct lock_task {
    enum lock_task_kind kind;
    int64_t product_id;
    char name[LOCK_NAME_BYTES];
    struct dlock_session *session; /* take and give */
    unsigned wait_ms;              /* take */

    struct dlock_grant grant; /* taken, and not given back */
    uint64_t granted_us;      /* 0 = the metrics know how long it was held */
    uint64_t begun_us;
    atomic_bool at_store; /* take: the worker waits for the database */
    enum dlock_status status;
    enum store_status store_status; /* take: why the lock was not asked for;
                                       STORE_OK: it was */
    char error[LOCK_ERROR_BYTES];

    struct task task;
    struct lock_inbox *inbox;
    struct lock_task *next;
};

/* "lock:{PRODUCT:SEGMENT}": the braces are a hash tag, so that a segment's lock
 * and its stock hint are in the same slot of a Redis Cluster. */
void lock_name(int64_t product_id, int64_t segment, char name[LOCK_NAME_BYTES]);

/* "lock:{user-USER}": it keeps apart the orders of one user, and no others. */
void lock_name_of_user(int64_t user_id, char name[LOCK_NAME_BYTES]);

/* How long an order may wait for a lock: less than --lock-wait-ms by the time
 * in which the last command may fail. */
unsigned lock_wait_ms(const struct app *app);

/* The fence for all that is written under a lock. Points into GRANT. */
struct store_fence lock_fence(const struct app *app,
                              const struct dlock_grant *grant);

/* What an owner's sessions have in common: by that number its instance is known
 * to others (store_announce()). */
uint64_t lock_instance_id(const char *owner);

/* Begins; the result comes into INBOX. A worker has the looks, the lock library's
 * asynchronous calls do the rest. A take that waits frees the lock of an instance that
 * has died. On the committer's thread; does not block. */
void lock_task_begin(struct lock_task *task, struct lock_inbox *inbox);

/* The same here and now, on a worker's thread, which waits. */
void lock_task_run(struct lock_task *task, struct worker *worker);

/* An order's outcome when its lock was not had, and WHY, for a customer. What a lock
 * server has said is in task->error, and for the log. */
enum order_outcome lock_task_outcome(const struct lock_task *task,
                                     const char **why);

#endif
