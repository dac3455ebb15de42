/*
 * Everything at once: orders, cancels, resizes, restocks and moves in random
 * order. One after the other, against a model that is told only what the store
 * has answered; and from many threads, against the ledger.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "db/store.h"
#include "tests/support/segment_rig.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEEDS       4
#define STEPS       400
#define FIRST       300
#define CROWD_FIRST 3000
#define SEGMENTS    12
#define ANY         STORE_SEGMENT_ANY
#define SELLERS     4
#define SALES       150
#define SHUFFLES    60

/* ---- one after the other ------------------------------------------------ */

struct model {
    struct segment_rig *rig;
    unsigned seed;
    int step;
    int64_t initial, stock;
    int64_t segments;
    int64_t sold[STORE_SEGMENTS_MAX]; /* by placed orders, per cell */
    size_t orders_n;
    struct store_order orders[STEPS];
};

static int64_t pick(struct model *model, int64_t from, int64_t to)
{
    return from + rand_r(&model->seed) % (to - from + 1);
}

/* Counts what an order drew, or with -1 what it gave back. */
static void count(struct model *model, const struct store_order *order,
                  int64_t sign)
{
    struct store_parts parts;
    int64_t units = 0;

    assert_int_equal(
        store_order_parts(model->rig->reader, order->id, &parts, NULL),
        STORE_OK);
    for (size_t i = 0; i < parts.n; i++) {
        units += parts.parts[i].units;
        model->sold[parts.parts[i].segment] += sign * parts.parts[i].units;
        if (i > 0)
            assert_true(parts.parts[i].segment > parts.parts[i - 1].segment);
    }
    assert_int_equal(units, order->quantity);
    assert_int_equal(order->from_segment,
                     parts.n > 1 ? ANY : parts.parts[0].segment);
    model->stock -= sign * units;
}

/* What an order has to be told, from what its cells had before. */
static enum store_status expected(const struct model *model,
                                  const struct store_cells *cells,
                                  int64_t segment, int64_t quantity)
{
    int64_t there = 0;

    for (size_t i = 0; i < cells->n; i++)
        if (segment == ANY || segment == cells->cells[i].segment)
            there += cells->cells[i].stock;
    if (there >= quantity)
        return STORE_OK;
    return model->stock >= quantity ? STORE_SHORT : STORE_SOLD_OUT;
}

static void do_place(struct model *model)
{
    struct store_cells before = segment_rig_cells(model->rig);
    struct store_order *order = &model->orders[model->orders_n];
    int64_t segment = pick(model, 0, 2) ? pick(model, 0, SEGMENTS) : ANY;
    int64_t quantity = pick(model, 0, 9) ? pick(model, 1, 6) : 40;

    *order = (struct store_order){.product_id = 1,
                                  .user_id = 1,
                                  .segment = segment,
                                  .quantity = quantity};
    assert_int_equal(store_place(model->rig->store, &order, 1, NULL, NULL),
                     STORE_OK);
    assert_int_equal(order->status,
                     expected(model, &before, segment, quantity));
    if (order->status != STORE_OK)
        return;
    count(model, order, 1);
    model->orders_n++;
}

static int64_t stock_of(const struct store_cells *cells, int64_t segment)
{
    for (size_t i = 0; i < cells->n; i++)
        if (cells->cells[i].segment == segment)
            return cells->cells[i].stock;
    return -1; /* retired */
}

/* What came from cells that are all in use is exactly there again. */
static void expect_returned(struct model *model, const char *id,
                            const struct store_cells *before)
{
    struct store_cells after = segment_rig_cells(model->rig);
    struct store_parts parts;
    int64_t had;

    assert_int_equal(store_order_parts(model->rig->reader, id, &parts, NULL),
                     STORE_OK);
    for (size_t i = 0; i < parts.n; i++)
        if (stock_of(before, parts.parts[i].segment) < 0)
            return;
    for (size_t i = 0; i < parts.n; i++) {
        had = stock_of(before, parts.parts[i].segment);
        assert_int_equal(stock_of(&after, parts.parts[i].segment),
                         had + parts.parts[i].units);
    }
}

static void do_cancel(struct model *model)
{
    struct store_cells before = segment_rig_cells(model->rig);
    struct store_order *order, answer;

    if (model->orders_n == 0)
        return;
    order =
        &model->orders[(size_t)pick(model, 0, (int64_t)model->orders_n - 1)];
    assert_int_equal(store_cancel(model->rig->store, order->id, &answer, NULL),
                     STORE_OK);
    if (answer.replayed)
        return;
    expect_returned(model, order->id, &before);
    count(model, order, -1);
}

static void do_resize(struct model *model)
{
    model->segments = pick(model, 1, SEGMENTS);
    segment_rig_put(model->rig, model->initial, model->segments);
}

static void do_even_out(struct model *model)
{
    assert_int_equal(store_even_out(model->rig->store, 1, NULL, NULL),
                     STORE_OK);
}

static void do_rebalance(struct model *model)
{
    struct store_transfer it = {.product_id = 1,
                                .from = pick(model, 0, SEGMENTS - 1),
                                .to = pick(model, 0, SEGMENTS - 1),
                                .units = pick(model, 1, 20)};
    enum store_status status;
    int64_t moved;

    snprintf(it.id, sizeof(it.id), "t%d", model->step);
    status = store_rebalance(model->rig->store, &it, NULL);
    if (status != STORE_OK) {
        assert_int_equal(status, STORE_RANGE);
        return;
    }
    moved = it.moved;
    assert_int_equal(store_rebalance(model->rig->store, &it, NULL), STORE_OK);
    assert_true(it.replayed);
    assert_int_equal(it.moved, moved);
}

