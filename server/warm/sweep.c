/*
 * What nobody tells us: what other instances have done to products, and that
 * keys have gone while no order asked for them.
 */
#include "server/warm/warmer.h"

#include "server/clock.h"
#include "server/config.h"

#define SWEEP_WATCH_MS 100  /* at most so often; and a part of the time only: */
#define SWEEP_SHARE    20   /* one of so many */
#define SWEEP_PAGE_MS  100  /* from page to page */
#define SWEEP_REST_MS  2000 /* after the last one */

/* ---- other instances ------------------------------------------------------ */

/* An epoch that is not the copy's is somebody else's. */
static void note(struct warm *warm, int64_t product_id, int64_t epoch)
{
    struct copy_product *product;

    pthread_mutex_lock(&warm->mutex);
    product = copy_hold(&warm->copy, product_id);
    if (product && product->epoch != epoch)
        product->chores.adopt = true;
    pthread_mutex_unlock(&warm->mutex);
}

/* Products with an id above AFTER and up to UP_TO that are not in SPLITS, though
 * they have segments here: they have one now. */
static void note_others(struct warm *warm, int64_t after, int64_t up_to,
                        const struct store_split splits[], size_t n)
{
    size_t k = 0;

    for (size_t i = 0; i < warm->copy.n; i++) {
        const struct copy_product *product = warm->copy.slots[i].product;

        if (product->id <= after || product->id > up_to)
            continue;
        while (k < n && splits[k].product_id < product->id)
            k++;
        if ((k == n || splits[k].product_id != product->id) &&
            product->segments > 1)
            note(warm, product->id, 0);
    }
}

/* False: the database cannot be read. */
static bool watch(struct warm *warm)
{
    struct store_split splits[WARMER_PAGE];
    struct store_error error = {""};
    enum store_status status;
    int64_t after = 0, up_to;
    size_t n = WARMER_PAGE;

    while (n == WARMER_PAGE) {
        status = store_split_list(warm->reader, after, WARMER_PAGE, splits, &n,
                                  &error);
        if (recount_heard(warm, status, &error) != STORE_OK)
            return false;
        up_to = n == WARMER_PAGE ? splits[n - 1].product_id : INT64_MAX;
        note_others(warm, after, up_to, splits, n);
        for (size_t i = 0; i < n; i++)
            note(warm, splits[i].product_id, splits[i].epoch);
        after = up_to;
    }
    return true;
}

/* Nobody else remembers them. */
static void remember_moved(struct warm *warm)
{
    pthread_mutex_lock(&warm->mutex);
    warm->moved_more = true;
    pthread_mutex_unlock(&warm->mutex);
}

void sweep_watch(struct warm *warm, uint64_t now_ms, bool all)
{
    uint64_t begun_us = clock_us(), pause_ms;

    if (!all && !(warm->app->config->shared && now_ms >= warm->watch_ms))
        return;
    if (!watch(warm) && all)
        remember_moved(warm);
    pause_ms = (clock_us() - begun_us) * SWEEP_SHARE / 1000;
    if (pause_ms < SWEEP_WATCH_MS)
        pause_ms = SWEEP_WATCH_MS;
    warm->watch_ms = now_ms + pause_ms;
}

/* ---- all products --------------------------------------------------------- */

void sweep_soon(struct warm *warm)
{
    uint64_t now_ms = clock_ms();

    if (warm->haste_ms != 0 && now_ms < warm->haste_ms + SWEEP_REST_MS)
        return;
    warm->haste_ms = now_ms;
    warm->sweep_in_haste = true;
    warm->sweep_after = 0;
}

uint64_t sweep_due_ms(const struct warm *warm)
{
    uint64_t due_ms = UINT64_MAX;

    if (warm->keys && !warm->in_reach)
        due_ms = keys_again_ms(warm->keys);
    else if (warm->keys)
        due_ms = warm->sweep_in_haste ? 0 : warm->sweep_ms;
    if (warm->app->config->shared && warm->watch_ms < due_ms)
        due_ms = warm->watch_ms;
    return due_ms;
}

static void visit(struct warm *warm, const struct store_product *product)
{
    struct copy_product *held;

    pthread_mutex_lock(&warm->mutex);
    held = copy_find(&warm->copy, product->id);
    if (held)
        held->chores.look = true;
    pthread_mutex_unlock(&warm->mutex);
    if (product->segments == 1)
        tell_single(warm, product->id, product->epoch, product->stock);
    else if (!held)
        note(warm, product->id, product->epoch);
}

void sweep_page(struct warm *warm, uint64_t now_ms)
{
    struct store_product products[WARMER_PAGE];
    struct store_error error = {""};
    enum store_status status;
    size_t n;

    if (!warm->in_reach || (now_ms < warm->sweep_ms && !warm->sweep_in_haste))
        return;
    warm->sweep_ms = now_ms + SWEEP_PAGE_MS;
    status = store_product_list(warm->reader, warm->sweep_after, WARMER_PAGE,
                                products, &n, &error);
    if (recount_heard(warm, status, &error) != STORE_OK) {
        warm->sweep_in_haste = false; /* not again and again */
        return;
    }
    for (size_t i = 0; i < n; i++)
        visit(warm, &products[i]);
    tell_now(warm);
    warm->sweep_after = n > 0 ? products[n - 1].id : 0;
    if (n < WARMER_PAGE) {
        warm->sweep_after = 0;
        warm->sweep_in_haste = false;
        warm->sweep_ms = now_ms + SWEEP_REST_MS;
    }
}
