/*
 * Steps of an instance that sells in batches. The committer's thread has
 * these steps: BEGIN, after which it checks which orders have their lock; each lot that
 * it decides, and each other write; COMMIT. The answers are steps of the program.
 * Nobody else can write between BEGIN and COMMIT, but Redis and the clock go on.
 *
 * The dispatcher says to the store what it has (db/store_async.h): here we stand in
 * between. The token that a worker reads before it takes a lock is a step as well,
 * since other instances write it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "db/store_async.h"
#include "server/lab/stage/turns.h"
#include "server/lab/stage/watch.h"

bool watch_batched, watch_floor;

static struct store_source source; /* the dispatcher */
static bool has_begun;             /* the last BEGIN was carried out */

/* Lots of the batch under way, and how many of them were decided. */
static struct store_lot *lots;
static size_t lots_n, decided_n;

/* ---- the transaction ----------------------------------------------------- */

static bool is(const struct store_step *step, const char *name)
{
    return strcmp(step->name, name) == 0;
}

/* The orders of LOT, each with what was decided; or without that, before it is. */
static void tell_orders(const struct store_lot *lot, bool is_decided,
                        char text[], size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < lot->n && used < size; i++) {
        const struct store_order *order = lot->orders[i];
        enum store_status status =
            lot->status == STORE_OK ? order->status : lot->status;

        used +=
            (size_t)snprintf(text + used, size - used, "%s%" PRId64 "%s%s",
                             i == 0       ? ""
                             : is_decided ? "; "
                                          : ", ",
                             order->user_id, is_decided ? ": " : "",
                             !is_decided          ? ""
                             : status == STORE_OK ? "ok"
                                                  : store_status_text(status));
    }
}

/* A lot of which nothing is asked (its fence makes no sense) is not decided. */
static struct store_lot *next_lot(void)
{
    while (decided_n < lots_n && lots[decided_n].status == STORE_MISUSE)
        decided_n++;
    return decided_n < lots_n ? &lots[decided_n] : NULL;
}

static void show(const struct store_step *step, struct page_thread *shown)
{
    const struct store_lot *lot = next_lot();
    char users[64];

    (void)snprintf(shown->step, sizeof(shown->step), "%s", step->name);
    if (step->product_id != 0)
        (void)snprintf(shown->key, sizeof(shown->key), "product %" PRId64,
                       step->product_id);
    (void)snprintf(shown->words, sizeof(shown->words), "%s", step->name);
    if (is(step, "begin")) {
        (void)snprintf(shown->step, sizeof(shown->step), "BEGIN");
        (void)snprintf(shown->words, sizeof(shown->words),
                       "BEGIN, check which orders have their lock");
        shown->part = PAGE_OPENS;
    } else if (is(step, "commit")) {
        (void)snprintf(shown->step, sizeof(shown->step), "COMMIT");
        (void)snprintf(shown->words, sizeof(shown->words), "COMMIT");
        shown->part = PAGE_COMMITS;
    } else if (is(step, "place") && lot) {
        tell_orders(lot, false, users, sizeof(users));
        (void)snprintf(shown->words, sizeof(shown->words),
                       "decide the orders of %s, %s", users,
                       lot->unlocked ? "without a lock" : "under the lock");
    }
}

static enum store_verdict end_step(const struct store_step *step)
{
    struct store_lot *lot = is(step, "place") ? next_lot() : NULL;
    char text[96];

    (void)snprintf(text, sizeof(text), "%s", step->reply);
    if (lot) {
        tell_orders(lot, true, text, sizeof(text));
        decided_n++;
    }
    (void)turns_stepped(0, text);
    if (is(step, "begin"))
        turns_transaction(has_begun = strcmp(text, "ok") == 0);
    if (!is(step, "commit"))
        return STORE_GO;
    watch_disk(false);
    turns_transaction(false);
    return watch_takes(PAGE_LOSE) ? STORE_FAIL : STORE_GO;
}

enum store_verdict watch_batch(const struct store_step *step)
{
    struct page_thread shown = {
        .is_sql = true, .is_write = true, .part = PAGE_INSIDE, .words_n = 1};
    bool begins = is(step, "begin");

    if (is(step, "rollback")) {
        turns_transaction(false);
        return STORE_GO;
    }
    if (step->phase == STORE_AFTER)
        return end_step(step);
    show(step, &shown);
    watch_commit(turns_step(&shown));
    has_begun = has_begun && !begins;
    if (turns_ending())
        return STORE_FAIL;
    watch_disk(watch_takes(PAGE_FAIL));
    if (!begins || !watch_takes(PAGE_REFUSE))
        return STORE_GO;
    (void)turns_stepped(0, "another process writes");
    return STORE_FAIL;
}

/* ---- the source ---------------------------------------------------------- */

static size_t take(void *ctx, struct store_lot taken[], size_t n_max)
{
    size_t n = source.take(ctx, taken, n_max);

    lots = taken;
    lots_n = n;
    decided_n = 0;
    if (has_begun)
        turns_amend("ok: %zu lot%s", n, n == 1 ? "" : "s");
    return n;
}

static void done(void *ctx, struct store_lot taken[], size_t n,
                 const struct store_error *error)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < taken[i].n; j++) {
            const struct store_order *order = taken[i].orders[j];

            turns_hear(&order->status, sizeof(order->status));
            turns_hear(&order->segments, sizeof(order->segments));
            turns_hear(&order->richest, sizeof(order->richest));
        }
    lots_n = 0;
    source.done(ctx, taken, n, error);
}

WRAPPED(store_source_attach);
WRAPPED(store_fence_floor);

void __wrap_store_source_attach(struct store *store,
                                const struct store_source *dispatcher)
{
    source = *dispatcher;
    __real_store_source_attach(store,
                               &(struct store_source){.attend = source.attend,
                                                      .take = take,
                                                      .done = done,
                                                      .ctx = source.ctx});
}

enum store_status __wrap_store_fence_floor(struct store_reader *reader,
                                           int64_t product_id, const char *name,
                                           uint64_t *token,
                                           struct store_error *error)
{
    struct page_thread shown = {.is_sql = true, .step = "SELECT", .words_n = 1};
    struct page_lane *lane = turns_own_lane();
    enum store_status status;
    char text[96];

    (void)snprintf(shown.words, sizeof(shown.words),
                   "SELECT the highest token of %s", name);
    if (watch_floor)
        (void)turns_step(&shown);
    status = __real_store_fence_floor(reader, product_id, name, token, error);
    (void)snprintf(text, sizeof(text), "%" PRIu64, *token);
    if (watch_floor)
        (void)turns_stepped(0, status == STORE_OK ? text
                                                  : store_status_text(status));
    else
        turns_hear(token, sizeof(*token));
    lane->floor = watch_floor ? *token : 0;
    (void)snprintf(lane->floor_of, sizeof(lane->floor_of), "%s", name);
    return status;
}
