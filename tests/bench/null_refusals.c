/*
 * What the store that stores nothing (null_store.c) refuses, or says without a
 * look: orders by hand, orders that were stored, the audit, other instances.
 */
#include "tests/bench/null_store.h"

#include <stdio.h>

#include "db/store_batch.h"

/* It keeps nothing, so it has no use for most of what it is told. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

enum store_status null_refuse(struct store_error *error)
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
        return null_refuse(error);                                             \
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
