/* An instance's store and its stream. See till.h. */
#include "tests/support/till.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Also of children, where cmocka cannot be told. */
static void must(enum store_status status, const struct store_error *error)
{
    if (status == STORE_OK)
        return;
    fprintf(stderr, "till: %s: %s\n", store_status_text(status), error->text);
    abort();
}

static enum store_verdict on_step(void *ctx, const char *step,
                                  int64_t product_id, enum store_phase phase)
{
    struct till *till = ctx;

    if (strcmp(step, "commit") == 0 && phase == STORE_BEFORE)
        atomic_fetch_add(&till->commits, 1);
    return till->on_step ? till->on_step(till->ctx, step, product_id, phase)
                         : STORE_GO;
}

static size_t take(void *ctx, struct store_lot lots[], size_t n_max)
{
    struct till *till = ctx;

    (void)n_max;
    lots[0] = (struct store_lot){.orders = &till->order, .n = 1};
    return 1;
}

static void done(void *ctx, struct store_lot lots[], size_t n,
                 const struct store_error *error)
{
    struct till *till = ctx;

    (void)n, (void)error;
    pthread_mutex_lock(&till->mutex);
    if (lots[0].status != STORE_OK)
        till->order->status = lots[0].status;
    till->is_decided = true;
    pthread_cond_signal(&till->decided);
    pthread_mutex_unlock(&till->mutex);
}

void till_open(struct till *till, const struct temp_dir *dir,
               store_step_hook *hook, void *ctx)
{
    const struct store_options options = {.url = dir->url,
                                          .shared = true,
                                          .busy_ms = 20000,
                                          .on_step = on_step,
                                          .on_step_ctx = till};
    const struct store_source source = {
        .take = take, .done = done, .ctx = till};
    struct store_error error = {""};

    *till = (struct till){.on_step = hook, .ctx = ctx};
    pthread_mutex_init(&till->mutex, NULL);
    pthread_cond_init(&till->decided, NULL);
    must(store_open(&options, &till->store, &error), &error);
    must(store_stream_open(till->store, &source, &till->stream, &error),
         &error);
    must(store_reader_open(till->store, &till->reader, &error), &error);
}

void till_close(struct till *till)
{
    store_reader_close(till->reader);
    store_stream_close(till->stream);
    store_close(till->store);
    pthread_cond_destroy(&till->decided);
    pthread_mutex_destroy(&till->mutex);
}

void till_put(struct till *till, int64_t stock)
{
    struct store_product product = {.id = 1, .initial = stock, .name = "Thing"};
    struct store_error error = {""};

    must(store_product_put(till->store, &product, NULL, &error), &error);
}

enum store_status till_buy(struct till *till, int64_t quantity,
                           struct store_order *order)
{
    *order = (struct store_order){.product_id = 1,
                                  .user_id = 1,
                                  .quantity = quantity,
                                  .segment = STORE_SEGMENT_ANY};
    till->order = order;
    till->is_decided = false;
    if (!store_stream_wake(till->stream))
        abort();
    pthread_mutex_lock(&till->mutex);
    while (!till->is_decided)
        pthread_cond_wait(&till->decided, &till->mutex);
    pthread_mutex_unlock(&till->mutex);
    return order->status;
}

bool till_knows(const struct till *till, int64_t quantity)
{
    return store_knows_sold_out(till->store, 1, quantity);
}

int64_t till_stock(struct till *till)
{
    struct store_product product = {.stock = -1};
    struct store_error error = {""};

    must(store_product_get(till->reader, 1, &product, &error), &error);
    return product.stock;
}
