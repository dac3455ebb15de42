/*
 * The state machine of the queues' locks. See locks.h for the policy.
 *
 *     FREE -> WANTED -> TAKING -> HELD -> GIVING -> FREE
 *                        |  ^
 *                        v  |
 *                        BUSY
 */
#include "server/order/locks_private.h"

#include <assert.h>
#include <stdlib.h>

#include "server/base/app.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/order/hints.h"

#define FORGET_US     2000000 /* a queue without orders, and how busy it was */
#define GIVE_RETRY_US 100000  /* a lock that could not be given back */
#define GIVE_US_MAX   10000000
#define STEP_BACK_US  5000
#define STUCK_US      1000000 /* a store that does not go on */

static void tell_hints(struct locks *locks, const struct queue *queue,
                       bool by_others)
{
    hints_taken(locks->app->hints, queue->id.product_id, queue->id.segment,
                by_others);
}

/* ---- the states ----------------------------------------------------------- */

/* Nobody has the lock here any more; or nobody got it. */
static void to_free(struct locks *locks, struct queue *queue)
{
    locks->busy_n -= queue->state == QUEUE_BUSY;
    if (queue->waiting > 0 && !queue->batch) {
        timers_cancel(&locks->timers, &queue->timer);
        queue->state = QUEUE_WANTED;
        queue_list_put(queue, &locks->wanted);
    } else {
        queue->state = QUEUE_FREE;
        queue_list_put(queue, NULL);
        (void)timers_set(&locks->timers, &queue->timer,
                         locks->queues->now_us + FORGET_US);
    }
}

static void to_giving(struct locks *locks, struct queue *queue)
{
    assert(queue->state == QUEUE_HELD);
    timers_cancel(&locks->timers, &queue->timer);
    TAILQ_REMOVE(&locks->held, queue, held_place);
    queue->state = QUEUE_GIVING;
    queue->first_give_us = 0;
    queue_list_put(queue, &locks->giving);
}

/* Our store hangs, and another instance's may not. What becomes of the batch that
 * it has, it decides by the fence. */
static bool is_stuck(const struct locks *locks, const struct queue *queue)
{
    const struct queues *queues = locks->queues;

    return !queue->is_thinking && !locks->stopping && queues->at_store_us > 0 &&
           queues->now_us > queues->at_store_us + STUCK_US;
}

void locks_leave(struct locks *locks, struct queue *queue)
{
    if (queue->state != QUEUE_HELD)
        return;
    queue->leaves = true;
    queue_update(locks->queues, queue);
    if (!queue->batch || is_stuck(locks, queue))
        to_giving(locks, queue);
}

/*
 * The business time of --think-ms is that of the orders that are there when it
 * begins; those that come meanwhile wait for their own. So the lock is given
 * back after them.
 */
static void to_held(struct locks *locks, struct queue *queue)
{
    uint64_t think_us = 1000 * (uint64_t)locks->app->config->think_ms;

    queue->session->holds++;
    tell_hints(locks, queue, false);
    queue->fence = lock_fence(locks->app, &queue->lock.grant);
    queue->state = QUEUE_HELD;
    queue->leaves = queue->to_others = false;
    queue->has_placed = false;
    queue->is_thinking = think_us > 0 && queue->waiting > 0;
    queue->quota = think_us > 0 ? queue->waiting : SIZE_MAX;
    queue->looked_us = queue->held_us = locks->queues->now_us;
    TAILQ_INSERT_TAIL(&locks->held, queue, held_place);
    lock_look_later(locks);
    if (queue->is_thinking)
        (void)timers_set(&locks->timers, &queue->timer,
                         queue->held_us + think_us);
    locks_update(locks, queue);
}

/* Until when is the lock kept, which nobody is known to want? */
static void keep(struct locks *locks, struct queue *queue)
{
    uint64_t until_us = queue_keep_until_us(queue, queues_n(locks->queues));

    if (queue->is_thinking)
        return;
    if (locks->stopping || queue->quota == 0 ||
        until_us <= locks->queues->now_us)
        locks_leave(locks, queue);
    else if (queue->timer.place == 0 || until_us < queue->timer.due_us)
        (void)timers_set(&locks->timers, &queue->timer, until_us);
}

