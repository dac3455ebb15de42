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
#include <unistd.h>

#include "server/metrics.h"
#include "server/order/desk_private.h"
#include "server/warm/warm.h"

static void changed(struct desk_rig *rig)
{
    pthread_mutex_lock(&rig->mutex);
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->mutex);
}

static void before_commit(struct desk_rig *rig)
{
    atomic_fetch_add(&rig->commits, 1);
    pthread_mutex_lock(&rig->mutex);
    pthread_cond_broadcast(&rig->changed);
    while (atomic_load(&rig->hold))
        pthread_cond_wait(&rig->changed, &rig->mutex);
    pthread_mutex_unlock(&rig->mutex);
}

static void before_place(struct desk_rig *rig, int64_t product_id)
{
    pthread_mutex_lock(&rig->mutex);
    while (rig->held_product == product_id)
        pthread_cond_wait(&rig->changed, &rig->mutex);
    pthread_mutex_unlock(&rig->mutex);
}

static void before_read(struct desk_rig *rig)
{
    if (rig->read_ms > 0)
        usleep(rig->read_ms * 1000);
    atomic_fetch_add(&rig->reads, 1);
    pthread_mutex_lock(&rig->mutex);
    pthread_cond_broadcast(&rig->changed);
    while (atomic_load(&rig->hold_reads))
        pthread_cond_wait(&rig->changed, &rig->mutex);
    pthread_mutex_unlock(&rig->mutex);
}

static enum store_verdict on_store_step(void *ctx, const char *step,
                                        int64_t product_id,
                                        enum store_phase phase)
{
    if (phase == STORE_BEFORE && strcmp(step, "commit") == 0)
        before_commit(ctx);
    if (phase == STORE_BEFORE && strcmp(step, "place") == 0)
        before_place(ctx, product_id);
    if (phase == STORE_BEFORE && strcmp(step, "order-by-key") == 0)
        before_read(ctx);
    if (phase == STORE_BEFORE && strcmp(step, "stranded") == 0)
        atomic_fetch_add(&((struct desk_rig *)ctx)->scans, 1);
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

static struct desk_rig *open_rig(const struct config *config, const char *url,
                                 const struct desk_rig *host,
                                 dlock_step_hook *on_step, void *on_step_ctx)
{
    struct desk_rig *rig = calloc(1, sizeof(*rig));
    struct store_options store = {
        .shared = config->shared, .on_step = on_store_step, .on_step_ctx = rig};
    struct dlock_options locks = {.strategy = rig->config.lock,
                                  .url = url ? url : "unix:/nowhere/redis.sock",
                                  .on_step = on_step,
                                  .on_step_ctx = on_step_ctx};

    rig->config = *config;
    fill_config(&rig->config);
    rig->host = host;
    if (!host)
        temp_dir_make(&rig->dir);
    store.url = host ? host->dir.url : rig->dir.url;
    pthread_mutex_init(&rig->mutex, NULL);
    pthread_cond_init(&rig->changed, NULL);
    rig->app.config = &rig->config;
    rig->app.metrics = metrics_new();
    assert_int_equal(store_open(&store, &rig->app.store, NULL), STORE_OK);
    assert_int_equal(dlock_open(&locks, &rig->app.locks, NULL), DLOCK_OK);
    rig->app.warm = warm_open(&rig->app, url);
    assert_non_null(rig->app.warm);
    return rig;
}

static void open_desk(struct desk_rig *rig)
{
    rig->app.desk = desk_open(&rig->app);
    assert_non_null(rig->app.desk);
}

struct desk_rig *desk_rig_new(const struct config *config, const char *url,
                              int64_t stock, dlock_step_hook *on_step,
                              void *on_step_ctx)
{
    struct desk_rig *rig = open_rig(config, url, NULL, on_step, on_step_ctx);

    desk_rig_put(rig, 1, stock);
    open_desk(rig);
    return rig;
}

struct desk_rig *desk_rig_beside(const struct desk_rig *host, const char *url)
{
    struct desk_rig *rig = open_rig(&host->config, url, host, NULL, NULL);

