/*
 * The warmer's passes: what is due, and in which order. See warmer.h.
 *
 * What somebody waits for comes first, then what makes orders choose wrongly,
 * then telling, then what is only for people to look at. A product is counted
 * anew at once when it has to be, and after that not again for a while: cancels
 * come in thousands.
 */
#include "server/warm/warmer.h"

#include "server/log.h"
#include "server/metrics.h"

#define WARMER_IDLE_MS   500
#define WARMER_ACTIVE_MS 20  /* while there is something that was put off */
#define WARMER_RENEW_MS  100 /* at most so often for one product */
#define WARMER_SPREAD_MS 50  /* so often while it sells */
#define WARMER_WEIGH_MS  500 /* while it does not */

/* ---- at the start --------------------------------------------------------- */

/* What the keys say is of a time before this; they are written by the warmer,
 * while orders choose already. */
static void to_be_written(struct warm *warm)
{
    for (size_t i = 0; i < warm->copy.n; i++)
        warm->copy.slots[i].product->chores.write = warm->keys != NULL;
}

bool warmer_load(struct warm *warm)
{
    struct store_split splits[WARMER_PAGE];
    struct store_error error = {""};
    struct store_cells cells;
    enum store_status status = STORE_OK;
    int64_t after = 0;
    size_t n = WARMER_PAGE;

    while (status == STORE_OK && n == WARMER_PAGE) {
        status = store_split_list(warm->reader, after, WARMER_PAGE, splits, &n,
                                  &error);
        for (size_t i = 0; i < n && status == STORE_OK; i++) {
            after = splits[i].product_id;
            status = recount_copy(warm, after, &cells, &error);
        }
    }
    if (status != STORE_OK)
        log_error("warm", "error=\"%s\"", error.text);
    to_be_written(warm);
    return status == STORE_OK;
}

/* ---- counting anew -------------------------------------------------------- */

/*
 * What a count means for a product that is held. If there are no keys to be had,
 * the database will do to choose by: and who needs Redis for a lock has none
 * either. Once Redis is back, the keys are written before anything else.
 */
static void note_count(struct warm *warm, struct copy_product *product,
                       enum store_status status, bool written)
{
    struct copy_chores *chores = &product->chores;

    if (written || (status == STORE_OK && !warm->in_reach))
        product->cold = false;
    chores->renew |= status != STORE_OK || product->cold;
    chores->write |= !written && warm->keys;
}

/* For keys, if there are any and Redis is there; for the copy in any case. */
static enum store_status renew(struct warm *warm, int64_t product_id,
                               struct store_cells *cells, bool *written,
                               struct store_error *error)
{
    struct copy_product *product;
    enum store_status status;

    *written = false;
    if (warm->in_reach)
        status = recount_renew(warm, product_id, cells, written, error);
    else
        status = recount_copy(warm, product_id, cells, error);
    pthread_mutex_lock(&warm->mutex);
    product = copy_find(&warm->copy, product_id);
    if (product)
        note_count(warm, product, status, *written);
    pthread_mutex_unlock(&warm->mutex);
    return status;
}

/* Without anybody who wants to know. */
static void renew_quietly(struct warm *warm, int64_t product_id)
{
    struct store_error error = {""};
    struct store_cells cells;
    bool written;

    renew(warm, product_id, &cells, &written, &error);
}

static void spread(struct warm *warm, const struct copy_product *product)
{
    struct store_error error = {""};
    bool moved = false;

    recount_heard(warm,
                  store_even_out(warm->app->store, product->id, &moved, &error),
                  &error);
    if (moved)
        metrics_rebalance(warm->app->metrics);
}

/* ---- what is asked for ---------------------------------------------------- */

static void serve(struct warm *warm, struct warmer_request *request)
{
    struct store_error error = {""};

    request->status = renew(warm, request->product_id, request->cells,
                            &request->in_redis, &error);
    if (request->status != STORE_OK && request->error)
        *request->error = error;
    pthread_mutex_lock(&warm->mutex);
    request->done = true;
    pthread_cond_broadcast(&warm->done);
    pthread_mutex_unlock(&warm->mutex);
}

static void serve_all(struct warm *warm)
{
    struct warmer_request *request, *next;

    pthread_mutex_lock(&warm->mutex);
    request = warm->requests;
    warm->requests = NULL;
    pthread_mutex_unlock(&warm->mutex);
    for (; request; request = next) {
        next = request->next; /* it is its owner's again when it is done */
        serve(warm, request);
    }
}

/* Between two products: who waits for one is not to wait for all. False: the end
 * has been asked for. */
static bool may_go_on(struct warm *warm)
{
    bool closing;

    serve_all(warm);
    pthread_mutex_lock(&warm->mutex);
    closing = warm->closing;
    pthread_mutex_unlock(&warm->mutex);
    return !closing;
}

/* With one segment, the count there is does for its key: nobody chooses by it. */
static void look_at(struct warm *warm, int64_t product_id)
{
    struct store_error error = {""};
    struct copy_product *product;
    struct store_cells cells;
    enum store_status status;

    status = recount_copy(warm, product_id, &cells, &error);
    pthread_mutex_lock(&warm->mutex);
    product = copy_find(&warm->copy, product_id);
    if (product)
        product->chores.write = warm->keys != NULL;
    warm->moved_more |= status != STORE_OK && status != STORE_NO_PRODUCT;
    pthread_mutex_unlock(&warm->mutex);
    if (status == STORE_OK && !product && warm->in_reach)
        tell_single(warm, product_id, cells.epoch, cells.cells[0].stock);
}