void locks_update(struct locks *locks, struct queue *queue)
{
    switch (queue->state) {
    case QUEUE_FREE:
        if (!queue->batch)
            to_free(locks, queue);
        break;
    case QUEUE_WANTED:
    case QUEUE_BUSY:
        if (queue->waiting == 0)
            to_free(locks, queue);
        break;
    case QUEUE_HELD:
        if (!queue->batch && queue->leaves)
            to_giving(locks, queue);
        else if (!queue->batch)
            keep(locks, queue);
        queue_update(locks->queues, queue);
        break;
    case QUEUE_TAKING:
    case QUEUE_GIVING:
        break;
    }
}

/* ---- results -------------------------------------------------------------- */

/* The lock is another instance's. Orders that may not wait any longer are
 * refused, the queue waits for its turn. */
static void hear_busy(struct locks *locks, struct queue *queue)
{
    uint64_t wait_us = 1000 * (uint64_t)lock_wait_ms(locks->app);
    /* To the millisecond: a wait of 0 is none. */
    uint64_t now_us = locks->queues->now_us + 1000;

    queue->state = QUEUE_BUSY;
    locks->busy_n++;
    tell_hints(locks, queue, true);
    queue_list_put(queue, &locks->busy);
    locks->owner.refuse(locks->owner.ctx, queue,
                        now_us > wait_us ? now_us - wait_us : 0,
                        ORDER_LOCK_TIMEOUT, dlock_status_text(DLOCK_TIMEOUT));
    locks_update(locks, queue);
}

static void hear_taken(struct locks *locks, struct queue *queue)
{
    const struct lock_task *lock = &queue->lock;
    struct lock_session *session = queue->session;

    locks->busy_n -= queue->was_busy;
    locks->waits -= lock->wait_ms > 0;
    if (lock->store_status == STORE_OK)
        locks->is_away = health_is_no_answer(lock->status);
    if (lock->status == DLOCK_OK) {
        to_held(locks, queue);
    } else if (order_outcome_of_lock(lock->status) == ORDER_LOCK_TIMEOUT) {
        hear_busy(locks, queue);
    } else if (lock->store_status == STORE_NO_PRODUCT) {
        locks->owner.refuse(locks->owner.ctx, queue, UINT64_MAX,
                            ORDER_NO_PRODUCT, lock->error);
        to_free(locks, queue);
        if (queue->state == QUEUE_FREE) /* forgotten at once */
            (void)timers_set(&locks->timers, &queue->timer, 0);
    } else {
        /* What may have been won, the next try of this session takes over. */
        queue->preferred = session;
        locks->owner.refuse(locks->owner.ctx, queue, lock->begun_us,
                            lock->store_status == STORE_OK
                                ? order_outcome_of_lock(lock->status)
                                : ORDER_STORE_UNAVAILABLE,
                            lock_task_why(lock));
        to_free(locks, queue);
    }
    lock_session_settle(locks, session);
}

/* The other instance has to hear of it, to wake up and to ask; we would be
 * faster. Then we wait for our turn. */
static void step_back(struct locks *locks, struct queue *queue)
{
    queue->state = QUEUE_BUSY;
    locks->busy_n++;
    if (!timers_set(&locks->timers, &queue->timer,
                    locks->queues->now_us + STEP_BACK_US))
        queue_list_put(queue, &locks->busy);
    locks_update(locks, queue);
}

/*
 * A lock server that cannot take a lock back may be there again in a moment;
 * until then the product is blocked for everybody. What cannot be given back at
 * all ends with its lease, and its session takes no more locks: it is not known
 * what the server believes of it.
 */
static void hear_given(struct locks *locks, struct queue *queue)
{
    uint64_t now_us = locks->queues->now_us;
    struct lock_session *session = queue->session;

    locks->is_away = health_is_no_answer(queue->lock.status);
    if (locks->is_away && queue->first_give_us == 0) {
        queue->first_give_us = now_us;
        log_warn("release", "lock=%s error=\"%s\"", queue->lock.name,
                 queue->lock.error);
    }
    if (locks->is_away && !locks->stopping &&
        now_us < queue->first_give_us + GIVE_US_MAX) {
        (void)timers_set(&locks->timers, &queue->timer, now_us + GIVE_RETRY_US);
    } else {
        session->holds--;
        session->retired |= locks->is_away;
        queue->session = NULL;
        if (queue->to_others && !locks->is_away && !locks->stopping &&
            !queue->batch)
            step_back(locks, queue);
        else
            to_free(locks, queue);
    }
    lock_session_settle(locks, session);
}

static void hear_tasks(struct locks *locks)
{
    struct lock_task *task = atomic_exchange(&locks->inbox.first, NULL), *next;

    for (; task; task = next) {
        struct queue *queue = CONTAINER_OF(task, struct queue, lock);

        next = task->next;
        locks->under_way--;
        if (task->kind == LOCK_TAKE)
            hear_taken(locks, queue);
        else
            hear_given(locks, queue);
    }
}

