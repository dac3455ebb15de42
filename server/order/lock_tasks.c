/* See lock_tasks.h. Locks are taken and given back here, and nowhere else. */
#include "server/order/lock_tasks.h"

#include <inttypes.h>
#include <stdio.h>

#include "db/store_batch.h"
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

unsigned lock_wait_ms(const struct app *app)
{
    uint64_t most = (uint64_t)app->config->lock_wait_ms;
    uint64_t command = config_rules_command_timeout_ms(app->config);

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

    (void)sscanf(owner, "%16" SCNx64, &id);
    return id;
}

/*
 * The holder may be another instance that was killed. All that share a database
 * file are on this host, and the kernel knows which of them live: then its lock
 * need not be waited for. (If the lock is another's by now, the fence makes it
 * harmless that it loses it.)
 */
static bool is_left_behind(struct lock_task *task, struct worker *worker)
{
    struct dlock_holder holder;
    uint64_t id;

    if (!worker->app->config->shared ||
        !(capabilities(worker->app) & DLOCK_CAP_FENCED) ||
        dlock_inspect(worker->session, task->name, &holder, NULL) != DLOCK_OK ||
        !holder.held)
        return false;
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

/*
 * The look into the store comes first: a lock server must not keep anything for
 * products that do not exist, since there is no end of them. And tokens of a
 * server that has lost its data go on from the store's.
 */
static enum dlock_status take(struct lock_task *task, struct worker *worker)
{
    const struct config *config = worker->app->config;
    struct dlock_terms terms = {
        .wait_ms = task->wait_ms,
        .lease_ms = (unsigned)config->lock_lease_ms,
        .max_hold_ms = (unsigned)config->lock_max_hold_ms,
    };
    struct store_error store_error = {""};
    struct dlock_error lock_error = {""};
    enum dlock_status status;
    uint64_t floor = 0;

    atomic_store(&task->at_store, true);
    task->store_status = store_fence_floor(worker->reader, task->product_id,
                                           task->name, &floor, &store_error);
    atomic_store(&task->at_store, false);
    if (task->store_status != STORE_OK) {
        if (task->store_status != STORE_NO_PRODUCT) {
            if (!store_is_there(worker->app->store, &store_error))
                task->store_status = STORE_GONE;
            health_heard_status(worker->app->health, HEALTH_READER,
                                task->store_status, &store_error);
        }
        snprintf(task->error, LOCK_ERROR_BYTES, "%s", store_error.text);
        return DLOCK_UNREACHABLE;
    }
    if (capabilities(worker->app) & DLOCK_CAP_FENCED)
        terms.fence_floor = floor;
    status = dlock_acquire(task->session, task->name, &terms, &task->grant,
                           &lock_error);
    if ((status == DLOCK_BUSY || status == DLOCK_TIMEOUT) &&
        is_left_behind(task, worker))
        status = dlock_acquire(task->session, task->name, &terms, &task->grant,
                               &lock_error);
    task->granted_us = clock_us();
    metrics_observe(worker->app->metrics, METRICS_LOCK_WAIT,
                    task->granted_us - task->begun_us);
    snprintf(task->error, LOCK_ERROR_BYTES, "%s", lock_error.text);
    return status;
}

static enum dlock_status give(struct lock_task *task, struct worker *worker)
{
    struct dlock_error error = {""};
    enum dlock_status status;

    metrics_observe(worker->app->metrics, METRICS_LOCK_HOLD,
                    clock_us() - task->granted_us);
    status = dlock_release(task->session, &task->grant, &error);
    if (status == DLOCK_LOST)
        metrics_count(worker->app->metrics, METRICS_LOCKS_LOST, 1);
    snprintf(task->error, LOCK_ERROR_BYTES, "%s", error.text);
    return status;
}

bool lock_is_wanted(struct worker *worker, const char *name)
{
    size_t n = 0;

    return dlock_inspect_waiters(worker->session, name, NULL, 0, &n, NULL) !=
               DLOCK_OK ||
           n > 0;
}

/* That a lock was given back, or is another's, does not say that one could be had. */
static void tell_health(struct health *health, const struct lock_task *task)
{
    if (health_is_no_answer(task->status))
        health_heard(health, HEALTH_LOCK, task->error);
    else if (task->kind == LOCK_TAKE && task->status == DLOCK_OK)
        health_worked(health, HEALTH_LOCK, task->begun_us);
}

void lock_task_run(struct lock_task *task, struct worker *worker)
{
    task->begun_us = clock_us();
    task->store_status = STORE_OK;
    task->status =
        task->kind == LOCK_TAKE ? take(task, worker) : give(task, worker);
    if (task->store_status == STORE_OK)
        tell_health(worker->app->health, task);
}

const char *lock_task_why(const struct lock_task *task)
{
    return task->store_status == STORE_OK ? dlock_status_text(task->status)
                                          : task->error;
}

/* Afterwards the task is the committer's thread's. */
static void post(struct lock_task *task)
{
    struct lock_inbox *inbox = task->inbox;

    task->next = atomic_load(&inbox->first);
    while (!atomic_compare_exchange_weak(&inbox->first, &task->next, task))
        continue;
    store_source_wake(inbox->store);
}

static void run(struct task *base, struct worker *worker)
{
    lock_task_run(base->owner, worker);
    post(base->owner);
}

static void refuse(struct task *base)
{
    struct lock_task *task = base->owner;

    task->status = DLOCK_UNREACHABLE;
    task->store_status = STORE_OK;
    post(task);
}

void lock_task_begin(const struct app *app, struct lock_task *task,
                     struct lock_inbox *inbox)
{
    task->inbox = inbox;
    task->task = (struct task){.run = run, .refuse = refuse, .owner = task};
    if (!tasks_submit(app->workers, &task->task))
        refuse(&task->task);
}
