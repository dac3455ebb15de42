/*
 * All orders, page by page: for an export. The order path has no use for it.
 */
#include "db/ledger/ledger.h"

#include <inttypes.h>
#include <stdio.h>

/* Pages go by number and not by offset: what is ordered meanwhile comes last. */
enum store_status
store_order_list(struct store_reader *reader, int64_t after, size_t n,
                 void (*on_order)(void *ctx, const struct store_order *order),
                 void *ctx, struct store_error *error)
{
    struct sql_query *query = sql_query(
        reader->db,
        "SELECT number, secret, product_id, user_id, quantity, price_cents, "
        "created_ms, cancelled_ms, state, `key` FROM orders WHERE number > ?1 "
        "ORDER BY number LIMIT ?2",
        after, (int64_t)n);

    while (sql_next(query)) {
        struct store_order order = {.number = sql_int(query, 0),
                                    .product_id = sql_int(query, 2),
                                    .user_id = sql_int(query, 3),
                                    .quantity = sql_int(query, 4),
                                    .price_cents = sql_int(query, 5),
                                    .created_ms = sql_int(query, 6),
                                    .cancelled_ms = sql_int(query, 7),
                                    .state = sql_int(query, 8) ? STORE_CANCELLED
                                                               : STORE_PLACED};

        snprintf(order.id, sizeof(order.id), "%" PRId64 "-%016" PRIx64,
                 order.number, (uint64_t)sql_int(query, 1));
        sql_text(query, 9, order.key, sizeof(order.key));
        on_order(ctx, &order);
    }
    return read_end(reader, sql_end(query), error);
}
