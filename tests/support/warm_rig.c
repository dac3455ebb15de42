/*
 * Warmers over a store and a Redis. See warm_rig.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/warm_rig.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/clock.h"
#include "server/metrics.h"

#define PATIENCE_MS 20000

/* ---- the hook ------------------------------------------------------------- */

/* Whoever stands somewhere may GO on. */
static void set_trap(struct warm_rig *rig, struct warm_rig_trap *trap,
                     const struct warm_rig_trap *now, bool go)
{
    pthread_mutex_lock(&rig->mutex);
    *trap = *now;
    rig->stopped &= !go;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->mutex);
}

static struct warm_rig_trap trap_at(const char *step, enum warm_phase phase,
                                    unsigned n)
{
    struct warm_rig_trap trap = {.phase = phase, .n = n};

    snprintf(trap.step, sizeof(trap.step), "%s", step);
    return trap;
}

static bool is_at(const struct warm_rig_trap *trap, const char *step,
                  enum warm_phase phase)
{
    return phase == trap->phase && strcmp(step, trap->step) == 0;
}

/* True, and one time less: it is to happen now. */
static bool springs(struct warm_rig_trap *trap, const char *step,
                    enum warm_phase phase)
{
    if (trap->n == 0 || !is_at(trap, step, phase))
        return false;
    trap->n--;
    return true;
}

/* Under the mutex. */
static void stand(struct warm_rig *rig)
{
    rig->stopped = true;
    pthread_cond_broadcast(&rig->changed);
    while (rig->stopped)
        pthread_cond_wait(&rig->changed, &rig->mutex);
}

/* False: it is to fail. */
static bool come_by(struct warm_rig *rig, const char *step,
                    enum warm_phase phase)
{
    bool fails;

    if (rig->on_point)
        rig->on_point(step, phase);
    pthread_mutex_lock(&rig->mutex);
    rig->passes += phase == WARM_AFTER && strcmp(step, "warm-pass") == 0;
    rig->count.n += is_at(&rig->count, step, phase);
    pthread_cond_broadcast(&rig->changed);
    if (springs(&rig->stop, step, phase) && rig->stop.n == 0)
        stand(rig);
    fails = springs(&rig->fail, step, phase);
    pthread_mutex_unlock(&rig->mutex);
    return !fails;
}

static enum warm_verdict on_step(void *ctx, const char *step,
                                 int64_t product_id, enum warm_phase phase)
{
    (void)product_id;
    return come_by(ctx, step, phase) ? WARM_GO : WARM_FAIL;
}

static enum store_verdict on_store_step(void *ctx, const char *step,
                                        int64_t product_id,
                                        enum store_phase phase)
{
    enum warm_phase same = phase == STORE_BEFORE ? WARM_BEFORE : WARM_AFTER;

    (void)product_id;
    return come_by(ctx, step, same) ? STORE_GO : STORE_FAIL;
}

static void wait_changed(struct warm_rig *rig, uint64_t until_ms)
{
    if (!clock_wait_until(&rig->changed, &rig->mutex, until_ms) &&
        clock_ms() >= until_ms)
        fail_msg("the warmer does nothing");
}

/* Waits until N passes have ended from now on. */
static void await_passes(struct warm_rig *rig, unsigned n)
{
    uint64_t until_ms = clock_ms() + PATIENCE_MS;
    unsigned passes;

    pthread_mutex_lock(&rig->mutex);
    passes = rig->passes + n;
    while ((int)(rig->passes - passes) < 0)
        wait_changed(rig, until_ms);
    pthread_mutex_unlock(&rig->mutex);
}

/* The one under way may have begun before what the caller did. */
void warm_rig_await_pass(struct warm_rig *rig)
{
    await_passes(rig, 2);
}

void warm_rig_until(struct warm_rig *rig,
                    bool (*check)(struct warm_rig *rig, int64_t product_id),
                    int64_t product_id, const char *what)
{
    uint64_t until_ms = clock_ms() + PATIENCE_MS;

    while (!check(rig, product_id)) {
        if (clock_ms() >= until_ms)
            fail_msg("not so in time: %s", what);
        await_passes(rig, 1);
    }
}

void warm_rig_let_go(struct warm_rig *rig)
{
    set_trap(rig, &rig->stop, &(struct warm_rig_trap){.n = 0}, true);
}

void warm_rig_stop(struct warm_rig *rig, const char *step,
                   enum warm_phase phase, unsigned n)
{
    const struct warm_rig_trap trap = trap_at(step, phase, n);

    set_trap(rig, &rig->stop, &trap, true);
}

void warm_rig_await_stop(struct warm_rig *rig)
{
    uint64_t until_ms = clock_ms() + PATIENCE_MS;

    pthread_mutex_lock(&rig->mutex);
    while (!rig->stopped)
        wait_changed(rig, until_ms);
    pthread_mutex_unlock(&rig->mutex);
}

void warm_rig_shut(struct warm_rig *rig)
{
    warm_rig_stop(rig, "warm-pass", WARM_BEFORE, 1);
    warm_rig_await_stop(rig);
}

void warm_rig_fail(struct warm_rig *rig, const char *step,
                   enum warm_phase phase, unsigned n)
{
    const struct warm_rig_trap trap = trap_at(step, phase, n);

    set_trap(rig, &rig->fail, &trap, false);
}

