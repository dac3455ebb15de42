/*
 * The writing verbs. Each is a struct store_write for the committer; those of
 * store.h wait for its end. What they do in the transaction is in db/ledger/,
 * where naive.c has the textbook's verbs whole.
 */
#include "db/ledger/ledger.h"

#include <string.h>

/* ---- steps of the committer's thread ------------------------------------ */

/*
 * A write by which stock may rise ends what is known to be sold out. It does so
 * inside the transaction: other processes decide after it is committed, and
 * must not go by an old refusal then. A write that changed nothing - a cancel
 * of no order, a restock that was done before - ends nothing, since anybody may
 * send such as often as they like. (What an even-out moves is no more than
 * before; but should a retired segment have units, this is how they come back.)
 */
static enum store_status raise_stock(struct store *store,
                                     struct store_write *write, write_run *run,
                                     const char *step, int64_t product_id)
{
    int64_t changes = sqlite_changes(store->db);
    enum store_status status;

    if (step_call(store->step, step, product_id, STORE_BEFORE) == STORE_FAIL)
        return sqlite_fail(store->db, STORE_IO, "%s failed on purpose", step);
    status = run(store, write);
    (void)step_call(store->step, step, product_id, STORE_AFTER);
    if (status != STORE_OK || sqlite_changes(store->db) == changes)
        return status;
    return soldout_forget(&store->soldout, sqlite_error(store->db));
}

static enum store_status run_cancel(struct store *store,
                                    struct store_write *write)
{
    return raise_stock(store, write, orders_cancel, "cancel", 0);
}

static enum store_status run_restock(struct store *store,
                                     struct store_write *write)
{
    return raise_stock(store, write, segments_restock, "restock",
                       ((struct store_restock *)write)->product_id);
}

static enum store_status run_change(struct store *store,
                                    struct store_write *write)
{
    return raise_stock(store, write, products_change, "product-put",
                       ((struct store_change *)write)->product.id);
}

static enum store_status run_even_out(struct store *store,
                                      struct store_write *write)
{
    return raise_stock(store, write, segments_even_out, "even-out",
                       ((struct store_even_out *)write)->product_id);
}

void store_cancel_begin(struct store *store, struct store_cancel *cancel)
{
    cancel->write.run = run_cancel;
    committer_submit(store, &cancel->write);
}

void store_restock_begin(struct store *store, struct store_restock *restock)
{
    restock->write.run = run_restock;
    committer_submit(store, &restock->write);
}

void store_change_begin(struct store *store, struct store_change *change)
{
    change->write.run = run_change;
    committer_submit(store, &change->write);
}

void store_even_out_begin(struct store *store, struct store_even_out *even_out)
{
    even_out->write.run = run_even_out;
    committer_submit(store, &even_out->write);
}

/* ---- the same, waiting -------------------------------------------------- */

struct waiter {
    pthread_mutex_t mutex;
    pthread_cond_t answered;
    bool is_answered;
};

/* Signals under the mutex: the waiter's stack is gone right after it. */
static void on_answer(struct store_write *write)
{
    struct waiter *waiter = write->owner;

    pthread_mutex_lock(&waiter->mutex);
    waiter->is_answered = true;
    pthread_cond_signal(&waiter->answered);
    pthread_mutex_unlock(&waiter->mutex);
}

static enum store_status write_and_wait(struct store *store,
                                        struct store_write *write,
                                        write_run *run,
                                        struct store_error *error)
{
    struct waiter waiter = {
        .mutex = PTHREAD_MUTEX_INITIALIZER,
        .answered = PTHREAD_COND_INITIALIZER,
    };

    write->run = run;
    write->done = on_answer;
    /* cppcheck-suppress autoVariables ; the write is over before it is gone */
    write->owner = &waiter;
    committer_submit(store, write);
    pthread_mutex_lock(&waiter.mutex);
    while (!waiter.is_answered)
        pthread_cond_wait(&waiter.answered, &waiter.mutex);
    pthread_mutex_unlock(&waiter.mutex);
    pthread_cond_destroy(&waiter.answered);
    pthread_mutex_destroy(&waiter.mutex);
    if (write->status != STORE_OK && error)
        *error = write->error;
    return write->status;
}

