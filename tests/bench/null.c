/*
 * The server that stores nothing, for benches only: orders are accepted without end.
 * The costs of HTTP, dispatcher and hand-over by themselves are the ceiling that no
 * database can lift us above. ld's --wrap puts this between the dispatcher and the
 * store, which makes `stockade-null`; the server itself has no switch for that.
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "db/store_async.h"

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
        lots[i].segments = 0;
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

    fprintf(stderr, "stockade-null: a bench, not for use: orders are accepted "
                    "and NOT STORED\n");
    dispatcher.source = *source;
    dispatcher.store = store;
    between.attend = answer_all;
    __real_store_source_attach(store, &between);
}