static void do_restock(struct model *model)
{
    int64_t units = pick(model, 1, 15);
    struct store_product product;

    assert_int_equal(
        store_restock(model->rig->store, 1, units, "", &product, NULL),
        STORE_OK);
    model->initial += units;
    model->stock += units;
}

static void on_line(void *ctx, const struct store_audit_line *line)
{
    struct model *model = ctx;

    assert_int_equal(line->drift, 0);
    assert_int_equal(line->sold, model->sold[line->segment]);
}

static void compare(struct model *model)
{
    struct store_product product = segment_rig_product(model->rig);
    struct store_cells cells = segment_rig_cells(model->rig);
    struct store_audit verdict;
    int64_t stock = 0;

    assert_int_equal(store_audit(model->rig->reader, on_line, model, NULL, 0,
                                 &verdict, NULL),
                     STORE_OK);
    for (size_t i = 0; i < cells.n; i++)
        stock += cells.cells[i].stock;
    if (!verdict.balanced || stock != model->stock)
        fail_msg("step %d: %" PRId64 " in the cells, %" PRId64
                 " ought to be, balanced %d",
                 model->step, stock, model->stock, verdict.balanced);
    assert_int_equal(product.stock, model->stock);
    assert_int_equal(product.initial, model->initial);
    assert_int_equal(product.segments, model->segments);
    assert_in_range(cells.n, 1, model->segments);
}

static void storm(struct segment_rig *rig, unsigned seed)
{
    static void (*const deeds[])(struct model *) = {
        do_place,  do_place,    do_place,     do_place,   do_place, do_cancel,
        do_cancel, do_even_out, do_rebalance, do_restock, do_resize};
    struct model *model = calloc(1, sizeof(*model));
    size_t deeds_n = sizeof(deeds) / sizeof(deeds[0]);

    assert_non_null(model);
    *model = (struct model){.rig = rig,
                            .seed = seed,
                            .initial = FIRST,
                            .stock = FIRST,
                            .segments = 4};
    segment_rig_put(rig, FIRST, 4);
    for (; model->step < STEPS; model->step++) {
        deeds[(size_t)pick(model, 0, (int64_t)deeds_n - 1)](model);
        compare(model);
    }
    assert_true(model->orders_n > STEPS / 10);
    free(model);
}

static void test_one_after_the_other(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        void *rig = NULL;

        segment_rig_set_up(&rig);
        storm(rig, seed);
        segment_rig_tear_down(&rig);
    }
}

/* ---- from many threads -------------------------------------------------- */

struct seller {
    struct store *store;
    unsigned seed;
    int64_t placed, sold; /* and not cancelled */
};

/* Every third order is cancelled, twice. */
static void *seller_main(void *arg)
{
    struct seller *seller = arg;

    for (int i = 0; i < SALES; i++) {
        struct store_order order = {
            .product_id = 1,
            .user_id = 1,
            .segment = rand_r(&seller->seed) % (SEGMENTS + 1) - 1,
            .quantity = 1 + rand_r(&seller->seed) % 4};
        struct store_order *orders[] = {&order}, back;

        if (store_place(seller->store, orders, 1, NULL, NULL) != STORE_OK)
            abort();
        if (order.status != STORE_OK)
            continue;
        if (i % 3 == 0) {
            for (int j = 0; j < 2; j++)
                if (store_cancel(seller->store, order.id, &back, NULL))
                    abort();
            continue;
        }
        seller->placed++;
        seller->sold += order.quantity;
    }
    return NULL;
}

static void *shuffler_main(void *arg)
{
    struct store *store = arg;
    unsigned seed = 7;

    for (int i = 0; i < SHUFFLES; i++) {
        struct store_product product = {.id = 1,
                                        .name = "Thing",
                                        .initial = CROWD_FIRST,
                                        .segments =
                                            1 + rand_r(&seed) % SEGMENTS};
        struct store_transfer it = {
            .product_id = 1, .from = i % 3, .to = 3, .units = 5};

        snprintf(it.id, sizeof(it.id), "t%d", i / 2);
        if (store_product_put(store, &product, NULL, NULL) ||
            store_even_out(store, 1, NULL, NULL))
            abort();
        (void)store_rebalance(store, &it, NULL); /* 3 may be retired */
    }
    return NULL;
}

static void test_from_many_threads(void **state)
{
    struct segment_rig *rig = *state;
    struct seller sellers[SELLERS];
    pthread_t threads[SELLERS], shuffler;
    struct store_audit verdict;
    int64_t placed = 0, sold = 0;

    segment_rig_put(rig, CROWD_FIRST, 8);
    assert_int_equal(pthread_create(&shuffler, NULL, shuffler_main, rig->store),
                     0);
    for (unsigned i = 0; i < SELLERS; i++) {
        sellers[i] = (struct seller){.store = rig->store, .seed = i + 1};
        assert_int_equal(
            pthread_create(&threads[i], NULL, seller_main, &sellers[i]), 0);
    }
    for (int i = 0; i < SELLERS; i++) {
        pthread_join(threads[i], NULL);
        placed += sellers[i].placed;
        sold += sellers[i].sold;
    }
    pthread_join(shuffler, NULL);
    verdict = segment_rig_audit(rig);
    assert_true(verdict.balanced);
    assert_int_equal(verdict.orders, placed);
    assert_int_equal(verdict.sold, sold);
    assert_int_equal(segment_rig_product(rig).stock, CROWD_FIRST - sold);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_after_the_other),
        cmocka_unit_test_setup_teardown(
            test_from_many_threads, segment_rig_set_up, segment_rig_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