/* Products that have moved and are not held: new ones, or with one segment.
 * True: it is not time yet. *more: there were others. */
static bool look_at_moved(struct warm *warm, uint64_t now_ms, bool *more)
{
    int64_t moved[WARMER_MOVED_MAX];
    size_t n;

    *more = false;
    pthread_mutex_lock(&warm->mutex);
    n = warm->moved_n;
    if (n > 0 && now_ms < warm->moved_ms + WARMER_RENEW_MS) {
        pthread_mutex_unlock(&warm->mutex);
        return true;
    }
    for (size_t i = 0; i < n; i++)
        moved[i] = warm->moved[i];
    *more = warm->moved_more;
    warm->moved_n = 0;
    warm->moved_more = false;
    pthread_mutex_unlock(&warm->mutex);
    for (size_t i = 0; i < n && may_go_on(warm); i++)
        look_at(warm, moved[i]);
    if (n > 0)
        warm->moved_ms = now_ms;
    return false;
}

/* ---- products that are held ----------------------------------------------- */

/*
 * Whether its segments are uneven; where some are retired that is seen without a
 * sale as well. Then nobody waits, and it is not looked at often: cancels bring
 * count after count, and while the database cannot be written to nothing helps.
 */
static bool weigh(struct copy_product *product, uint64_t now_ms)
{
    struct copy_chores *all = &product->chores;
    bool due = all->weigh && now_ms >= product->spread_ms + WARMER_WEIGH_MS;

    if (due)
        all->weigh = false;
    return (due || all->tell) && copy_uneven(product);
}

/* Takes what is due of a product's chores. *LEFT: there is more. */
static struct copy_chores take_chores(struct warm *warm,
                                      struct copy_product *product,
                                      uint64_t now_ms, bool *left)
{
    struct copy_chores *all = &product->chores, due = {0};

    pthread_mutex_lock(&warm->mutex);
    all->spread |= weigh(product, now_ms);
    due.spread = all->spread && now_ms >= product->spread_ms + WARMER_SPREAD_MS;
    due.adopt = all->adopt;
    due.renew = due.spread || ((all->renew || (all->write && warm->in_reach)) &&
                               now_ms >= product->renewed_ms + WARMER_RENEW_MS);
    if (due.spread)
        all->spread = false;
    if (due.adopt || due.renew)
        all->adopt = false;
    if (due.renew)
        all->renew = all->write = false;
    *left |= all->renew || all->spread || (all->write && warm->in_reach);
    pthread_mutex_unlock(&warm->mutex);
    return due;
}

/*
 * Somebody else's count. If it cannot be taken over, he is still writing it, or
 * has died, or Redis has something else: then there will be one of our own, in
 * its time, or two instances would outdo each other as fast as they can.
 */
static void adopt(struct warm *warm, struct copy_product *product, bool *left)
{
    if (recount_adopt(warm, product->id))
        return;
    pthread_mutex_lock(&warm->mutex);
    product->chores.renew = true;
    pthread_mutex_unlock(&warm->mutex);
    *left = true;
}

static void tend(struct warm *warm, struct copy_product *product,
                 uint64_t now_ms, bool *left)
{
    struct copy_chores due = take_chores(warm, product, now_ms, left);

    if (due.spread) {
        product->spread_ms = now_ms;
        spread(warm, product);
    }
    if (due.adopt && !due.renew)
        adopt(warm, product, left);
    if (due.renew) {
        product->renewed_ms = now_ms;
        renew_quietly(warm, product->id);
    }
}

/* Serving may put one in before the next: then this one is next again. */
static void tend_all(struct warm *warm, uint64_t now_ms, bool *left)
{
    for (size_t i = 0; i < warm->copy.n && may_go_on(warm); i++)
        tend(warm, warm->copy.slots[i].product, now_ms, left);
}

/* ---- a pass --------------------------------------------------------------- */

static bool reach(struct warm *warm)
{
    bool fresh = false;

    if (!warm->keys || !keys_ready(warm->keys, &fresh))
        return false;
    if (fresh)
        sweep_soon(warm);
    return true;
}

static void hook(struct warm *warm, enum warm_phase phase)
{
    if (warm->options.on_step)
        warm->options.on_step(warm->options.on_step_ctx, "warm-pass", 0, phase);
}

uint64_t warmer_pass(struct warm *warm, uint64_t now_ms)
{
    bool left, more;
    uint64_t due_ms;

    hook(warm, WARM_BEFORE);
    warm->in_reach = reach(warm);
    serve_all(warm);
    left = look_at_moved(warm, now_ms, &more);
    sweep_watch(warm, now_ms, more);
    tend_all(warm, now_ms, &left);
    if (warm->in_reach)
        left |= tell_all(warm, now_ms);
    if (may_go_on(warm))
        sweep_page(warm, now_ms);
    hook(warm, WARM_AFTER);
    due_ms = now_ms + (left ? WARMER_ACTIVE_MS : WARMER_IDLE_MS);
    return due_ms < sweep_due_ms(warm) ? due_ms : sweep_due_ms(warm);
}
