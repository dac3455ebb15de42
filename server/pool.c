/*
 * A few threads, one bounded queue. Each thread opens its own reader, because
 * a reader belongs to one thread at a time.
 *
 * A full queue refuses at once: whoever asks is told to come back, which costs
 * nothing, instead of waiting behind everybody else and timing out.
 */
#include "server/pool.h"

#include <pthread.h>
#include <stdlib.h>

#include "server/app.h"
#include "server/log.h"

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
    struct errand *first, **last;
    size_t queued;
    bool stopping;
    struct pool_thread threads[POOL_THREADS];
    size_t threads_n; /* that are running */
};

/* The next errand, waiting for one; NULL when there will be none. */
static struct errand *pool_take(struct pool *pool)
{
    struct errand *errand;

    pthread_mutex_lock(&pool->mutex);
    while (!pool->first && !pool->stopping)
        pthread_cond_wait(&pool->work, &pool->mutex);
    errand = pool->first;
    if (errand) {
        pool->first = errand->next;
        if (!pool->first)
            pool->last = &pool->first;
        pool->queued--;
    }
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

static bool thread_start(struct pool *pool, const struct app *app)
{
    struct pool_thread *t = &pool->threads[pool->threads_n];
    struct store_error error;

    t->pool = pool;
    if (store_reader_open(app->store, &t->reader, &error) != STORE_OK) {
        log_error("pool", "error=\"%s\"", error.text);
        return false;
    }
    if (pthread_create(&t->thread, NULL, pool_main, t) != 0) {
        store_reader_close(t->reader);
        return false;
    }
    pool->threads_n++;
    return true;
}

struct pool *pool_open(const struct app *app)
{
    struct pool *pool = calloc(1, sizeof(*pool));

    if (!pool)
        return NULL;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    pool->last = &pool->first;
    while (pool->threads_n < POOL_THREADS) {
        if (!thread_start(pool, app)) {
            pool_close(pool);
            return NULL;
        }
    }
    return pool;
}

bool pool_submit(struct pool *pool, struct errand *errand)
{
    bool taken;

    pthread_mutex_lock(&pool->mutex);
    taken = !pool->stopping && pool->queued < POOL_QUEUE_MAX;
    if (taken) {
        errand->next = NULL;
        *pool->last = errand;
        pool->last = &errand->next;
        pool->queued++;
        pthread_cond_signal(&pool->work);
    }
    pthread_mutex_unlock(&pool->mutex);
    return taken;
}

void pool_close(struct pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->mutex);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
    for (size_t i = 0; i < pool->threads_n; i++) {
        pthread_join(pool->threads[i].thread, NULL);
        store_reader_close(pool->threads[i].reader);
    }
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}
