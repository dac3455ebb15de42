/*
 * The textbook's way. It must be able to go wrong, on demand and every time,
 * or the laboratory teaches nothing; and the fence must stop exactly the writer
 * that comes too late.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "db/store.h"
#include "tests/support/temp_dir.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
    struct temp_dir dir;
    struct store *store;
    struct store_reader *reader;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    struct store_options options = {0};

    temp_dir_make(&fixture->dir);
    options.url = fixture->dir.url;
    assert_int_equal(store_open(&options, &fixture->store, NULL), STORE_OK);
    assert_int_equal(store_reader_open(fixture->store, &fixture->reader, NULL),
                     STORE_OK);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    store_reader_close(fixture->reader);
    store_close(fixture->store);
    temp_dir_remove(&fixture->dir);
    free(fixture);
    return 0;
}

static void put(struct fixture *fixture, int64_t units, int64_t limit)
{
    struct store_product product = {
        .id = 1, .initial = units, .limit_per_user = limit, .name = "Thing"};

    assert_int_equal(store_product_put(fixture->store, &product, NULL, NULL),
                     STORE_OK);
}

static struct store_order ask(int64_t user, int64_t quantity, const char *key)
{
    struct store_order order = {
        .product_id = 1, .user_id = user, .quantity = quantity};

    snprintf(order.key, sizeof(order.key), "%s", key);
    return order;
}

static enum store_status look(struct fixture *fixture,
                              struct store_order *order, int64_t *stock)
{
    assert_int_equal(store_naive_select(fixture->reader, order, stock, NULL),
                     STORE_OK);
    return order->status;
}

static enum store_status update(struct fixture *fixture, int64_t stock,
                                const struct store_fence *fence)
{
    return store_naive_update(fixture->store, 1, 0, stock, fence, NULL);
}

static enum store_status insert(struct fixture *fixture,
                                struct store_order *order,
                                const struct store_fence *fence)
{
    enum store_status status =
        store_naive_insert(fixture->store, order, fence, NULL);

    assert_int_equal(order->status, status);
    return status;
}

static struct store_audit audit(struct fixture *fixture)
{
    struct store_audit verdict;

    assert_int_equal(
        store_audit(fixture->reader, NULL, NULL, NULL, 0, &verdict, NULL),
        STORE_OK);
    return verdict;
}

/* ---- alone it is right -------------------------------------------------- */

static void test_one_buyer_after_the_other(void **state)
{
    struct fixture *fixture = *state;
    struct store_order order, stored;
    int64_t stock;

    put(fixture, 2, 0);
    for (int i = 0; i < 2; i++) {
        order = ask(1, 1, "");
        assert_int_equal(look(fixture, &order, &stock), STORE_OK);
        assert_int_equal(stock, 2 - i);
        assert_int_equal(update(fixture, stock - 1, NULL), STORE_OK);
        assert_int_equal(insert(fixture, &order, NULL), STORE_OK);
    }
    assert_int_equal(store_order_get(fixture->reader, order.id, &stored, NULL),
                     STORE_OK);
    order = ask(1, 1, "");
    assert_int_equal(look(fixture, &order, &stock), STORE_SOLD_OUT);
    assert_true(audit(fixture).balanced);
}

