/*
 * The writing verbs. Each is a struct store_write for the committer; those of
 * store.h wait for its end. Their work in the transaction is in db/ledger/; the
 * textbook's verbs are in store_naive.c.
 */
#include "db/store/committer.h"

#include <semaphore.h>

static const struct {
    enum store_status (*run)(struct sql *db, struct store_write *write);
    const char *step;
    size_t product_at; /* where its struct has the product's id; 0 = nowhere */
} verbs[] = {
    [STORE_CANCEL] = {orders_cancel, "cancel", 0},
    [STORE_PAY] = {holds_pay, "pay", 0},
    [STORE_EXPIRE] = {holds_expire, "expire", 0},
    [STORE_RESTOCK] = {segments_restock, "restock",
                       offsetof(struct store_restock, product_id)},
    [STORE_CHANGE] = {products_change, "product-put",
                      offsetof(struct store_change, product.id)},
    [STORE_EVEN_OUT] = {segments_even_out, "even-out",
                        offsetof(struct store_even_out, product_id)},
};

/*
 * A write by which stock may rise ends what is known to be sold out. It does so
 * inside the transaction: other processes decide after it is committed, and
 * must not go by an old refusal then. A write that changed nothing - a cancel
 * of no order, a restock that was done before - ends nothing, since anybody may
 * send such as often as they like. Nor does a payment, unless it finds that the order
 * has expired. (What an even-out moves is no more than before; but should a retired
 * segment have units, this is how they come back.)
 */
static enum store_status run_verb(struct store *store,
                                  struct store_write *write)
{
    const char *step = verbs[write->verb].step;
    size_t at = verbs[write->verb].product_at;
    /* The write is the first member of the verb's struct, so that an offset in
     * that is one from here. */
    int64_t product_id = at ? *(int64_t *)(void *)((char *)write + at) : 0;
    int64_t changes = store->db->changes;
    enum store_status status;
    bool may_rise;

    if (step_begin(store->step, step, product_id) == STORE_FAIL)
        return sql_fail(store->db, STORE_IO, "%s failed on purpose", step);
    status = verbs[write->verb].run(store->db, write);
    (void)step_end(store->step, step, product_id,
                   store_status_text(status == STORE_OK ? write->no : status));
    may_rise = write->verb == STORE_PAY ? write->expired > 0
                                        : store->db->changes != changes;
    if (status != STORE_OK || !may_rise)
        return status;
    /* A generation that cannot be set undoes the write: units that came back
     * must not stay denied. */
    return soldout_forget(&store->soldout, sql_error(store->db));
}

static enum store_status run_probe(struct store *store,
                                   struct store_write *write)
{
    (void)write;
    return probe_write(store->db);
}

void store_begin(struct store *store, enum store_verb verb,
                 struct store_write *write)
{
    write->run = verb == STORE_PROBE ? run_probe : run_verb;
    write->verb = verb;
    committer_submit(store, write);
}

static void on_answer(struct store_write *write)
{
    sem_post(write->owner);
}

static enum store_status wait_for(struct store_write *write, sem_t *answered,
                                  struct store_error *error)
{
    while (sem_wait(answered) != 0)
        continue;
    sem_destroy(answered);
    if (write->status != STORE_OK && error)
        *error = write->error;
    return write->status;
}

enum store_status store_product_put(struct store *store,
                                    struct store_product *product,
                                    bool *created, struct store_error *error)
{
    struct store_change change = {.product = *product,
                                  .given = STORE_GIVEN_ALL};
    enum store_status status;
    sem_t answered;

    /* A put without segments leaves them as they are; a new product gets one. */
    if (product->segments == 0)
        change.given &= ~(unsigned)STORE_GIVEN_SEGMENTS;
    sem_init(&answered, 0, 0);
    /* The write and the semaphore are on this stack: the committer is through
     * with both when sem_wait() returns. */
    change.write.done = on_answer;
    change.write.owner = &answered;
    store_begin(store, STORE_CHANGE, &change.write);
    status = wait_for(&change.write, &answered, error);
    if (status != STORE_OK)
        return status;
    *product = change.product;
    if (created)
        *created = change.created;
    return STORE_OK;
}

/* The hook is copied: once the write is answered, store_close() may free the
 * store while AFTER is still to be called. */
enum store_status write_step(struct store *store, write_run *run, void *what,
                             const char *step, int64_t product_id,
                             struct store_error *error)
{
    struct step hook = store->step;
    enum store_status status;
    sem_t answered;
    struct store_write write = {
        .run = run, .what = what, .done = on_answer, .owner = &answered};

    if (step_begin(hook, step, product_id) == STORE_FAIL)
        return failure_set(error, STORE_IO, "%s failed on purpose", step);
    sem_init(&answered, 0, 0);
    committer_submit(store, &write);
    status = wait_for(&write, &answered, error);
    (void)step_end(hook, step, product_id, store_status_text(status));
    return status;
}

static enum store_status run_place(struct store *store,
                                   struct store_write *write)
{
    return place_alone(&store->place, store->db, write->what);
}

enum store_status store_place(struct store *store,
                              struct store_order *const orders[], size_t n,
                              const struct store_fence *fence,
                              struct store_error *error)
{
    struct store_lot lot = {.orders = orders, .n = n, .fence = fence};
    enum store_status status = STORE_MISUSE;

    /* The fence is looked at before the committer has it, because its name is
     * copied there without another look. */
    if (fence_valid(fence, error))
        status = write_step(store, run_place, &lot, "place",
                            n > 0 ? orders[0]->product_id : 0, error);
    if (status != STORE_OK)
        place_fail(&lot, status);
    return status;
}

static enum store_status run_stamp(struct store *store,
                                   struct store_write *write)
{
    return fence_stamp(store->db, write->what);
}

enum store_status store_stamp(struct store *store,
                              const struct store_fence *fence,
                              struct store_error *error)
{
    struct store_fence stamp;

    if (!fence_valid(fence, error))
        return STORE_MISUSE;
    /* Token 0 is no lock that counts, and so there is nothing to announce. */
    if (fence_token(fence) == 0)
        return STORE_OK;
    stamp = *fence;
    return write_step(store, run_stamp, &stamp, "stamp", 0, error);
}
