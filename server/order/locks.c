/*
 * The state machine of the queues' locks. See locks.h for the policy, queue.h for the
 * states. The committer's thread only.
 *
 * locks_attend() is one turn of it: it hears the results of tasks first, then the timers,
 * and then begin_all() begins a task for each queue in `giving`, `wanted` and `busy`, as
 * many as may be under way. So all else here only puts queues into these lists.
 */
#include "server/order/locks.h"

#include <assert.h>
#include <stdlib.h>

#include "db/store_async.h"
#include "server/base/app.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/order/hints.h"
#include "server/order/sessions.h"

#define FORGET_US     2000000  /* a queue without orders, and how busy it was */
#define GIVE_RETRY_US 100000   /* a lock that could not be given back */
#define GIVE_US_MAX   10000000 /* of tries: then the lock is left to its lease */
#define STEP_BACK_US  5000 /* in which an instance that waits can come first */
#define STUCK_US      1000000 /* a store that does not go on */

/* Under way at once, of each kind, because one that gets no answer must not keep others. */
#define GIVES_MAX     16
#define TRIES_MAX     16
#define WAITS_MAX     64  /* each with a session of its own */
#define TURN_MS       250 /* that a busy lock is waited for in one go; */
#define TURN_MS_SHORT 5 /* of very many, or with a session that holds others */
#define LOOK_EVERY_US 10000 /* a lock at most */
#define LOOKS_MAX     64    /* in one task */

struct locks {
    const struct app *app;
    struct queues *queues;
    locks_refuse *refuse;
    void *owner;             /* of the queues */
    struct lock_inbox inbox; /* results of tasks */

    struct sessions sessions;
    struct queue_list wanted, busy, giving; /* that wait for their task */
    struct queue_list held; /* those first that were looked at longest ago */
    struct timers timers;
    struct timer look_timer;
    size_t gives, tries, waits; /* tasks under way, by kind */
    size_t holds;               /* locks of all sessions */
    unsigned wait_ms;           /* for a lock at most */
    bool is_away, stopping;

    /* With --shared: which of the locks that we hold another instance waits for. A
     * worker's while UNDER_WAY and not ENDED. */
    struct {
        size_t n;
        struct {
            struct queue_id id; /* no pointer: it may be freed meanwhile */
            bool is_wanted;     /* or nobody can tell */
        } at[LOOKS_MAX];
        bool under_way;
        atomic_bool ended;
        struct task task;
    } looks;
};

/* ---- the states ----------------------------------------------------------- */

static void tell_hints(struct locks *locks, const struct queue *queue,
                       bool by_others)
{
    hints_taken(locks->app->hints, queue->id.product_id, queue->id.segment,
                by_others);
}

/* As long as something is held, a look is begun now and then. */
static void look_later(struct locks *locks)
{
    if (locks->app->config->shared && !locks->look_timer.place &&
        !TAILQ_EMPTY(&locks->held))
        timers_set(&locks->timers, &locks->look_timer,
                   locks->queues->now_us + LOOK_EVERY_US);
}

/* The lock is not ours any more, or was not had. */
static void to_free(struct locks *locks, struct queue *queue)
{
    if (queue->waiting > 0 && !queue->batch) { /* done() comes here again */
        timers_cancel(&locks->timers, &queue->timer);
        queue->state = QUEUE_WANTED;
        queue_list_put(queue, &locks->wanted);
    } else {
        queue->state = QUEUE_FREE;
        queue_list_put(queue, NULL);
        timers_set(&locks->timers, &queue->timer,
                   locks->queues->now_us + FORGET_US);
    }
}

static void to_giving(struct locks *locks, struct queue *queue)
{
    assert(queue->state == QUEUE_HELD);
    timers_cancel(&locks->timers, &queue->timer);
    TAILQ_REMOVE(&locks->held, queue, held_place);
    queue->state = QUEUE_GIVING;
    queue->first_give_us = 0; /* its time begins with the first try */
    queue_list_put(queue, &locks->giving);
}

/* Our store hangs, and another instance's may not: the lock is given back
 * under the batch. Our store decides that by the fence, whenever it goes on. */
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

/* The business time of --think-ms is that of the orders that are there when it begins;
 * those that come meanwhile wait for their own. So the lock is given back after them. */
