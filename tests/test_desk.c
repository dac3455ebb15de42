/*
 * The desk with a real store and the process lock: every ticket is answered
 * exactly once, with the right outcome, whatever happens around it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lock/dlock.h"
#include "server/app.h"
#include "server/config.h"
#include "server/metrics.h"
#include "server/order/desk.h"

#define TICKETS 200

struct fixture {
    char dir[64];
    char url[128];
    struct config config;
    struct app app;
    atomic_int commits;
    atomic_int answered;
    atomic_bool hold; /* the next commit waits until this is false */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct ticket tickets[TICKETS];
};

static void changed(struct fixture *f)
{
    pthread_mutex_lock(&f->mutex);
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->mutex);
}

static enum store_verdict on_store_step(void *ctx, const char *step,
                                        int64_t product_id,
                                        enum store_phase phase)
{
    struct fixture *f = ctx;

    (void)product_id;
    if (strcmp(step, "commit") != 0 || phase != STORE_BEFORE)
        return STORE_GO;
    atomic_fetch_add(&f->commits, 1);
    pthread_mutex_lock(&f->mutex);
    pthread_cond_broadcast(&f->changed);
    while (atomic_load(&f->hold))
        pthread_cond_wait(&f->changed, &f->mutex);
    pthread_mutex_unlock(&f->mutex);
    return STORE_GO;
}

static void open_parts(struct fixture *f)
{
    struct store_options store = {
        .url = f->url, .on_step = on_store_step, .on_step_ctx = f};
    struct dlock_options locks = {.strategy = f->config.lock,
                                  .url = f->config.redis};

    f->app.config = &f->config;
    f->app.metrics = metrics_new();
    assert_int_equal(store_open(&store, &f->app.store, NULL), STORE_OK);
    assert_int_equal(dlock_open(&locks, &f->app.locks, NULL), DLOCK_OK);
}

static void put_product(struct fixture *f, int64_t stock)
{
    struct store_product product = {.id = 1, .name = "p", .initial = stock};
    bool created;

    assert_int_equal(store_product_put(f->app.store, &product, &created, NULL),
                     STORE_OK);
    atomic_store(&f->commits, 0);
}