    open_desk(rig);
    return rig;
}

void desk_rig_split(struct desk_rig *rig, int64_t segments)
{
    struct store_product product = {.id = 1, .name = "p"};
    struct store_reader *reader;
    struct store_cells cells;
    bool in_redis;

    assert_int_equal(store_reader_open(rig->app.store, &reader, NULL),
                     STORE_OK);
    assert_int_equal(store_product_get(reader, 1, &product, NULL), STORE_OK);
    store_reader_close(reader);
    product.segments = segments;
    assert_int_equal(store_product_put(rig->app.store, &product, NULL, NULL),
                     STORE_OK);
    assert_int_equal(warm_up(rig->app.warm, 1, &cells, &in_redis, NULL),
                     STORE_OK);
    atomic_store(&rig->commits, 0);
}

void desk_rig_free(struct desk_rig *rig)
{
    desk_close(rig->app.desk);
    warm_close(rig->app.warm);
    dlock_close(rig->app.locks);
    store_close(rig->app.store);
    metrics_free(rig->app.metrics);
    if (!rig->host)
        temp_dir_remove(&rig->dir);
    free(rig);
}

static void ticket_done(struct ticket *ticket)
{
    struct desk_rig *rig = ticket->owner;

    atomic_fetch_add(&rig->answered, 1);
    changed(rig);
}

static struct ticket *fill(struct desk_rig *rig, int i, int64_t product_id,
                           int64_t units)
{
    rig->tickets[i] = (struct ticket){.order = {.product_id = product_id,
                                                .user_id = i + 1,
                                                .quantity = units},
                                      .outcome = ORDER_OUTCOME_N,
                                      .done = ticket_done,
                                      .owner = rig};
    return &rig->tickets[i];
}

int desk_rig_submit_all(struct desk_rig *rig, int i, int n)
{
    struct ticket *list = NULL, *ticket;
    int refused = 0;

    while (n-- > 0) {
        ticket = fill(rig, i + n, 1, 1);
        ticket->next = list;
        list = ticket;
    }
    for (list = desk_submit(rig->app.desk, list); list; list = list->next)
        refused++;
    return refused;
}

static bool submit(struct desk_rig *rig, int i, int64_t product_id,
                   int64_t units)
{
    return !desk_submit(rig->app.desk, fill(rig, i, product_id, units));
}

bool desk_rig_submit(struct desk_rig *rig, int i)
{
    return submit(rig, i, 1, 1);
}

bool desk_rig_submit_other(struct desk_rig *rig, int i, int64_t product_id)
{
    return submit(rig, i, product_id, 1);
}

bool desk_rig_submit_units(struct desk_rig *rig, int i, int64_t units)
{
    return submit(rig, i, 1, units);
}

bool desk_rig_submit_key(struct desk_rig *rig, int i, int64_t units,
                         const char *key)
{
    struct ticket *ticket = fill(rig, i, 1, units);

    snprintf(ticket->order.key, sizeof(ticket->order.key), "%s", key);
    return !desk_submit(rig->app.desk, ticket);
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

void desk_rig_wait_read(struct desk_rig *rig)
{
    pthread_mutex_lock(&rig->mutex);
    while (atomic_load(&rig->reads) == 0)
        pthread_cond_wait(&rig->changed, &rig->mutex);
    pthread_mutex_unlock(&rig->mutex);
}

/* Nobody tells when a lane changes: one has to look. */
void desk_rig_await_lane(struct desk_rig *rig, int64_t product_id,
                         int64_t segment, bool (*is)(const struct lane *lane))
{
    struct desk *desk = rig->app.desk;
    const struct lane *lane;
    bool there;

    do {
        usleep(200);
        pthread_mutex_lock(&desk->mutex);
        lane = lanes_find(desk->lanes, product_id, segment);
        there = lane && is(lane);
        pthread_mutex_unlock(&desk->mutex);
    } while (!there);
}

void desk_rig_let_go(struct desk_rig *rig)
{
    atomic_store(&rig->hold, false);
    atomic_store(&rig->hold_reads, false);
    changed(rig);
}

void desk_rig_hold_product(struct desk_rig *rig, int64_t product_id)
{
    pthread_mutex_lock(&rig->mutex);
    rig->held_product = product_id;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->mutex);
}

int desk_rig_count(const struct desk_rig *rig, enum order_outcome outcome)
{
    int n = 0;

    for (int i = 0; i < DESK_RIG_TICKETS; i++)
        n += rig->tickets[i].owner && rig->tickets[i].outcome == outcome;
    return n;
}

void desk_rig_expect_sold(struct desk_rig *rig, int64_t units)
{
    struct store_reader *reader;
    struct store_audit verdict;

    assert_int_equal(store_reader_open(rig->app.store, &reader, NULL),
                     STORE_OK);
    assert_int_equal(store_audit(reader, NULL, NULL, NULL, 0, &verdict, NULL),
                     STORE_OK);
    store_reader_close(reader);
    assert_true(verdict.balanced);
    assert_int_equal(verdict.stranded, 0);
    assert_int_equal(verdict.fence_regressions, 0);
    assert_int_equal(verdict.sold, units);
}

double desk_rig_metric(const struct desk_rig *rig, const char *name)
{
    char *text = NULL, *at;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    double value = -1;

    assert_non_null(out);
    metrics_write(rig->app.metrics, 0, out);
    assert_int_equal(fclose(out), 0);
    at = text ? strstr(text, name) : NULL;
    while (at && at[strlen(name)] != ' ')
        at = strstr(at + 1, name);
    assert_non_null(at);
    if (at)
        value = strtod(at + strlen(name), NULL);
    free(text);
    return value;
}
