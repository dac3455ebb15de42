/*
 * Scenario 13, fencing too late. One unit, two buyers, order by order, the
 * textbook's way of selling. The first holder of the lock reads, is stopped until
 * its lease has ended, and writes just before the second one does, which has read
 * the same number. Tokens rise all the time.
 *
 *   fenced-late  compares at the write: both writes come in order, 2 sold
 *   fenced       stamps before the read: the first holder is refused
 *
 * The same code, load and schedule; only the name of the lock is different.
 */
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/app.h"
#include "server/base/config.h"
#include "server/base/metrics.h"
#include "server/order/dispatcher.h"
#include "server/order/hints.h"
#include "tests/support/redis_server.h"
#include "tests/support/store_rig.h"

#define LEASE_MS 1000 /* the second buyer has no more for its own order */

/* Both buyers stop before their first naive-update; the schedule lets them go. */
struct stage {
    struct store_rig rig;
    int arrived;            /* before a naive-update, in all; with rig.mutex */
    int written;            /* last writes; as well */
    const char *last_write; /* the step that ends what the first still does */
    struct config config;
    struct app app;
    struct order orders[2];
    sem_t answered;
};

/* The first to come waits for the second, the second for the first's writes. */
static enum store_verdict on_step(void *ctx, const struct store_step *step)
{
    struct stage *stage = ctx;
    int place = 0;

    pthread_mutex_lock(&stage->rig.mutex);
    if (step->phase == STORE_BEFORE && strcmp(step->name, "naive-update") == 0)
        place = ++stage->arrived;
    if (step->phase == STORE_AFTER &&
        strcmp(step->name, stage->last_write) == 0)
        stage->written++;
    pthread_cond_broadcast(&stage->rig.changed);
    pthread_mutex_unlock(&stage->rig.mutex);
    if (place == 1)
        store_rig_wait(&stage->rig, &stage->arrived, 2);
    if (place == 2)
        store_rig_wait(&stage->rig, &stage->written, 1);
    return STORE_GO;
}

static void open_stage(struct stage *stage, const char *lock, const char *redis)
{
    struct dlock_options locks = {.strategy = lock, .url = redis};
    struct app *app = &stage->app;

    stage->config = (struct config){.orders = ORDERS_ONE_BY_ONE,
                                    .deduct = DEDUCT_NAIVE,
                                    .queue_max = 2,
                                    .request_deadline_ms = 60000,
                                    .lock_wait_ms = 10000,
                                    .lock_lease_ms = LEASE_MS};
    snprintf(stage->config.lock, sizeof(stage->config.lock), "%s", lock);
    sem_init(&stage->answered, 0, 0);
    store_rig_begin(&stage->rig);
    store_rig_open(&stage->rig, (struct store_options){.on_step = on_step,
                                                       .on_step_ctx = stage});
    store_rig_put(&stage->rig, (struct store_product){.id = 1, .initial = 1});
    app->config = &stage->config;
    app->metrics = metrics_new();
    app->store = stage->rig.store;
    assert_int_equal(dlock_open(&locks, &app->locks, NULL), DLOCK_OK);
    app->workers = tasks_open(app, "worker", 2);
    app->hints = hints_open(app, NULL);
    app->dispatcher = dispatcher_open(app);
}

static void close_stage(struct stage *stage)
{
    dispatcher_close(stage->app.dispatcher);
    hints_close(stage->app.hints);
    tasks_close(stage->app.workers);
    dlock_close(stage->app.locks);
    metrics_free(stage->app.metrics);
    store_rig_end(&stage->rig);
    sem_destroy(&stage->answered);
    free(stage);
}

static void answered(struct order *order)
{
    sem_post(&((struct stage *)order->owner)->answered);
}

static void buy(struct stage *stage, int i)
{
    stage->orders[i] = (struct order){
        .record = {.product_id = 1, .user_id = 1 + i, .quantity = 1},
        .done = answered,
        .owner = stage};
    dispatcher_submit(stage->app.dispatcher, &stage->orders[i]);
}

/* Lets two buyers meet, who then have bought so many of one unit. */
static void meet(const char *lock, struct redis_server *redis,
                 const char *last_write, int64_t sold)
{
    struct stage *stage = calloc(1, sizeof(*stage));
    struct store_audit verdict;

    assert_non_null(stage);
    stage->last_write = last_write;
    open_stage(stage, lock, redis_server_url(redis));
    buy(stage, 0);
    store_rig_wait(&stage->rig, &stage->arrived, 1);
    buy(stage, 1);
    for (int i = 0; i < 2; i++)
        sem_wait(&stage->answered);
    verdict = store_rig_audit(&stage->rig);
    close_stage(stage);
    assert_int_equal(verdict.sold, sold);
    assert_int_equal(verdict.oversold, sold - 1);
    assert_int_equal(verdict.balanced, sold == 1);
    assert_int_equal(verdict.fence_regressions, 0);
}

static int set_up(void **state)
{
    (void)signal(SIGPIPE, SIG_IGN);
    *state = redis_server_start();
    return 0;
}

static int tear_down(void **state)
{
    redis_server_stop(*state);
    return 0;
}

static void test_too_late_oversells(void **state)
{
    /* Nobody broke a rule: that is what is wrong with the rule. */
    meet("fenced-late", *state, "naive-insert", 2);
}

static void test_in_time_holds(void **state)
{
    meet("fenced", *state, "naive-update", 1);
}

/* To see that the schedule is what it claims to be. */
static void test_without_tokens_oversells_too(void **state)
{
    meet("redisson", *state, "naive-insert", 2);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_too_late_oversells),
    cmocka_unit_test(test_in_time_holds),
    cmocka_unit_test(test_without_tokens_oversells_too),
};

TEST_MAIN_WITHIN(tests, set_up, tear_down)
