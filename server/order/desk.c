/*
 * Worker threads around the lanes: one mutex, one condition. A worker sleeps
 * until a lane is ready, serves a batch, answers it, gives the lane back.
 *
 * A sweeper refuses who has waited for too long, so that workers which hang on
 * a lock server that is away do not keep the customers of other locks.
 */
#include "server/order/desk.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lock/dlock.h"
#include "server/app.h"
#include "server/clock.h"
#include "server/config.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/order/critical.h"
#include "server/order/lane.h"
#include "server/order/outcome.h"
#include "server/sweeper.h"

/* Who does not want to wait for a lock waits for the batch ahead all the same. */
#define DESK_PATIENCE_MS_MIN 250

struct desk_thread {
    struct desk *desk;
    struct worker worker;
    pthread_t thread;
};

struct desk {
    const struct app *app;
    pthread_mutex_t mutex;
    pthread_cond_t work;
    struct lanes *lanes;
    struct sweeper *sweeper;
    int stop_fd; /* for the workers' thinking */
    bool stopping;
    bool joined;
    atomic_bool lock_away; /* the lock server did not answer the last time */
    atomic_size_t depth;
    size_t threads_n; /* that are running */
    struct desk_thread threads[];
};

/* ---- answering ------------------------------------------------------------ */

static void ticket_answer(struct desk *desk, struct ticket *ticket)
{
    metrics_order(desk->app->metrics, ticket->outcome);
    metrics_time(desk->app->metrics, METRICS_ORDER,
                 clock_us() - ticket->submitted_us);
    atomic_fetch_sub(&desk->depth, 1);
    ticket->done(ticket);
}

/* A list of tickets, linked by next, taken out of the lanes. */
static void refuse_all(struct desk *desk, struct ticket *list,
                       enum order_outcome outcome, const char *why)
{
    struct ticket *next;

    for (; list; list = next) {
        next = list->next;
        outcome_set(list, outcome, why);
        ticket_answer(desk, list);
    }
}

/* ---- sweeping ------------------------------------------------------------- */

static uint64_t patience_ms(const struct desk *desk)
{
    const struct config *config = desk->app->config;
    uint64_t patience = (uint64_t)config->lock_wait_ms;
    uint64_t most = (uint64_t)config->request_deadline_ms / 2;

    if (patience < DESK_PATIENCE_MS_MIN)
        patience = DESK_PATIENCE_MS_MIN;
    return patience < most ? patience : most;
}

static uint64_t due_ms(const struct desk *desk, const struct ticket *ticket)
{
    return ticket ? ticket->submitted_us / 1000 + patience_ms(desk)
                  : UINT64_MAX;
}

/* Under the mutex: those that came before, as a list. */
static struct ticket *take_due(struct desk *desk, uint64_t now_ms)
{
    struct ticket *list = NULL, **last = &list;

    while (due_ms(desk, lanes_oldest(desk->lanes)) <= now_ms) {
        *last = lanes_evict(desk->lanes);
        last = &(*last)->next;
    }
    *last = NULL;
    return list;
}

static uint64_t sweep(void *ctx, uint64_t now_ms)
{
    struct desk *desk = ctx;
    struct ticket *list;
    uint64_t next_ms;

    pthread_mutex_lock(&desk->mutex);
    list = take_due(desk, now_ms);
    next_ms = due_ms(desk, lanes_oldest(desk->lanes));
    pthread_mutex_unlock(&desk->mutex);
    if (atomic_load(&desk->lock_away))
        refuse_all(desk, list, ORDER_LOCK_UNREACHABLE,
                   "the lock server did not answer those before");
    else
        refuse_all(desk, list, ORDER_OVERLOADED,
                   "waited too long in the queue");
    return next_ms;
}

/* ---- working -------------------------------------------------------------- */

static void serve_batch(struct desk_thread *self, struct ticket *batch[],
                        size_t n)
{
    critical_run(&self->worker, batch, n);
    for (size_t i = 0; i < n; i++)
        ticket_answer(self->desk, batch[i]);
    critical_leave(&self->worker);
}

static void *work(void *arg)
{
    struct desk_thread *self = arg;
    struct desk *desk = self->desk;
    struct ticket *batch[CRITICAL_BATCH_MAX];
    struct lane *lane;
    size_t n;

    pthread_mutex_lock(&desk->mutex);
    while (!desk->stopping) {
        n = lanes_take(desk->lanes, batch, CRITICAL_BATCH_MAX, &lane);
        if (n == 0) {
            pthread_cond_wait(&desk->work, &desk->mutex);
            continue;
        }
        pthread_mutex_unlock(&desk->mutex);
        serve_batch(self, batch, n);
        pthread_mutex_lock(&desk->mutex);
        lanes_give_back(desk->lanes, lane);
    }
    pthread_mutex_unlock(&desk->mutex);
    return NULL;
}

