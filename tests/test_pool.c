/*
 * The pool: every errand is run or refused, once, and none waits for ever
 * behind others that hang.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/app.h"
#include "server/config.h"
#include "server/pool.h"
#include "tests/support/temp_dir.h"

#define ERRANDS 4

struct fixture {
    struct temp_dir dir;
    struct config config;
    struct app app;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool hold; /* those that run wait until this is false */
    int running;
    struct errand errands[ERRANDS];
    char ends[ERRANDS]; /* 'r'un, re'f'used, 0 = neither */
};

static void note(struct errand *errand, char end)
{
    struct fixture *f = errand->owner;

    assert_int_equal(f->ends[errand - f->errands], 0);
    f->ends[errand - f->errands] = end;
    pthread_cond_broadcast(&f->changed);
}

static void run(struct errand *errand, struct store_reader *reader)
{
    struct fixture *f = errand->owner;

    assert_non_null(reader);
    pthread_mutex_lock(&f->mutex);
    f->running++;
    pthread_cond_broadcast(&f->changed);
    while (f->hold)
        pthread_cond_wait(&f->changed, &f->mutex);
    note(errand, 'r');
    pthread_mutex_unlock(&f->mutex);
}

static void refuse(struct errand *errand)
{
    struct fixture *f = errand->owner;

    pthread_mutex_lock(&f->mutex);
    note(errand, 'f');
    pthread_mutex_unlock(&f->mutex);
}

static struct fixture *fixture_new(int64_t deadline_ms)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct store_options options = {0};

    temp_dir_make(&f->dir);
    options.url = f->dir.url;
    assert_int_equal(store_open(&options, &f->app.store, NULL), STORE_OK);
    f->config.request_deadline_ms = deadline_ms;
    f->app.config = &f->config;
    pthread_mutex_init(&f->mutex, NULL);
    pthread_cond_init(&f->changed, NULL);
    f->app.pool = pool_open(&f->app);
    assert_non_null(f->app.pool);
    return f;
}

static void fixture_free(struct fixture *f)
{
    store_close(f->app.store);
    temp_dir_remove(&f->dir);
    free(f);
}

static void submit(struct fixture *f, int i)
{
    f->errands[i] = (struct errand){.run = run, .refuse = refuse, .owner = f};
    assert_true(pool_submit(f->app.pool, &f->errands[i]));
}

/* Both threads hang in the first two errands; two more wait behind them. */
static void hang(struct fixture *f)
{
    f->hold = true;
    for (int i = 0; i < ERRANDS; i++)
        submit(f, i);
    pthread_mutex_lock(&f->mutex);
    while (f->running < 2)
        pthread_cond_wait(&f->changed, &f->mutex);
    pthread_mutex_unlock(&f->mutex);
}

static void let_go(struct fixture *f)
{
    pthread_mutex_lock(&f->mutex);
    f->hold = false;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->mutex);
}

static void await_end(struct fixture *f, int i)
{
    pthread_mutex_lock(&f->mutex);
    while (!f->ends[i])
        pthread_cond_wait(&f->changed, &f->mutex);
    pthread_mutex_unlock(&f->mutex);
}

static void all_are_run(void **state)
{
    struct fixture *f = fixture_new(60000);

    (void)state;
    for (int i = 0; i < ERRANDS; i++)
        submit(f, i);
    for (int i = 0; i < ERRANDS; i++)
        await_end(f, i);
    pool_close(f->app.pool);
    for (int i = 0; i < ERRANDS; i++)
        assert_int_equal(f->ends[i], 'r');
    fixture_free(f);
}

static void nobody_waits_behind_those_that_hang(void **state)
{
    struct fixture *f = fixture_new(200);

    (void)state;
    hang(f);
    await_end(f, 2);
    await_end(f, 3);
    let_go(f);
    pool_close(f->app.pool);
    assert_int_equal(f->ends[0], 'r');
    assert_int_equal(f->ends[1], 'r');
    assert_int_equal(f->ends[2], 'f');
    assert_int_equal(f->ends[3], 'f');
    fixture_free(f);
}

static void *close_main(void *arg)
{
    pool_close(((struct fixture *)arg)->app.pool);
    return NULL;
}

static void closing_refuses_what_has_not_begun(void **state)
{
    struct fixture *f = fixture_new(60000);
    pthread_t closer;

    (void)state;
    hang(f);
    assert_int_equal(pthread_create(&closer, NULL, close_main, f), 0);
    await_end(f, 2);
    await_end(f, 3);
    let_go(f);
    pthread_join(closer, NULL);
    assert_int_equal(f->ends[0], 'r');
    assert_int_equal(f->ends[2], 'f');
    assert_int_equal(f->ends[3], 'f');
    fixture_free(f);
}

static void *stop_main(void *arg)
{
    pool_stop(((struct fixture *)arg)->app.pool);
    return NULL;
}

/* While it stops, and after it: who is still at work hears no. */
static void stopped_takes_nothing(void **state)
{
    struct fixture *f = fixture_new(60000);
    struct errand late = {.run = run, .refuse = refuse, .owner = f};
    pthread_t stopper;

    (void)state;
    hang(f);
    assert_int_equal(pthread_create(&stopper, NULL, stop_main, f), 0);
    await_end(f, 3);
    assert_false(pool_submit(f->app.pool, &late));
    let_go(f);
    pthread_join(stopper, NULL);
    assert_int_equal(f->ends[1], 'r');
    assert_false(pool_submit(f->app.pool, &late));
    pool_stop(f->app.pool);
    pool_close(f->app.pool);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_run),
        cmocka_unit_test(nobody_waits_behind_those_that_hang),
        cmocka_unit_test(closing_refuses_what_has_not_begun),
        cmocka_unit_test(stopped_takes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
