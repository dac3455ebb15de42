/*
 * See lock_tasks.h. Locks are taken and given back here, and nowhere else.
 *
 * The way of a task that nobody waits for, by threads:
 *
 *     committer's     lock_task_begin()
 *     a worker's      take(): the looks, then dlock_acquire_async()
 *     the library's   ended(): the answer, into the inbox
 *     committer's     locks_attend(): hears it
 *
 * A release needs no look, and so no worker.
 */
#include "server/order/lock_tasks.h"

#include <inttypes.h>
#include <stdio.h>

#include "db/store_async.h"
#include "server/base/app.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/health.h"
#include "server/base/log.h"
#include "server/base/metrics.h"

void lock_name(int64_t product_id, int64_t segment, char name[LOCK_NAME_BYTES])
{
    (void)snprintf(name, LOCK_NAME_BYTES, "lock:{%" PRId64 ":%" PRId64 "}",
                   product_id, segment);
}

void lock_name_of_user(int64_t user_id, char name[LOCK_NAME_BYTES])
{
    (void)snprintf(name, LOCK_NAME_BYTES, "lock:{user-%" PRId64 "}", user_id);
}

unsigned lock_wait_ms(const struct app *app)
{
    uint64_t most = (uint64_t)app->config->lock_wait_ms;
    uint64_t command = config_rules_command_timeout_ms(app->config);

    /* The last command may begin as the wait ends, and then needs all of its
     * own timeout: the customer must hear within --lock-wait-ms also then. */
    return (unsigned)(most > command ? most - command : 0);
}

static unsigned capabilities(const struct app *app)
{
    return dlock_strategy_find(app->config->lock)->capabilities;
}

/* The lock says how its tokens are to be used; to be wrong is its lesson. */
struct store_fence lock_fence(const struct app *app,
                              const struct dlock_grant *grant)
{
    return (struct store_fence){
        .name = grant->name,
        .token = grant->token,
        .owner = grant->owner,
        .late = (capabilities(app) & DLOCK_CAP_FENCED_LATE) != 0,
    };
}

uint64_t lock_instance_id(const char *owner)
{
    uint64_t id = 0;

    /* An owner's name begins with 16 hexadecimal digits that all sessions of
     * its process share. */
    (void)sscanf(owner, "%16" SCNx64, &id);
    return id;
}

/* The holder may be another instance that was killed. All that share a database file
 * are on this host, and the kernel knows which of them live: then its lock need not be
 * waited for. (If the lock is another's by now, the fence makes it harmless that it
 * loses it.) */
static bool is_left_behind(struct lock_task *task, struct worker *worker)
{
    struct dlock_holder holder;
    uint64_t id;

    /* Without a token a holder that lives after all would write beside the next
     * one, so that only a fenced lock may be taken from its holder. */
    if (!worker->app->config->shared ||
        !(capabilities(worker->app) & DLOCK_CAP_FENCED) ||
        dlock_inspect(worker->session, task->name, &holder, NULL) != DLOCK_OK ||
        !holder.held)
        return false;
    /* The look at one's own id comes first: one never hears of oneself, and
     * would be taken for dead. */
    id = lock_instance_id(holder.owner);
    if (id == lock_instance_id(dlock_session_owner(worker->session)) ||
        !store_is_gone(worker->app->store, id))
        return false;
    /* zk-fair cannot: it says so, and the dead one's session ends by itself. */
    if (dlock_force_release(worker->session, task->name, NULL) != DLOCK_OK)
        return false;
    log_warn("lock", "lock=%s owner=%s error=\"its holder has died\"",
             task->name, holder.owner);
    return true;
}

/* The look into the store comes first: a lock server must not keep anything for
 * products that do not exist, since there is no end of them. And tokens of a server
 * that has lost its data go on from the store's. False: the lock is not to be asked
 * for, and the task has its result. */
static bool look(struct lock_task *task, struct worker *worker,
                 struct dlock_terms *terms)
{
    const struct config *config = worker->app->config;
    struct store_error error = {""};
    uint64_t floor = 0;

    *terms = (struct dlock_terms){
        .wait_ms = task->wait_ms,
        .lease_ms = (unsigned)config->lock_lease_ms,
        .max_hold_ms = (unsigned)config->lock_max_hold_ms,
    };
    /* An order that runs out of time in this look must not be told that the
     * lock was busy: see expire() in dispatcher.c. */
    atomic_store(&task->at_store, true);
    task->store_status = store_fence_floor(worker->reader, task->product_id,
                                           task->name, &floor, &error);
    atomic_store(&task->at_store, false);
    /* The floor is what the database has seen of this lock. A server that
     * counts its tokens anew must begin above it, or each write would be
     * refused as stale. */
    if (capabilities(worker->app) & DLOCK_CAP_FENCED)
        terms->fence_floor = floor;
    if (task->store_status == STORE_OK)
        return true;
    /* The lock server was not asked. No status of a lock says that; of them all
     * this one has callers give up. */
    task->status = DLOCK_UNREACHABLE;
    if (task->store_status != STORE_NO_PRODUCT)
        health_heard_status(worker->app->health, HEALTH_READER,
                            task->store_status, &error);
    snprintf(task->error, LOCK_ERROR_BYTES, "%s", error.text);
    return false;
}

/* The lock client has answered. The health hears of a failure at any call, but of a
 * success only when a lock was had: a release proves nothing for the next order. */
static void end(struct lock_task *task, const struct app *app,
                enum dlock_status status, const struct dlock_error *error)
{
    uint64_t now_us = clock_us();

