/*
 * A store that stores nothing, behind the same headers: for benches only. Linked
 * with the server in place of db/ it makes `stockade-null`, which tells what
 * HTTP, dispatcher and hand-over cost by themselves: the ceiling that no database
 * can lift us above.
 *
 * It sells without end and never says no. Orders are decided on a thread of its
 * own, which asks the source as the committer does, so that the way is the same
 * but for the transaction. It says at each start what it is, its orders' ids and
 * its products' names say so too, and its audit refuses to judge.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "db/store_async.h"
#include "db/store_batch.h"
#include "server/base/clock.h"

/* It keeps nothing, so it has no use for most of what it is told. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define NULL_PRICE_CENTS 100

struct store {
    pthread_t thread;
    atomic_bool woken, asleep;
    uint64_t due_us;       /* the thread's own */
    pthread_mutex_t mutex; /* guards what follows; held while the source is
                              asked, but not while the thread sleeps */
    pthread_cond_t wanted;
    struct store_write *head, **tail;
    struct store_source source;
    bool attached;
    bool closing;
    struct store_lot lots[STORE_LOTS_MAX];
};

struct store_reader {
    char nothing;
};

uint64_t store_retries(const struct store *store)
{
    return 0;
}

uint64_t store_expired(const struct store *store)
{
    return 0;
}

/* ---- what is refused, or said without a look ----------------------------- */

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

#define REFUSES(name, ...)                                                     \
    enum store_status name(__VA_ARGS__, struct store_error *error)             \
    {                                                                          \
        return refuse(error);                                                  \
    }

REFUSES(store_stamp, struct store *store, const struct store_fence *fence)
REFUSES(store_naive_select, struct store_reader *reader,
        struct store_order *order, int64_t *stock)
REFUSES(store_naive_update, struct store *store, int64_t product_id,
        int64_t segment, int64_t stock, const struct store_fence *fence)
REFUSES(store_naive_insert, struct store *store, struct store_order *order,
        const struct store_fence *fence)
REFUSES(store_order_get, struct store_reader *reader, const char *id,
        struct store_order *order)
REFUSES(store_order_by_key, struct store_reader *reader, const char *key,
        struct store_order *order)
REFUSES(store_order_list, struct store_reader *reader, int64_t after, size_t n,
        void (*on_order)(void *ctx, const struct store_order *order), void *ctx)
REFUSES(store_reader_open_url, const char *url, struct store_reader **reader)
REFUSES(store_audit, struct store_reader *reader,
        void (*on_line)(void *ctx, const struct store_audit_line *line),
        void *ctx, const char *const acked[], size_t acked_n,
        struct store_audit *audit)

bool store_announce(struct store *store, uint64_t id)
{
    return true;
}

bool store_is_gone(const struct store *store, uint64_t id)
{
    return false;
}

bool store_is_there(const struct store *store, struct store_error *error)
{
    return true;
}

/* ---- orders out of nothing ---------------------------------------------- */

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
    order->segments = 1;
    order->created_ms = (int64_t)time(NULL) * 1000;
    order->cancelled_ms = 0;
    order->fence = fence ? fence->token : 0;
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

/* ---- the thread ---------------------------------------------------------- */

static bool is_due(const struct store *store)
{
    return atomic_load(&store->woken) || clock_us() >= store->due_us;
}

static void sleep_till_due(struct store *store)
{
    struct timespec due = {(time_t)(store->due_us / 1000000),
                           (long)(store->due_us % 1000000) * 1000};

    if (store->due_us == UINT64_MAX)
        pthread_cond_wait(&store->wanted, &store->mutex);
    else
        pthread_cond_clockwait(&store->wanted, &store->mutex, CLOCK_MONOTONIC,
                               &due);
}

static void decide(struct store_lot *lot)
{
    lot->status = STORE_OK;
    lot->left = lot->unlocked ? -1 : STORE_NUMBER_MAX;
    lot->wrongly_known = 0;
    for (size_t i = 0; i < lot->n; i++) {
        if (lot->unlocked)
            lot->orders[i]->status = STORE_NEEDS_LOCK;
        else
            fabricate(lot->orders[i], lot->fence);
    }
}

static void ask_source(struct store *store)
{
    const struct store_source *source = &store->source;
    const struct store_error none = {""};
    size_t n;

    atomic_store(&store->woken, false);
    store->due_us = UINT64_MAX;
    if (!source->attend(source->ctx, &store->due_us))
        return;
    n = source->take(source->ctx, store->lots, STORE_LOTS_MAX);
    for (size_t i = 0; i < n; i++)
        decide(&store->lots[i]);
    source->done(source->ctx, store->lots, n, &none);
    atomic_store(&store->woken, true);
}

static void *work(void *ctx)
{
    struct store *store = ctx;
    struct store_write *write;

    pthread_mutex_lock(&store->mutex);
    while (store->head || !store->closing) {
        if ((write = store->head)) {
            store->head = write->next;
            if (!store->head)
                store->tail = &store->head;
            pthread_mutex_unlock(&store->mutex);
            write->status = write->run(store, write);
            write->done(write);
            pthread_mutex_lock(&store->mutex);
        } else if (store->attached && is_due(store)) {
            ask_source(store);
        } else {
            atomic_store(&store->asleep, true);
            if (!store->attached || !is_due(store))
                sleep_till_due(store);
            atomic_store(&store->asleep, false);
        }
    }
    pthread_mutex_unlock(&store->mutex);
    return NULL;
}

