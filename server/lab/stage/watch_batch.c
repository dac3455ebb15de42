/*
 * What the stage sees of an instance that sells in batches: a batch, from the look
 * whether there are orders to their answers, is one step of the committer's thread.
 * Nobody else can do anything in its transaction.
 *
 * The dispatcher says to the store what it has (db/store_batch.h): here we stand
 * in between. And the token that a worker reads before it takes a lock is a step,
 * since other instances write it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "db/store_batch.h"
#include "server/lab/stage/real.h"
#include "server/lab/stage/turns.h"
#include "server/lab/stage/watch.h"

bool watch_batched;

static struct store_source source; /* the dispatcher */

static bool attend(void *ctx, uint64_t *due_us)
{
    struct page_thread shown = {
        .is_sql = true, .is_write = true, .step = "batch", .words_n = 1};

    if (!source.attend(ctx, due_us))
        return false;
    (void)snprintf(shown.words, sizeof(shown.words),
                   "BEGIN, decide what orders wait, COMMIT");
    if (turns_step(&shown) == PAGE_LOSE)
        watch_lose_commit();
    return true;
}

static size_t take(void *ctx, struct store_lot lots[], size_t n_max)
{
    return source.take(ctx, lots, n_max);
}

static void done(void *ctx, struct store_lot lots[], size_t n,
                 const struct store_error *error)
{
    char text[96] = "nobody's";
    size_t used = 0;

    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < lots[i].n && used < sizeof(text); j++) {
            const struct store_order *order = lots[i].orders[j];
            enum store_status status =
                lots[i].status == STORE_OK ? order->status : lots[i].status;

            used += (size_t)snprintf(
                text + used, sizeof(text) - used, "%s%" PRId64 ": %s",
                used > 0 ? "; " : "", order->user_id,
                status == STORE_OK ? "ok" : store_status_text(status));
            turns_hear(&order->segments, sizeof(order->segments));
            turns_hear(&order->richest, sizeof(order->richest));
        }
    (void)turns_stepped(0, text);
    source.done(ctx, lots, n, error);
}

WRAPPED(store_source_attach);
WRAPPED(store_fence_floor);

void __wrap_store_source_attach(struct store *store,
                                const struct store_source *dispatcher)
{
    source = *dispatcher;
    __real_store_source_attach(
        store,
        &(struct store_source){
            .attend = attend, .take = take, .done = done, .ctx = source.ctx});
}

enum store_status __wrap_store_fence_floor(struct store_reader *reader,
                                           int64_t product_id, const char *name,
                                           uint64_t *token,
                                           struct store_error *error)
{
    struct page_thread shown = {.is_sql = true, .step = "SELECT", .words_n = 1};
    enum store_status status;
    char text[96];

    if (!watch_batched) {
        status =
            __real_store_fence_floor(reader, product_id, name, token, error);
        turns_hear(token, sizeof(*token));
        return status;
    }
    (void)snprintf(shown.words, sizeof(shown.words),
                   "SELECT the last token of %s", name);
    (void)turns_step(&shown);
    status = __real_store_fence_floor(reader, product_id, name, token, error);
    (void)snprintf(text, sizeof(text), "%" PRIu64, *token);
    (void)turns_stepped(0,
                        status == STORE_OK ? text : store_status_text(status));
    return status;
}
