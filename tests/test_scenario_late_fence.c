/*
 * Scenario 13, fencing too late. One unit, two buyers, the textbook's way of
 * selling. The first holder of the lock reads, is stopped until its lease has
 * ended, and writes just before the second one does, who has read the same
 * number. Tokens rise all the time.
 *
 *   fenced-late  compares at the write: both writes come in order, 2 sold
 *   fenced       stamps before the read: the first holder is refused
 *
 * The same code, load and schedule; only the name of the lock is different.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "db/store.h"
#include "lock/dlock.h"
#include "server/app.h"
#include "server/clock.h"
#include "server/config.h"
#include "server/metrics.h"
#include "server/order/critical.h"
#include "tests/support/redis_server.h"
#include "tests/support/temp_dir.h"

enum { LEASE_MS = 150, PATIENCE_S = 20 };

/* Both buyers stop before their first naive-update; the schedule lets go. */
struct stage {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned arrived_n;     /* before a naive-update, in all */
    unsigned written_n;     /* after the last write, the second waits for one */
    const char *last_write; /* step that ends what the first still does */
    struct temp_dir dir;
    struct config config;
    struct app app;
};

struct buyer {
    struct worker worker;
    atomic_bool lock_away;
    struct ticket ticket;
    pthread_t thread;
};

/* With the mutex: until *N is at least LEAST. */
static void await(struct stage *stage, const unsigned *n, unsigned least)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    while (*n < least)
        if (pthread_cond_timedwait(&stage->changed, &stage->mutex, &until) != 0)
            abort(); /* a test that hangs is a failed test */
}

/* The first to come waits for the second, the second for the first's writes. */
static enum store_verdict on_step(void *ctx, const char *step,
                                  int64_t product_id, enum store_phase phase)
{
    struct stage *stage = ctx;
    unsigned place;

    bool update = strcmp(step, "naive-update") == 0;

    (void)product_id;
    if (!update && strcmp(step, stage->last_write) != 0)
        return STORE_GO;
    (void)pthread_mutex_lock(&stage->mutex);
    place = update && phase == STORE_BEFORE ? ++stage->arrived_n : 0;
    stage->written_n +=
        phase == STORE_AFTER && strcmp(step, stage->last_write) == 0;
    (void)pthread_cond_broadcast(&stage->changed);
    if (place == 1)
        await(stage, &stage->arrived_n, 2);
    if (place == 2)
        await(stage, &stage->written_n, 1);
    (void)pthread_mutex_unlock(&stage->mutex);
    return STORE_GO;
}

static void open_stage(struct stage *stage, const char *lock, const char *redis)
{
    struct store_options store = {.on_step = on_step, .on_step_ctx = stage};
    struct dlock_options locks = {.strategy = lock, .url = redis};
    struct store_product product = {.id = 1, .name = "p", .initial = 1};
    bool created;

    stage->config = (struct config){.deduct = DEDUCT_NAIVE,
                                    .lock_wait_ms = 10000,
                                    .lock_lease_ms = LEASE_MS};
    (void)snprintf(stage->config.lock, sizeof(stage->config.lock), "%s", lock);
    (void)pthread_mutex_init(&stage->mutex, NULL);
    (void)pthread_cond_init(&stage->changed, NULL);
    temp_dir_make(&stage->dir);
    store.url = stage->dir.url;
    stage->app.config = &stage->config;
    stage->app.metrics = metrics_new();
    assert_int_equal(store_open(&store, &stage->app.store, NULL), STORE_OK);
    assert_int_equal(dlock_open(&locks, &stage->app.locks, NULL), DLOCK_OK);
    assert_int_equal(
        store_product_put(stage->app.store, &product, &created, NULL),
        STORE_OK);
}

static void close_stage(struct stage *stage)
{
    dlock_close(stage->app.locks);
    store_close(stage->app.store);
    metrics_free(stage->app.metrics);
    temp_dir_remove(&stage->dir);
}

static void *buy(void *arg)
{
    struct buyer *buyer = arg;
    struct holds holds = {0};

    critical_run(&buyer->worker, &buyer->ticket, &holds);
    holds_leave(&buyer->worker, &holds);
    holds_release(&holds);
    return NULL;
}

static void begin_buyer(struct stage *stage, struct buyer *buyer, int64_t user)
{
    buyer->worker.app = &stage->app;
    buyer->worker.mutex = &stage->mutex;
    buyer->worker.stop_fd = -1;
    buyer->worker.lock_away = &buyer->lock_away;
    buyer->ticket.submitted_us = clock_us();
    buyer->ticket.order =
        (struct store_order){.product_id = 1, .user_id = user, .quantity = 1};
    assert_int_equal(
        dlock_session_open(stage->app.locks, &buyer->worker.session, NULL),
        DLOCK_OK);
    assert_int_equal(
        store_reader_open(stage->app.store, &buyer->worker.reader, NULL),
        STORE_OK);
    assert_int_equal(pthread_create(&buyer->thread, NULL, buy, buyer), 0);
}

static void end_buyer(struct buyer *buyer)
{
    assert_int_equal(pthread_join(buyer->thread, NULL), 0);
    dlock_session_close(buyer->worker.session);
}

/* Lets two buyers meet, and says what the ledger looks like. */
static struct store_audit meet(const char *lock, const char *redis,
                               const char *last_write)
{
    struct stage *stage = calloc(1, sizeof(*stage));
    struct buyer buyers[2] = {0};
    struct store_audit verdict;

    assert_non_null(stage);
    stage->last_write = last_write;
    open_stage(stage, lock, redis);
    begin_buyer(stage, &buyers[0], 1);
    (void)pthread_mutex_lock(&stage->mutex);
    await(stage, &stage->arrived_n, 1);
    (void)pthread_mutex_unlock(&stage->mutex);
    begin_buyer(stage, &buyers[1], 2);
    for (int i = 0; i < 2; i++)
        end_buyer(&buyers[i]);
    assert_int_equal(store_audit(buyers[0].worker.reader, NULL, NULL, NULL, 0,
                                 &verdict, NULL),
                     STORE_OK);
    for (int i = 0; i < 2; i++)
        store_reader_close(buyers[i].worker.reader);
    close_stage(stage);
    free(stage);
    return verdict;
}

static int set_up(void **state)
{
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
    struct store_audit verdict =
        meet("fenced-late", redis_server_url(*state), "naive-insert");

    assert_int_equal(verdict.sold, 2);
    assert_int_equal(verdict.oversold, 1);
    assert_false(verdict.balanced);
    /* Nobody broke a rule: that is what is wrong with the rule. */
    assert_int_equal(verdict.fence_regressions, 0);
}

static void test_in_time_holds(void **state)
{
    struct store_audit verdict =
        meet("fenced", redis_server_url(*state), "naive-update");

    assert_int_equal(verdict.sold, 1);
    assert_int_equal(verdict.oversold, 0);
    assert_true(verdict.balanced);
}

/* To see that the schedule is what it claims to be. */
static void test_without_tokens_oversells_too(void **state)
{
    struct store_audit verdict =
        meet("redisson", redis_server_url(*state), "naive-insert");

    assert_int_equal(verdict.sold, 2);
    assert_false(verdict.balanced);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_too_late_oversells),
        cmocka_unit_test(test_in_time_holds),
        cmocka_unit_test(test_without_tokens_oversells_too),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