/* A desk over a fresh store. LOCK's server, if it needs one, is nowhere. */
static struct fixture *fixture_new(const char *lock, enum config_desk desk,
                                   int64_t stock)
{
    struct fixture *f = calloc(1, sizeof(*f));

    f->config = (struct config){.lock_wait_ms = 50,
                                .desk = desk,
                                .workers = 4,
                                .queue_max = TICKETS,
                                .request_deadline_ms = 60000};
    snprintf(f->config.lock, sizeof(f->config.lock), "%s", lock);
    snprintf(f->config.redis, sizeof(f->config.redis),
             "unix:/nowhere/redis.sock");
    snprintf(f->dir, sizeof(f->dir), "/tmp/stockade-desk-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->url, sizeof(f->url), "sqlite:%s/s.db", f->dir);
    pthread_mutex_init(&f->mutex, NULL);
    pthread_cond_init(&f->changed, NULL);
    open_parts(f);
    put_product(f, stock);
    f->app.desk = desk_open(&f->app);
    assert_non_null(f->app.desk);
    return f;
}

static void fixture_free(struct fixture *f)
{
    char command[128];

    desk_close(f->app.desk);
    dlock_close(f->app.locks);
    store_close(f->app.store);
    metrics_free(f->app.metrics);
    snprintf(command, sizeof(command), "rm -rf %s", f->dir);
    assert_int_equal(system(command), 0);
    free(f);
}

static void ticket_done(struct ticket *ticket)
{
    struct fixture *f = ticket->owner;

    atomic_fetch_add(&f->answered, 1);
    changed(f);
}

static bool submit(struct fixture *f, int i)
{
    f->tickets[i] = (struct ticket){
        .order = {.product_id = 1, .user_id = i + 1, .quantity = 1},
        .outcome = ORDER_OUTCOME_N,
        .done = ticket_done,
        .owner = f};
    return desk_submit(f->app.desk, &f->tickets[i]);
}

static void wait_answered(struct fixture *f, int n)
{
    pthread_mutex_lock(&f->mutex);
    while (atomic_load(&f->answered) < n)
        pthread_cond_wait(&f->changed, &f->mutex);
    pthread_mutex_unlock(&f->mutex);
}

static void wait_commit_begun(struct fixture *f)
{
    pthread_mutex_lock(&f->mutex);
    while (atomic_load(&f->commits) == 0)
        pthread_cond_wait(&f->changed, &f->mutex);
    pthread_mutex_unlock(&f->mutex);
}

static int count(const struct fixture *f, enum order_outcome outcome)
{
    int n = 0;

    for (int i = 0; i < TICKETS; i++)
        n += f->tickets[i].owner && f->tickets[i].outcome == outcome;
    return n;
}

static void release(struct fixture *f)
{
    atomic_store(&f->hold, false);
    changed(f);
}

/* One order is in the commit; all that come meanwhile go in one batch. */
static void combine_shares_one_commit(void **state)
{
    struct fixture *f = fixture_new("process", DESK_COMBINE, 100);

    (void)state;
    atomic_store(&f->hold, true);
    assert_true(submit(f, 0));
    wait_commit_begun(f);
    for (int i = 1; i < TICKETS; i++)
        assert_true(submit(f, i));
    release(f);
    wait_answered(f, TICKETS);
    assert_int_equal(count(f, ORDER_PLACED), 100);
    assert_int_equal(count(f, ORDER_SOLD_OUT), 100);
    assert_int_equal(atomic_load(&f->commits), 2);
    fixture_free(f);
}

static void direct_sells_exactly_too(void **state)
{
    struct fixture *f = fixture_new("process", DESK_DIRECT, 100);

    (void)state;
    f->config.lock_wait_ms = 10000;
    for (int i = 0; i < TICKETS; i++)
        assert_true(submit(f, i));
    wait_answered(f, TICKETS);
    assert_int_equal(count(f, ORDER_PLACED), 100);
    assert_int_equal(count(f, ORDER_SOLD_OUT), 100);
    assert_int_equal(atomic_load(&f->answered), TICKETS);
    fixture_free(f);
}

static void a_full_queue_refuses_at_once(void **state)
{
    struct fixture *f = fixture_new("process", DESK_COMBINE, 100);

    (void)state;
    f->config.queue_max = 3;
    atomic_store(&f->hold, true);
    for (int i = 0; i < 3; i++)
        assert_true(submit(f, i));
    assert_false(submit(f, 3));
    assert_int_equal(f->tickets[3].outcome, ORDER_OVERLOADED);
    release(f);
    wait_answered(f, 3);
    assert_int_equal(desk_depth(f->app.desk), 0);
    fixture_free(f);
}

static void a_held_lock_is_a_timeout_and_sells_nothing(void **state)
{
    struct fixture *f = fixture_new("process", DESK_COMBINE, 100);
    struct dlock_session *other;
    struct dlock_grant grant;
    struct dlock_terms terms = {.wait_ms = 0};

    (void)state;
    dlock_session_open(f->app.locks, &other, NULL);
    assert_int_equal(dlock_acquire(other, "lock:{1:0}", &terms, &grant, NULL),
                     DLOCK_OK);
    submit(f, 0);
    wait_answered(f, 1);
    assert_int_equal(f->tickets[0].outcome, ORDER_LOCK_TIMEOUT);
    assert_int_equal(atomic_load(&f->commits), 0);
    assert_int_equal(dlock_release(other, &grant, NULL), DLOCK_OK);
    submit(f, 1);
    wait_answered(f, 2);
    assert_int_equal(f->tickets[1].outcome, ORDER_PLACED);
    dlock_session_close(other);
    fixture_free(f);
}

static void without_a_lock_server_nothing_is_sold(void **state)
{
    struct fixture *f = fixture_new("fenced", DESK_COMBINE, 100);

    (void)state;
    submit(f, 0);
    wait_answered(f, 1);
    assert_int_equal(f->tickets[0].outcome, ORDER_LOCK_UNREACHABLE);
    assert_int_not_equal(f->tickets[0].detail[0], '\0');
    assert_int_equal(atomic_load(&f->commits), 0);
    fixture_free(f);
}

/* Its turn does not come, for the worker hangs: it is not left waiting. */
static void who_waited_too_long_is_refused(void **state)
{
    struct fixture *f = fixture_new("process", DESK_COMBINE, 100);

    (void)state;
    atomic_store(&f->hold, true);
    submit(f, 0);
    wait_commit_begun(f);
    submit(f, 1);
    wait_answered(f, 1);
    assert_int_equal(f->tickets[1].outcome, ORDER_OVERLOADED);
    assert_int_equal(f->tickets[0].outcome, ORDER_OUTCOME_N);
    release(f);
    wait_answered(f, 2);
    assert_int_equal(f->tickets[0].outcome, ORDER_PLACED);
    fixture_free(f);
}

static void *stop_main(void *arg)
{
    desk_stop(((struct fixture *)arg)->app.desk);
    return NULL;
}

/* What is in the commit ends well; what waits behind it is refused. */
static void stopping_answers_everybody(void **state)
{
    struct fixture *f = fixture_new("process", DESK_COMBINE, 100);
    pthread_t stopper;

    (void)state;
    atomic_store(&f->hold, true);
    submit(f, 0);
    wait_commit_begun(f);
    for (int i = 1; i < 20; i++)
        assert_true(submit(f, i));
    pthread_create(&stopper, NULL, stop_main, f);
    wait_answered(f, 19);
    assert_false(submit(f, 20));
    assert_int_equal(f->tickets[20].outcome, ORDER_SHUTTING_DOWN);
    release(f);
    pthread_join(stopper, NULL);
    assert_int_equal(atomic_load(&f->answered), 20);
    assert_int_equal(f->tickets[0].outcome, ORDER_PLACED);
    assert_int_equal(count(f, ORDER_SHUTTING_DOWN), 20);
    fixture_free(f);
}

/* A long wait for a lock does not keep the service from ending. */
static void stopping_does_not_wait_for_locks(void **state)
{
    struct fixture *f = fixture_new("process", DESK_COMBINE, 100);
    struct dlock_session *other;
    struct dlock_grant grant;
    struct dlock_terms terms = {.wait_ms = 0};

    (void)state;
    f->config.lock_wait_ms = 60000;
    dlock_session_open(f->app.locks, &other, NULL);
    assert_int_equal(dlock_acquire(other, "lock:{1:0}", &terms, &grant, NULL),
                     DLOCK_OK);
    submit(f, 0);
    alarm(20);
    desk_stop(f->app.desk);
    alarm(0);
    assert_int_equal(atomic_load(&f->answered), 1);
    assert_true(f->tickets[0].outcome == ORDER_LOCK_TIMEOUT ||
                f->tickets[0].outcome == ORDER_SHUTTING_DOWN);
    assert_int_equal(atomic_load(&f->commits), 0);
    assert_int_equal(dlock_release(other, &grant, NULL), DLOCK_OK);
    dlock_session_close(other);
    fixture_free(f);
}

/* Nor does business time under the lock. */
static void stopping_does_not_wait_for_thinking(void **state)
{
    struct fixture *f = fixture_new("process", DESK_COMBINE, 100);

    (void)state;
    f->config.think_ms = 60000;
    submit(f, 0);
    alarm(20);
    desk_stop(f->app.desk);
    alarm(0);
    assert_int_equal(atomic_load(&f->answered), 1);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(combine_shares_one_commit),
        cmocka_unit_test(direct_sells_exactly_too),
        cmocka_unit_test(a_full_queue_refuses_at_once),
        cmocka_unit_test(a_held_lock_is_a_timeout_and_sells_nothing),
        cmocka_unit_test(without_a_lock_server_nothing_is_sold),
        cmocka_unit_test(who_waited_too_long_is_refused),
        cmocka_unit_test(stopping_answers_everybody),
        cmocka_unit_test(stopping_does_not_wait_for_locks),
        cmocka_unit_test(stopping_does_not_wait_for_thinking),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
