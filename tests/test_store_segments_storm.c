/*
 * Orders, cancels, resizes and restocks in random order, against a model that is
 * told only what the store has answered. Many threads at once, which the committer
 * puts into some order: test_store_power.c, test_order_segments.c.
 */
#include "tests/support/store_rig.h"
#include "tests/support/store_wait.h"

#include <inttypes.h>
#include <stdlib.h>

#define SEEDS    4
#define STEPS    400
#define FIRST    300
#define SEGMENTS 12

struct model {
    struct store_rig *rig;
    unsigned seed;
    int step;
    int64_t initial, stock;
    int64_t segments;
    int64_t sold[STORE_SEGMENTS_MAX]; /* by placed orders, of each */
    size_t orders_n;
    struct store_order orders[STEPS];
};

static int64_t pick(struct model *model, int64_t from, int64_t to)
{
    return from + rand_r(&model->seed) % (to - from + 1);
}

/* How an order has to end, from what its segments had before. */
static enum store_status expected(const struct store_segments *before,
                                  const struct store_order *asked)
{
    int64_t all = 0, most = 0, own = -1;

    for (size_t i = 0; i < before->n; i++) {
        all += before->at[i].stock;
        if (before->at[i].stock > most)
            most = before->at[i].stock;
        if (before->at[i].segment == asked->segment)
            own = before->at[i].stock;
    }
    if (all < asked->quantity)
        return STORE_SOLD_OUT;
    if (own >= asked->quantity || (own >= 0 && most < asked->quantity) ||
        (own >= 0 && asked->gather))
        return STORE_OK;
    return STORE_SHORT;
}

static struct store_segments segments_of(struct model *model)
{
    struct store_segments segments;
    struct store_product product;

    assert_ok(store_product_segments(model->rig->reader, 1, &product, &segments,
                                     NULL));
    return segments;
}

/* -1: out of use. */
static int64_t stock_of(const struct store_segments *segments, int64_t segment)
{
    for (size_t i = 0; i < segments->n; i++)
        if (segments->at[i].segment == segment)
            return segments->at[i].stock;
    return -1;
}

static void do_place(struct model *model)
{
    struct store_segments before = segments_of(model);
    struct store_order *order = &model->orders[model->orders_n];

    *order =
        store_rig_ask(1, 1, pick(model, 0, 9) ? pick(model, 1, 6) : 40, "");
    order->segment = pick(model, 0, SEGMENTS);
    order->gather = pick(model, 0, 3) == 0;
    store_rig_place(model->rig, order);
    assert_int_equal(order->status, expected(&before, order));
    if (order->status == STORE_SHORT)
        assert_true(stock_of(&before, order->richest) > 0);
    if (order->status != STORE_OK)
        return;
    model->sold[order->segment] += order->quantity;
    model->stock -= order->quantity;
    model->orders_n++;
}

/* What comes back is exactly where it was, if that is in use. */
static void do_cancel(struct model *model)
{
    struct store_segments before = segments_of(model), after;
    struct store_order *order, answer;
    int64_t had;

    if (model->orders_n == 0)
        return;
    order =
        &model->orders[(size_t)pick(model, 0, (int64_t)model->orders_n - 1)];
    assert_ok(store_cancel(model->rig->store, order->id, &answer, NULL));
    if (answer.replayed)
        return;
    after = segments_of(model);
    had = stock_of(&before, order->segment);
    if (had >= 0)
        assert_int_equal(stock_of(&after, order->segment),
                         had + order->quantity);
    model->sold[order->segment] -= order->quantity;
    model->stock += order->quantity;
}

static void do_resize(struct model *model)
{
    model->segments = pick(model, 1, SEGMENTS);
    store_rig_split(model->rig, model->initial, model->segments);
}

static void do_even_out(struct model *model)
{
    assert_ok(store_even_out(model->rig->store, 1, NULL, NULL));
}

static void do_restock(struct model *model)
{
    int64_t units = pick(model, 1, 15);
    struct store_product product;

    assert_ok(store_restock(model->rig->store, 1, units, "", &product, NULL));
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
    struct store_product product = store_rig_product(model->rig, 1);
    struct store_segments segments = segments_of(model);
    struct store_audit verdict;
    int64_t stock = 0;

    assert_ok(store_audit(model->rig->reader, on_line, model, NULL, 0, &verdict,
                          NULL));
    for (size_t i = 0; i < segments.n; i++)
        stock += segments.at[i].stock;
    if (!verdict.balanced || stock != model->stock)
        fail_msg("step %d: %" PRId64 " in the segments, %" PRId64
                 " ought to be, balanced %d",
                 model->step, stock, model->stock, verdict.balanced);
    assert_int_equal(product.stock, model->stock);
    assert_int_equal(product.initial, model->initial);
    assert_int_equal(product.segments, model->segments);
    assert_in_range(segments.n, 1, model->segments);
}

static void storm(struct store_rig *rig, unsigned seed)
{
    static void (*const deeds[])(struct model *) = {
        do_place,  do_place,  do_place,    do_place,   do_place,
        do_cancel, do_cancel, do_even_out, do_restock, do_resize};
    struct model *model = calloc(1, sizeof(*model));
    size_t deeds_n = COUNT_OF(deeds);

    assert_non_null(model);
    *model = (struct model){.rig = rig,
                            .seed = seed,
                            .initial = FIRST,
                            .stock = FIRST,
                            .segments = 4};
    store_rig_split(rig, FIRST, 4);
    for (; model->step < STEPS; model->step++) {
        deeds[(size_t)pick(model, 0, (int64_t)deeds_n - 1)](model);
        compare(model);
    }
    assert_true(model->orders_n > STEPS / 10);
    free(model);
}

static void test_one_after_the_other(NO_STATE)
{
    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        void *rig = NULL;

        store_rig_set_up(&rig);
        storm(rig, seed);
        store_rig_tear_down(&rig);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_one_after_the_other),
};

TEST_MAIN(tests)
