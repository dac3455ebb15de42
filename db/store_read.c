/*
 * The reading verbs: call the hook, and ask the reader's connection.
 */
#include "db/audit.h"
#include "db/cells.h"
#include "db/failure.h"
#include "db/fence.h"
#include "db/naive.h"
#include "db/orders.h"
#include "db/products.h"
#include "db/store_private.h"

/* False: the hook wants the disk to have failed. */
static bool may_read(const struct store_reader *reader, const char *step,
                     int64_t product_id, struct store_error *error)
{
    if (step_before(&reader->step, step, product_id) == STORE_GO)
        return true;
    failure_text(error, "%s failed on purpose", step);
    return false;
}

enum store_status store_naive_select(struct store_reader *reader,
                                     struct store_order *order, int64_t *stock,
                                     struct store_error *error)
{
    const char *step = "naive-select";
    int64_t product_id = order->product_id;
    enum store_status status;

    if (!may_read(reader, step, product_id, error)) {
        order->status = STORE_IO;
        return STORE_IO;
    }
    status = naive_select(reader->db, order, stock, error);
    (void)step_after(&reader->step, step, product_id);
    return status;
}

enum store_status store_order_get(struct store_reader *reader, const char *id,
                                  struct store_order *order,
                                  struct store_error *error)
{
    const char *step = "order-get";
    enum store_status status;

    if (!may_read(reader, step, 0, error))
        return STORE_IO;
    status = orders_get(reader->db, id, order, error);
    (void)step_after(&reader->step, step, 0);
    return status;
}

enum store_status store_order_by_key(struct store_reader *reader,
                                     const char *key, struct store_order *order,
                                     struct store_error *error)
{
    const char *step = "order-by-key";
    enum store_status status;

    if (!may_read(reader, step, 0, error))
        return STORE_IO;
    status = orders_by_key(reader->db, key, order, error);
    (void)step_after(&reader->step, step, 0);
    return status;
}

enum store_status store_product_get(struct store_reader *reader, int64_t id,
                                    struct store_product *product,
                                    struct store_error *error)
{
    const char *step = "product-get";
    enum store_status status;

    if (!may_read(reader, step, id, error))
        return STORE_IO;
    status = products_get(reader->db, id, product, error);
    (void)step_after(&reader->step, step, id);
    return status;
}

enum store_status store_product_list(struct store_reader *reader, int64_t after,
                                     size_t n, struct store_product products[],
                                     size_t *n_found, struct store_error *error)
{
    const char *step = "product-list";
    enum store_status status;

    *n_found = 0;
    if (!may_read(reader, step, 0, error))
        return STORE_IO;
    status = products_list(reader->db, after, n, products, n_found, error);
    (void)step_after(&reader->step, step, 0);
    return status;
}

enum store_status store_cells_get(struct store_reader *reader,
                                  int64_t product_id, struct store_cells *cells,
                                  struct store_error *error)
{
    const char *step = "cells-get";
    enum store_status status;

    if (!may_read(reader, step, product_id, error))
        return STORE_IO;
    status = cells_get(reader->db, product_id, cells, error);
    (void)step_after(&reader->step, step, product_id);
    return status;
}

enum store_status store_split_list(struct store_reader *reader, int64_t after,
                                   size_t n, struct store_split splits[],
                                   size_t *n_found, struct store_error *error)
{
    const char *step = "split-list";
    enum store_status status;

    *n_found = 0;
    if (!may_read(reader, step, 0, error))
        return STORE_IO;
    status = cells_split_list(reader->db, after, n, splits, n_found, error);
    (void)step_after(&reader->step, step, 0);
    return status;
}

enum store_status store_product_cells(struct store_reader *reader,
                                      int64_t product_id,
                                      struct store_product *product,
                                      struct store_cells *cells,
                                      struct store_error *error)
{
    const char *step = "product-cells";
    enum store_status status;

    if (!may_read(reader, step, product_id, error))
        return STORE_IO;
    status = cells_get_all(reader->db, product_id, product, cells, error);
    (void)step_after(&reader->step, step, product_id);
    return status;
}

enum store_status store_stranded(struct store_reader *reader, int64_t *units,
                                 struct store_error *error)
{
    const char *step = "stranded";
    enum store_status status;

    if (!may_read(reader, step, 0, error))
        return STORE_IO;
    status = cells_stranded(reader->db, units, error);
    (void)step_after(&reader->step, step, 0);
    return status;
}

/* Stock begins a new generation before it rises for anybody to see: so if there
 * is some, and the generation has stayed the same, there was some all along. */
enum store_status store_check_sold_out(const struct store *store,
                                       struct store_reader *reader,
                                       int64_t product_id, int64_t quantity,
                                       enum store_check *found,
                                       struct store_error *error)
{
    uint64_t generation = soldout_knows(&store->soldout, product_id, quantity);
    struct store_product product;
    enum store_status status;

    *found = STORE_CHECK_NOTHING;
    if (generation == 0)
        return STORE_OK;
    status = store_product_get(reader, product_id, &product, error);
    if (status != STORE_OK)
        return status;
    if (product.stock < quantity)
        *found = STORE_CHECK_RIGHT;
    else if (soldout_generation(&store->soldout) == generation)
        *found = STORE_CHECK_WRONG;
    return STORE_OK;
}

/*
 * What has the key, the read shows if it was committed before; and nothing came
 * back from the refusal that is remembered until after the read. So the order is
 * decided as a transaction would have decided it at the moment of the read. One
 * with the same key that was under way then comes after it.
 */
enum store_status store_look_sold_out(const struct store *store,
                                      struct store_reader *reader,
                                      const struct store_order *order,
                                      bool *sold_out, struct store_error *error)
{
    uint64_t generation =
        soldout_knows(&store->soldout, order->product_id, order->quantity);
    enum store_status status = STORE_NO_ORDER;
    struct store_order found;

    *sold_out = false;
    if (generation == 0)
        return STORE_OK;
    if (order->key[0])
        status = store_order_by_key(reader, order->key, &found, error);
    if (status != STORE_NO_ORDER)
        return status;
    *sold_out = soldout_generation(&store->soldout) == generation;
    return STORE_OK;
}

enum store_status store_order_parts(struct store_reader *reader, const char *id,
                                    struct store_parts *parts,
                                    struct store_error *error)
{
    const char *step = "order-parts";
    enum store_status status;

    if (!may_read(reader, step, 0, error))
        return STORE_IO;
    status = orders_parts(reader->db, id, parts, error);
    (void)step_after(&reader->step, step, 0);
    return status;
}

enum store_status store_fence_get(struct store_reader *reader, const char *name,
                                  uint64_t *token, struct store_error *error)
{
    const char *step = "fence-get";
    enum store_status status;

    if (!may_read(reader, step, 0, error))
        return STORE_IO;
    status = fence_read(reader->db, name, token, error);
    (void)step_after(&reader->step, step, 0);
    return status;
}

enum store_status
store_audit(struct store_reader *reader,
            void (*on_line)(void *ctx, const struct store_audit_line *line),
            void *ctx, const char *const acked[], size_t acked_n,
            struct store_audit *audit, struct store_error *error)
{
    const struct audit_request request = {
        .on_line = on_line, .ctx = ctx, .acked = acked, .acked_n = acked_n};
    const char *step = "audit";
    enum store_status status;

    if (!may_read(reader, step, 0, error))
        return STORE_IO;
    status = audit_run(reader->db, &request, audit, error);
    (void)step_after(&reader->step, step, 0);
    return status;
}