static void hear_looks(struct locks *locks)
{
    struct looks *looks = &locks->looks;
    struct queue *queue;

    if (!looks->under_way || !atomic_exchange(&looks->ended, false))
        return;
    looks->under_way = false;
    for (size_t i = 0; i < looks->n; i++) {
        queue = queue_find(locks->queues, looks->ids[i].product_id,
                           looks->ids[i].segment);
        if (!looks->wanted[i] || !queue || queue->state != QUEUE_HELD)
            continue;
        /* If two instances gave way before they had sold, none would sell. */
        if (queue->waiting > 0 && !queue->has_placed && !is_stuck(locks, queue))
            continue;
        queue->to_others = true;
        tell_hints(locks, queue, true);
        locks_leave(locks, queue);
    }
}

/* ---- from outside --------------------------------------------------------- */

/* A queue's time has come. */
static void look_at(struct locks *locks, struct queue *queue)
{
    if (queue->state == QUEUE_FREE) {
        if (queue->waiting == 0 && !queue->batch)
            queue_free(locks->queues, queue);
    } else if (queue->state == QUEUE_GIVING) {
        queue_list_put(queue, &locks->giving);
    } else if (queue->state == QUEUE_BUSY) {
        queue_list_put(queue, &locks->busy);
    } else if (queue->state == QUEUE_HELD) {
        if (queue->is_thinking)
            queue->held_us = locks->queues->now_us;
        queue->is_thinking = false;
        locks_update(locks, queue);
    }
}

void locks_attend(struct locks *locks)
{
    struct timer *timer;

    hear_tasks(locks);
    hear_looks(locks);
    while ((timer = timers_pop(&locks->timers, locks->queues->now_us))) {
        if (timer == &locks->look_timer)
            lock_look(locks);
        else
            look_at(locks, CONTAINER_OF(timer, struct queue, timer));
    }
    lock_begin_all(locks);
}

uint64_t locks_due_us(const struct locks *locks)
{
    return timers_next_us(&locks->timers);
}

bool locks_is_good(const struct queue *queue)
{
    return dlock_remaining_ms(queue->lock.session, &queue->lock.grant) > 0;
}

bool locks_are_away(const struct locks *locks)
{
    return locks->is_away;
}

void locks_stop(struct locks *locks)
{
    struct queue *queue = TAILQ_FIRST(&locks->held), *next;

    locks->stopping = true;
    for (; queue; queue = next) {
        next = TAILQ_NEXT(queue, held_place);
        locks_leave(locks, queue);
    }
}

bool locks_are_idle(const struct locks *locks)
{
    const struct lock_session *session;

    TAILQ_FOREACH(session, &locks->sessions, place)
    {
        if (session->holds > 0)
            return false;
    }
    return locks->under_way == 0 && !locks->looks.under_way;
}

/* Other instances are to see at once if this one dies. */
static void announce(struct locks *locks)
{
    struct lock_session *session = lock_session_take(locks, NULL, true);

    if (!session)
        return;
    if (!store_announce(locks->app->store,
                        lock_instance_id(dlock_session_owner(session->dlock))))
        log_warn("locks", "error=\"the lock file cannot be locked: if this "
                          "instance dies, others wait for its leases\"");
    lock_session_settle(locks, session);
}

struct locks *locks_open(const struct app *app, struct queues *queues,
                         const struct locks_owner *owner)
{
    struct locks *locks = calloc(1, sizeof(*locks));

    if (!locks)
        return NULL;
    locks->app = app;
    locks->queues = queues;
    locks->owner = *owner;
    locks->inbox.store = app->store;
    locks->tasks_max = (size_t)app->config->workers;
    locks->waits_max = (locks->tasks_max + 1) / 2;
    TAILQ_INIT(&locks->sessions);
    TAILQ_INIT(&locks->wanted);
    TAILQ_INIT(&locks->busy);
    TAILQ_INIT(&locks->giving);
    TAILQ_INIT(&locks->held);
    if (app->config->shared)
        announce(locks);
    return locks;
}

void locks_close(struct locks *locks)
{
    if (!locks)
        return;
    assert(locks_are_idle(locks));
    while (!TAILQ_EMPTY(&locks->sessions))
        lock_session_close(locks, TAILQ_FIRST(&locks->sessions));
    timers_release(&locks->timers);
    free(locks);
}
