/*
 * What locks.c and lock_begin.c share, and nobody else includes: locks.c decides
 * about states, lock_begin.c which task is begun next, and with which session.
 */
#ifndef LOCKS_PRIVATE_H
#define LOCKS_PRIVATE_H

#include "server/order/locks.h"

#define LOOKS_MAX     64    /* locks that one task looks at */
#define LOOK_EVERY_US 10000 /* a lock at most */

TAILQ_HEAD(lock_session_list, lock_session);

struct locks {
    const struct app *app;
    struct queues *queues;
    struct locks_owner owner;
    struct lock_inbox inbox; /* the workers' results */

    /* The committer's thread's. */
    struct lock_session_list sessions;
    size_t sessions_n;
    struct queue_list wanted, busy, giving; /* that wait for a worker */
    struct queue_list held; /* those first that were looked at longest ago */
    struct timers timers;
    struct timer look_timer;
    size_t busy_n; /* queues that are QUEUE_BUSY, or have their turn */
    size_t under_way, waits; /* tasks; and those of them that wait for a lock */
    size_t tasks_max, waits_max;
    bool is_away, stopping;

    /* With --shared: which locks that are held another instance waits for. One
     * task for many locks; a worker's while UNDER_WAY and not ENDED. */
    struct looks {
        struct task task;
        size_t n;
        struct queue_id ids[LOOKS_MAX];
        bool wanted[LOOKS_MAX];
        bool under_way;
        atomic_bool ended;
    } looks;
};

/*
 * A session that is free, which is in use then; PREFERRED, if it is free. To wait
 * with it: one that holds nothing, if there is one or can be made. NULL: no
 * memory.
 */
struct lock_session *lock_session_take(struct locks *locks,
                                       const struct lock_session *preferred,
                                       bool to_wait);

/* It is not in use any more: the next queue that waits for it is to be given
 * back; or it is closed, if it is retired and holds nothing. */
void lock_session_settle(struct locks *locks, struct lock_session *session);

void lock_session_close(struct locks *locks, struct lock_session *session);

/* Begins a task about a queue's lock. The queue is in no list then. */
void lock_begin(struct locks *locks, struct queue *queue,
                enum lock_task_kind kind);

/* Begins what waits for a worker, as far as there are workers. */
void lock_begin_all(struct locks *locks);

/* Begins a look at the first queues that are held, and moves them to the end. */
void lock_look(struct locks *locks);

/* With --shared: as long as something is held, a look is begun now and then. */
void lock_look_later(struct locks *locks);

#endif
