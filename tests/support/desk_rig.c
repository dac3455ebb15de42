/* See desk_rig.h. */
#include "tests/support/desk_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/metrics.h"

static void changed(struct desk_rig *rig)
{
    pthread_mutex_lock(&rig->mutex);
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->mutex);
}

static enum store_verdict on_store_step(void *ctx, const char *step,
                                        int64_t product_id,
                                        enum store_phase phase)
{
    struct desk_rig *rig = ctx;

    (void)product_id;
    if (strcmp(step, "commit") != 0 || phase != STORE_BEFORE)
        return STORE_GO;
    atomic_fetch_add(&rig->commits, 1);
    pthread_mutex_lock(&rig->mutex);
    pthread_cond_broadcast(&rig->changed);
    while (atomic_load(&rig->hold))
        pthread_cond_wait(&rig->changed, &rig->mutex);
    pthread_mutex_unlock(&rig->mutex);
    return STORE_GO;
}

void desk_rig_put(struct desk_rig *rig, int64_t id, int64_t stock)
{
    struct store_product product = {.id = id, .name = "p", .initial = stock};

    assert_int_equal(store_product_put(rig->app.store, &product, NULL, NULL),
                     STORE_OK);
    atomic_store(&rig->commits, 0);
}

static void fill_config(struct config *config)
{
    if (config->lock_wait_ms == 0)
        config->lock_wait_ms = 50;
    if (config->workers == 0)
        config->workers = 4;
    config->queue_max = DESK_RIG_TICKETS;
    config->request_deadline_ms = 60000;
}

struct desk_rig *desk_rig_new(const struct config *config, const char *url,
                              int64_t stock, dlock_step_hook *on_step,
                              void *on_step_ctx)
{
    struct desk_rig *rig = calloc(1, sizeof(*rig));
    struct store_options store = {.on_step = on_store_step, .on_step_ctx = rig};
    struct dlock_options locks = {.strategy = rig->config.lock,
                                  .url = url ? url : "unix:/nowhere/redis.sock",
                                  .on_step = on_step,
                                  .on_step_ctx = on_step_ctx};

    rig->config = *config;
    fill_config(&rig->config);
    temp_dir_make(&rig->dir);
    store.url = rig->dir.url;
    pthread_mutex_init(&rig->mutex, NULL);
    pthread_cond_init(&rig->changed, NULL);
    rig->app.config = &rig->config;
    rig->app.metrics = metrics_new();
    assert_int_equal(store_open(&store, &rig->app.store, NULL), STORE_OK);
    assert_int_equal(dlock_open(&locks, &rig->app.locks, NULL), DLOCK_OK);
    desk_rig_put(rig, 1, stock);
    rig->app.desk = desk_open(&rig->app);
    assert_non_null(rig->app.desk);
    return rig;
}

void desk_rig_free(struct desk_rig *rig)
{
    desk_close(rig->app.desk);
    dlock_close(rig->app.locks);
    store_close(rig->app.store);
    metrics_free(rig->app.metrics);
    temp_dir_remove(&rig->dir);
    free(rig);
}

static void ticket_done(struct ticket *ticket)
{
    struct desk_rig *rig = ticket->owner;

    atomic_fetch_add(&rig->answered, 1);
    changed(rig);
}

static bool submit(struct desk_rig *rig, int i, int64_t product_id)
{
    rig->tickets[i] = (struct ticket){
        .order = {.product_id = product_id, .user_id = i + 1, .quantity = 1},
        .outcome = ORDER_OUTCOME_N,
        .done = ticket_done,
        .owner = rig};
    return desk_submit(rig->app.desk, &rig->tickets[i]);
}

bool desk_rig_submit(struct desk_rig *rig, int i)
{
    return submit(rig, i, 1);
}

bool desk_rig_submit_other(struct desk_rig *rig, int i, int64_t product_id)
{
    return submit(rig, i, product_id);
}

void desk_rig_wait_answered(struct desk_rig *rig, int n)
{
    pthread_mutex_lock(&rig->mutex);
    while (atomic_load(&rig->answered) < n)
        pthread_cond_wait(&rig->changed, &rig->mutex);
    pthread_mutex_unlock(&rig->mutex);
}

void desk_rig_wait_commit(struct desk_rig *rig)
{
    pthread_mutex_lock(&rig->mutex);
    while (atomic_load(&rig->commits) == 0)
        pthread_cond_wait(&rig->changed, &rig->mutex);
    pthread_mutex_unlock(&rig->mutex);
}

void desk_rig_let_go(struct desk_rig *rig)
{
    atomic_store(&rig->hold, false);
    changed(rig);
}

int desk_rig_count(const struct desk_rig *rig, enum order_outcome outcome)
{
    int n = 0;

    for (int i = 0; i < DESK_RIG_TICKETS; i++)
        n += rig->tickets[i].owner && rig->tickets[i].outcome == outcome;
    return n;
}