static void to_held(struct locks *locks, struct queue *queue)
{
    uint64_t think_us = 1000 * (uint64_t)locks->app->config->think_ms;

    queue->session->holds++;
    locks->holds++;
    tell_hints(locks, queue, false);
    queue->fence = lock_fence(locks->app, &queue->lock.grant);
    queue->state = QUEUE_HELD;
    queue->leaves = queue->to_others = false;
    queue->has_placed = false;
    queue->is_thinking = think_us > 0 && queue->waiting > 0;
    queue->quota = think_us > 0 ? queue->waiting : SIZE_MAX;
    queue->looked_us = queue->held_us = locks->queues->now_us;
    TAILQ_INSERT_TAIL(&locks->held, queue, held_place);
    look_later(locks);
    if (queue->is_thinking)
        timers_set(&locks->timers, &queue->timer, queue->held_us + think_us);
    locks_update(locks, queue);
}

void locks_update(struct locks *locks, struct queue *queue)
{
    uint64_t until_us; /* a lock that nobody is known to want is kept */

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
        if (!queue->batch && queue->leaves) {
            to_giving(locks, queue);
        } else if (!queue->batch && !queue->is_thinking) {
            until_us =
                queue_keep_until_us(queue, HASH_COUNT(locks->queues->table));
            if (locks->stopping || queue->quota == 0 || /* all had their turn */
                until_us <= locks->queues->now_us)
                locks_leave(locks, queue);
            else if (!queue->timer.place || until_us < queue->timer.due_us)
                timers_set(&locks->timers, &queue->timer, until_us);
        }
        queue_update(locks->queues, queue);
        break;
    case QUEUE_TAKING: /* the task that is under way has the queue */
    case QUEUE_GIVING:
        break;
    }
}

/* ---- results of tasks ------------------------------------------------------ */

/* If the answer was lost the lock may have been won: the next try of this session takes
 * it over. If the lock is another instance's, orders that may not wait any longer are
 * refused, and the queue waits for its turn. */
static void hear_taken(struct locks *locks, struct queue *queue)
{
    const struct lock_task *lock = &queue->lock;
    struct lock_session *session = queue->session;
    const char *why;
    enum order_outcome outcome = lock_task_outcome(lock, &why);
    bool no_product = outcome == ORDER_NO_PRODUCT;
    uint64_t wait_us = 1000 * (uint64_t)locks->wait_ms;
    /* To the millisecond: a wait of 0 is none. */
    uint64_t now_us = locks->queues->now_us + 1000;

    if (lock->store_status == STORE_OK) /* else its server was not asked */
        locks->is_away = health_is_no_answer(lock->status);
    if (lock->status == DLOCK_OK) {
        to_held(locks, queue);
    } else if (outcome == ORDER_LOCK_TIMEOUT) {
        queue->state = QUEUE_BUSY;
        queue->session = NULL; /* it has nothing of this lock: any may wait */
        tell_hints(locks, queue, true);
        queue_list_put(queue, &locks->busy);
        locks->refuse(locks->owner, queue,
                      now_us > wait_us ? now_us - wait_us : 0, outcome,
                      dlock_status_text(DLOCK_TIMEOUT));
        locks_update(locks, queue);
    } else {
        locks->refuse(locks->owner, queue,
                      no_product ? UINT64_MAX : lock->begun_us, outcome, why);
        to_free(locks, queue);
        if (no_product && queue->state == QUEUE_FREE) /* forgotten at once */
            timers_set(&locks->timers, &queue->timer, 0); /* no end of these */
    }
    session_settle(&locks->sessions, session);
}

/* A lock that was not given back ends with its lease, and its session takes no more, because
 * nobody knows what the server believes of it. Another instance that waits has to hear of a
 * release, to wake up and to ask; we would be faster, so we step back. */
static void let_go(struct locks *locks, struct queue *queue)
{
    struct lock_session *session = queue->session;

    session->holds--;
    locks->holds--;
    session->retired |= locks->is_away;
    queue->session = NULL;
    if (queue->to_others && !locks->is_away && !locks->stopping &&
        !queue->batch) {
        queue->state = QUEUE_BUSY; /* look_at() puts it into its list */
        timers_set(&locks->timers, &queue->timer,
                   locks->queues->now_us + STEP_BACK_US);
        locks_update(locks, queue);
    } else {
        to_free(locks, queue);
    }
    session_settle(&locks->sessions, session);
}

