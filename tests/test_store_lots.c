/*
 * Lots that share a transaction: their rows are written together, so what one
 * lot comes to must not touch what another has waiting.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "db/committer.h"
#include "db/store_private.h"
#include "tests/support/store_rig.h"

#define ORDERS 100
#define LOT    50 /* orders of each */

struct fixture {
    struct store_rig rig;
    struct store_rig_feed feed;
    int places;  /* lots that were begun */
    int failing; /* the one that fails; 0 = none */
    struct store_fence fences[2];
    struct store_order orders[ORDERS];
    struct store_order *list[ORDERS];
    struct store_lot lots[2];
};

static enum store_verdict on_step(void *ctx, const char *step,
                                  int64_t product_id, enum store_phase phase)
{
    struct fixture *f = ctx;

    (void)product_id;
    if (phase != STORE_BEFORE || strcmp(step, "place") != 0)
        return STORE_GO;
    return ++f->places == f->failing ? STORE_FAIL : STORE_GO;
}

/* Products 1 and 2, and a lot of orders for each. */
static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    store_rig_begin(&f->rig);
    store_rig_open(
        &f->rig, (struct store_options){.on_step = on_step, .on_step_ctx = f});
    store_rig_feed_open(&f->feed, &f->rig);
    store_rig_put(&f->rig, (struct store_product){.id = 1, .initial = 1000});
    store_rig_put(&f->rig, (struct store_product){.id = 2,
                                                  .price_cents = 5,
                                                  .limit_per_user = 3,
                                                  .initial = 1000});
    for (int i = 0; i < ORDERS; i++) {
        f->list[i] = &f->orders[i];
        f->orders[i] = store_rig_ask(i < LOT ? 1 : 2, i + 1, 1, "");
    }
    for (size_t i = 0; i < 2; i++) {
        f->fences[i] = (struct store_fence){i == 0 ? "lock:1" : "lock:2",
                                            10 + i, "me", false, NULL};
        f->lots[i] = (struct store_lot){
            .orders = f->list + i * LOT, .n = LOT, .fence = &f->fences[i]};
    }
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    store_rig_feed_close(&f->feed);
    store_rig_expect_sound(&f->rig);
    store_rig_end(&f->rig);
    free(f);
    return 0;
}

static void go(struct fixture *f)
{
    (void)store_rig_feed_go(&f->feed, f->lots, 2);
}

/* In the ledger it is what the customer was told, and what was asked. */
static void expect_stored(struct fixture *f, const struct store_order *order)
{
    struct store_order read;

    assert_int_equal(order->status, STORE_OK);
    assert_int_equal(store_order_get(f->rig.reader, order->id, &read, NULL),
                     STORE_OK);
    assert_int_equal(read.number, order->number);
    assert_int_equal(read.product_id, order->product_id);
    assert_int_equal(read.user_id, order->user_id);
    assert_int_equal(read.price_cents, order->product_id == 1 ? 0 : 5);
    assert_int_equal(read.fence, order->product_id == 1 ? 10 : 11);
}

static int64_t sold(struct fixture *f, int64_t product_id)
{
    return 1000 - store_rig_product(&f->rig, product_id).stock;
}

/* What nobody is told, but the audit goes by. */
static int64_t rows_with_their_limit(struct fixture *f)
{
    const struct sqlite_options options = {.path = f->rig.dir.db,
                                           .role = SQLITE_ROLE_READER};
    struct sqlite *db;
    int64_t n;

    assert_int_equal(sqlite_open(&options, &db, NULL), STORE_OK);
    assert_int_equal(sqlite_number(db,
                                   "SELECT count(*) FROM orders "
                                   "WHERE limit_per_user = "
                                   "iif(product_id = 1, 0, 3)",
                                   &n, NULL),
                     STORE_OK);
    sqlite_close(db);
    return n;
}

/* More rows than are written at once. */
static void each_row_has_its_own_terms(void **state)
{
    struct fixture *f = *state;

    go(f);
    for (int i = 0; i < ORDERS; i++) {
        expect_stored(f, &f->orders[i]);
        assert_int_equal(f->orders[i].number, i + 1);
    }
    assert_int_equal(rows_with_their_limit(f), ORDERS);
    assert_int_equal(sold(f, 1), LOT);
    assert_int_equal(sold(f, 2), LOT);
}

/* The first lot's rows wait when the second turns out not to count. */
static void a_stale_lot_after_a_good_one(void **state)
{
    struct fixture *f = *state;
    struct store_fence newer = {"lock:2", 12, "other", false, NULL};

    assert_int_equal(store_stamp(f->rig.store, &newer, NULL), STORE_OK);
    go(f);
    assert_int_equal(f->feed.told[0], STORE_OK);
    assert_int_equal(f->feed.told[1], STORE_STALE_FENCE);
    for (int i = 0; i < LOT; i++)
        expect_stored(f, &f->orders[i]);
    assert_int_equal(sold(f, 1), LOT);
    assert_int_equal(sold(f, 2), 0);
}

static void a_misused_lot_after_a_good_one(void **state)
{
    struct fixture *f = *state;

    f->fences[1].name = "";
    go(f);
    assert_int_equal(f->feed.told[1], STORE_MISUSE);
    for (int i = 0; i < LOT; i++)
        expect_stored(f, &f->orders[i]);
    assert_int_equal(sold(f, 2), 0);
}

