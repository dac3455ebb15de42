/*
 * Worker threads around the lanes: one mutex, one condition. A worker sleeps
 * until a lane is ready, serves a batch, answers it, gives the lane back.
 */
#include "server/order/desk.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "lock/dlock.h"
#include "server/app.h"
#include "server/clock.h"
#include "server/config.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/order/critical.h"
#include "server/order/lane.h"
#include "server/order/outcome.h"

struct clerk {
    struct desk *desk;
    struct worker worker;
    pthread_t thread;
};

struct desk {
    const struct app *app;
    pthread_mutex_t mutex;
    pthread_cond_t work;
    struct lanes *lanes;
    bool stopping;
    bool joined;
    atomic_size_t depth;
    size_t clerks_n; /* that are running */
    struct clerk clerks[];
};

static void ticket_answer(struct desk *desk, struct ticket *ticket)
{
    metrics_order(desk->app->metrics, ticket->outcome);
    metrics_time(desk->app->metrics, METRICS_ORDER,
                 clock_us() - ticket->submitted_us);
    atomic_fetch_sub(&desk->depth, 1);
    ticket->done(ticket);
}

/*
 * Who has waited longer than a customer would has left already: refusing him
 * now makes room for those who are still there. Returns how many stay.
 */
static size_t weed_out(struct desk *desk, struct ticket *batch[], size_t n)
{
    uint64_t patience_us =
        (uint64_t)desk->app->config->request_deadline_ms * 1000u / 2;
    uint64_t now = clock_us();
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        if (now - batch[i]->submitted_us <= patience_us) {
            batch[kept++] = batch[i];
            continue;
        }
        outcome_set(batch[i], ORDER_OVERLOADED, "waited too long in the queue");
        ticket_answer(desk, batch[i]);
    }
    return kept;
}

static void serve_batch(struct clerk *clerk, struct ticket *batch[], size_t n)
{
    n = weed_out(clerk->desk, batch, n);
    if (n == 0)
        return;
    critical_run(&clerk->worker, batch, n);
    for (size_t i = 0; i < n; i++)
        ticket_answer(clerk->desk, batch[i]);
}

static void *clerk_main(void *arg)
{
    struct clerk *clerk = arg;
    struct desk *desk = clerk->desk;
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
        serve_batch(clerk, batch, n);
        pthread_mutex_lock(&desk->mutex);
        lanes_give_back(desk->lanes, lane);
    }
    pthread_mutex_unlock(&desk->mutex);
    return NULL;
}

static bool clerk_start(struct desk *desk, const struct app *app)
{
    struct clerk *clerk = &desk->clerks[desk->clerks_n];
    struct dlock_error lock_error = {""};
    struct store_error store_error = {""};

    clerk->desk = desk;
    clerk->worker.app = app;
    if (dlock_session_open(app->locks, &clerk->worker.session, &lock_error) !=
        DLOCK_OK)
        goto err;
    if (store_reader_open(app->store, &clerk->worker.reader, &store_error) !=
        STORE_OK)
        goto err_after_session;
    if (pthread_create(&clerk->thread, NULL, clerk_main, clerk) != 0)
        goto err_after_reader;
    desk->clerks_n++;
    return true;

err_after_reader:
    store_reader_close(clerk->worker.reader);
err_after_session:
    dlock_session_close(clerk->worker.session);
err:
    log_error("desk", "error=\"cannot start a worker: %s%s\"", lock_error.text,
              store_error.text);
    return false;
}

struct desk *desk_open(const struct app *app)
{
    size_t n = (size_t)app->config->workers;
    struct desk *desk = calloc(1, sizeof(*desk) + n * sizeof(struct clerk));

    if (!desk)
        return NULL;
    desk->app = app;
    desk->lanes = lanes_new(app->config->desk == DESK_COMBINE);
    pthread_mutex_init(&desk->mutex, NULL);
    pthread_cond_init(&desk->work, NULL);
    while (desk->lanes && desk->clerks_n < n)
        if (!clerk_start(desk, app))
            break;
    if (desk->clerks_n == n)
        return desk;
    desk_close(desk);
    return NULL;
}

/* Under the mutex: why the ticket cannot be taken in, or NULL. */
static const char *door_closed(struct desk *desk, struct ticket *ticket)
{
    if (desk->stopping) {
        ticket->outcome = ORDER_SHUTTING_DOWN;
        return "the service is shutting down";
    }
    ticket->outcome = ORDER_OVERLOADED;
    if (atomic_load(&desk->depth) >= (size_t)desk->app->config->queue_max)
        return "too many orders are waiting";
    if (!lanes_push(desk->lanes, ticket))
        return "out of memory";
    return NULL;
}

bool desk_submit(struct desk *desk, struct ticket *ticket)
{
    const char *why;

    ticket->submitted_us = clock_us();
    pthread_mutex_lock(&desk->mutex);
    why = door_closed(desk, ticket);
    if (!why) {
        atomic_fetch_add(&desk->depth, 1);
        pthread_cond_signal(&desk->work);
    }
    pthread_mutex_unlock(&desk->mutex);
    if (why) {
        outcome_set(ticket, ticket->outcome, why);
        metrics_order(desk->app->metrics, ticket->outcome);
    }
    return !why;
}

size_t desk_depth(const struct desk *desk)
{
    return atomic_load(&desk->depth);
}

static void refuse_waiting(struct desk *desk)
{
    struct ticket *ticket;

    while ((ticket = lanes_evict(desk->lanes))) {
        outcome_set(ticket, ORDER_SHUTTING_DOWN,
                    "the service is shutting down; nothing was ordered");
        ticket_answer(desk, ticket);
    }
}

void desk_stop(struct desk *desk)
{
    pthread_mutex_lock(&desk->mutex);
    desk->stopping = true;
    if (desk->lanes)
        refuse_waiting(desk);
    pthread_cond_broadcast(&desk->work);
    pthread_mutex_unlock(&desk->mutex);
    dlock_end_waits(desk->app->locks); /* whatever --lock-wait-ms says */
    for (size_t i = 0; i < desk->clerks_n && !desk->joined; i++)
        pthread_join(desk->clerks[i].thread, NULL);
    desk->joined = true;
}

void desk_close(struct desk *desk)
{
    if (!desk)
        return;
    desk_stop(desk);
    for (size_t i = 0; i < desk->clerks_n; i++) {
        store_reader_close(desk->clerks[i].worker.reader);
        dlock_session_close(desk->clerks[i].worker.session);
    }
    lanes_free(desk->lanes);
    pthread_cond_destroy(&desk->work);
    pthread_mutex_destroy(&desk->mutex);
    free(desk);
}
