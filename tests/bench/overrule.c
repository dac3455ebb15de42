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
 *   BENCH_NULL=1        orders are accepted without end, and not stored: what HTTP,
 *                       dispatcher and hand-over cost by themselves is the ceiling
 *                       that no database can lift us above
 *
 * Read once, at the start. What is not set is not overruled.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "db/store_async.h"
#include "server/order/queue.h"

static struct {
    size_t batch_max;
    uint64_t linger_us;
    uint64_t gap_us;
    uint64_t null;
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
    choices.null = number_of("BENCH_NULL");
    fprintf(stderr, "stockade-overruled: a bench, not for use%s\n",
            choices.null ? ": orders are accepted and NOT STORED" : "");
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

/* There is one in a process. */
static struct {
    struct store_source source;
    struct store *store;
    struct store_lot lots[STORE_LOTS_MAX]; /* of answer_all() */
} dispatcher;

static size_t linger_and_take(void *ctx, struct store_lot lots[], size_t n_max)
{
    const struct timespec linger = {
        .tv_sec = (time_t)(choices.linger_us / 1000000),
        .tv_nsec = (long)(choices.linger_us % 1000000 * 1000)};

    nanosleep(&linger, NULL);
    return dispatcher.source.take(ctx, lots, n_max);
}

static void fabricate(struct store_order *order,
                      const struct store_fence *fence)
{
    static int64_t number; /* all are made on the committer's thread */

    order->number = ++number;
    snprintf(order->id, sizeof(order->id), "%" PRId64 "-not-stored-ever",
             number);
    order->status = STORE_OK;
    order->state = STORE_PLACED;
    order->segments = 1;
    order->created_ms = (int64_t)time(NULL) * 1000;
    order->fence = fence ? fence->token : 0;
}

/* The committer begins no transaction: it hears that no order waits, since all are
 * answered by then. Each time it is woken again, so that other writes have a turn. */
static bool answer_all(void *ctx, uint64_t *due_us)
{
    struct store_lot *lots = dispatcher.lots;
    const struct store_error none = {""};
    size_t n;

    if (!dispatcher.source.attend(ctx, due_us))
        return false;
    n = dispatcher.source.take(ctx, lots, STORE_LOTS_MAX);
    for (size_t i = 0; i < n; i++) {
        lots[i].status = STORE_OK;
        lots[i].left = lots[i].unlocked ? -1 : STORE_NUMBER_MAX;
        lots[i].wrongly_known = 0;
        for (size_t k = 0; k < lots[i].n; k++)
            if (lots[i].unlocked)
                lots[i].orders[k]->status = STORE_NEEDS_LOCK;
            else
                fabricate(lots[i].orders[k], lots[i].fence);
    }
    dispatcher.source.done(ctx, lots, n, &none);
    store_source_wake(dispatcher.store);
    return false;
}

void __wrap_store_source_attach(struct store *store,
                                const struct store_source *source)
{
    struct store_source between = *source;

    dispatcher.source = *source;
    dispatcher.store = store;
    if (choices.linger_us > 0)
        between.take = linger_and_take;
    if (choices.null)
        between.attend = answer_all;
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
