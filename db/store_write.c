/*
 * The writing verbs: check, call the hook, hand the work to the committer and
 * wait until it is on disk. The work itself is in place.c, orders.c, ...
 */
#include "db/cells.h"
#include "db/failure.h"
#include "db/fence.h"
#include "db/naive.h"
#include "db/orders.h"
#include "db/place.h"
#include "db/products.h"
#include "db/store_private.h"
#include "db/transfer.h"

#include <string.h>

/* What the hook hears of a write: its name, and the product it is about. And
 * whether somebody may hope again then. */
struct verb {
    const char *step;
    int64_t product_id;
    bool may_raise_stock;
};

/* A write by which stock may rise. */
struct raise {
    struct store *store;
    committer_work *run;
    void *work;
};

/*
 * Inside of the transaction: others do not decide before it is committed, and
 * then those who know of a refusal must not do so any more. But what changed
 * nothing - a cancel of no order, a restock that was done before - anybody may
 * ask for, as often as he likes: it voids nothing.
 */
static enum store_status raise_run(struct sqlite *db, void *raise,
                                   struct store_error *error)
{
    const struct raise *it = raise;
    int64_t before = sqlite_changes(db);
    enum store_status status = it->run(db, it->work, error);

    if (status != STORE_OK || sqlite_changes(db) == before)
        return status;
    return soldout_forget(&it->store->soldout, error);
}

static enum store_status write_to(struct store *store, struct verb verb,
                                  committer_work *run, void *work,
                                  struct store_error *error)
{
    struct step step = store->step; /* step.h says why a copy */
    struct raise raise = {.store = store, .run = run, .work = work};
    enum store_status status;

    if (step_before(&step, verb.step, verb.product_id) == STORE_FAIL)
        return failure_set(error, STORE_IO, "%s failed on purpose", verb.step);
    if (verb.may_raise_stock)
        status = committer_do(store->committer, raise_run, &raise, error);
    else
        status = committer_do(store->committer, run, work, error);
    (void)step_after(&step, verb.step, verb.product_id);
    return status;
}

enum store_status store_place(struct store *store,
                              struct store_order *const orders[], size_t n,
                              const struct store_fence *fence,
                              struct store_error *error)
{
    struct place place = {.orders = orders, .n = n, .fence = fence};
    struct verb verb = {"place", n > 0 ? orders[0]->product_id : 0, false};
    enum store_status status = STORE_MISUSE;

    if (fence_valid(fence, error))
        status = write_to(store, verb, place_run, &place, error);
    if (status != STORE_OK)
        place_fail(orders, n, status);
    return status;
}

enum store_status store_stamp(struct store *store,
                              const struct store_fence *fence,
                              struct store_error *error)
{
    struct naive naive = {.fence = fence};
    struct verb verb = {"stamp", 0, false};

    if (!fence_valid(fence, error))
        return STORE_MISUSE;
    if (!fence_given(fence))
        return STORE_OK;
    return write_to(store, verb, naive_stamp_run, &naive, error);
}

enum store_status store_cancel(struct store *store, const char *id,
                               struct store_order *order,
                               struct store_error *error)
{
    struct orders_cancel cancel = {.id = id};
    struct verb verb = {"cancel", 0, true};
    enum store_status status;

    status = write_to(store, verb, orders_cancel_run, &cancel, error);
    if (status == STORE_OK)
        *order = cancel.order;
    return status;
}

enum store_status store_product_put(struct store *store,
                                    struct store_product *product,
                                    bool *created, struct store_error *error)
{
    struct products_put put = {.product = *product};
    struct verb verb = {"product-put", product->id, true};
    enum store_status status;

    status = write_to(store, verb, products_put_run, &put, error);
    if (status != STORE_OK)
        return status;
    *product = put.product;
    if (created)
        *created = put.created;
    return STORE_OK;
}

enum store_status store_restock(struct store *store, int64_t product_id,
                                int64_t quantity, const char *key,
                                struct store_product *product,
                                struct store_error *error)
{
    struct products_restock restock = {
        .product_id = product_id, .quantity = quantity, .key = key};
    struct verb verb = {"restock", product_id, true};
    enum store_status status;

    status = write_to(store, verb, products_restock_run, &restock, error);
    if (status == STORE_OK)
        *product = restock.product;
    return status;
}

/* ---- segments ----------------------------------------------------------- */

/*
 * What moves from one cell in use to another is no more than before. But what
 * comes out of a retired one is: orders do not see it there. There should be
 * none, and if there is, this is how it comes back: so stock may rise.
 */

enum store_status store_rebalance(struct store *store,
                                  struct store_transfer *transfer,
                                  struct store_error *error)
{
    struct verb verb = {"rebalance", transfer->product_id, true};

    return write_to(store, verb, transfer_run, transfer, error);
}

enum store_status store_even_out(struct store *store, int64_t product_id,
                                 bool *moved, struct store_error *error)
{
    struct cells_even_out even_out = {.product_id = product_id};
    struct verb verb = {"even-out", product_id, true};
    enum store_status status;

    status = write_to(store, verb, cells_even_out_run, &even_out, error);
    if (status == STORE_OK && moved)
        *moved = even_out.moved;
    return status;
}

enum store_status store_new_epoch(struct store *store, int64_t product_id,
                                  int64_t above, struct store_cells *cells,
                                  struct store_error *error)
{
    struct cells_new_epoch new_epoch = {
        .product_id = product_id, .above = above, .cells = cells};
    struct verb verb = {"new-epoch", product_id, false};

    return write_to(store, verb, cells_new_epoch_run, &new_epoch, error);
}

/* ---- the textbook's way ------------------------------------------------- */

enum store_status store_naive_update(struct store *store, int64_t product_id,
                                     int64_t segment, int64_t stock,
                                     const struct store_fence *fence,
                                     struct store_error *error)
{
    struct naive naive = {.fence = fence,
                          .product_id = product_id,
                          .segment = segment,
                          .stock = stock};
    struct verb verb = {"naive-update", product_id, true};

    if (!fence_valid(fence, error))
        return STORE_MISUSE;
    return write_to(store, verb, naive_update_run, &naive, error);
}

enum store_status store_naive_insert(struct store *store,
                                     struct store_order *order,
                                     const struct store_fence *fence,
                                     struct store_error *error)
{
    struct naive naive = {.fence = fence};
    struct verb verb = {"naive-insert", order->product_id, false};
    enum store_status status = STORE_MISUSE;

    orders_reset(order);
    naive.order = *order;
    if (!naive_valid(order))
        status = failure_set(error, STORE_RANGE, "an order's number is wrong");
    else if (fence_valid(fence, error))
        status = write_to(store, verb, naive_insert_run, &naive, error);
    if (status == STORE_OK)
        *order = naive.order;
    order->status = status;
    return status;
}