static void test_select_checks_what_textbooks_check(void **state)
{
    struct fixture *fixture = *state;
    struct store_product product = {
        .id = 2, .initial = 1, .name = "Old", .ends_ms = 1};
    struct store_order order = ask(1, 2, "key");
    int64_t stock;

    put(fixture, 5, 3);
    assert_int_equal(look(fixture, &order, &stock), STORE_OK);
    assert_int_equal(update(fixture, 3, NULL), STORE_OK);
    assert_int_equal(insert(fixture, &order, NULL), STORE_OK);
    order = ask(1, 2, "key");
    assert_int_equal(look(fixture, &order, &stock), STORE_OK);
    assert_true(order.replayed);
    order = ask(1, 1, "key");
    assert_int_equal(look(fixture, &order, &stock), STORE_KEY_REUSED);
    order = ask(1, 2, "");
    assert_int_equal(look(fixture, &order, &stock), STORE_LIMIT);
    order = ask(2, 4, "");
    assert_int_equal(look(fixture, &order, &stock), STORE_SOLD_OUT);
    assert_int_equal(stock, 3);
    order = ask(2, 0, "");
    assert_int_equal(look(fixture, &order, &stock), STORE_RANGE);
    order = ask(2, 1, "");
    order.product_id = 9;
    assert_int_equal(look(fixture, &order, &stock), STORE_NO_PRODUCT);
    assert_int_equal(store_product_put(fixture->store, &product, NULL, NULL),
                     STORE_OK);
    order.product_id = 2;
    assert_int_equal(look(fixture, &order, &stock), STORE_ENDED);
    assert_true(audit(fixture).balanced);
}

/* It knows one cell, and looks at no other. */
static void test_one_segment_of_many(void **state)
{
    struct fixture *fixture = *state;
    struct store_product product = {
        .id = 1, .initial = 5, .name = "Thing", .segments = 2};
    struct store_order order = ask(1, 2, "");
    struct store_error error;
    int64_t stock;

    assert_int_equal(store_product_put(fixture->store, &product, NULL, NULL),
                     STORE_OK);
    order.segment = 1;
    assert_int_equal(look(fixture, &order, &stock), STORE_OK);
    assert_int_equal(stock, 2);
    assert_int_equal(
        store_naive_update(fixture->store, 1, 1, stock - 2, NULL, &error),
        STORE_OK);
    assert_int_equal(insert(fixture, &order, NULL), STORE_OK);
    assert_int_equal(order.from_segment, 1);
    assert_int_equal(look(fixture, &order, &stock), STORE_SHORT);
    order.quantity = 4;
    assert_int_equal(look(fixture, &order, &stock), STORE_SOLD_OUT);
    order.segment = STORE_SEGMENT_ANY;
    assert_int_equal(look(fixture, &order, &stock), STORE_RANGE);
    assert_int_equal(insert(fixture, &order, NULL), STORE_RANGE);
    assert_true(audit(fixture).balanced);
}

static void test_writes_check_their_row(void **state)
{
    struct fixture *fixture = *state;
    struct store_order order = ask(1, 1, "");

    assert_int_equal(update(fixture, 1, NULL), STORE_NO_PRODUCT);
    assert_int_equal(insert(fixture, &order, NULL), STORE_NO_PRODUCT);
    put(fixture, 1, 0);
    assert_int_equal(update(fixture, -1, NULL), STORE_RANGE);
    order.quantity = 0;
    assert_int_equal(insert(fixture, &order, NULL), STORE_RANGE);
    assert_true(audit(fixture).balanced);
}

/* ---- together it is wrong ----------------------------------------------- */

struct buyer {
    struct fixture *fixture;
    pthread_barrier_t *barrier;
    enum store_status status;
};

/* Both read, then both write: the barrier makes the bad luck certain. */
static void *buyer_main(void *arg)
{
    struct buyer *buyer = arg;
    struct store_order order = ask(1, 1, "");
    struct store_reader *reader;
    int64_t stock = 0;

    store_reader_open(buyer->fixture->store, &reader, NULL);
    store_naive_select(reader, &order, &stock, NULL);
    pthread_barrier_wait(buyer->barrier);
    if (order.status == STORE_OK) {
        update(buyer->fixture, stock - 1, NULL);
        store_naive_insert(buyer->fixture->store, &order, NULL, NULL);
    }
    buyer->status = order.status;
    store_reader_close(reader);
    return NULL;
}