/* ---- the door ------------------------------------------------------------- */

/* Under the mutex: why the ticket could not be taken in; NULL: it was. */
static const char *take_in(struct desk *desk, struct ticket *ticket)
{
    if (atomic_load(&desk->depth) >= (size_t)desk->app->config->queue_max)
        return "too many orders are waiting";
    if (!lanes_push(desk->lanes, ticket))
        return "out of memory";
    atomic_fetch_add(&desk->depth, 1);
    /* In a lane that a worker has, the ticket waits for its return. */
    if (lanes_ready(desk->lanes))
        pthread_cond_signal(&desk->work);
    return NULL;
}

bool desk_submit(struct desk *desk, struct ticket *ticket)
{
    enum order_outcome outcome = ORDER_OVERLOADED;
    const char *why = "the service is shutting down";

    ticket->submitted_us = clock_us();
    pthread_mutex_lock(&desk->mutex);
    if (desk->stopping)
        outcome = ORDER_SHUTTING_DOWN;
    else
        why = take_in(desk, ticket);
    pthread_mutex_unlock(&desk->mutex);
    if (!why)
        return true;
    outcome_set(ticket, outcome, why);
    metrics_order(desk->app->metrics, outcome);
    return false;
}

size_t desk_depth(const struct desk *desk)
{
    return atomic_load(&desk->depth);
}

/* ---- opening and closing -------------------------------------------------- */

static bool thread_start(struct desk *desk)
{
    struct desk_thread *self = &desk->threads[desk->threads_n];
    struct dlock_error lock_error = {""};
    struct store_error store_error = {""};

    self->desk = desk;
    self->worker.app = desk->app;
    self->worker.stop_fd = desk->stop_fd;
    self->worker.lock_away = &desk->lock_away;
    if (dlock_session_open(desk->app->locks, &self->worker.session,
                           &lock_error) != DLOCK_OK)
        goto err;
    if (store_reader_open(desk->app->store, &self->worker.reader,
                          &store_error) != STORE_OK)
        goto err_after_session;
    if (pthread_create(&self->thread, NULL, work, self) != 0)
        goto err_after_reader;
    desk->threads_n++;
    return true;

err_after_reader:
    store_reader_close(self->worker.reader);
err_after_session:
    dlock_session_close(self->worker.session);
err:
    log_error("desk", "error=\"cannot start a worker: %s%s\"", lock_error.text,
              store_error.text);
    return false;
}

static bool start(struct desk *desk, size_t threads_n)
{
    if (!desk->lanes || desk->stop_fd < 0)
        return false;
    desk->sweeper = sweeper_open(sweep, desk, patience_ms(desk));
    if (!desk->sweeper)
        return false;
    while (desk->threads_n < threads_n)
        if (!thread_start(desk))
            return false;
    return true;
}

struct desk *desk_open(const struct app *app)
{
    size_t n = (size_t)app->config->workers;
    struct desk *desk =
        calloc(1, sizeof(*desk) + n * sizeof(struct desk_thread));

    if (!desk)
        return NULL;
    desk->app = app;
    desk->lanes = lanes_new(app->config->desk == DESK_COMBINE);
    desk->stop_fd = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&desk->mutex, NULL);
    pthread_cond_init(&desk->work, NULL);
    if (start(desk, n))
        return desk;
    log_error("desk", "error=\"not enough memory, threads or descriptors\"");
    desk_close(desk);
    return NULL;
}

void desk_stop(struct desk *desk)
{
    struct ticket *waiting = NULL;

    pthread_mutex_lock(&desk->mutex);
    desk->stopping = true;
    if (desk->lanes)
        waiting = take_due(desk, UINT64_MAX - 1);
    pthread_cond_broadcast(&desk->work);
    pthread_mutex_unlock(&desk->mutex);
    refuse_all(desk, waiting, ORDER_SHUTTING_DOWN,
               "the service is shutting down; nothing was ordered");
    eventfd_write(desk->stop_fd, 1);   /* whatever --think-ms says */
    dlock_end_waits(desk->app->locks); /* whatever --lock-wait-ms says */
    for (size_t i = 0; i < desk->threads_n && !desk->joined; i++)
        pthread_join(desk->threads[i].thread, NULL);
    desk->joined = true;
}

void desk_close(struct desk *desk)
{
    if (!desk)
        return;
    desk_stop(desk);
    sweeper_close(desk->sweeper);
    for (size_t i = 0; i < desk->threads_n; i++) {
        store_reader_close(desk->threads[i].worker.reader);
        dlock_session_close(desk->threads[i].worker.session);
    }
    lanes_free(desk->lanes);
    if (desk->stop_fd >= 0)
        close(desk->stop_fd);
    pthread_cond_destroy(&desk->work);
    pthread_mutex_destroy(&desk->mutex);
    free(desk);
}