/* A lock server that does not take a lock back may be there again in a moment, and until
 * then the product is blocked for everybody: so the release is tried again. */
static void hear_given(struct locks *locks, struct queue *queue)
{
    uint64_t now_us = locks->queues->now_us;

    locks->is_away = health_is_no_answer(queue->lock.status);
    if (locks->is_away && queue->first_give_us == 0) {
        queue->first_give_us = now_us;
        log_warn("release", "lock=%s error=\"%s\"", queue->lock.name,
                 queue->lock.error);
    }
    if (locks->is_away && !locks->stopping &&
        now_us < queue->first_give_us + GIVE_US_MAX) {
        timers_set(&locks->timers, &queue->timer, now_us + GIVE_RETRY_US);
        session_settle(&locks->sessions, queue->session);
    } else {
        let_go(locks, queue);
    }
}

static size_t *count_of(struct locks *locks, const struct lock_task *task)
{
    if (task->kind == LOCK_GIVE)
        return &locks->gives;
    return task->wait_ms > 0 ? &locks->waits : &locks->tries;
}

/* ---- tasks ---------------------------------------------------------------- */

static void begin(struct locks *locks, struct queue *queue,
                  enum lock_task_kind kind)
{
    queue->lock.kind = kind;
    queue->lock.session = queue->session->dlock;
    queue_list_put(queue, NULL);
    *count_of(locks, &queue->lock) += 1;
    lock_task_begin(&queue->lock, &locks->inbox);
}

/* WAIT_MS is 0 for a first try. */
static void begin_take(struct locks *locks, struct queue *queue,
                       unsigned wait_ms)
{
    struct lock_session *session =
        session_take(&locks->sessions, queue->session, wait_ms > 0);

    if (!session) {
        locks->refuse(locks->owner, queue, UINT64_MAX, ORDER_OVERLOADED,
                      "out of memory");
        locks_update(locks, queue);
        return;
    }
    if (session->holds > 0 && wait_ms > TURN_MS_SHORT)
        wait_ms = TURN_MS_SHORT;
    queue->state = QUEUE_TAKING;
    queue->session = session;
    queue->lock.wait_ms = wait_ms;
    begin(locks, queue, LOCK_TAKE);
}

/* To give back comes first, since others wait for it; then queues that have not
 * been tried yet. There may be more busy locks than sessions, and orders whose time is up
 * must hear of it: so they are waited for by turns. */
static void begin_all(struct locks *locks)
{
    unsigned turn_ms = locks->wait_ms;
    struct queue *queue, *next;

    for (queue = TAILQ_FIRST(&locks->giving); queue && locks->gives < GIVES_MAX;
         queue = next) {
        next = TAILQ_NEXT(queue, place);
        if (queue->session->in_use) /* it does one thing at a time */
            continue;
        if (locks->stopping && locks->is_away) { /* or it would end too late */
            let_go(locks, queue);
        } else {
            queue->session->in_use = true;
            begin(locks, queue, LOCK_GIVE);
        }
    }
    while (locks->tries < TRIES_MAX && (queue = TAILQ_FIRST(&locks->wanted)))
        begin_take(locks, queue, 0);
    if (turn_ms > TURN_MS)
        turn_ms = TURN_MS;
    while (locks->waits < WAITS_MAX && (queue = TAILQ_FIRST(&locks->busy)))
        begin_take(locks, queue,
                   locks->waits >= WAITS_MAX / 2 || turn_ms < TURN_MS_SHORT
                       ? TURN_MS_SHORT
                       : turn_ms);
}

/* ---- looks: does another instance wait for a lock that we have? ----------- */