static void race(struct fixture *fixture)
{
    struct buyer buyers[2] = {0};
    pthread_barrier_t barrier;
    pthread_t threads[2];

    pthread_barrier_init(&barrier, NULL, 2);
    for (int i = 0; i < 2; i++) {
        buyers[i] = (struct buyer){.fixture = fixture, .barrier = &barrier};
        pthread_create(&threads[i], NULL, buyer_main, &buyers[i]);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(buyers[i].status, STORE_OK);
    }
    pthread_barrier_destroy(&barrier);
}

static void test_two_buy_the_last_unit(void **state)
{
    struct fixture *fixture = *state;
    struct store_audit verdict;

    put(fixture, 1, 0);
    race(fixture);
    verdict = audit(fixture);
    assert_false(verdict.balanced);
    assert_int_equal(verdict.sold, 2);
    assert_int_equal(verdict.oversold, 1);
    assert_int_equal(verdict.phantom, 1);
    assert_int_equal(verdict.negative, 0);
}

/* Check, then insert: two clicks both find nothing and both buy. */
static void test_two_clicks_pass_the_limit(void **state)
{
    struct fixture *fixture = *state;

    put(fixture, 10, 1);
    race(fixture);
    assert_int_equal(audit(fixture).over_limit, 1);
    assert_false(audit(fixture).balanced);
}

/* The unique key stops the second row, but its stock is gone. */
static void test_two_with_one_key_lose_a_unit(void **state)
{
    struct fixture *fixture = *state;
    struct store_order a = ask(1, 1, "key"), b = ask(1, 1, "key");
    struct store_order c = ask(2, 1, "key");
    int64_t stock;

    put(fixture, 10, 0);
    assert_int_equal(look(fixture, &a, &stock), STORE_OK);
    assert_int_equal(look(fixture, &b, &stock), STORE_OK);
    assert_int_equal(update(fixture, 9, NULL), STORE_OK);
    assert_int_equal(insert(fixture, &a, NULL), STORE_OK);
    assert_int_equal(update(fixture, 8, NULL), STORE_OK);
    assert_int_equal(insert(fixture, &b, NULL), STORE_OK);
    assert_true(b.replayed);
    assert_string_equal(a.id, b.id);
    assert_int_equal(insert(fixture, &c, NULL), STORE_KEY_REUSED);
    assert_int_equal(audit(fixture).undersold, 1);
}

/* ---- under a fence ------------------------------------------------------ */

/*
 * The holder whose lease ran out while it was thinking. Whatever it still
 * writes comes after the new holder's stamp, and is refused.
 */
static void test_stamp_stops_the_old_holder(void **state)
{
    struct fixture *fixture = *state;
    const struct store_fence old = {.name = "lock", .token = 33},
                             new = {.name = "lock", .token = 34};
    struct store_order a = ask(1, 1, ""), b = ask(2, 1, "");
    int64_t stock;

    put(fixture, 1, 0);
    assert_int_equal(store_stamp(fixture->store, &old, NULL), STORE_OK);
    assert_int_equal(look(fixture, &a, &stock), STORE_OK);
    assert_int_equal(store_stamp(fixture->store, &new, NULL), STORE_OK);
    assert_int_equal(look(fixture, &b, &stock), STORE_OK);
    /* The old one writes first: to compare only now would let it through. */
    assert_int_equal(update(fixture, 0, &old), STORE_STALE_FENCE);
    assert_int_equal(insert(fixture, &a, &old), STORE_STALE_FENCE);
    assert_int_equal(update(fixture, 0, &new), STORE_OK);
    assert_int_equal(insert(fixture, &b, &new), STORE_OK);
    assert_int_equal(b.fence, 34);
    assert_int_equal(store_stamp(fixture->store, &old, NULL),
                     STORE_STALE_FENCE);
    assert_true(audit(fixture).balanced);
}

