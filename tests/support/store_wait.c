/* See store_wait.h. */
#include "tests/support/store_wait.h"

#include <semaphore.h>
#include <string.h>

static void on_answer(struct store_write *write)
{
    sem_post(write->owner);
}

static enum store_status wait_for(struct store *store, enum store_verb verb,
                                  struct store_write *write,
                                  struct store_error *error)
{
    sem_t answered;

    sem_init(&answered, 0, 0);
    write->done = on_answer;
    /* cppcheck-suppress autoVariables ; it is answered before this is gone */
    write->owner = &answered;
    store_begin(store, verb, write);
    while (sem_wait(&answered) != 0)
        continue;
    sem_destroy(&answered);
    if (write->status != STORE_OK && error)
        *error = write->error;
    return write->status;
}

enum store_status store_cancel(struct store *store, const char *id,
                               struct store_order *order,
                               struct store_error *error)
{
    struct store_cancel cancel = {.id = ""};

    /* What is cut here is too long to be an id. */
    memcpy(cancel.id, id, strnlen(id, STORE_ID_BYTES_MAX));
    if (wait_for(store, STORE_CANCEL, &cancel.write, error) == STORE_OK)
        *order = cancel.order;
    return cancel.write.status;
}

enum store_status store_pay(struct store *store, const char *id,
                            const char *payment, struct store_pay *pay)
{
    *pay = (struct store_pay){.id = ""};
    memcpy(pay->id, id, strnlen(id, STORE_ID_BYTES_MAX));
    memcpy(pay->payment, payment, strnlen(payment, STORE_PAYMENT_BYTES_MAX));
    return wait_for(store, STORE_PAY, &pay->write, NULL);
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
    if (wait_for(store, STORE_RESTOCK, &restock.write, error) == STORE_OK)
        *product = restock.product;
    return restock.write.status;
}

enum store_status store_even_out(struct store *store, int64_t product_id,
                                 bool *moved, struct store_error *error)
{
    struct store_even_out even_out = {.product_id = product_id};

    if (wait_for(store, STORE_EVEN_OUT, &even_out.write, error) == STORE_OK &&
        moved)
        *moved = even_out.moved;
    return even_out.write.status;
}

enum store_status store_change(struct store *store, struct store_change *change,
                               struct store_error *error)
{
    return wait_for(store, STORE_CHANGE, &change->write, error);
}

enum store_status store_probe(struct store *store, struct store_error *error)
{
    struct store_write probe = {0};

    return wait_for(store, STORE_PROBE, &probe, error);
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