enum store_status store_cancel(struct store *store, const char *id,
                               struct store_order *order,
                               struct store_error *error)
{
    struct store_cancel cancel = {.id = ""};
    enum store_status status;

    /* What is cut here is too long to be an id. */
    memcpy(cancel.id, id, strnlen(id, STORE_ID_BYTES_MAX));
    status = write_and_wait(store, &cancel.write, run_cancel, error);
    if (status == STORE_OK)
        *order = cancel.order;
    return status;
}

enum store_status store_restock(struct store *store, int64_t product_id,
                                int64_t quantity, const char *key,
                                struct store_product *product,
                                struct store_error *error)
{
    struct store_restock restock = {.product_id = product_id,
                                    .quantity = quantity};
    enum store_status status;

    /* A key that is too long is left without its end, and refused for that. */
    memcpy(restock.key, key, strnlen(key, sizeof(restock.key)));
    status = write_and_wait(store, &restock.write, run_restock, error);
    if (status == STORE_OK)
        *product = restock.product;
    return status;
}

enum store_status store_even_out(struct store *store, int64_t product_id,
                                 bool *moved, struct store_error *error)
{
    struct store_even_out even_out = {.product_id = product_id};
    enum store_status status;

    status = write_and_wait(store, &even_out.write, run_even_out, error);
    if (status == STORE_OK && moved)
        *moved = even_out.moved;
    return status;
}

enum store_status store_product_put(struct store *store,
                                    struct store_product *product,
                                    bool *created, struct store_error *error)
{
    struct store_change change = {.product = *product,
                                  .given = STORE_GIVEN_ALL};
    enum store_status status;

    if (product->segments == 0)
        change.given &= ~(unsigned)STORE_GIVEN_SEGMENTS;
    status = write_and_wait(store, &change.write, run_change, error);
    if (status != STORE_OK)
        return status;
    *product = change.product;
    if (created)
        *created = change.created;
    return STORE_OK;
}

/* ---- steps of the calling thread ---------------------------------------- */

/* The hook is copied: once the write is answered, store_close() may free the
 * store while AFTER is still to be called. */
enum store_status write_step(struct store *store, struct store_write *write,
                             write_run *run, const char *step,
                             int64_t product_id, struct store_error *error)
{
    struct step hook = store->step;
    enum store_status status;

    if (step_call(hook, step, product_id, STORE_BEFORE) == STORE_FAIL)
        return failure_set(error, STORE_IO, "%s failed on purpose", step);
    status = write_and_wait(store, write, run, error);
    (void)step_call(hook, step, product_id, STORE_AFTER);
    return status;
}

struct place_write {
    struct store_write write;
    struct store_lot lot;
};

static enum store_status run_place(struct store *store,
                                   struct store_write *write)
{
    return place_alone(store, &((struct place_write *)write)->lot);
}

enum store_status store_place(struct store *store,
                              struct store_order *const orders[], size_t n,
                              const struct store_fence *fence,
                              struct store_error *error)
{
    struct place_write place = {
        .lot = {.orders = orders, .n = n, .fence = fence}};
    enum store_status status = STORE_MISUSE;

    if (fence_valid(fence, error))
        status = write_step(store, &place.write, run_place, "place",
                            n > 0 ? orders[0]->product_id : 0, error);
    if (status != STORE_OK)
        place_fail(&place.lot, status);
    return status;
}

struct stamp_write {
    struct store_write write;
    const struct store_fence *fence;
};

static enum store_status run_stamp(struct store *store,
                                   struct store_write *write)
{
    return fence_stamp(store->db, NULL, ((struct stamp_write *)write)->fence);
}

enum store_status store_stamp(struct store *store,
                              const struct store_fence *fence,
                              struct store_error *error)
{
    struct stamp_write stamp = {.fence = fence};

    if (!fence_valid(fence, error))
        return STORE_MISUSE;
    if (fence_token(fence) == 0)
        return STORE_OK;
    return write_step(store, &stamp.write, run_stamp, "stamp", 0, error);
}