void warm_rig_count(struct warm_rig *rig, const char *step)
{
    const struct warm_rig_trap trap = trap_at(step, WARM_BEFORE, 0);

    set_trap(rig, &rig->count, &trap, false);
}

unsigned warm_rig_counted(struct warm_rig *rig)
{
    unsigned n;

    pthread_mutex_lock(&rig->mutex);
    n = rig->count.n;
    pthread_mutex_unlock(&rig->mutex);
    return n;
}

/* ---- life ----------------------------------------------------------------- */

struct warm_rig *warm_rig_guest(const struct temp_dir *dir,
                                struct redis_server *redis, bool shared,
                                warm_rig_point *on_point)
{
    struct warm_rig *rig = calloc(1, sizeof(*rig));
    struct store_options options = {
        .shared = shared, .on_step = on_store_step, .on_step_ctx = rig};

    pthread_mutex_init(&rig->mutex, NULL);
    clock_cond_init(&rig->changed);
    signal(SIGPIPE, SIG_IGN);
    rig->dir = *dir;
    rig->redis = redis;
    rig->is_guest = true;
    rig->on_point = on_point;
    rig->config.shared = shared;
    rig->config.lock_wait_ms = 800; /* a command has 200 */
    options.url = rig->dir.url;
    assert_int_equal(store_open(&options, &rig->app.store, NULL), STORE_OK);
    assert_int_equal(store_reader_open(rig->app.store, &rig->reader, NULL),
                     STORE_OK);
    rig->app.config = &rig->config;
    rig->app.metrics = metrics_new();
    return rig;
}

struct warm_rig *warm_rig_new(bool shared, bool with_redis)
{
    struct temp_dir dir;
    struct warm_rig *rig;

    temp_dir_make(&dir);
    rig = warm_rig_guest(&dir, with_redis ? redis_server_start() : NULL, shared,
                         NULL);
    rig->is_guest = false;
    return rig;
}

void warm_rig_free(struct warm_rig *rig)
{
    warm_rig_cool(rig);
    store_reader_close(rig->reader);
    store_close(rig->app.store);
    metrics_free(rig->app.metrics);
    if (!rig->is_guest) {
        redis_server_stop(rig->redis);
        temp_dir_remove(&rig->dir);
    }
    pthread_cond_destroy(&rig->changed);
    pthread_mutex_destroy(&rig->mutex);
    free(rig);
}

void warm_rig_warm(struct warm_rig *rig)
{
    const struct warm_options options = {
        .redis_url = rig->redis ? redis_server_url(rig->redis) : NULL,
        .on_step = on_step,
        .on_step_ctx = rig};

    rig->app.warm = warm_open_with(&rig->app, &options);
    assert_non_null(rig->app.warm);
}

void warm_rig_cool(struct warm_rig *rig)
{
    warm_rig_let_go(rig);
    warm_close(rig->app.warm);
    rig->app.warm = NULL;
}

/* ---- products and orders -------------------------------------------------- */

void warm_rig_put(struct warm_rig *rig, int64_t product_id, int64_t units,
                  int64_t segments)
{
    struct store_product product = {.id = product_id,
                                    .name = "Thing",
                                    .initial = units,
                                    .segments = segments};

    assert_int_equal(store_product_put(rig->app.store, &product, NULL, NULL),
                     STORE_OK);
}

struct store_cells warm_rig_cells(struct warm_rig *rig, int64_t product_id)
{
    struct store_cells cells;

    assert_int_equal(store_cells_get(rig->reader, product_id, &cells, NULL),
                     STORE_OK);
    return cells;
}

static enum store_status place(struct warm_rig *rig, int64_t product_id,
                               int64_t segment, int64_t units, int64_t *number)
{
    struct store_order order = {.product_id = product_id,
                                .user_id = 1,
                                .segment = segment,
                                .quantity = units};
    struct store_order *orders[] = {&order};
    enum store_status status;

    do
        status = store_place(rig->app.store, orders, 1, NULL, NULL);
    while (status == STORE_BUSY);
    assert_int_equal(status, STORE_OK);
    *number = order.number;
    return order.status;
}

enum store_status warm_rig_place(struct warm_rig *rig,
                                 struct warm_ticket *ticket)
{
    return place(rig, ticket->product_id, ticket->segment, ticket->units,
                 &ticket->number);
}

enum store_status warm_rig_buy(struct warm_rig *rig, int64_t product_id,
                               int64_t units)
{
    struct warm_ticket ticket = {0};
    enum store_status status;
    int64_t number;

    switch (warm_take(rig->app.warm, product_id, units, &ticket)) {
    case WARM_COLD:
        return STORE_BUSY;
    case WARM_SINGLE:
        return place(rig, product_id, STORE_SEGMENT_ANY, units, &number);
    case WARM_GATHER:
        status = place(rig, product_id, STORE_SEGMENT_ANY, units, &number);
        if (status == STORE_OK)
            warm_moved(rig->app.warm, product_id);
        return status;
    case WARM_SEGMENT:
        break;
    }
    status = warm_rig_place(rig, &ticket);
    warm_settle(rig->app.warm, &ticket,
                status == STORE_OK      ? WARM_SOLD
                : status == STORE_SHORT ? WARM_SHORT
                                        : WARM_KEPT);
    return status;
}
