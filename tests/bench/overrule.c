/*
 * The server with some of the dispatcher's choices overruled, for benches only.
 * ld's --wrap puts these functions around the server's own, which makes
 * `stockade-overruled`: the same sale, with one choice made differently, tells what
 * the choice is worth. The server itself has no switch for that.
 *
 *   BENCH_BATCH_MAX=N   a batch has at most N orders of a queue
 *   BENCH_LINGER_US=N   a batch is kept open for so long after the store was
 *                       ready for it
 *   BENCH_GAP_US=N      so long is the time between two orders of a queue said to
 *                       be: an idle lock is kept for up to eight times that, or
 *                       given back at once if it is too long
 *
 * Read once, at the start. What is not set is not overruled.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "db/store_batch.h"
#include "server/order/queue.h"

static struct {
    size_t batch_max;
    uint64_t linger_us;
    uint64_t gap_us;
} choices; /* 0: not overruled */

static uint64_t number_of(const char *name)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void read_choices(void)
{
    choices.batch_max = number_of("BENCH_BATCH_MAX");
    choices.linger_us = number_of("BENCH_LINGER_US");
    choices.gap_us = number_of("BENCH_GAP_US");
    fprintf(stderr, "stockade-overruled: a bench, not for use\n");
}

/* ---- when a batch is closed ----------------------------------------------- */

struct order *__real_queue_pop(struct queue *queue, size_t n);
struct order *__wrap_queue_pop(struct queue *queue, size_t n);

struct order *__wrap_queue_pop(struct queue *queue, size_t n)
{
    if (choices.batch_max > 0 && choices.batch_max < n)
        n = choices.batch_max;
    return __real_queue_pop(queue, n);
}

void __real_store_source_attach(struct store *store,
                                const struct store_source *source);
void __wrap_store_source_attach(struct store *store,
                                const struct store_source *source);

/* The dispatcher: there is one in a process. */
static struct store_source dispatcher;

static size_t linger_and_take(void *ctx, struct store_lot lots[], size_t n_max)
{
    const struct timespec linger = {
        .tv_sec = (time_t)(choices.linger_us / 1000000),
        .tv_nsec = (long)(choices.linger_us % 1000000 * 1000)};

    nanosleep(&linger, NULL);
    return dispatcher.take(ctx, lots, n_max);
}

void __wrap_store_source_attach(struct store *store,
                                const struct store_source *source)
{
    struct store_source between = *source;

    dispatcher = *source;
    if (choices.linger_us > 0)
        between.take = linger_and_take;
    __real_store_source_attach(store, &between);
}

/* ---- how long a lock is kept ---------------------------------------------- */

uint64_t __real_queue_keep_until_us(const struct queue *queue, size_t queues_n);
uint64_t __wrap_queue_keep_until_us(const struct queue *queue, size_t queues_n);

uint64_t __wrap_queue_keep_until_us(const struct queue *queue, size_t queues_n)
{
    struct queue other = *queue;

    if (choices.gap_us > 0)
        other.gap_us = choices.gap_us;
    return __real_queue_keep_until_us(&other, queues_n);
}