static void a_lot_that_fails_undoes_the_one_before(void **state)
{
    struct fixture *f = *state;

    f->failing = 2;
    go(f);
    assert_int_equal(f->feed.told[0], STORE_IO);
    assert_int_equal(f->orders[0].number, 0);
    assert_string_equal(f->orders[0].id, "");
    assert_int_equal(sold(f, 1), 0);
    f->failing = 0;
    go(f);
    assert_int_equal(sold(f, 1), LOT);
    assert_int_equal(f->orders[0].number, 1);
}

/* The row that has the key is not in the table yet. */
static void a_key_in_two_lots(void **state)
{
    struct fixture *f = *state;

    f->orders[0] = store_rig_ask(1, 7, 1, "same");
    f->orders[LOT] = f->orders[0];
    f->orders[LOT + 1] = store_rig_ask(2, 7, 1, "same");
    go(f);
    expect_stored(f, &f->orders[0]);
    assert_int_equal(f->orders[LOT].status, STORE_OK);
    assert_true(f->orders[LOT].replayed);
    assert_string_equal(f->orders[LOT].id, f->orders[0].id);
    assert_int_equal(f->orders[LOT + 1].status, STORE_KEY_REUSED);
    assert_int_equal(sold(f, 1), LOT);
    assert_int_equal(sold(f, 2), LOT - 2);
}

/* Its further parts have to be under its own number. */
static void parts_while_rows_wait(void **state)
{
    struct fixture *f = *state;
    struct store_order *big = &f->orders[LOT + 3];
    struct store_parts parts;

    store_rig_put(&f->rig, (struct store_product){.id = 2,
                                                  .price_cents = 5,
                                                  .segments = 4,
                                                  .initial = 1000});
    for (int i = LOT; i < ORDERS; i++)
        f->orders[i].segment = STORE_SEGMENT_ANY;
    big->quantity = 600;
    go(f);
    assert_int_equal(big->status, STORE_OK);
    assert_int_equal(big->number, LOT + 4);
    assert_int_equal(store_order_parts(f->rig.reader, big->id, &parts, NULL),
                     STORE_OK);
    assert_int_equal(parts.n, 3);
    assert_int_equal(parts.parts[0].units, 250 - 3);
    assert_int_equal(
        store_order_parts(f->rig.reader, f->orders[LOT].id, &parts, NULL),
        STORE_OK);
    assert_int_equal(parts.n, 1);
    assert_int_equal(sold(f, 2), LOT - 1 + 600);
    assert_int_equal(store_cancel(f->rig.store, big->id, big, NULL), STORE_OK);
    assert_int_equal(sold(f, 2), LOT - 1);
}

/* ---- in company ----------------------------------------------------------- */

/* Stands in the committer's way until both others are in the queue. */
struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t opened;
    bool entered;
    bool open;
};

static enum store_status stand_in_the_way(struct sqlite *db, void *ctx,
                                          struct store_error *error)
{
    struct gate *gate = ctx;

    (void)db, (void)error;
    pthread_mutex_lock(&gate->mutex);
    gate->entered = true;
    pthread_cond_broadcast(&gate->opened);
    while (!gate->open)
        pthread_cond_wait(&gate->opened, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
    return STORE_OK;
}

/* Takes all there is, and then thinks better of it: a savepoint undoes it. */
static enum store_status take_and_fail(struct sqlite *db, void *ctx,
                                       struct store_error *error)
{
    (void)ctx;
    assert_int_equal(sqlite_run(db, "UPDATE cells SET stock = 0", error),
                     STORE_OK);
    return STORE_SOLD_OUT;
}

static void nothing(struct committer_job *job)
{
    (void)job;
}

/* What was remembered by the stream, and by whom it was undone, are two things. */
static void another_job_is_undone_in_the_same_batch(void **state)
{
    struct fixture *f = *state;
    struct committer *committer = f->rig.store->committer;
    struct gate gate = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                        .opened = PTHREAD_COND_INITIALIZER};
    struct committer_job first = {
        .run = stand_in_the_way, .done = nothing, .ctx = &gate};
    struct committer_job before = {.run = take_and_fail, .done = nothing};
    struct committer_job after = before;

    go(f);
    assert_true(committer_submit(committer, &first));
    pthread_mutex_lock(&gate.mutex);
    while (!gate.entered)
        pthread_cond_wait(&gate.opened, &gate.mutex);
    pthread_mutex_unlock(&gate.mutex);
    assert_true(committer_submit(committer, &before));
    store_rig_feed_offer(&f->feed, f->lots, 2);
    assert_true(store_stream_wake(f->feed.stream));
    assert_true(committer_submit(committer, &after));
    pthread_mutex_lock(&gate.mutex);
    gate.open = true;
    pthread_cond_broadcast(&gate.opened);
    pthread_mutex_unlock(&gate.mutex);
    store_rig_feed_wait(&f->feed, 2);
    go(f); /* jobs before it have ended */
    assert_int_equal(before.status, STORE_SOLD_OUT);
    assert_int_equal(after.status, STORE_SOLD_OUT);
    assert_int_equal(sold(f, 1), 3 * LOT);
    assert_int_equal(sold(f, 2), 3 * LOT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_row_has_its_own_terms),
        TEST(a_stale_lot_after_a_good_one),
        TEST(a_misused_lot_after_a_good_one),
        TEST(a_lot_that_fails_undoes_the_one_before),
        TEST(a_key_in_two_lots),
        TEST(parts_while_rows_wait),
        TEST(another_job_is_undone_in_the_same_batch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