/* A look that no worker could have says no. Once it has ENDED, LOCKS may be freed. */
static void look_run(struct task *task, struct worker *worker)
{
    struct locks *locks = task->owner;
    struct store *store = locks->app->store;
    char name[LOCK_NAME_BYTES];

    for (size_t i = 0; i < locks->looks.n; i++) {
        const struct queue_id *id = &locks->looks.at[i].id;
        size_t n = 0;

        lock_name(id->product_id, id->segment, name);
        locks->looks.at[i].is_wanted =
            worker && (dlock_inspect_waiters(worker->session, name, NULL, 0, &n,
                                             NULL) != DLOCK_OK ||
                       n > 0);
    }
    atomic_store(&locks->looks.ended, true);
    store_source_wake(store);
}

/* The list turns: those whose look is the oldest come first, and each has its turn. */
static void look_at_held(struct locks *locks)
{
    uint64_t now_us = locks->queues->now_us;
    struct queue *queue;
    size_t n = 0;

    look_later(locks);
    if (locks->looks.under_way)
        return;
    for (; n < LOOKS_MAX; n++) {
        queue = TAILQ_FIRST(&locks->held);
        if (!queue || queue->looked_us + LOOK_EVERY_US > now_us)
            break;
        queue->looked_us = now_us;
        TAILQ_REMOVE(&locks->held, queue, held_place);
        TAILQ_INSERT_TAIL(&locks->held, queue, held_place);
        locks->looks.at[n].id = queue->id;
    }
    locks->looks.n = n;
    locks->looks.under_way = n > 0;
    locks->looks.task = (struct task){.run = look_run, .owner = locks};
    if (n > 0)
        tasks_submit(locks->app->workers, &locks->looks.task);
}

static void hear_looks(struct locks *locks)
{
    const struct queue_id *id;
    struct queue *queue;

    if (!locks->looks.under_way || !atomic_exchange(&locks->looks.ended, false))
        return;
    locks->looks.under_way = false;
    for (size_t i = 0; i < locks->looks.n; i++) {
        id = &locks->looks.at[i].id;
        queue = queue_find(locks->queues, id->product_id, id->segment);
        if (!locks->looks.at[i].is_wanted || !queue ||
            queue->state != QUEUE_HELD)
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

/* The queue's timer has fired: what it was set for, its state says. */
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

uint64_t locks_attend(struct locks *locks)
{
    struct lock_task *task = atomic_exchange(&locks->inbox.first, NULL), *next;
    struct queue *queue;
    struct timer *timer;

    for (; task; task = next) {
        next = task->next;
        queue = CONTAINER_OF(task, struct queue, lock);
        *count_of(locks, task) -= 1; /* before its kind can change */
        if (task->kind == LOCK_TAKE)
            hear_taken(locks, queue);
        else
            hear_given(locks, queue);
    }
    hear_looks(locks);
    while ((timer = timers_pop(&locks->timers, locks->queues->now_us))) {
        if (timer == &locks->look_timer)
            look_at_held(locks);
        else
            look_at(locks, CONTAINER_OF(timer, struct queue, timer));
    }
    begin_all(locks);
    return timers_next_us(&locks->timers);
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
    return locks->gives + locks->tries + locks->waits + locks->holds == 0 &&
           !locks->looks.under_way;
}

struct locks *locks_open(const struct app *app, struct queues *queues,
                         locks_refuse *refuse, void *owner)
{
    struct locks *locks = calloc(1, sizeof(*locks));
    struct lock_session *session;

    if (!locks)
        return NULL;
    locks->app = app;
    locks->queues = queues;
    locks->refuse = refuse;
    locks->owner = owner;
    locks->inbox.app = app;
    locks->wait_ms = lock_wait_ms(app);
    sessions_init(&locks->sessions, app->locks);
    TAILQ_INIT(&locks->wanted);
    TAILQ_INIT(&locks->busy);
    TAILQ_INIT(&locks->giving);
    TAILQ_INIT(&locks->held);
    session = app->config->shared ? session_open(&locks->sessions) : NULL;
    /* Other instances are to see at once if this one dies. */
    if (session &&
        !store_announce(app->store,
                        lock_instance_id(dlock_session_owner(session->dlock))))
        log_warn("locks", "error=\"the lock file cannot be locked: if this "
                          "instance dies, others wait for its leases\"");
    return locks;
}

void locks_close(struct locks *locks)
{
    if (!locks)
        return;
    assert(locks_are_idle(locks));
    sessions_release(&locks->sessions);
    free(locks);
}