/* The known wrong way: each write announces, and the order is as it comes. */
static void test_late_fence_lets_the_old_holder_write_first(void **state)
{
    struct fixture *fixture = *state;
    const struct store_fence old = {.name = "lock", .token = 33, .late = true},
                             new = {.name = "lock", .token = 34, .late = true};
    struct store_order a = ask(1, 1, ""), b = ask(2, 1, "");
    int64_t stock;

    put(fixture, 1, 0);
    assert_int_equal(look(fixture, &a, &stock), STORE_OK);
    assert_int_equal(look(fixture, &b, &stock), STORE_OK);
    assert_int_equal(update(fixture, 0, &old), STORE_OK);
    assert_int_equal(insert(fixture, &a, &old), STORE_OK);
    assert_int_equal(update(fixture, 0, &new), STORE_OK);
    /* That much it does: who comes after the new one is refused. */
    assert_int_equal(update(fixture, 0, &old), STORE_STALE_FENCE);
    assert_int_equal(insert(fixture, &b, &new), STORE_OK);
    assert_int_equal(audit(fixture).oversold, 1);
    assert_int_equal(audit(fixture).fence_regressions, 0);
}

/* A token nobody has announced is not taken, be it ever so high. */
static void test_unannounced_token_is_refused(void **state)
{
    struct fixture *fixture = *state;
    const struct store_fence fence = {.name = "lock", .token = 7},
                             higher = {.name = "lock", .token = 8};
    uint64_t token;

    put(fixture, 1, 0);
    assert_int_equal(update(fixture, 0, &fence), STORE_STALE_FENCE);
    assert_int_equal(store_stamp(fixture->store, &fence, NULL), STORE_OK);
    assert_int_equal(store_stamp(fixture->store, &fence, NULL), STORE_OK);
    assert_int_equal(update(fixture, 1, &fence), STORE_OK);
    assert_int_equal(update(fixture, 0, &higher), STORE_STALE_FENCE);
    assert_int_equal(store_fence_get(fixture->reader, "lock", &token, NULL),
                     STORE_OK);
    assert_int_equal(token, 7);
    assert_int_equal(store_fence_get(fixture->reader, "other", &token, NULL),
                     STORE_OK);
    assert_int_equal(token, 0);
}

/*
 * A lock server that lost its data before the first holder announced itself
 * gives the second one the same token. Only one of them may write.
 */
static void test_one_token_of_two_owners(void **state)
{
    struct fixture *fixture = *state;
    const struct store_fence first = {
        .name = "lock", .token = 1, .owner = "owner-a"};
    const struct store_fence second = {
        .name = "lock", .token = 1, .owner = "owner-b"};
    struct store_order a = ask(1, 1, "");
    int64_t stock;

    put(fixture, 1, 0);
    assert_int_equal(store_stamp(fixture->store, &first, NULL), STORE_OK);
    assert_int_equal(store_stamp(fixture->store, &first, NULL), STORE_OK);
    assert_int_equal(store_stamp(fixture->store, &second, NULL),
                     STORE_STALE_FENCE);
    assert_int_equal(look(fixture, &a, &stock), STORE_OK);
    assert_int_equal(update(fixture, 0, &second), STORE_STALE_FENCE);
    assert_int_equal(insert(fixture, &a, &second), STORE_STALE_FENCE);
    assert_int_equal(update(fixture, 0, &first), STORE_OK);
    assert_int_equal(insert(fixture, &a, &first), STORE_OK);
    assert_true(audit(fixture).balanced);
}

#define WITH_STORE(test)                                                       \
    cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(test_one_buyer_after_the_other),
        WITH_STORE(test_select_checks_what_textbooks_check),
        WITH_STORE(test_one_segment_of_many),
        WITH_STORE(test_writes_check_their_row),
        WITH_STORE(test_two_buy_the_last_unit),
        WITH_STORE(test_two_clicks_pass_the_limit),
        WITH_STORE(test_two_with_one_key_lose_a_unit),
        WITH_STORE(test_stamp_stops_the_old_holder),
        WITH_STORE(test_late_fence_lets_the_old_holder_write_first),
        WITH_STORE(test_one_token_of_two_owners),
        WITH_STORE(test_unannounced_token_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
