/*
 * A store that stores nothing, behind the same header: for benches only. Linked
 * with the server in place of db/ it makes `stockade-null`, which tells what
 * HTTP, desk and hand-over cost by themselves: the ceiling that no database
 * can lift us above.
 *
 * It sells without end and never says no. Orders go to a thread of its own and
 * come back from there, as they do from the committer, so that the way is the
 * same but for the transaction. It says at each start what it is, its orders'
 * ids and its products' names say so too, and its audit refuses to judge.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "db/store.h"

/* It keeps nothing, so it has no use for most of what it is told. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define NULL_PRICE_CENTS 100

/* What the thread does next; it belongs to whoever handed it in. */
struct null_job {
    struct null_job *next;
    void (*run)(struct null_job *job);
};

struct store {
    pthread_mutex_t mutex;
    pthread_cond_t work;
    pthread_cond_t done;
    pthread_t thread;
    struct null_job *first;
    struct null_job **last;
    bool closing;
};

struct store_reader {
    struct store *store;
};

struct store_stream {
    struct null_job job; /* first: run() gets it and finds the rest */
    struct store *store;
    struct store_source source;
    atomic_bool handed_in;
    struct store_lot lots[STORE_LOTS_MAX];
};

/* ---- orders out of nothing ---------------------------------------------- */

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void fabricate(struct store_order *order,
                      const struct store_fence *fence)
{
    static atomic_int_fast64_t number;

    order->number = atomic_fetch_add(&number, 1) + 1;
    snprintf(order->id, sizeof(order->id), "%" PRId64 "-not-stored-ever",
             order->number);
    order->status = STORE_OK;
    order->state = STORE_PLACED;
    order->replayed = false;
    order->price_cents = NULL_PRICE_CENTS;
    order->created_ms = now_ms();
    order->cancelled_ms = 0;
    order->fence = fence ? fence->token : 0;
}

static void fabricate_all(struct store_order *const orders[], size_t n,
                          const struct store_fence *fence)
{
    for (size_t i = 0; i < n; i++)
        fabricate(orders[i], fence);
}

static void fabricate_product(struct store_product *product, int64_t id)
{
    *product = (struct store_product){
        .id = id,
        .name = "nothing (a bench's null store)",
        .price_cents = NULL_PRICE_CENTS,
        .initial = STORE_NUMBER_MAX,
        .stock = STORE_NUMBER_MAX,
        .segments = 1,
        .epoch = 1,
    };
}

static enum store_status refuse(struct store_error *error)
{
    if (error)
        snprintf(error->text, sizeof(error->text),
                 "this is stockade-null, a bench: nothing is stored");
    return STORE_MISUSE;
}

const char *store_status_text(enum store_status status)
{
    static const char *const texts[] = {
#define NULL_TEXT(name, text) [name] = (text),
        STORE_STATUS_MAP(NULL_TEXT)
#undef NULL_TEXT
    };

    return (unsigned)status < STORE_STATUS_N ? texts[status] : "unknown";
}

/* ---- the thread ---------------------------------------------------------- */

static bool hand_in(struct store *store, struct null_job *job)
{
    bool open;

    pthread_mutex_lock(&store->mutex);
    open = !store->closing;
    if (open) {
        job->next = NULL;
        *store->last = job;
        store->last = &job->next;
        pthread_cond_signal(&store->work);
    }
    pthread_mutex_unlock(&store->mutex);
    return open;
}

/* NULL: it is over, and nothing is left to do. */
static struct null_job *next_job(struct store *store)
{
    struct null_job *job;

    pthread_mutex_lock(&store->mutex);
    while (!store->first && !store->closing)
        pthread_cond_wait(&store->work, &store->mutex);
    job = store->first;
    if (job)
        store->first = job->next;
    if (!store->first)
        store->last = &store->first;
    pthread_mutex_unlock(&store->mutex);
    return job;
}

static void *work(void *ctx)
{
    struct store *store = ctx;
    struct null_job *job;

    while ((job = next_job(store)))
        job->run(job);
    return NULL;
}

enum store_status store_open(const struct store_options *options,
                             struct store **store, struct store_error *error)
{
    struct store *opened = calloc(1, sizeof(*opened));

    if (!opened)
        return STORE_IO;
    pthread_mutex_init(&opened->mutex, NULL);
    pthread_cond_init(&opened->work, NULL);
    pthread_cond_init(&opened->done, NULL);
    opened->last = &opened->first;
    if (pthread_create(&opened->thread, NULL, work, opened) != 0) {
        free(opened);
        return STORE_IO;
    }
    fprintf(stderr,
            "level=warn msg=null-store db=\"%s\" "
            "note=\"this is a bench: orders are accepted and NOT STORED\"\n",
            options->url);
    *store = opened;
    return STORE_OK;
}