enum store_status store_check(const char *url, struct store_error *error)
{
    (void)url, (void)error;
    return STORE_OK;
}

enum store_status store_open(const struct store_options *options,
                             struct store **store, struct store_error *error)
{
    struct store *opened = calloc(1, sizeof(*opened));
    pthread_mutexattr_t recursive; /* the source may hand writes in */

    if (!opened)
        return STORE_IO;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&opened->mutex, &recursive);
    pthread_cond_init(&opened->wanted, NULL);
    opened->due_us = UINT64_MAX;
    opened->tail = &opened->head;
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
    store->attached = false;
    store->closing = true;
    pthread_cond_signal(&store->wanted);
    pthread_mutex_unlock(&store->mutex);
    pthread_join(store->thread, NULL);
    pthread_mutex_destroy(&store->mutex);
    pthread_cond_destroy(&store->wanted);
    free(store);
}

/* ---- the source ----------------------------------------------------------- */

void store_source_attach(struct store *store, const struct store_source *source)
{
    pthread_mutex_lock(&store->mutex);
    store->source = *source;
    store->attached = true;
    atomic_store(&store->woken, true);
    pthread_cond_signal(&store->wanted);
    pthread_mutex_unlock(&store->mutex);
}

void store_source_wake(struct store *store)
{
    if (atomic_exchange(&store->woken, true) || !atomic_load(&store->asleep))
        return;
    pthread_mutex_lock(&store->mutex);
    pthread_cond_signal(&store->wanted);
    pthread_mutex_unlock(&store->mutex);
}

void store_source_detach(struct store *store)
{
    pthread_mutex_lock(&store->mutex);
    store->attached = false;
    pthread_mutex_unlock(&store->mutex);
}

bool store_knows_sold_out(const struct store *store, int64_t product_id,
                          int64_t quantity)
{
    return false;
}

/* ---- writes that nobody waits for ----------------------------------------- */

static void submit(struct store *store, struct store_write *write,
                   enum store_status (*run)(struct store *store,
                                            struct store_write *write))
{
    write->run = run;
    write->next = NULL;
    pthread_mutex_lock(&store->mutex);
    *store->tail = write;
    store->tail = &write->next;
    pthread_cond_signal(&store->wanted);
    pthread_mutex_unlock(&store->mutex);
}

static enum store_status run_refuse(struct store *store,
                                    struct store_write *write)
{
    return refuse(&write->error);
}

static enum store_status run_change(struct store *store,
                                    struct store_write *write)
{
    struct store_change *change = (struct store_change *)write;

    fabricate_product(&change->product, change->product.id);
    change->created = true;
    return STORE_OK;
}

#define REFUSES_TO_BEGIN(name, type)                                           \
    /* NOLINTNEXTLINE(bugprone-macro-parentheses): a type */                   \
    void name(struct store *store, type *wanted)                               \
    {                                                                          \
        submit(store, &wanted->write, run_refuse);                             \
    }

REFUSES_TO_BEGIN(store_cancel_begin, struct store_cancel)
REFUSES_TO_BEGIN(store_pay_begin, struct store_pay)
REFUSES_TO_BEGIN(store_restock_begin, struct store_restock)
REFUSES_TO_BEGIN(store_even_out_begin, struct store_even_out)

void store_probe_begin(struct store *store, struct store_write *probe)
{
    probe->status = STORE_OK;
    probe->done(probe);
}

void store_change_begin(struct store *store, struct store_change *change)
{
    submit(store, &change->write, run_change);
}

enum store_status store_place(struct store *store,
                              struct store_order *const orders[], size_t n,
                              const struct store_fence *fence,
                              struct store_error *error)
{
    for (size_t i = 0; i < n; i++)
        fabricate(orders[i], fence);
    return STORE_OK;
}

/* ---- products: any, without end ------------------------------------------ */

enum store_status store_product_put(struct store *store,
                                    struct store_product *product,
                                    bool *created, struct store_error *error)
{
    fabricate_product(product, product->id);
    if (created)
        *created = true;
    return STORE_OK;
}

enum store_status store_product_segments(struct store_reader *reader,
                                         int64_t product_id,
                                         struct store_product *product,
                                         struct store_segments *segments,
                                         struct store_error *error)
{
    fabricate_product(product, product_id);
    segments->n = 1;
    segments->at[0] =
        (struct store_segment){0, product->initial, product->stock};
    return STORE_OK;
}

enum store_status store_fence_floor(struct store_reader *reader,
                                    int64_t product_id, const char *name,
                                    uint64_t *token, struct store_error *error)
{
    *token = 0;
    return STORE_OK;
}

enum store_status store_units_left(struct store_reader *reader,
                                   struct store_units *units,
                                   struct store_error *error)
{
    *units = (struct store_units){0};
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
    return *reader ? STORE_OK : STORE_IO;
}

void store_reader_close(struct store_reader *reader)
{
    free(reader);
}
