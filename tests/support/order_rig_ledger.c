/* Expected answers, the ledger and the products of an instance. See order_rig.h. */
#include "tests/support/order_rig.h"
#include "tests/support/store_wait.h"

#include <stdlib.h>

static _Noreturn void die(const char *what)
{
    server_proc_die("order_rig", what);
}

void order_rig_expect_outcome(const struct rig_order *order,
                              enum order_outcome outcome)
{
    const struct store_order *asked = &order->path.record;

    if (order->outcome != outcome)
        fail_msg("order of user %lld for %lld of product %lld, key \"%s\": "
                 "%s (%s), and not %s",
                 (long long)asked->user_id, (long long)order->quantity,
                 (long long)order->product_id, asked->key,
                 order_outcome_slug(order->outcome), order->detail,
                 order_outcome_slug(outcome));
}

void order_rig_expect_not_now(const struct rig_order *order, uint64_t within_ms)
{
    if (order->outcome < ORDER_LOCK_TIMEOUT ||
        order->outcome == ORDER_OUTCOME_N || order->took_ms >= within_ms)
        fail_msg("%s after %llu ms", order_outcome_slug(order->outcome),
                 (unsigned long long)order->took_ms);
}

/* ---- the ledger ------------------------------------------------------------ */

static struct store_reader *open_reader(struct order_rig *rig)
{
    struct store_reader *reader;
    struct store_error error = {""};

    if (store_reader_open(order_rig_store(rig), &reader, &error) != STORE_OK)
        die(error.text);
    return reader;
}

struct sold {
    int64_t product_id, units;
};

static void add_line(void *ctx, const struct store_audit_line *line)
{
    struct sold *sold = ctx;

    if (line->product_id == sold->product_id)
        sold->units += line->sold;
}

void order_rig_expect_ledger(struct order_rig *rig, int64_t product_id,
                             int64_t units)
{
    struct store_reader *reader = open_reader(rig);
    struct sold sold = {.product_id = product_id};
    struct store_error error = {""};
    struct store_audit audit;
    enum store_status status;
    const char **ids;
    size_t n;

    ids = order_rig_acked(rig, &n);
    status = store_audit(reader, add_line, &sold, ids, n, &audit, &error);
    store_reader_close(reader);
    free(ids);
    if (status != STORE_OK)
        fail_msg("audit: %s", error.text);
    assert_int_equal(audit.lost, 0);
    assert_int_equal(audit.oversold, 0);
    assert_int_equal(audit.undersold, 0);
    assert_int_equal(audit.phantom, 0);
    assert_int_equal(audit.negative, 0);
    assert_int_equal(audit.stranded, 0);
    assert_int_equal(audit.duplicates, 0);
    assert_int_equal(audit.over_limit, 0);
    assert_int_equal(audit.fence_regressions, 0);
    assert_true(audit.balanced);
    assert_int_equal(sold.units, units);
}

/* ---- products -------------------------------------------------------------- */

void order_rig_put_product(struct order_rig *rig,
                           const struct store_product *product)
{
    struct store_product stored = *product;
    struct store_error error = {""};

    if (store_product_put(order_rig_store(rig), &stored, NULL, &error) !=
        STORE_OK)
        die(error.text);
}

void order_rig_put(struct order_rig *rig, int64_t product_id, int64_t stock,
                   int64_t segments)
{
    const struct store_product product = {.id = product_id,
                                          .name = "Thing",
                                          .initial = stock,
                                          .segments = segments};

    order_rig_put_product(rig, &product);
}

struct store_product order_rig_product(struct order_rig *rig,
                                       int64_t product_id)
{
    struct store_reader *reader = open_reader(rig);
    struct store_product product = {0};
    struct store_error error = {""};

    if (store_product_get(reader, product_id, &product, &error) != STORE_OK)
        die(error.text);
    store_reader_close(reader);
    return product;
}

/* Somebody may restock between the reading and the put: then again. */
void order_rig_resize(struct order_rig *rig, int64_t product_id,
                      int64_t segments)
{
    struct store_product product;
    struct store_error error = {""};
    enum store_status status;

    do {
        product = order_rig_product(rig, product_id);
        product.segments = segments;
        status =
            store_product_put(order_rig_store(rig), &product, NULL, &error);
    } while (status == STORE_STOCK_FIXED);
    if (status != STORE_OK)
        die(error.text);
}

void order_rig_restock(struct order_rig *rig, int64_t product_id,
                       int64_t quantity)
{
    struct store_product product;
    struct store_error error = {""};

    if (store_restock(order_rig_store(rig), product_id, quantity, "", &product,
                      &error) != STORE_OK)
        die(error.text);
}

bool order_rig_cancel(struct order_rig *rig, const char *id)
{
    struct store_order order;
    struct store_error error = {""};

    if (store_cancel(order_rig_store(rig), id, &order, &error) != STORE_OK)
        die(error.text);
    return !order.replayed;
}

enum store_status order_rig_find_key(struct order_rig *rig, const char *key,
                                     struct store_order *order)
{
    struct store_reader *reader = open_reader(rig);
    enum store_status status = store_order_by_key(reader, key, order, NULL);

    store_reader_close(reader);
    return status;
}