void store_end_waits(struct store *store)
{
}

void store_close(struct store *store)
{
    if (!store)
        return;
    pthread_mutex_lock(&store->mutex);
    store->closing = true;
    pthread_cond_signal(&store->work);
    pthread_mutex_unlock(&store->mutex);
    pthread_join(store->thread, NULL);
    pthread_mutex_destroy(&store->mutex);
    pthread_cond_destroy(&store->work);
    pthread_cond_destroy(&store->done);
    free(store);
}

/* ---- one batch, waited for ----------------------------------------------- */

struct null_batch {
    struct null_job job; /* first: see above */
    struct store *store;
    struct store_order *const *orders;
    size_t n;
    const struct store_fence *fence;
    bool done;
};

static void run_batch(struct null_job *job)
{
    struct null_batch *batch = (struct null_batch *)job;
    struct store *store = batch->store;

    fabricate_all(batch->orders, batch->n, batch->fence);
    pthread_mutex_lock(&store->mutex);
    batch->done = true;
    pthread_cond_broadcast(&store->done);
    pthread_mutex_unlock(&store->mutex);
}

enum store_status store_place(struct store *store,
                              struct store_order *const orders[], size_t n,
                              const struct store_fence *fence,
                              struct store_error *error)
{
    struct null_batch batch = {.job = {.run = run_batch},
                               .store = store,
                               .orders = orders,
                               .n = n,
                               .fence = fence};

    if (!hand_in(store, &batch.job))
        return STORE_CLOSED;
    pthread_mutex_lock(&store->mutex);
    while (!batch.done)
        pthread_cond_wait(&store->done, &store->mutex);
    pthread_mutex_unlock(&store->mutex);
    return STORE_OK;
}

/* ---- a stream of them ---------------------------------------------------- */

static void run_stream(struct null_job *job)
{
    struct store_stream *stream = (struct store_stream *)job;
    struct store_source *source = &stream->source;
    const struct store_error none = {""};
    size_t n = source->take(source->ctx, stream->lots, STORE_LOTS_MAX);

    for (size_t i = 0; i < n; i++) {
        struct store_lot *lot = &stream->lots[i];
        fabricate_all(lot->orders, lot->n, lot->fence);
        lot->status = STORE_OK;
    }
    atomic_store(&stream->handed_in, false);
    source->done(source->ctx, stream->lots, n, &none);
}

enum store_status store_stream_open(struct store *store,
                                    const struct store_source *source,
                                    struct store_stream **stream,
                                    struct store_error *error)
{
    struct store_stream *opened = calloc(1, sizeof(*opened));

    if (!opened)
        return STORE_IO;
    opened->job.run = run_stream;
    opened->store = store;
    opened->source = *source;
    *stream = opened;
    return STORE_OK;
}

bool store_stream_wake(struct store_stream *stream)
{
    if (atomic_exchange(&stream->handed_in, true))
        return true;
    return hand_in(stream->store, &stream->job);
}

bool store_knows_sold_out(const struct store *store, int64_t product_id,
                          int64_t quantity)
{
    return false;
}

enum store_status store_look_sold_out(const struct store *store,
                                      struct store_reader *reader,
                                      const struct store_order *order,
                                      bool *sold_out, struct store_error *error)
{
    *sold_out = false;
    return STORE_OK;
}

enum store_status store_check_sold_out(const struct store *store,
                                       struct store_reader *reader,
                                       int64_t product_id, int64_t quantity,
                                       enum store_check *found,
                                       struct store_error *error)
{
    *found = STORE_CHECK_NOTHING;
    return STORE_OK;
}

/* Twice, as the real one does: a done() may have handed in one more. */
void store_stream_settle(struct store_stream *stream)
{
    for (int i = 0; i < 2; i++)
        store_place(stream->store, NULL, 0, NULL, NULL);
}

void store_stream_close(struct store_stream *stream)
{
    if (stream)
        store_stream_settle(stream);
    free(stream);
}

/* ---- products: any, without end ------------------------------------------ */

enum store_status store_product_put(struct store *store,
                                    struct store_product *product,
                                    bool *created, struct store_error *error)
{
    fabricate_product(product, product->id);
    *created = true;
    return STORE_OK;
}

