/*
 * Which task about a lock is begun next, and with which session: see the policy in
 * locks.h. The committer's thread only, but for look_run().
 */
#include "server/order/locks_private.h"

#include <stdlib.h>

#include "db/store_batch.h"
#include "server/base/app.h"
#include "server/base/config.h"

#define SESSIONS_MAX 320
#define TURN_MS_MIN  2 /* of a queue whose lock is busy */
#define TURN_MS_MAX  250
#define ROUND_MS     200 /* in which each busy queue is to have a turn */

static struct lock_session *session_open(struct locks *locks)
{
    struct lock_session *session;

    if (locks->sessions_n == SESSIONS_MAX)
        return NULL;
    session = calloc(1, sizeof(*session));
    if (!session)
        return NULL;
    if (dlock_session_open(locks->app->locks, &session->dlock, NULL) !=
        DLOCK_OK) {
        free(session);
        return NULL;
    }
    TAILQ_INIT(&session->gives);
    TAILQ_INSERT_TAIL(&locks->sessions, session, place);
    locks->sessions_n++;
    return session;
}

void lock_session_close(struct locks *locks, struct lock_session *session)
{
    TAILQ_REMOVE(&locks->sessions, session, place);
    locks->sessions_n--;
    dlock_session_close(session->dlock);
    free(session);
}

/* Sessions that hold locks already are used again, so that others stay free of
 * them. There are a dozen: they are searched. */
struct lock_session *lock_session_take(struct locks *locks,
                                       const struct lock_session *preferred,
                                       bool to_wait)
{
    struct lock_session *best = NULL, *session;

    TAILQ_FOREACH(session, &locks->sessions, place)
    {
        if (session->in_use || session->retired)
            continue;
        if (session == preferred) {
            best = session;
            break;
        }
        /* The first that is as it should be, or else the first. */
        if (!best ||
            ((session->holds == 0) == to_wait && (best->holds == 0) != to_wait))
            best = session;
    }
    if (!best || (to_wait && best->holds > 0 && best != preferred)) {
        session = session_open(locks);
        best = session ? session : best;
    }
    if (best)
        best->in_use = true;
    return best;
}

void lock_session_settle(struct locks *locks, struct lock_session *session)
{
    struct queue *queue = TAILQ_FIRST(&session->gives);

    session->in_use = false;
    if (queue)
        queue_list_put(queue, &locks->giving);
    else if (session->retired && session->holds == 0)
        lock_session_close(locks, session);
}

void lock_begin(struct locks *locks, struct queue *queue,
                enum lock_task_kind kind)
{
    queue->lock.kind = kind;
    queue->lock.session = queue->session ? queue->session->dlock : NULL;
    queue_list_put(queue, NULL);
    locks->under_way++;
    lock_task_begin(locks->app, &queue->lock, &locks->inbox);
}

/* WAIT_MS is 0 for a first try. A session that holds locks waits for a moment
 * only: to give one of them back it has to be free. */
static void begin_take(struct locks *locks, struct queue *queue,
                       unsigned wait_ms)
{
    struct lock_session *session =
        lock_session_take(locks, queue->preferred, wait_ms > 0);

    if (!session) {
        locks->owner.refuse(locks->owner.ctx, queue, UINT64_MAX,
                            ORDER_OVERLOADED, "out of memory");
        locks_update(locks, queue);
        return;
    }
    queue->was_busy = queue->state == QUEUE_BUSY;
    queue->state = QUEUE_TAKING;
    queue->session = session;
    queue->preferred = NULL;
    queue->lock.wait_ms =
        wait_ms > 0 && session->holds > 0 ? TURN_MS_MIN : wait_ms;
    locks->waits += wait_ms > 0;
    lock_begin(locks, queue, LOCK_TAKE);
}

/* The more queues wait for their turn, the shorter it is. */
static unsigned turn_ms(const struct locks *locks)
{
    size_t ms = locks->tasks_max > 1 ? TURN_MS_MAX : ROUND_MS / 10;

    if (locks->busy_n > locks->waits_max)
        ms = ROUND_MS * locks->waits_max / locks->busy_n;
    if (ms > lock_wait_ms(locks->app))
        ms = lock_wait_ms(locks->app);
    return ms < TURN_MS_MIN ? TURN_MS_MIN : (unsigned)ms;
}

static void begin_give(struct locks *locks, struct queue *queue)
{
    if (queue->session->in_use) {
        queue_list_put(queue, &queue->session->gives);
        return;
    }
    queue->session->in_use = true;
    lock_begin(locks, queue, LOCK_GIVE);
}

/* To give back comes first, since others wait for it; then queues that have not
 * been tried yet; then those whose turn it is to wait. */
void lock_begin_all(struct locks *locks)
{
    struct queue *queue;

    while (locks->under_way < locks->tasks_max) {
        if ((queue = TAILQ_FIRST(&locks->giving)))
            begin_give(locks, queue);
        else if ((queue = TAILQ_FIRST(&locks->wanted)))
            begin_take(locks, queue, 0);
        else if (locks->waits < locks->waits_max &&
                 (queue = TAILQ_FIRST(&locks->busy)))
            begin_take(locks, queue, turn_ms(locks));
        else
            break;
    }
}

/* From now on LOCKS may be closed by others. */
static void look_end(struct task *task)
{
    struct locks *locks = task->owner;
    struct store *store = locks->app->store;

    atomic_store(&locks->looks.ended, true);
    store_source_wake(store);
}

static void look_run(struct task *task, struct worker *worker)
{
    struct locks *locks = task->owner;
    struct looks *looks = &locks->looks;
    char name[LOCK_NAME_BYTES];

    for (size_t i = 0; i < looks->n; i++) {
        lock_name(looks->ids[i].product_id, looks->ids[i].segment, name);
        looks->wanted[i] = lock_is_wanted(worker, name);
    }
    look_end(task);
}

void lock_look_later(struct locks *locks)
{
    if (locks->app->config->shared && locks->look_timer.place == 0 &&
        !TAILQ_EMPTY(&locks->held))
        (void)timers_set(&locks->timers, &locks->look_timer,
                         locks->queues->now_us + LOOK_EVERY_US);
}

/* A look is no task in the count: it may come on top of them. */
void lock_look(struct locks *locks)
{
    uint64_t now_us = locks->queues->now_us;
    struct looks *looks = &locks->looks;
    struct queue *queue;

    lock_look_later(locks);
    if (looks->under_way)
        return;
    for (looks->n = 0; looks->n < LOOKS_MAX; looks->n++) {
        queue = TAILQ_FIRST(&locks->held);
        if (!queue || queue->looked_us + LOOK_EVERY_US > now_us)
            break;
        queue->looked_us = now_us;
        TAILQ_REMOVE(&locks->held, queue, held_place);
        TAILQ_INSERT_TAIL(&locks->held, queue, held_place);
        looks->ids[looks->n] = queue->id;
        looks->wanted[looks->n] = false;
    }
    looks->task =
        (struct task){.run = look_run, .refuse = look_end, .owner = locks};
    looks->under_way =
        looks->n > 0 && tasks_submit(locks->app->workers, &looks->task);
}
