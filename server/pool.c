/*
 * A few threads, one bounded queue. Each thread opens its own reader, because
 * a reader belongs to one thread at a time.
 *
 * A full queue refuses at once, and a sweeper refuses whose turn does not come
 * while all threads wait for a database that another process has locked:
 * whoever asks is told to come back, and nobody hangs.
 */
#include "server/pool.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/app.h"
#include "server/clock.h"
#include "server/config.h"
#include "server/log.h"
#include "server/sweeper.h"

#define POOL_THREADS   2
#define POOL_QUEUE_MAX 1024

struct pool_thread {
    struct pool *pool;
    struct store_reader *reader;
    pthread_t thread;
};

struct pool {
    pthread_mutex_t mutex;
    pthread_cond_t work;
    struct errand *first, **last; /* by age, so by due_ms as well */
    size_t queued;
    uint64_t patience_ms;
    bool stopping;
    struct sweeper *sweeper;
    struct pool_thread threads[POOL_THREADS];
    size_t threads_n; /* that are running */
};

/* Under the mutex. */
static struct errand *pop(struct pool *pool)
{
    struct errand *errand = pool->first;

    if (!errand)
        return NULL;
    pool->first = errand->next;
    if (!pool->first)
        pool->last = &pool->first;
    pool->queued--;
    return errand;
}

/* ---- refusing ------------------------------------------------------------- */

/* Refuses what is due by then; returns when the next one is. */
static uint64_t refuse_due(void *ctx, uint64_t now_ms)
{
    struct pool *pool = ctx;
    struct errand *list = NULL, **last = &list, *next;
    uint64_t next_ms;

    pthread_mutex_lock(&pool->mutex);
    while (pool->first && pool->first->due_ms <= now_ms) {
        *last = pop(pool);
        last = &(*last)->next;
    }
    next_ms = pool->first ? pool->first->due_ms : UINT64_MAX;
    pthread_mutex_unlock(&pool->mutex);
    for (*last = NULL; list; list = next) {
        next = list->next;
        list->refuse(list);
    }
    return next_ms;
}

/* ---- running -------------------------------------------------------------- */

/* The next errand, waiting for one; NULL when there will be none. */
static struct errand *pool_take(struct pool *pool)
{
    struct errand *errand;

    pthread_mutex_lock(&pool->mutex);
    while (!pool->first && !pool->stopping)
        pthread_cond_wait(&pool->work, &pool->mutex);
    errand = pool->stopping ? NULL : pop(pool);
    pthread_mutex_unlock(&pool->mutex);
    return errand;
}

static void *pool_main(void *arg)
{
    struct pool_thread *self = arg;
    struct errand *errand;

    while ((errand = pool_take(self->pool)))
        errand->run(errand, self->reader);
    return NULL;
}

bool pool_submit(struct pool *pool, struct errand *errand)
{
    bool taken;

    pthread_mutex_lock(&pool->mutex);
    taken = !pool->stopping && pool->queued < POOL_QUEUE_MAX;
    if (taken) {
        errand->next = NULL;
        errand->due_ms = clock_ms() + pool->patience_ms;
        *pool->last = errand;
        pool->last = &errand->next;
        pool->queued++;
        pthread_cond_signal(&pool->work);
    }
    pthread_mutex_unlock(&pool->mutex);
    return taken;
}

/* ---- opening and closing -------------------------------------------------- */

static bool thread_start(struct pool *pool, const struct app *app)
{
    struct pool_thread *self = &pool->threads[pool->threads_n];
    struct store_error error = {"no memory"};
    char name[16];

    self->pool = pool;
    if (store_reader_open(app->store, &self->reader, &error) != STORE_OK) {
        log_error("pool", "error=\"%s\"", error.text);
        return false;
    }
    if (pthread_create(&self->thread, NULL, pool_main, self) != 0) {
        log_error("pool", "error=\"cannot start a thread\"");
        store_reader_close(self->reader);
        return false;
    }
    snprintf(name, sizeof(name), "pool-%zu", pool->threads_n);
    pthread_setname_np(self->thread, name);
    pool->threads_n++;
    return true;
}

struct pool *pool_open(const struct app *app)
{
    struct pool *pool = calloc(1, sizeof(*pool));

    if (!pool) {
        log_error("pool", "error=\"no memory\"");
        return NULL;
    }
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    pool->last = &pool->first;
    pool->patience_ms = (uint64_t)app->config->request_deadline_ms / 2;
    pool->sweeper =
        sweeper_open("pool-sweeper", refuse_due, pool, pool->patience_ms);
    while (pool->sweeper && pool->threads_n < POOL_THREADS)
        if (!thread_start(pool, app))
            break;
    if (pool->threads_n == POOL_THREADS)
        return pool;
    pool_close(pool);
    return NULL;
}

void pool_stop(struct pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->mutex);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
    refuse_due(pool, UINT64_MAX);
    while (pool->threads_n > 0) {
        pool->threads_n--;
        pthread_join(pool->threads[pool->threads_n].thread, NULL);
        store_reader_close(pool->threads[pool->threads_n].reader);
    }
    sweeper_close(pool->sweeper);
    pool->sweeper = NULL;
}

void pool_close(struct pool *pool)
{
    if (!pool)
        return;
    pool_stop(pool);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}