    task->status = status;
    snprintf(task->error, LOCK_ERROR_BYTES, "%s", error->text);
    if (task->kind == LOCK_TAKE) {
        /* The hold is counted from the answer, and not from the server's own
         * grant: that is how long orders could go by it. */
        task->granted_us = now_us;
        metrics_observe(app->metrics, METRICS_LOCK_WAIT,
                        now_us - task->begun_us);
    } else {
        /* The hold ends with the first try to give the lock back. */
        if (task->granted_us > 0)
            metrics_observe(app->metrics, METRICS_LOCK_HOLD,
                            task->begun_us - task->granted_us);
        task->granted_us = 0;
        /* The lease ended under the holder: others may have been inside
         * meanwhile. The metric counts it, since the orders hear nothing of it. */
        if (status == DLOCK_LOST)
            metrics_count(app->metrics, METRICS_LOCKS_LOST, 1);
    }
    if (health_is_no_answer(status))
        health_heard(app->health, HEALTH_LOCK, task->error);
    else if (task->kind == LOCK_TAKE && status == DLOCK_OK)
        health_worked(app->health, HEALTH_LOCK, task->begun_us);
}

static void begin(struct lock_task *task)
{
    task->begun_us = clock_us();
    task->store_status = STORE_OK;
}

enum order_outcome lock_task_outcome(const struct lock_task *task,
                                     const char **why)
{
    *why = task->error;
    if (task->store_status == STORE_NO_PRODUCT)
        return ORDER_NO_PRODUCT;
    if (task->store_status != STORE_OK)
        return ORDER_STORE_UNAVAILABLE;
    /* The lock server's own text is for the log only: it may name hosts. */
    *why = dlock_status_text(task->status);
    /* LOST: the lock was free, and the answer came too late. */
    return task->status == DLOCK_BUSY || task->status == DLOCK_TIMEOUT ||
                   task->status == DLOCK_LOST
               ? ORDER_LOCK_TIMEOUT
               : ORDER_LOCK_UNREACHABLE;
}

/* ---- a thread that waits for it ------------------------------------------- */

void lock_task_run(struct lock_task *task, struct worker *worker)
{
    struct dlock_error error = {""};
    struct dlock_terms terms;
    enum dlock_status status;

    begin(task);
    if (task->kind == LOCK_GIVE) {
        status = dlock_release(task->session, &task->grant, &error);
    } else {
        if (!look(task, worker, &terms))
            return;
        status = dlock_acquire(task->session, task->name, &terms, &task->grant,
                               &error);
        /* The wait is over before a dead holder is looked for, as most holders
         * live. The second call finds the lock free, and does not wait. */
        terms.wait_ms = 0;
        if ((status == DLOCK_BUSY || status == DLOCK_TIMEOUT) &&
            is_left_behind(task, worker))
            status = dlock_acquire(task->session, task->name, &terms,
                                   &task->grant, &error);
    }
    end(task, worker->app, status, &error);
}

/* ---- nobody waits for it -------------------------------------------------- */

/* Afterwards the task is the committer's thread's. */
static void post(struct lock_task *task)
{
    struct lock_inbox *inbox = task->inbox;
    /* The store is read before the push: afterwards the committer's thread may
     * free the task, and the inbox with it. */
    struct store *store = inbox->app->store;

    task->next = atomic_load(&inbox->first);
    while (!atomic_compare_exchange_weak(&inbox->first, &task->next, task))
        continue;
    store_source_wake(store);
}

/* The callback of both calls, on a thread of the lock library. */
static void ended(void *ctx, struct dlock_session *session,
                  enum dlock_status status, const struct dlock_grant *grant,
                  const struct dlock_error *error)
{
    struct lock_task *task = ctx;

    (void)session;
    /* The grant is the library's, and only lent until this returns. */
    if (grant)
        task->grant = *grant;
    end(task, task->inbox->app, status, error);
    post(task);
}

/* On a worker, because the looks wait for the database, and for the lock server. An
 * order that waits has heard before that the lock is another's. */
static void take(struct task *base, struct worker *worker)
{
    struct lock_task *task = base->owner;
    struct dlock_error error = {""};
    struct dlock_terms terms;
    enum dlock_status status;

    begin(task);
    /* The result of a task that no worker begins, because the pool stops. */
    task->status = DLOCK_UNREACHABLE;
    if (!worker || !look(task, worker, &terms)) {
        post(task);
        return;
    }
    /* A first try does not look for a dead holder: that would be one more round
     * trip for each lock that is free. */
    if (task->wait_ms > 0)
        (void)is_left_behind(task, worker);
    /* Once begun, the task may have ended before the call returns: it must not
     * be touched after a DLOCK_OK. */
    status = dlock_acquire_async(task->session, task->name, &terms, ended, task,
                                 &error);
    if (status != DLOCK_OK)
        ended(task, task->session, status, NULL, &error);
}

void lock_task_begin(struct lock_task *task, struct lock_inbox *inbox)
{
    struct dlock_error error = {""};
    enum dlock_status status;

    task->inbox = inbox;
    if (task->kind == LOCK_TAKE) {
        task->task = (struct task){.run = take, .owner = task};
        tasks_submit(inbox->app->workers, &task->task);
        return;
    }
    /* A lock is given back without a worker: nothing has to be looked up, and
     * the workers may all be waiting. */
    begin(task);
    status =
        dlock_release_async(task->session, &task->grant, ended, task, &error);
    if (status != DLOCK_OK)
        ended(task, task->session, status, NULL, &error);
}