enum store_status store_product_get(struct store_reader *reader, int64_t id,
                                    struct store_product *product,
                                    struct store_error *error)
{
    fabricate_product(product, id);
    return STORE_OK;
}

enum store_status store_cells_get(struct store_reader *reader,
                                  int64_t product_id, struct store_cells *cells,
                                  struct store_error *error)
{
    struct store_product product;

    fabricate_product(&product, product_id);
    cells->epoch = product.epoch;
    cells->segments = product.segments;
    cells->number = 0;
    cells->n = 1;
    cells->cells[0] = (struct store_cell){0, product.initial, product.stock};
    return STORE_OK;
}

enum store_status store_product_cells(struct store_reader *reader,
                                      int64_t product_id,
                                      struct store_product *product,
                                      struct store_cells *cells,
                                      struct store_error *error)
{
    fabricate_product(product, product_id);
    return store_cells_get(reader, product_id, cells, error);
}

enum store_status store_stranded(struct store_reader *reader, int64_t *units,
                                 struct store_error *error)
{
    *units = 0;
    return STORE_OK;
}

enum store_status store_product_list(struct store_reader *reader, int64_t after,
                                     size_t n, struct store_product products[],
                                     size_t *n_found, struct store_error *error)
{
    *n_found = after == 0 && n > 0;
    if (*n_found)
        fabricate_product(&products[0], 1);
    return STORE_OK;
}

enum store_status store_reader_open(struct store *store,
                                    struct store_reader **reader,
                                    struct store_error *error)
{
    *reader = calloc(1, sizeof(**reader));
    if (!*reader)
        return STORE_IO;
    (*reader)->store = store;
    return STORE_OK;
}

void store_reader_close(struct store_reader *reader)
{
    free(reader);
}

/* ---- what has no meaning here -------------------------------------------- */

enum store_status store_stamp(struct store *store,
                              const struct store_fence *fence,
                              struct store_error *error)
{
    return refuse(error);
}

enum store_status store_cancel(struct store *store, const char *id,
                               struct store_order *order,
                               struct store_error *error)
{
    return refuse(error);
}

enum store_status store_restock(struct store *store, int64_t product_id,
                                int64_t quantity, const char *key,
                                struct store_product *product,
                                struct store_error *error)
{
    return refuse(error);
}

enum store_status store_rebalance(struct store *store,
                                  struct store_transfer *transfer,
                                  struct store_error *error)
{
    return refuse(error);
}

enum store_status store_even_out(struct store *store, int64_t product_id,
                                 bool *moved, struct store_error *error)
{
    return refuse(error);
}

enum store_status store_new_epoch(struct store *store, int64_t product_id,
                                  int64_t above, struct store_cells *cells,
                                  struct store_error *error)
{
    return refuse(error);
}

enum store_status store_split_list(struct store_reader *reader, int64_t after,
                                   size_t n, struct store_split splits[],
                                   size_t *n_found, struct store_error *error)
{
    *n_found = 0;
    return STORE_OK;
}

enum store_status store_order_parts(struct store_reader *reader, const char *id,
                                    struct store_parts *parts,
                                    struct store_error *error)
{
    return refuse(error);
}

enum store_status store_naive_select(struct store_reader *reader,
                                     struct store_order *order, int64_t *stock,
                                     struct store_error *error)
{
    return refuse(error);
}

enum store_status store_naive_update(struct store *store, int64_t product_id,
                                     int64_t segment, int64_t stock,
                                     const struct store_fence *fence,
                                     struct store_error *error)
{
    return refuse(error);
}

enum store_status store_naive_insert(struct store *store,
                                     struct store_order *order,
                                     const struct store_fence *fence,
                                     struct store_error *error)
{
    return refuse(error);
}

enum store_status store_order_get(struct store_reader *reader, const char *id,
                                  struct store_order *order,
                                  struct store_error *error)
{
    return refuse(error);
}

enum store_status store_order_by_key(struct store_reader *reader,
                                     const char *key, struct store_order *order,
                                     struct store_error *error)
{
    return refuse(error);
}

enum store_status store_fence_get(struct store_reader *reader, const char *name,
                                  uint64_t *token, struct store_error *error)
{
    return refuse(error);
}

enum store_status store_reader_open_url(const char *url,
                                        struct store_reader **reader,
                                        struct store_error *error)
{
    return refuse(error);
}

enum store_status
store_audit(struct store_reader *reader,
            void (*on_line)(void *ctx, const struct store_audit_line *line),
            void *ctx, const char *const acked[], size_t acked_n,
            struct store_audit *audit, struct store_error *error)
{
    return refuse(error);
}
