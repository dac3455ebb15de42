/*
 * Several locks at once, against a real Redis: how they are taken and given
 * back, also when it hangs while a worker has many.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/app.h"
#include "server/clock.h"
#include "server/config.h"
#include "server/metrics.h"
#include "server/order/holds.h"
#include "tests/support/lock_rig.h"

#define SEGMENTS   64
#define COMMAND_MS 100

/* A worker on a stage of its own; product 1 has SEGMENTS segments. */
struct stage {
    struct temp_dir dir;
    struct config config;
    struct app app;
    pthread_mutex_t mutex;
    atomic_bool lock_away;
    struct worker worker;
    struct holds holds;
};

static struct stage *stage_open(struct lock_rig *rig)
{
    struct stage *stage = calloc(1, sizeof(*stage));
    struct store_product product = {
        .id = 1, .name = "p", .initial = SEGMENTS, .segments = SEGMENTS};

    assert_non_null(stage);
    temp_dir_make(&stage->dir);
    snprintf(stage->config.lock, sizeof(stage->config.lock), "fenced");
    stage->config.lock_wait_ms = 5000;
    stage->app.config = &stage->config;
    stage->app.metrics = metrics_new();
    assert_int_equal(store_open(&(struct store_options){.url = stage->dir.url},
                                &stage->app.store, NULL),
                     STORE_OK);
    assert_int_equal(store_product_put(stage->app.store, &product, NULL, NULL),
                     STORE_OK);
    rig->command_timeout_ms = COMMAND_MS;
    stage->app.locks = lock_rig_client(rig, "fenced");
    pthread_mutex_init(&stage->mutex, NULL);
    stage->worker =
        (struct worker){.app = &stage->app,
                        .session = lock_rig_session(stage->app.locks),
                        .mutex = &stage->mutex,
                        .stop_fd = eventfd(0, EFD_CLOEXEC),
                        .lock_away = &stage->lock_away};
    assert_int_equal(
        store_reader_open(stage->app.store, &stage->worker.reader, NULL),
        STORE_OK);
    return stage;
}

static void stage_close(struct stage *stage)
{
    holds_release(&stage->holds);
    close(stage->worker.stop_fd);
    store_reader_close(stage->worker.reader);
    dlock_session_close(stage->worker.session);
    dlock_close(stage->app.locks);
    store_close(stage->app.store);
    metrics_free(stage->app.metrics);
    pthread_mutex_destroy(&stage->mutex);
    temp_dir_remove(&stage->dir);
    free(stage);
}

static enum order_outcome take(struct stage *stage, int64_t segment)
{
    const struct holds_terms terms = {.product_id = 1,
                                      .segment = segment,
                                      .submitted_us = clock_us(),
                                      .may_wait = true};
    struct dlock_error error = {""};

    return holds_take(&stage->worker, &terms, &stage->holds, &error);
}

static size_t count_fences(const struct holds *holds)
{
    size_t n = 0;

    for (const struct store_fence *it = holds_fence(holds); it; it = it->also)
        n++;
    return n;
}

static void one_or_all(void **state)
{
    struct lock_rig *rig = *state;
    struct stage *stage = stage_open(rig);

    assert_int_equal(take(stage, 3), ORDER_PLACED);
    assert_int_equal(count_fences(&stage->holds), 1);
    assert_int_equal(lock_rig_probe(rig, "fenced", "lock:{1:3}"), DLOCK_BUSY);
    assert_int_equal(lock_rig_probe(rig, "fenced", "lock:{1:4}"), DLOCK_OK);
    holds_leave(&stage->worker, &stage->holds);
    assert_int_equal(take(stage, STORE_SEGMENT_ANY), ORDER_PLACED);
    assert_int_equal(stage->holds.n, SEGMENTS);
    assert_int_equal(count_fences(&stage->holds), SEGMENTS);
    assert_int_equal(lock_rig_probe(rig, "fenced", "lock:{1:63}"), DLOCK_BUSY);
    assert_false(holds_lost(&stage->worker, &stage->holds));
    holds_leave(&stage->worker, &stage->holds);
    for (int i = 0; i < SEGMENTS; i++) {
        char name[64];

        snprintf(name, sizeof(name), "lock:{1:%d}", i);
        assert_int_equal(lock_rig_probe(rig, "fenced", name), DLOCK_OK);
    }
    stage_close(stage);
}

/* The lease of one is over, those of the others are not. */
static void one_lost_is_all_lost(void **state)
{
    struct stage *stage = stage_open(*state);
    size_t lost = SEGMENTS / 2;

    stage->config.lock_lease_ms = 5000;
    assert_int_equal(take(stage, STORE_SEGMENT_ANY), ORDER_PLACED);
    assert_false(holds_lost(&stage->worker, &stage->holds));
    assert_int_equal(dlock_extend(stage->worker.session,
                                  &stage->holds.at[lost].grant, 50, NULL),
                     DLOCK_OK);
    lock_rig_sleep_ms(60);
    assert_true(holds_lost(&stage->worker, &stage->holds));
    holds_leave(&stage->worker, &stage->holds);
    stage_close(stage);
}

/*
 * Redis hangs, and the service ends: one command's patience for all of them and
 * not for each. The worker is another owner then, and goes on when Redis does;
 * what it had ends with its leases.
 */
static void a_server_that_hangs_is_waited_for_once(void **state)
{
    struct lock_rig *rig = *state;
    struct stage *stage;
    const struct dlock_session *before;
    uint64_t begin;

    rig->watchdog_lease_ms = 1000;
    stage = stage_open(rig);
    before = stage->worker.session;
    assert_int_equal(take(stage, STORE_SEGMENT_ANY), ORDER_PLACED);
    redis_server_pause(rig->server);
    eventfd_write(stage->worker.stop_fd, 1);
    begin = lock_rig_now_ms();
    holds_leave(&stage->worker, &stage->holds);
    assert_true(lock_rig_now_ms() - begin < SEGMENTS * COMMAND_MS / 4);
    assert_ptr_not_equal(stage->worker.session, before);
    redis_server_resume(rig->server);
    assert_int_equal(take(stage, SEGMENTS - 1), ORDER_PLACED);
    holds_leave(&stage->worker, &stage->holds);
    stage_close(stage);
}

/* On a machine that has not been up for as long as an order waits, nobody has
 * waited so long. */
static void patience_of_a_young_machine(void **state)
{
    const struct config config = {.lock_wait_ms = 3000}; /* 750 for a command */
    const struct app app = {.config = &config};

    (void)state;
    assert_int_equal(hold_impatient_us(&app, 0), 0);
    assert_int_equal(hold_impatient_us(&app, 2000000), 0);
    assert_int_equal(hold_impatient_us(&app, 10000000), 7751000);
}

#define TEST(name) cmocka_unit_test_setup(name, lock_rig_fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_or_all),
        TEST(one_lost_is_all_lost),
        TEST(a_server_that_hangs_is_waited_for_once),
        cmocka_unit_test(patience_of_a_young_machine),
    };

    return cmocka_run_group_tests(tests, lock_rig_setup, lock_rig_teardown);
}
