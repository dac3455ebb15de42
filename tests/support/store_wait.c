/* See store_wait.h. */
#include "tests/support/store_wait.h"

#include <semaphore.h>
#include <string.h>

static void on_answer(struct store_write *write)
{
    sem_post(write->owner);
}

/* WRITE is the first member of what BEGIN takes. */
#define WAIT_FOR(begin, store, it, error)                                      \
    do {                                                                       \
        sem_t answered;                                                        \
                                                                               \
        sem_init(&answered, 0, 0);                                             \
        (it)->write.done = on_answer;                                          \
        (it)->write.owner = &answered;                                         \
        begin((store), (it));                                                  \
        while (sem_wait(&answered) != 0)                                       \
            continue;                                                          \
        sem_destroy(&answered);                                                \
        if ((it)->write.status != STORE_OK && (error))                         \
            *(error) = (it)->write.error;                                      \
    } while (0)

enum store_status store_cancel(struct store *store, const char *id,
                               struct store_order *order,
                               struct store_error *error)
{
    struct store_cancel cancel = {.id = ""};

    /* What is cut here is too long to be an id. */
    memcpy(cancel.id, id, strnlen(id, STORE_ID_BYTES_MAX));
    WAIT_FOR(store_cancel_begin, store, &cancel, error);
    if (cancel.write.status == STORE_OK)
        *order = cancel.order;
    return cancel.write.status;
}

enum store_status store_pay(struct store *store, const char *id,
                            const char *payment, struct store_pay *pay)
{
    struct store_error *error = NULL;

    *pay = (struct store_pay){.id = ""};
    memcpy(pay->id, id, strnlen(id, STORE_ID_BYTES_MAX));
    memcpy(pay->payment, payment, strnlen(payment, STORE_PAYMENT_BYTES_MAX));
    WAIT_FOR(store_pay_begin, store, pay, error);
    return pay->write.status;
}

enum store_status store_restock(struct store *store, int64_t product_id,
                                int64_t quantity, const char *key,
                                struct store_product *product,
                                struct store_error *error)
{
    struct store_restock restock = {.product_id = product_id,
                                    .quantity = quantity};

    /* A key that is too long is left without its end, and refused for that. */
    memcpy(restock.key, key, strnlen(key, sizeof(restock.key)));
    WAIT_FOR(store_restock_begin, store, &restock, error);
    if (restock.write.status == STORE_OK)
        *product = restock.product;
    return restock.write.status;
}

enum store_status store_even_out(struct store *store, int64_t product_id,
                                 bool *moved, struct store_error *error)
{
    struct store_even_out even_out = {.product_id = product_id};

    WAIT_FOR(store_even_out_begin, store, &even_out, error);
    if (even_out.write.status == STORE_OK && moved)
        *moved = even_out.moved;
    return even_out.write.status;
}

enum store_status store_change(struct store *store, struct store_change *change,
                               struct store_error *error)
{
    WAIT_FOR(store_change_begin, store, change, error);
    return change->write.status;
}

static void probe_begin(struct store *store, struct store_even_out *probe)
{
    store_probe_begin(store, &probe->write);
}

enum store_status store_probe(struct store *store, struct store_error *error)
{
    struct store_even_out probe = {0}; /* any write */

    WAIT_FOR(probe_begin, store, &probe, error);
    return probe.write.status;
}

enum store_status store_product_get(struct store_reader *reader, int64_t id,
                                    struct store_product *product,
                                    struct store_error *error)
{
    struct store_product found;
    size_t n = 0;
    enum store_status status =
        store_product_list(reader, id - 1, 1, &found, &n, error);

    if (status != STORE_OK)
        return status;
    if (n == 0 || found.id != id)
        return STORE_NO_PRODUCT;
    *product = found;
    return STORE_OK;
}
